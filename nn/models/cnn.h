// Cnn: a small convolutional classifier.
//
// Purpose: images (N, C, H, W) -> logits (N, classes): stages of convolution, batch norm and ReLU that halve the image
// by their stride, the mean over what is left, and a linear layer. Invariants: modules are handles (nn/module.h).
// Errors: ValueError for sizes. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/conv.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct CnnOptions {
  int64_t channels = 1;                        // of the image
  std::vector<int64_t> widths = {16, 32, 64};  // of the stages
  int64_t classes = 10;
};

class Cnn : public Module {
 public:
  explicit Cnn(const CnnOptions& options, const ParameterOptions& parameters = {});
  Tensor forward(const Tensor& images) override;

 private:
  Sequential features_;
  Linear head_;
};

}  // namespace heddle::nn
