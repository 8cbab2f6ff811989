// MobileNetV2: a convolutional classifier for small devices, of inverted residual blocks.
//
// Purpose: images (N, 3, H, W) -> logits (N, classes). A block widens with a 1x1 convolution, filters each channel by
// itself, and narrows without an activation; blocks that keep size and width add their input. Names and widths are
// torchvision's: features.0.0, features.1.conv.0.0, ..., features.18.0, classifier.1. Sandler et al. 2018,
// "MobileNetV2: Inverted residuals and linear bottlenecks". Invariants: modules are handles (nn/module.h). Errors:
// ValueError for sizes, ShapeError for inputs that do not fit. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/layers.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

// Blocks of equal width, of which the first has the stride.
struct InvertedResiduals {
  int64_t expansion = 6;  // how much wider a block is inside
  int64_t channels = 16;
  int64_t blocks = 1;
  int64_t stride = 1;
};

struct MobileNetV2Options {
  static std::vector<InvertedResiduals> usual_stages();  // the paper's
  int64_t classes = 1000;
  double width = 1;      // times the channels of every layer, rounded to multiples of 8
  double dropout = 0.2;  // before the last layer
  std::vector<InvertedResiduals> stages = usual_stages();
  int64_t first = 32, last = 1280;  // channels of the first and the last convolution
};

class MobileNetV2 : public Module {
 public:
  explicit MobileNetV2(const MobileNetV2Options& options = {},
                       const ParameterOptions& parameters = {});  // 3,504,872 parameters
  Tensor forward(const Tensor& images) override;

 private:
  Sequential features_, classifier_;
};

}  // namespace heddle::nn
