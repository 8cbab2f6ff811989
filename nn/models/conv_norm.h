// What the convolutional models share: a convolution followed by batch norm.
//
// Purpose: Conv2d without bias, which batch norm would remove, padded by kernel / 2 so that stride 1 keeps the image's
// size. First weights are He's for ReLU, by fan out, as torchvision's models have. He et al. 2015, "Delving deep into
// rectifiers". Invariants: modules are handles (nn/module.h). Errors: ValueError for sizes and groups that do not fit.
// Thread safety: none.
#pragma once

#include "heddle/core/device/context.h"
#include "heddle/nn/conv.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct ConvSize {
  int64_t in = 1, out = 1, kernel = 3, stride = 1, groups = 1;
};

Conv2d padded_conv(const ConvSize& size, const ParameterOptions& parameters);

// Named "0" and "1"; what `activation` is follows as "2".
template <std::derived_from<Module>... Activation>
Sequential conv_norm(const ConvSize& size, const ParameterOptions& parameters, Activation... activation) {
  return Sequential{padded_conv(size, parameters), BatchNorm(size.out, {.device = parameters.device}),
                    std::move(activation)...};
}

}  // namespace heddle::nn
