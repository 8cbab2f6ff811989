// References of the three convolution rows: one walk over all products, each added to the operand that is the result.
#include <array>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle::reference {
namespace {

using Space = std::array<int64_t, 3>;

// Sizes and strides of (n, c, depth, height, width) in a dense array of either layout.
struct Images {
  int64_t n = 1, c = 1, sn = 0, sc = 0;
  Space size{1, 1, 1}, stride{0, 0, 0};

  Images(const Shape& shape, bool last) {
    const int rank = shape.rank() - 2;
    n = shape[0];
    c = shape[last ? rank + 1 : 1];
    int64_t step = 1;
    if (last) {
      sc = 1;
      step = c;
    }
    for (int d = rank - 1; d >= 0; --d) {
      const auto axis = static_cast<size_t>(3 - rank + d);
      size[axis] = shape[d + (last ? 1 : 2)];
      stride[axis] = step;
      step *= size[axis];
    }
    if (!last) {
      sc = step;
      step *= c;
    }
    sn = step;
  }
  int64_t at(int64_t image, int64_t channel, const Space& p) const {
    return image * sn + channel * sc + p[0] * stride[0] + p[1] * stride[1] + p[2] * stride[2];
  }
};

Space in_three(const std::vector<int64_t>& list, int64_t fill) {
  Space result{fill, fill, fill};
  for (size_t d = 0; d < list.size(); ++d) result[3 - list.size() + d] = list[d];
  return result;
}

// f(space) for every position below `size`.
template <class F>
void for_each_position(const Space& size, F&& f) {
  Space p;
  for (p[0] = 0; p[0] < size[0]; ++p[0]) {
    for (p[1] = 0; p[1] < size[1]; ++p[1]) {
      for (p[2] = 0; p[2] < size[2]; ++p[2]) f(p);
    }
  }
}

// f(index in x, index in w, index in y) for every product of the forward convolution y = conv(x, w).
template <class F>
void for_each_product(const ConvAttrs& attrs, const Shape& x_shape, const Shape& w_shape, const Shape& y_shape, F&& f) {
  const Images x(x_shape, attrs.channels_last), y(y_shape, attrs.channels_last);
  const Images w(w_shape, false);
  const Space stride = in_three(attrs.stride, 1), dilation = in_three(attrs.dilation, 1),
              padding = in_three(attrs.padding, 0);
  const int64_t outputs = y.c / attrs.groups, inputs = w.c;
  for (int64_t n = 0; n < y.n; ++n) {
    for (int64_t o = 0; o < y.c; ++o) {
      for_each_position(y.size, [&](const Space& q) {
        for_each_position(w.size, [&](const Space& k) {
          Space p;
          for (size_t d = 0; d < 3; ++d) {
            p[d] = q[d] * stride[d] + k[d] * dilation[d] - padding[d];
            if (p[d] < 0 || p[d] >= x.size[d]) return;
          }
          for (int64_t c = 0; c < inputs; ++c) {
            f(static_cast<size_t>(x.at(n, o / outputs * inputs + c, p)), static_cast<size_t>(w.at(o, c, k)),
              static_cast<size_t>(y.at(n, o, q)));
          }
        });
      });
    }
  }
}

}  // namespace

HostArray conv(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const HostArray &a = *in[0], &b = *in[1];
  const ConvAttrs attrs(node.attrs);
  if (node.op == &ops::conv_op) {
    for_each_product(attrs, a.shape, b.shape, out.shape,
                     [&](size_t x, size_t w, size_t y) { out.floats[y] += a.floats[x] * b.floats[w]; });
  } else if (node.op == &ops::conv_input_grad_op) {
    for_each_product(attrs, out.shape, b.shape, a.shape,
                     [&](size_t x, size_t w, size_t y) { out.floats[x] += a.floats[y] * b.floats[w]; });
  } else {
    for_each_product(attrs, a.shape, out.shape, b.shape,
                     [&](size_t x, size_t w, size_t y) { out.floats[w] += a.floats[x] * b.floats[y]; });
  }
  return out;
}

}  // namespace heddle::reference
