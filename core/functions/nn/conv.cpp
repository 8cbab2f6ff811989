// Convolutions: shape rules, bias, layouts.
#include "heddle/core/functions/nn/conv.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/nn/spatial.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/composite.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::spread;
using List = std::vector<int64_t>;

// One call, checked: options spelled out for every spatial dimension.
struct Call {
  const char* op;
  int rank;  // spatial dimensions
  bool last;
  int64_t groups;
  List stride, dilation, before, after, output_padding;
};

Call check_options(const char* op, int rank, const ConvOptions& o, bool transposed) {
  Call call{op, rank, o.layout == ConvLayout::channels_last, o.groups, {}, {}, {}, {}, {}};
  if (o.groups < 1 || o.groups > INT32_MAX)
    throw ValueError(fmt::format("[{}] groups is {}; it must be in [1, 2^31)", op, o.groups));
  call.stride = spread(op, "stride", o.stride, rank, 1, 1);
  call.dilation = spread(op, "dilation", o.dilation, rank, 1, 1);
  if (rank > 1 && o.padding.size() == static_cast<size_t>(2 * rank)) {
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      call.before.push_back(o.padding[2 * d]);
      call.after.push_back(o.padding[2 * d + 1]);
    }
    spread(op, "padding", call.before, rank, 0, 0);
    spread(op, "padding", call.after, rank, 0, 0);
  } else if (rank == 1 && o.padding.size() == 2) {
    call.before = spread(op, "padding", {o.padding[0]}, 1, 0, 0);
    call.after = spread(op, "padding", {o.padding[1]}, 1, 0, 0);
  } else {
    call.before = call.after = spread(op, "padding", o.padding, rank, 0, 0);
  }
  if (!transposed && !o.output_padding.empty())
    throw ValueError(fmt::format("[{}] output_padding is for transposed convolutions only", op));
  call.output_padding = spread(op, "output_padding", o.output_padding, rank, 0, 0);
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    if (call.output_padding[d] >= std::max(call.stride[d], call.dilation[d]) && call.output_padding[d] > 0) {
      throw ValueError(fmt::format("[{}] output_padding {} must be less than stride {} or dilation {}", op,
                                   call.output_padding[d], call.stride[d], call.dilation[d]));
    }
  }
  return call;
}

Attrs attrs_of(const Call& call) {
  ConvAttrs attrs;
  attrs.channels_last = call.last;
  attrs.groups = call.groups;
  attrs.stride = call.stride;
  attrs.dilation = call.dilation;
  attrs.padding = call.before;
  return attrs.packed();
}

// (n, c, spatial...) in the layout of the call.
Shape images(const Call& call, int64_t n, int64_t c, const List& space) {
  Shape shape;
  shape.push_back(n);
  if (!call.last) shape.push_back(c);
  for (int64_t s : space) shape.push_back(s);
  if (call.last) shape.push_back(c);
  return shape;
}

int64_t forward_size(const Call& call, size_t d, int64_t size, int64_t kernel) {
  const int64_t padded = size + call.before[d] + call.after[d], reach = call.dilation[d] * (kernel - 1) + 1;
  if (padded < reach) {
    const int64_t computed = 1 - (reach - padded + call.stride[d] - 1) / call.stride[d];
    throw ShapeError(fmt::format(
        "[{}] spatial dimension {}: the kernel covers {} (size {}, dilation {}), the padded input only {} ({} + {} + "
        "{}): the output's size would be {}",
        call.op, d, reach, kernel, call.dilation[d], padded, call.before[d], size, call.after[d], computed));
  }
  return (padded - reach) / call.stride[d] + 1;
}

int64_t transposed_size(const Call& call, size_t d, int64_t size, int64_t kernel) {
  const int64_t result = (size - 1) * call.stride[d] - call.before[d] - call.after[d] +
                         call.dilation[d] * (kernel - 1) + call.output_padding[d] + 1;
  if (result < 1) {
    throw ShapeError(
        fmt::format("[{}] spatial dimension {}: the output's size would be {} (input {}, kernel {}, stride {}, padding "
                    "{} + {}); less padding, or a larger input",
                    call.op, d, result, size, kernel, call.stride[d], call.before[d], call.after[d]));
  }
  return result;
}

void check_operands(const Call& call, const Tensor& x, const Tensor& weight, bool transposed) {
  build::check_device(x, weight, call.op);
  for (const Tensor* t : {&x, &weight}) {
    if (!is_float(t->dtype()))
      throw DTypeError(fmt::format("[{}] needs floating types: x is {}, weight is {}; cast first", call.op,
                                   build::show(x), build::show(weight)));
  }
  if (weight.rank() != call.rank + 2) {
    throw ShapeError(fmt::format("[{}] weight {} must have {} dimensions: ({}, kernel...)", call.op,
                                 weight.shape().str(), call.rank + 2, transposed ? "C, O / groups" : "O, C / groups"));
  }
  for (int d = 2; d < weight.rank(); ++d) {
    if (weight.dim(d) < 1)
      throw ShapeError(fmt::format("[{}] weight {} has an empty kernel", call.op, weight.shape().str()));
  }
  const int64_t channels = x.dim(call.last ? call.rank + 1 : 1), first = weight.dim(0), second = weight.dim(1);
  if (first % call.groups != 0) {
    throw ShapeError(fmt::format("[{}] {} groups do not divide the {} {} channels of weight {}", call.op, call.groups,
                                 first, transposed ? "input" : "output", weight.shape().str()));
  }
  const int64_t expected = transposed ? first : second * call.groups;
  if (channels != expected) {
    throw ShapeError(fmt::format("[{}] x {} has {} channels ({}), weight {} with {} groups takes {}{}", call.op,
                                 x.shape().str(), channels, call.last ? "channels last" : "channels first",
                                 weight.shape().str(), call.groups, expected,
                                 x.dim(call.last ? 1 : call.rank + 1) == expected ? "; is the layout right?" : ""));
  }
}

Tensor add_bias(const Call& call, const Tensor& y, const Tensor& bias) {
  if (!bias.defined()) return y;
  const int64_t channels = y.dim(call.last ? call.rank + 1 : 1);
  if (bias.rank() != 1 || bias.dim(0) != channels)
    throw ShapeError(
        fmt::format("[{}] bias {} must be ({}): one for each output channel", call.op, bias.shape().str(), channels));
  if (call.last) return build::add_bias(y, bias);
  Shape column{channels};
  for (int d = 0; d < call.rank; ++d) column.push_back(1);
  return build::add_bias(y, reshape(bias, column));
}

Tensor convolve(const char* op, int rank, const Tensor& x, const Tensor& weight, const Tensor& bias,
                const ConvOptions& options, bool transposed) {
  const Call call = check_options(op, rank, options, transposed);
  if (x.rank() == rank + 1) return squeeze(convolve(op, rank, unsqueeze(x, 0), weight, bias, options, transposed), 0);
  if (x.rank() != rank + 2) {
    throw ShapeError(fmt::format("[{}] x {} must have {} dimensions ({}), or {} without images", op, x.shape().str(),
                                 rank + 2, call.last ? "N, spatial..., C" : "N, C, spatial...", rank + 1));
  }
  check_operands(call, x, weight, transposed);
  List space;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    const int64_t size = x.dim(static_cast<int>(d) + (call.last ? 1 : 2)), kernel = weight.dim(static_cast<int>(d) + 2);
    space.push_back(transposed ? transposed_size(call, d, size, kernel) : forward_size(call, d, size, kernel));
  }
  const Shape shape = images(call, x.dim(0), transposed ? weight.dim(1) * call.groups : weight.dim(0), space);
  const DType t = autocast_dtype(ops::conv_op, promote(x.dtype(), weight.dtype()));
  const Tensor y = (transposed ? conv::input_grad : conv::forward)(cast(x, t), cast(weight, t), attrs_of(call), shape);
  const Tensor result = add_bias(call, y, bias);
  if (result.dtype() == t)
    note_composite(transposed ? "conv_transpose" : "conv", result, {&x, &weight, &bias}, attrs_of(call).ints);
  return result;
}

}  // namespace

namespace conv {

Tensor forward(const Tensor& x, const Tensor& weight, const Attrs& attrs, const Shape& shape) {
  return build::record(ops::conv_op, {&x, &weight}, attrs, shape, x.dtype());
}

Tensor input_grad(const Tensor& g, const Tensor& weight, const Attrs& attrs, const Shape& shape) {
  return build::record(ops::conv_input_grad_op, {&g, &weight}, attrs, shape, g.dtype());
}

Tensor weight_grad(const Tensor& x, const Tensor& g, const Attrs& attrs, const Shape& shape) {
  return build::record(ops::conv_weight_grad_op, {&x, &g}, attrs, shape, x.dtype());
}

}  // namespace conv

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Caller caller) {
  const CallerScope scope(caller);
  return convolve("conv1d", 1, x, weight, bias, options, false);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Caller caller) {
  const CallerScope scope(caller);
  return convolve("conv2d", 2, x, weight, bias, options, false);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options, Caller caller) {
  const CallerScope scope(caller);
  return convolve("conv3d", 3, x, weight, bias, options, false);
}
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                        Caller caller) {
  const CallerScope scope(caller);
  return convolve("conv_transpose1d", 1, x, weight, bias, options, true);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                        Caller caller) {
  const CallerScope scope(caller);
  return convolve("conv_transpose2d", 2, x, weight, bias, options, true);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options,
                        Caller caller) {
  const CallerScope scope(caller);
  return convolve("conv_transpose3d", 3, x, weight, bias, options, true);
}

}  // namespace heddle
