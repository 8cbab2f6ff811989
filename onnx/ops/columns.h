// Col2Im of images of any number of dimensions up to three. Thread safety: as for Tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {

// One axis of an image that blocks are added to.
struct BlockAxis {
  int64_t size = 0, block = 1, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t padded() const { return size + before + after; }
  // Places that a block begins at.
  int64_t count() const { return (padded() - dilation * (block - 1) - 1) / stride + 1; }
};

// x (N, C * elements of a block, places): (N, C, sizes...).
Tensor add_blocks(const Call& c, const Tensor& x, const std::vector<BlockAxis>& axes);

}  // namespace heddle::onnx::build
