// ResNet: residual networks of 18, 34 and 50 layers, and others of their form.
//
// Purpose: images (N, channels, H, W) -> logits (N, classes). Names and first values are torchvision's: conv1, bn1,
// layer1.0.conv1, ..., layer2.0.downsample.0, ..., fc; in a bottleneck the 3x3 convolution has the stride, as there.
// With `small_input` (CIFAR) the stem is one 3x3 convolution of stride 1 without pooling. He et al. 2015, "Deep
// residual learning for image recognition". Invariants: modules are handles (nn/module.h). Errors: ValueError for
// sizes, ShapeError for inputs that do not fit. Thread safety: none.
#pragma once

#include <memory>
#include <vector>

#include "heddle/nn/conv.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct ResNetOptions {
  std::vector<int64_t> blocks = {2, 2, 2,
                                 2};  // of each stage; its width doubles and its image halves from one to the next
  bool bottleneck = false;            // blocks of 1x1, 3x3 and 1x1, four times as wide at their end
  int64_t width = 64;                 // of the first stage
  int64_t channels = 3;               // of the image
  int64_t classes = 1000;
  bool small_input = false;
};
ResNetOptions resnet18(int64_t classes = 1000);  // 11,689,512 parameters
ResNetOptions resnet34(int64_t classes = 1000);  // 21,797,672
ResNetOptions resnet50(int64_t classes = 1000);  // 25,557,032

// relu(x + f(x)); where the size changes, x passes a 1x1 convolution ("downsample").
struct ResNetBlockOptions {
  int64_t stride = 1;       // of the first 3x3
  bool bottleneck = false;  // as ResNetOptions'
};

class ResNetBlock : public Module {
 public:
  static constexpr int64_t expansion = 4;  // of a bottleneck
  ResNetBlock(int64_t in, int64_t width, const ResNetBlockOptions& options, const ParameterOptions& parameters);
  Tensor forward(const Tensor& x) override;

 private:
  void append(int64_t in, int64_t out, int64_t kernel, int64_t stride, const ParameterOptions& parameters);
  std::vector<std::pair<Conv2d, BatchNorm>> layers_;
  std::shared_ptr<Module> downsample_;  // null where there is none
};

class ResNet : public Module {
 public:
  explicit ResNet(const ResNetOptions& options, const ParameterOptions& parameters = {});
  Tensor forward(const Tensor& images) override;

 private:
  bool small_input_;
  Conv2d conv1_;
  BatchNorm bn1_;
  std::vector<Sequential> stages_;
  Linear fc_;
};

}  // namespace heddle::nn
