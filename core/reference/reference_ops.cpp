// Constants, elementwise, movement, random: one element at a time.
#include "heddle/core/reference/reference_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/base/view_walk.h"
#include "heddle/core/functions/user/user_definition.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::reference {
namespace {

size_t count_of(const HostArray& a) { return static_cast<size_t>(a.shape.numel()); }

// The elements of `in` that the view reaches.
HostArray through(const HostArray& in, const View& view, DType dtype) {
  HostArray out = blank(view.shape, dtype);
  size_t n = 0;
  walk(view, [&](int64_t element) {
    const auto at = static_cast<size_t>(element);
    if (is_float(dtype)) {
      out.floats[n++] = in.floats[at];
    } else {
      out.ints[n++] = in.ints[at];
    }
  });
  return out;
}

// Writes `part` where the view of `out` says.
void place(HostArray& out, const View& view, const HostArray& part) {
  size_t n = 0;
  walk(view, [&](int64_t element) {
    const auto at = static_cast<size_t>(element);
    if (is_float(out.dtype)) {
      out.floats[at] = part.floats[n++];
    } else {
      out.ints[at] = part.ints[n++];
    }
  });
}

// The box of `shape` that starts at `start` in a dense array of shape `whole`.
View box(const Shape& whole, const std::vector<int64_t>& start, const Shape& shape) {
  const std::vector<int64_t> ones(start.size(), 1);
  return View::dense(whole).slice(start, ones, shape);
}

// Toward zero, to the nearest that the dtype holds; NaN is 0. For bool: value != 0, which NaN is.
int64_t saturated(double value, DType dtype) {
  if (dtype == DType::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  switch (dtype) {
    case DType::i8:
      return static_cast<int64_t>(std::clamp(value, -128.0, 127.0));
    case DType::u8:
      return static_cast<int64_t>(std::clamp(value, 0.0, 255.0));
    case DType::i32:
      return static_cast<int64_t>(std::clamp(value, -0x1p31, 0x1p31 - 1));
    default:
      return value >= 0x1p63 ? INT64_MAX : value < -0x1p63 ? INT64_MIN : static_cast<int64_t>(value);
  }
}

HostArray cast(const Node& node, const HostArray& x) {
  HostArray out = blank(node.shape, node.dtype);
  for (size_t i = 0; i < count_of(out); ++i) {
    if (is_float(node.dtype)) {
      out.floats[i] =
          size_of(node.dtype) < size_of(x.dtype) || !is_float(x.dtype) ? rounded(x.at(i), node.dtype) : x.at(i);
    } else if (is_float(x.dtype)) {
      out.ints[i] = saturated(x.floats[i], node.dtype);
    } else {
      out.ints[i] = wrapped(x.ints[i], node.dtype);
    }
  }
  return out;
}

HostArray where(const Node& node, const HostArray& c, const HostArray& x, const HostArray& y) {
  HostArray out = blank(node.shape, node.dtype);
  for (size_t i = 0; i < count_of(out); ++i) {
    const HostArray& from = c.ints[i] ? x : y;
    if (is_float(node.dtype)) {
      out.floats[i] = from.floats[i];
    } else {
      out.ints[i] = from.ints[i];
    }
  }
  return out;
}

HostArray in_floats(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const bool truth = !is_float(node.dtype);
  const double* x = in[0]->floats.data();
  const double* y = in.size() > 1 ? in[1]->floats.data() : x;
  const HostFloat f = node.op->host_float;
  for (size_t i = 0; i < count_of(out); ++i) {
    const double value = f(x[i], y[i], 0);
    if (truth) {
      out.ints[i] = value != 0;
    } else {
      out.floats[i] = value;
    }
  }
  return out;
}

HostArray in_integers(const Node& node, Inputs in) {
  if (!node.op->host_int)
    throw DTypeError(
        fmt::format("[{}] takes no integers; this is a fault of the function that made the node", node.op->name));
  HostArray out = blank(node.shape, node.dtype);
  const int64_t* x = in[0]->ints.data();
  const int64_t* y = in.size() > 1 ? in[1]->ints.data() : x;
  for (size_t i = 0; i < count_of(out); ++i) out.ints[i] = wrapped(node.op->host_int(x[i], y[i], 0), node.dtype);
  return out;
}

HostArray user_element(const UserRow& user, const Node& node, Inputs in) {
  const UserDefinition& definition = *user.definition;
  if (!definition.element.host)
    throw ValueError(fmt::format(
        "[{}] it has no host function, so the reference cannot compute it; give one in its definition (host)",
        definition.name));
  HostArray out = blank(node.shape, node.dtype);
  std::vector<double> x(in.size()), y(definition.rows.size());
  for (size_t i = 0; i < count_of(out); ++i) {
    for (size_t k = 0; k < in.size(); ++k) x[k] = in[k]->at(i);
    definition.element.host(x, y);
    if (is_float(node.dtype))
      out.floats[i] = y[user.output];
    else
      out.ints[i] = to_integer(y[user.output], node.dtype);
  }
  return out;
}

HostArray pad(const Node& node, const HostArray& x) {
  HostArray out = blank(node.shape, node.dtype);
  for (double& v : out.floats) v = rounded(node.attrs.real, node.dtype);
  for (int64_t& v : out.ints) v = to_integer(node.attrs.real, node.dtype);
  place(out, box(node.shape, border_of(node.attrs), x.shape), x);
  return out;
}

HostArray concat(const Node& node, Inputs in) {
  HostArray out = blank(node.shape, node.dtype);
  const auto axis = static_cast<size_t>(axis_of(node.attrs));
  std::vector<int64_t> start(static_cast<size_t>(node.shape.rank()));
  for (const HostArray* part : in) {
    place(out, box(node.shape, start, part->shape), *part);
    start[axis] += part->shape[static_cast<int>(axis)];
  }
  return out;
}

std::vector<int> as_axes(const std::vector<int64_t>& ints) { return {ints.begin(), ints.end()}; }

}  // namespace

HostArray blank(const Shape& shape, DType dtype) {
  HostArray array{shape, dtype, {}, {}};
  if (is_float(dtype)) {
    array.floats.resize(static_cast<size_t>(shape.numel()));
  } else {
    array.ints.resize(static_cast<size_t>(shape.numel()));
  }
  return array;
}

int64_t wrapped(int64_t value, DType dtype) {
  switch (dtype) {
    case DType::i8:
      return static_cast<int8_t>(value);
    case DType::u8:
      return static_cast<uint8_t>(value);
    case DType::i32:
      return static_cast<int32_t>(value);
    case DType::boolean:
      return value != 0;
    default:
      return value;
  }
}

int64_t to_integer(double value, DType dtype) {
  if (dtype == DType::boolean) return value != 0;
  int64_t whole = 0;
  store_element(&whole, DType::i64, 0, value);
  return wrapped(whole, dtype);
}

HostArray constant(const Node& node) {
  HostArray out = blank(node.shape, node.dtype);
  if (node.op == &ops::full_op) {
    // In f16 and bf16 a number beside a tensor has f32's digits.
    for (double& v : out.floats) v = rounded(node.attrs.real, arith(node.dtype));
    for (int64_t& v : out.ints) v = to_integer(node.attrs.real, node.dtype);
    return out;
  }
  const Rows rows(node.shape, axis_of(node.attrs));
  for (size_t i = 0; i < count_of(out); ++i) {
    const int64_t position = static_cast<int64_t>(i) / rows.inner % rows.size;
    if (is_float(node.dtype)) {
      out.floats[i] = node.attrs.real + node.attrs.real2 * static_cast<double>(position);
    } else {
      out.ints[i] = wrapped(
          to_integer(node.attrs.real, DType::i64) + to_integer(node.attrs.real2, DType::i64) * position, node.dtype);
    }
  }
  return out;
}

HostArray elementwise(const Node& node, Inputs in) {
  if (node.op == &ops::cast_op) return cast(node, *in[0]);
  if (node.op == &ops::where_op) return where(node, *in[0], *in[1], *in[2]);
  if (node.op == &ops::stop_gradient_op) return *in[0];
  if (const UserRow* user = as_user(*node.op)) return user_element(*user, node, in);
  return is_float(in[0]->dtype) ? in_floats(node, in) : in_integers(node, in);
}

HostArray movement(const Node& node, Inputs in) {
  const HostArray& x = *in[0];
  const View dense = View::dense(x.shape);
  if (node.op == &ops::pad_op) return pad(node, x);
  if (node.op == &ops::concat_op) return concat(node, in);
  if (node.op == &ops::permute_op) return through(x, dense.permute(as_axes(order_of(node.attrs))), node.dtype);
  if (node.op == &ops::flip_op) return through(x, dense.flip(as_axes(axes_of(node.attrs))), node.dtype);
  if (node.op == &ops::expand_op) return through(x, dense.expand(node.shape), node.dtype);
  if (node.op == &ops::slice_op) {
    const SliceAttrs slice(node.attrs);
    return through(x, dense.slice(slice.start, slice.step, node.shape), node.dtype);
  }
  HostArray out = x;  // reshape
  out.shape = node.shape;
  return out;
}

HostArray random_uniform(const Node& node, Inputs in) {
  std::array<uint32_t, 4> key{};
  for (size_t i = 0; i < 4; ++i) key[i] = static_cast<uint32_t>(in[0]->ints[i]);
  HostArray out = blank(node.shape, node.dtype);
  for (size_t i = 0; i < count_of(out); ++i) out.floats[i] = philox_uniform(key, i);
  return out;
}

Rows::Rows(const Shape& shape, int axis) : size(shape[axis]) {
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
}

}  // namespace heddle::reference
