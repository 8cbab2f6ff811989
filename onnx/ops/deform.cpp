// DeformConv: a convolution whose windows read where the offsets send them (Dai et al., "Deformable Convolutional
// Networks", 2017, equation 2; with masks Zhu et al., "Deformable ConvNets v2", 2018, equation 1).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/onnx/ops/build.h"
#include "heddle/onnx/ops/volume.h"

namespace heddle::onnx::build {
namespace {

struct Sizes {
  int64_t n, channels, height, width;  // of the image
  int64_t out, kernel_h, kernel_w;     // of the weight
  int64_t out_h, out_w;                // places of windows
  int64_t groups, offset_groups;
  int64_t elements() const { return kernel_h * kernel_w; }
  int64_t places() const { return out_h * out_w; }
};

int64_t windows(const Call& c, const Window& w, size_t axis, int64_t size) {
  const int64_t room = size + w.before[axis] + w.after[axis] - w.dilation[axis] * (w.kernel[axis] - 1) - 1;
  if (room < 0) c.fail("the kernel does not fit the image");
  return room / w.stride[axis] + 1;
}

Sizes sizes_of(const Call& c, const Shape& x, const Shape& weight, const Window& w) {
  const Sizes s{x[0],
                x[1],
                x[2],
                x[3],
                weight[0],
                weight[2],
                weight[3],
                windows(c, w, 0, x[2]),
                windows(c, w, 1, x[3]),
                c.integer("group", 1),
                c.integer("offset_group", 1)};
  if (s.groups < 1 || s.offset_groups < 1 || s.channels % s.groups != 0 || s.out % s.groups != 0 ||
      s.channels % s.offset_groups != 0 || weight[1] != s.channels / s.groups)
    c.fail(fmt::format("the image has {} channels, the kernel {} of {}: groups {}, of the offsets {}", s.channels,
                       weight[1], s.out, s.groups, s.offset_groups));
  return s;
}

// Where a window's elements lie along an axis, before they are sent elsewhere: (kernel_h, kernel_w, out_h, out_w) but
// for dimensions of 1.
Tensor regular(const Call& c, const Window& w, size_t axis, int64_t count) {
  const auto line = [&](int64_t n, int64_t step, int at) {
    const Tensor steps = arange(0, static_cast<double>(n), 1, DType::f32, &c.device()) * static_cast<double>(step);
    return reshape(steps, Shape{1, 1, 1, 1}.with(at, n));
  };
  const int a = static_cast<int>(axis);
  return line(w.kernel[axis], w.dilation[axis], a) + line(count, w.stride[axis], a + 2) -
         static_cast<double>(w.before[axis]);
}

// (N, offset groups, channels of one, elements x places): what the windows read.
Tensor columns(const Call& c, const Tensor& x, const Tensor& offsets, const Window& w, const Sizes& s) {
  const Shape points{s.n, s.offset_groups, s.elements() * s.places()},
      apart{s.n, s.offset_groups, s.kernel_h, s.kernel_w, 2, s.out_h, s.out_w};
  const auto along = [&](size_t axis, int64_t count, int64_t size) {
    const Tensor moved = select(reshape(offsets, apart), 4, static_cast<int64_t>(axis)) + regular(c, w, axis, count);
    return neighbours(reshape(moved, points), size, Interpolation::linear);
  };
  const int64_t each = s.channels / s.offset_groups;
  const Tensor image = reshape(x, Shape{s.n, s.offset_groups, each, s.height * s.width});
  const std::vector<Neighbour> rows = along(0, s.out_h, s.height), across = along(1, s.out_w, s.width);
  Tensor sum;
  for (const Neighbour& row : rows) {
    for (const Neighbour& column : across) {
      const Tensor place = unsqueeze(row.place * static_cast<double>(s.width) + column.place, 2);
      const Tensor taken = gather(image, 3, expand(place, Shape{s.n, s.offset_groups, each, points[2]}));
      const Tensor part = taken * unsqueeze(row.weight * column.weight, 2);
      sum = sum.defined() ? sum + part : part;
    }
  }
  return sum;
}

}  // namespace

void deform_conv(Call& c) {
  const Tensor x = heddle::cast(c.tensor(0), DType::f32), weight = heddle::cast(c.tensor(1), DType::f32);
  if (x.rank() != 4 || weight.rank() != 4) c.unsupported("images of other than two dimensions");
  const Window w = window_of(c, {x.dim(2), x.dim(3)}, {weight.dim(2), weight.dim(3)});
  const Sizes s = sizes_of(c, x.shape(), weight.shape(), w);
  const int64_t moved = s.offset_groups * s.elements();
  if (c.shape(2) != Shape{s.n, 2 * moved, s.out_h, s.out_w})
    c.fail(fmt::format("the offsets are {}, not {}", c.shape(2), Shape{s.n, 2 * moved, s.out_h, s.out_w}));
  Tensor read = columns(c, x, heddle::cast(c.tensor(2), DType::f32), w, s);
  if (c.given(4)) {
    if (c.shape(4) != Shape{s.n, moved, s.out_h, s.out_w}) c.fail("the mask is not of the offsets' points");
    read = read *
           reshape(heddle::cast(c.tensor(4), DType::f32), Shape{s.n, s.offset_groups, 1, s.elements() * s.places()});
  }
  const int64_t in = s.channels / s.groups, out = s.out / s.groups;
  const Tensor y = matmul(reshape(weight, Shape{s.groups, out, in * s.elements()}),
                          reshape(read, Shape{s.n, s.groups, in * s.elements(), s.places()}));
  const Tensor image = reshape(y, Shape{s.n, s.out, s.out_h, s.out_w});
  if (!c.given(3)) return c.out(to_type(image, Type::f32, c.type(0)), c.type(0));
  const Tensor bias = reshape(heddle::cast(c.tensor(3), DType::f32), Shape{s.out, 1, 1});
  c.out(to_type(image + bias, Type::f32, c.type(0)), c.type(0));
}

}  // namespace heddle::onnx::build
