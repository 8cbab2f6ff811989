// Recurrent layers: GRU and LSTM over time, each as one scan (core/graph/control.h).
//
// Purpose: the time loop is recorded once; the product of all inputs with the input weights is one matrix product before it. Parameters, their layout and
// first values as PyTorch's GRU and LSTM of one layer: weight_ih (gates * hidden, in), weight_hh (gates * hidden, hidden), bias_ih, bias_hh, uniform in
// +-1/sqrt(hidden); gates in the order r, z, n (GRU) and i, f, g, o (LSTM).
// Invariants: modules are handles (nn/module.h). Thread safety: none.
#pragma once

#include <vector>

#include "core/graph/control.h"
#include "nn/module.h"

namespace heddle::nn {

struct RecurrentOptions {
  bool reverse = false;          // from the last step of time to the first
  bool checkpoint = false;       // the gradient computes the gates again instead of keeping them
  DeviceContext* device = nullptr;
  Generator* generator = nullptr;
};

class Recurrent : public Module {
 public:
  // What it computes from a sequence x (T, N, in): the states after each step (T, N, hidden), and the last ones (h; for an LSTM h and c), each (N, hidden).
  struct Result {
    Tensor states;
    std::vector<Tensor> last;
  };
  // initial: as Result::last; empty: zeros. ShapeError for what does not fit.
  Result run(const Tensor& x, std::vector<Tensor> initial = {}) const;
  // The states.
  Tensor forward(const Tensor& x) override { return run(x).states; }

  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  Recurrent(const char* kind, int64_t gates, int64_t states, int64_t in, int64_t hidden, const RecurrentOptions& options);

 private:
  std::vector<Tensor> step(const std::vector<Tensor>& state, const Tensor& gates) const;
  int64_t states_, hidden_;
  RecurrentOptions options_;
};

// r = sigmoid(W x + b + U h + c), z likewise, n = tanh(W x + b + r (U h + c)), h' = (1 - z) n + z h.
// Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder".
class GRU : public Recurrent {
 public:
  GRU(int64_t in, int64_t hidden, const RecurrentOptions& options = {}) : Recurrent("GRU", 3, 1, in, hidden, options) {}
};

// i, f, o = sigmoid(...), g = tanh(...), c' = f c + i g, h' = o tanh(c'). Hochreiter and Schmidhuber 1997, "Long short-term memory".
class LSTM : public Recurrent {
 public:
  LSTM(int64_t in, int64_t hidden, const RecurrentOptions& options = {}) : Recurrent("LSTM", 4, 2, in, hidden, options) {}
};

}  // namespace heddle::nn
