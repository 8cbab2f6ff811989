// Convolutions of one to three spatial dimensions, and transposed ones.
//
// Purpose: shapes and arguments mean what PyTorch's mean. x is (N, C, spatial...) or, without images, (C, spatial...);
// with ConvLayout::channels_last (N, spatial..., C). Weights are always (O, C / groups, kernel...); of transposed
// convolutions (C, O / groups, kernel...).
//   y[n, o, q] = bias[o] + sum over c, k of x[n, c, q * stride + k * dilation - padding] * weight[o, c, k], x taken as
//   0 outside;
// group g of C / groups input channels makes group g of O / groups output channels. Size of y along each spatial
// dimension:
//   floor((size + before + after - dilation * (kernel - 1) - 1) / stride) + 1
// and of a transposed convolution, which is the gradient of the convolution with the same options by its input:
//   (size - 1) * stride - before - after + dilation * (kernel - 1) + output_padding + 1
// Floating types promote; sums are held in f32 (f64 for f64). Errors: ShapeError, DTypeError, ValueError; the text
// gives the computed sizes. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/op.h"

namespace heddle {

enum class ConvLayout : uint8_t { channels_first, channels_last };

// Lists have one entry for each spatial dimension, or one entry for all. Empty: stride 1, padding 0, dilation 1.
struct ConvOptions {
  std::vector<int64_t> stride;
  std::vector<int64_t> padding;  // twice as many entries as spatial dimensions: before, after of each in turn
  std::vector<int64_t> dilation;
  int64_t groups = 1;
  ConvLayout layout = ConvLayout::channels_first;
  std::vector<int64_t> output_padding;  // of transposed convolutions only: less than stride or dilation
};

// `bias` is (O), or undefined for none.
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
              Caller caller = Caller::current());
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
              Caller caller = Caller::current());
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
              Caller caller = Caller::current());
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
                        Caller caller = Caller::current());
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
                        Caller caller = Caller::current());
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options = {},
                        Caller caller = Caller::current());
inline Tensor conv1d(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
                     Caller caller = Caller::current()) {
  return conv1d(x, weight, Tensor(), options, caller);
}
inline Tensor conv2d(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
                     Caller caller = Caller::current()) {
  return conv2d(x, weight, Tensor(), options, caller);
}
inline Tensor conv3d(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
                     Caller caller = Caller::current()) {
  return conv3d(x, weight, Tensor(), options, caller);
}
inline Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
                               Caller caller = Caller::current()) {
  return conv_transpose1d(x, weight, Tensor(), options, caller);
}
inline Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
                               Caller caller = Caller::current()) {
  return conv_transpose2d(x, weight, Tensor(), options, caller);
}
inline Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const ConvOptions& options = {},
                               Caller caller = Caller::current()) {
  return conv_transpose3d(x, weight, Tensor(), options, caller);
}

// The three primitives (primitives.h) with checked attributes, for the gradient rules: each one's gradients are the
// other two.
namespace conv {
Tensor forward(const Tensor& x, const Tensor& weight, const Attrs& attrs, const Shape& shape);
Tensor input_grad(const Tensor& g, const Tensor& weight, const Attrs& attrs, const Shape& shape);
Tensor weight_grad(const Tensor& x, const Tensor& g, const Attrs& attrs, const Shape& shape);
}  // namespace conv

}  // namespace heddle
