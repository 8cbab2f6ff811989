// Convolution layers.
//
// Purpose: conv1d .. conv_transpose3d (core/functions/nn/conv.h) with weights of their own. Invariants: weight is (out,
// in / groups, kernel...), of transposed layers (in, out / groups, kernel...); first values as PyTorch's: weight by
// kaiming_uniform with slope sqrt(5), bias uniform in
// +-1 / sqrt(fan in). A kernel of one entry counts for every spatial dimension. Errors: ValueError for sizes and groups
// that do not fit. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/core/device/device_ref.h"
#include "heddle/core/functions/nn/conv.h"
#include "heddle/nn/init.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// The fields of ConvOptions, and those of a layer.
struct ConvLayerOptions {
  std::vector<int64_t> stride = {}, padding = {}, dilation = {};
  int64_t groups = 1;
  ConvLayout layout = ConvLayout::channels_first;
  std::vector<int64_t> output_padding = {};
  bool bias = true;
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

class Convolution : public Module {
 public:
  Tensor forward(const Tensor& x) override;

  Tensor weight;
  Tensor bias;  // undefined without bias
  ConvOptions options;

 protected:
  Convolution(const char* name, int rank, bool transposed, int64_t in, int64_t out, std::vector<int64_t> kernel,
              const ConvLayerOptions& how);

 private:
  int rank_;
  bool transposed_;
};

#define HEDDLE_CONVOLUTION(Class)                                                                  \
  class Class : public Convolution {                                                               \
   public:                                                                                         \
    Class(int64_t in, int64_t out, std::vector<int64_t> kernel, const ConvLayerOptions& how = {}); \
  };
HEDDLE_CONVOLUTION(Conv1d)
HEDDLE_CONVOLUTION(Conv2d)
HEDDLE_CONVOLUTION(Conv3d)
HEDDLE_CONVOLUTION(ConvTranspose1d)
HEDDLE_CONVOLUTION(ConvTranspose2d)
HEDDLE_CONVOLUTION(ConvTranspose3d)
#undef HEDDLE_CONVOLUTION

}  // namespace heddle::nn
