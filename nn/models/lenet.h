// LeNet: a small convolutional classifier in the manner of LeNet-5, with today's parts.
//
// Purpose: images (N, channels, height, width) -> logits (N, classes): stages of convolution 3x3, batch norm, ReLU and
// a maximum over 2x2, then a hidden linear layer with dropout and the last one. LeCun et al. 1998, "Gradient-based
// learning applied to document recognition"; Ioffe and Szegedy 2015, "Batch normalization". Invariants: modules are
// handles (nn/module.h). Errors: ValueError for sizes, ShapeError for images of another size. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/layers.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct LeNetOptions {
  int64_t channels = 1, height = 28, width = 28;  // of the image
  std::vector<int64_t> stages = {16, 32, 64};     // channels of each; the image is halved by each, rounded down
  int64_t hidden = 128;
  int64_t classes = 10;
  double dropout = 0.25;
};

class LeNet : public Module {
 public:
  explicit LeNet(const LeNetOptions& options = {}, const ParameterOptions& parameters = {});
  Tensor forward(const Tensor& images) override;

 private:
  Sequential features_, classifier_;
};

}  // namespace heddle::nn
