// Recurrent layers: RNN, GRU and LSTM over time, of several layers and both directions, and their cells.
//
// Purpose: each direction of a layer is one scan (core/functions/control/control.h): the step is recorded once, the
// product of all inputs with the input weights is one matrix product before it, so a step of time takes the same few
// launches whatever the length. Parameters, their names, layout and first values are PyTorch's: weight_ih_l0 (gates *
// hidden, in), weight_hh_l0 (gates * hidden, hidden), bias_ih_l0, bias_hh_l0, weight_hr_l0 (projection, hidden), with
// "_reverse" behind those of the other direction, uniform in +-1/sqrt(hidden); gates in the order r, z, n (GRU) and i,
// f, g, o (LSTM). Invariants: modules are handles (nn/module.h). Thread safety: none.
#pragma once

#include <vector>

#include "heddle/core/device/device_ref.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

enum class Nonlinearity : uint8_t { tanh, relu };

struct RecurrentOptions {
  int64_t layers = 1;
  bool bidirectional = false;  // states are those of both directions side by side
  double dropout = 0;          // of what goes from layer to layer, while training
  bool batch_first = false;    // x and the states are (N, T, ...)
  bool bias = true;
  int64_t projection = 0;   // LSTM: the states h are weight_hr h, so many wide (Sak et al. 2014); 0: none
  bool checkpoint = false;  // the gradient computes the gates again instead of keeping them
  Nonlinearity nonlinearity = Nonlinearity::tanh;  // of an RNN; other layers have their own
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

struct RecurrentCellOptions {
  bool bias = true;
  Nonlinearity nonlinearity = Nonlinearity::tanh;  // of an RNNCell
  DeviceRef device = {};
  Generator* generator = nullptr;
};

namespace detail {
enum class RecurrentKind : uint8_t { rnn_tanh, rnn_relu, gru, lstm };
constexpr RecurrentKind rnn_of(Nonlinearity nonlinearity) {
  return nonlinearity == Nonlinearity::tanh ? RecurrentKind::rnn_tanh : RecurrentKind::rnn_relu;
}
struct RecurrentWeights {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh, weight_hr;  // undefined where there are none
};
}  // namespace detail

class Recurrent : public Module {
 public:
  // states: after each step (T, N, directions * width), width being the projection or hidden. last: those after each
  // sequence's last step, h, and of an LSTM c, each (layers * directions, N, width), layers outside; of a sequence
  // without batch (layers * directions, width).
  struct Result {
    Tensor states;
    std::vector<Tensor> last;
  };
  // x (T, N, in), or (N, T, in) with batch_first, or (T, in). initial: as Result::last; empty: zeros. lengths: how long
  // each sequence is, (N) i32 or i64 in any order, or undefined: what lies behind a sequence's end is not read, its
  // states are 0, and the other direction begins at its end, as with PyTorch's packed sequences. ShapeError, DTypeError
  // and ValueError for what does not fit; values of `lengths` are not looked at: below 0 is as 0 (the initial states),
  // above T as T.
  Result run(const Tensor& x, std::vector<Tensor> initial = {}, const Tensor& lengths = {},
             Caller caller = Caller::current()) const;
  // The same with lengths of the host; ValueError unless each is 0 to T.
  Result run(const Tensor& x, std::vector<Tensor> initial, const std::vector<int64_t>& lengths,
             Caller caller = Caller::current()) const;
  // The states.
  Tensor forward(const Tensor& x) override { return run(x).states; }

  int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  const detail::RecurrentWeights& weights(int64_t layer, bool reverse = false) const {
    return weights_[static_cast<size_t>(layer * directions() + (reverse ? 1 : 0))];
  }

 protected:
  Recurrent(const char* kind, detail::RecurrentKind type, int64_t in, int64_t hidden, const RecurrentOptions& options);

 private:
  Result layer(size_t number, const Tensor& x, const std::vector<Tensor>& initial, const Tensor& mask) const;
  std::vector<Tensor> first_states(const Tensor& x, std::vector<Tensor> initial, DType dtype) const;
  detail::RecurrentKind type_;
  int64_t hidden_;
  RecurrentOptions options_;
  std::vector<detail::RecurrentWeights> weights_;  // by layer and direction
};

// h' = tanh(W x + b + U h + c), or relu. Elman 1990, "Finding structure in time".
class RNN : public Recurrent {
 public:
  RNN(int64_t in, int64_t hidden, const RecurrentOptions& options = {})
      : Recurrent("RNN", detail::rnn_of(options.nonlinearity), in, hidden, options) {}
};

// r = sigmoid(W x + b + U h + c), z likewise, n = tanh(W x + b + r (U h + c)), h' = (1 - z) n + z h.
// Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder".
class GRU : public Recurrent {
 public:
  GRU(int64_t in, int64_t hidden, const RecurrentOptions& options = {})
      : Recurrent("GRU", detail::RecurrentKind::gru, in, hidden, options) {}
};

// i, f, o = sigmoid(...), g = tanh(...), c' = f c + i g, h' = o tanh(c'). Hochreiter and Schmidhuber 1997, "Long
// short-term memory".
class LSTM : public Recurrent {
 public:
  LSTM(int64_t in, int64_t hidden, const RecurrentOptions& options = {})
      : Recurrent("LSTM", detail::RecurrentKind::lstm, in, hidden, options) {}
};

// One step of a layer: parameters weight_ih, weight_hh, bias_ih, bias_hh.
class RecurrentCell : public Module {
 public:
  // x (N, in) or (in); state: h, and of an LSTM c, (N, hidden) or (hidden), empty: zeros. The next state. ShapeError
  // and ValueError for what does not fit.
  std::vector<Tensor> step(const Tensor& x, const std::vector<Tensor>& state = {},
                           Caller caller = Caller::current()) const;
  // The next h.
  Tensor forward(const Tensor& x) override { return step(x)[0]; }
  Tensor operator()(const Tensor& x, const Tensor& h, Caller caller = Caller::current()) const {
    const CallerScope scope(caller);
    return step(x, {h})[0];
  }
  using Module::operator();

 protected:
  RecurrentCell(const char* kind, detail::RecurrentKind type, int64_t in, int64_t hidden,
                const RecurrentCellOptions& options);

 private:
  detail::RecurrentKind type_;
  int64_t hidden_;
  detail::RecurrentWeights weights_;
};

class RNNCell : public RecurrentCell {
 public:
  RNNCell(int64_t in, int64_t hidden, const RecurrentCellOptions& options = {})
      : RecurrentCell("RNNCell", detail::rnn_of(options.nonlinearity), in, hidden, options) {}
};
class GRUCell : public RecurrentCell {
 public:
  GRUCell(int64_t in, int64_t hidden, const RecurrentCellOptions& options = {})
      : RecurrentCell("GRUCell", detail::RecurrentKind::gru, in, hidden, options) {}
};
// step(x, {h, c}) gives {h', c'}.
class LSTMCell : public RecurrentCell {
 public:
  LSTMCell(int64_t in, int64_t hidden, const RecurrentCellOptions& options = {})
      : RecurrentCell("LSTMCell", detail::RecurrentKind::lstm, in, hidden, options) {}
};

}  // namespace heddle::nn
