// Mlp: a multilayer perceptron.
//
// Purpose: (N, ...) with `in` numbers an example -> (N, out): linear layers with an activation and, in training,
// dropout between them. Layers are named "0", "1", ... in the order in which they run, activations included, as in
// PyTorch's Sequential. Rumelhart et al. 1986, "Learning representations by back-propagating errors". Invariants:
// modules are handles (nn/module.h). Errors: ValueError for sizes, ShapeError for an input of another size. Thread
// safety: none.
#pragma once

#include <vector>

#include "heddle/nn/activations.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

// Adds the module of that name.
void append_activation(Sequential& to, Activation activation);

struct MlpOptions {
  int64_t in = 784;
  std::vector<int64_t> hidden = {128, 64};  // empty: one linear layer
  int64_t out = 10;
  Activation activation = Activation::relu;
  double dropout = 0;  // behind each activation; 0: there are no such layers
};

class Mlp : public Sequential {
 public:
  explicit Mlp(const MlpOptions& options = {}, const ParameterOptions& parameters = {});
  Tensor forward(const Tensor& x) override;
};

}  // namespace heddle::nn
