// UNet: a network from images to images, with the form of those that remove noise in diffusion models.
//
// Purpose: (N, in, H, W) -> (N, out, H, W), of any size: the way down halves the image at each level, the way up
// doubles it and sees what the way down had at that size. A level is one residual block of group norm, SiLU and
// convolutions. With `time` the network is told a step of a diffusion, (N), which each block adds to its channels.
// Ronneberger et al. 2015, "U-Net: convolutional networks for biomedical image segmentation"; Ho et al. 2020,
// "Denoising diffusion probabilistic models". Invariants: modules are handles (nn/module.h). Errors: ValueError for
// sizes, ShapeError for inputs that do not fit. Thread safety: none.
#pragma once

#include <memory>
#include <vector>

#include "heddle/nn/conv.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct UNetOptions {
  int64_t in = 1, out = 1;                       // channels of the images
  int64_t width = 32;                            // channels of the first level
  std::vector<int64_t> multipliers = {1, 2, 4};  // of the width, at each level
  int64_t groups = 8;                            // of the group norms; they divide every width
  bool time = false;
  double dropout = 0;
};

// x + f(x), f being twice norm, SiLU, convolution; where the width changes, x passes a 1x1 convolution ("skip").
class UNetBlock : public Module {
 public:
  UNetBlock(int64_t in, int64_t out, const UNetOptions& options, const ParameterOptions& parameters);
  // time: the embedded step (N, 4 width), or undefined.
  Tensor run(const Tensor& x, const Tensor& time);
  Tensor forward(const Tensor& x) override { return run(x, {}); }

 private:
  GroupNorm norm1_;
  Conv2d conv1_;
  GroupNorm norm2_;
  Dropout drop_;
  Conv2d conv2_;
  std::shared_ptr<Module> time_, skip_;  // null where there is none
};

class UNet : public Module {
 public:
  explicit UNet(const UNetOptions& options = {}, const ParameterOptions& parameters = {});
  // step: (N) of any numeric type. ValueError unless the network has `time`.
  Tensor run(const Tensor& images, const Tensor& step);
  Tensor forward(const Tensor& images) override;  // of networks without

 private:
  Tensor embed(const Tensor& step);
  Tensor compute(const Tensor& images, const Tensor& time);

  UNetOptions options_;
  std::shared_ptr<Module> time_;
  Conv2d stem_;
  std::vector<UNetBlock> down_, up_;  // by level; up_ begins at the smallest image
  std::vector<Conv2d> shrink_;        // between levels
  UNetBlock middle_;
  GroupNorm norm_;
  Conv2d head_;
};

}  // namespace heddle::nn
