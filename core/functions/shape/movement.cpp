// Movement: reshape, permute, expand, slice, flip, pad, concat and split.
#include "heddle/core/functions/shape/movement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::record;

// What Python's slice.indices() does, for an axis of `size`: the first index, the step and how many.
struct Range {
  int64_t start, step, count;
};

Range resolve(const Slice& s, int64_t size) {
  if (s.step == 0) throw ValueError("[slice] the step is 0; use a positive or negative step");
  // A step of the size reaches one element, as any longer one; the bound keeps the sums below from overflowing.
  const int64_t longest = std::max<int64_t>(size, 1), step = std::clamp(s.step, -longest, longest);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](const std::optional<int64_t>& at, int64_t otherwise) {
    if (!at) return otherwise;
    const int64_t index = *at < -size ? -1 : *at < 0 ? *at + size : *at;
    return std::clamp(index, low, high);
  };
  const int64_t start = place(s.start, step > 0 ? low : high);
  const int64_t stop = place(s.stop, step > 0 ? high : low);
  const int64_t span = step > 0 ? stop - start : start - stop;
  const int64_t stride = std::abs(step);
  return {start, step, span > 0 ? (span - 1) / stride + 1 : 0};
}

bool is_identity(const std::vector<int>& order) {
  for (size_t i = 0; i < order.size(); ++i) {
    if (order[i] != static_cast<int>(i)) return false;
  }
  return true;
}

Shape inferred(const Tensor& x, const std::vector<int64_t>& shape) {
  int64_t known = 1;
  int unknown = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] != -1) {
      if (__builtin_mul_overflow(known, shape[i], &known)) {
        throw ShapeError(
            fmt::format("[reshape] ({}) has more elements than 64 bits can count", fmt::join(shape, ", ")));
      }
      continue;
    }
    if (unknown >= 0) throw ShapeError(fmt::format("[reshape] ({}) has more than one -1", fmt::join(shape, ", ")));
    unknown = static_cast<int>(i);
  }
  if (unknown < 0) return Shape(shape);
  if (known <= 0 || x.numel() % known != 0) {
    throw ShapeError(fmt::format("[reshape] {} has {} elements, which do not fill ({}): -1 cannot be inferred",
                                 x.shape().str(), x.numel(), fmt::join(shape, ", ")));
  }
  std::vector<int64_t> dims = shape;
  dims[static_cast<size_t>(unknown)] = x.numel() / known;
  return Shape(dims);
}

// Rows of a dense value that lie side by side are a value too: a batch of a data set on the device is no operation, so
// all batches have one plan.
bool is_batch(const Tensor& x, const std::vector<Range>& ranges) {
  const Node& node = *x.node();
  if (!node.has_value() || node.host || node.tracks || node.overwritten || trace::any() || ExampleScope::active() ||
      node.device->caps().target == Target::none)
    return false;
  View from_start = node.view;
  from_start.offset = 0;
  if (!from_start.is_dense() || ranges[0].step != 1 || ranges[0].count == 0) return false;
  return std::all_of(ranges.begin() + 1, ranges.end(), [&](const Range& r) {
    return r.start == 0 && r.step == 1 && r.count == x.shape()[static_cast<int>(&r - ranges.data())];
  });
}

Tensor batch_of(const Tensor& x, const Range& rows) {
  View view = x.node()->view;
  view.offset += rows.start * (x.numel() / x.shape()[0]);
  view.shape = x.shape().with(0, rows.count);
  const NodePtr leaf = make_leaf(x.node()->storage, view, x.dtype());
  leaf->varying = x.node()->varying;
  return Tensor(leaf);
}

Tensor slice_node(const Tensor& x, const std::vector<Range>& ranges) {
  std::vector<int64_t> start, step;
  Shape shape;
  for (const Range& r : ranges) {
    start.push_back(r.start);
    step.push_back(r.step);
    shape.push_back(r.count);
  }
  return record(ops::slice_op, {&x}, slice_attrs(start, step), shape, x.dtype());
}

void check_concat(std::span<const Tensor> parts, int axis) {
  const Shape& first = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    const Shape& shape = parts[i].shape();
    build::check_device(parts[0], parts[i], "concat");
    if (shape.rank() == first.rank() && shape.with(axis, first[axis]) == first) continue;
    throw ShapeError(fmt::format("[concat] part 0 is {}, part {} is {}; all dimensions but axis {} must be equal",
                                 first.str(), i, shape.str(), axis));
  }
}

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape, Caller caller) {
  const CallerScope scope(caller);
  if (x.shape() == shape) return x;
  if (x.numel() != shape.numel()) {
    throw ShapeError(
        fmt::format("[reshape] {} has {} elements, {} has {}", x.shape().str(), x.numel(), shape.str(), shape.numel()));
  }
  return record(ops::reshape_op, {&x}, {}, shape, x.dtype());
}

Tensor reshape(const Tensor& x, std::vector<int64_t> shape, Caller caller) {
  const CallerScope scope(caller);
  return reshape(x, inferred(x, shape));
}

Tensor permute(const Tensor& x, std::vector<int> order, Caller caller) {
  const CallerScope scope(caller);
  const int rank = x.rank();
  std::vector<bool> seen(static_cast<size_t>(rank));
  const auto refuse = [&] {
    throw ShapeError(fmt::format("[permute] ({}) is no permutation of the axes of {}; name each axis once",
                                 fmt::join(order, ", "), x.shape().str()));
  };
  if (static_cast<int>(order.size()) != rank) refuse();
  Shape shape;
  for (int& axis : order) {
    axis = normalize_axis(axis, rank, "permute");
    if (seen[static_cast<size_t>(axis)]) refuse();
    seen[static_cast<size_t>(axis)] = true;
    shape.push_back(x.shape()[axis]);
  }
  if (is_identity(order)) return x;
  return record(ops::permute_op, {&x}, Attrs{{order.begin(), order.end()}}, shape, x.dtype());
}

Tensor transpose(const Tensor& x, int axis0, int axis1, Caller caller) {
  const CallerScope scope(caller);
  const int a = normalize_axis(axis0, x.rank(), "transpose");
  const int b = normalize_axis(axis1, x.rank(), "transpose");
  std::vector<int> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[static_cast<size_t>(a)], order[static_cast<size_t>(b)]);
  return permute(x, std::move(order));
}

Tensor expand(const Tensor& x, const Shape& shape, Caller caller) {
  const CallerScope scope(caller);
  const Shape& from = x.shape();
  const int extra = shape.rank() - from.rank();
  bool fits = extra >= 0;
  for (int i = 0; fits && i < from.rank(); ++i) fits = from[i] == shape[i + extra] || from[i] == 1;
  if (!fits) {
    throw ShapeError(
        fmt::format("[expand] {} does not broadcast to {}: counted from the last, each dimension must be equal or 1",
                    from.str(), shape.str()));
  }
  return build::broadcast(x, shape);
}

Tensor squeeze(const Tensor& x, std::optional<int> axis, Caller caller) {
  const CallerScope scope(caller);
  if (axis) {
    const int at = normalize_axis(*axis, x.rank(), "squeeze");
    if (x.shape()[at] != 1) {
      throw ShapeError(fmt::format("[squeeze] axis {} of {} has size {}, not 1", at, x.shape().str(), x.shape()[at]));
    }
    return reshape(x, x.shape().without(at));
  }
  Shape shape;
  for (int64_t d : x.shape()) {
    if (d != 1) shape.push_back(d);
  }
  return reshape(x, shape);
}

Tensor unsqueeze(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  return reshape(x, x.shape().inserted(normalize_axis(axis, x.rank() + 1, "unsqueeze"), 1));
}

Tensor slice(const Tensor& x, std::span<const Slice> ranges, Caller caller) {
  const CallerScope scope(caller);
  if (static_cast<int>(ranges.size()) > x.rank()) {
    throw ShapeError(
        fmt::format("[slice] {} ranges given for {}; at most one per axis", ranges.size(), x.shape().str()));
  }
  std::vector<Range> resolved;
  bool whole = true;
  for (int i = 0; i < x.rank(); ++i) {
    const int64_t size = x.shape()[i];
    const auto at = static_cast<size_t>(i);
    resolved.push_back(at < ranges.size() ? resolve(ranges[at], size) : Range{0, 1, size});
    whole = whole && resolved.back().count == size && resolved.back().step > 0;
  }
  // A parameter's slice stays one also where it is whole: positions of the longest text are then the same graph as
  // those of shorter ones.
  if (whole && !x.requires_grad()) return x;
  return is_batch(x, resolved) ? batch_of(x, resolved[0]) : slice_node(x, resolved);
}

Tensor slice(const Tensor& x, int axis, Slice range, Caller caller) {
  const CallerScope scope(caller);
  const int at = normalize_axis(axis, x.rank(), "slice");
  std::array<Slice, Shape::max_rank> ranges{};
  ranges[static_cast<size_t>(at)] = range;
  return slice(x, std::span<const Slice>(ranges.data(), static_cast<size_t>(at) + 1));
}

Tensor flip(const Tensor& x, std::vector<int> axes, Caller caller) {
  const CallerScope scope(caller);
  axes = normalize_axes(std::move(axes), x.rank(), "flip");
  if (axes.empty()) return x;
  return record(ops::flip_op, {&x}, Attrs{{axes.begin(), axes.end()}}, x.shape(), x.dtype());
}

Tensor pad(const Tensor& x, std::vector<std::pair<int64_t, int64_t>> amounts, double value, Caller caller) {
  const CallerScope scope(caller);
  if (static_cast<int>(amounts.size()) > x.rank()) {
    throw ShapeError(
        fmt::format("[pad] amounts for {} axes given, but the shape is {}", amounts.size(), x.shape().str()));
  }
  if (!is_float(x.dtype()) && !(value == std::floor(value))) {
    throw ValueError(fmt::format("[pad] the value {} does not fit dtype {}; cast the tensor to a floating dtype first",
                                 value, name_of(x.dtype())));
  }
  amounts.resize(static_cast<size_t>(x.rank()));
  std::vector<int64_t> border;
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    const auto [before, after] = amounts[static_cast<size_t>(i)];
    if (before < 0 || after < 0) {
      throw ValueError(
          fmt::format("[pad] amounts ({}, {}) of axis {} are negative; use slice() to cut", before, after, i));
    }
    border.push_back(before);
    int64_t size = 0;
    if (__builtin_add_overflow(x.shape()[i], before, &size) || __builtin_add_overflow(size, after, &size)) {
      throw ShapeError(
          fmt::format("[pad] axis {} of {} with ({}, {}) more exceeds 64 bits", i, x.shape().str(), before, after));
    }
    shape.push_back(size);
  }
  return shape == x.shape() ? x : record(ops::pad_op, {&x}, Attrs{std::move(border), value}, shape, x.dtype());
}

Tensor concat(std::span<const Tensor> parts, int axis, Caller caller) {
  const CallerScope scope(caller);
  if (parts.empty()) throw ValueError("[concat] needs at least one tensor");
  const int at = normalize_axis(axis, parts[0].rank(), "concat");
  check_concat(parts, at);
  if (parts.size() == 1) return parts[0];
  DType t = parts[0].dtype();
  int64_t size = 0;
  for (const Tensor& part : parts) {
    t = promote(t, part.dtype());
    size = build::plus(size, part.shape()[at]);
  }
  std::vector<NodePtr> nodes;
  nodes.reserve(parts.size());
  for (const Tensor& part : parts) nodes.push_back(cast(part, t).node());
  return Tensor(make_node(ops::concat_op, std::move(nodes), axis_attrs(at), parts[0].shape().with(at, size), t));
}

std::vector<Tensor> split(const Tensor& x, std::vector<int64_t> sizes, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = normalize_axis(axis, x.rank(), "split");
  int64_t rest = x.shape()[at];
  bool fits = true;
  for (int64_t size : sizes) {
    fits = fits && size >= 0 && size <= rest;
    if (fits) rest -= size;
  }
  if (!fits || rest != 0) {
    throw ShapeError(
        fmt::format("[split] sizes ({}) do not add up to axis {} of {}", fmt::join(sizes, ", "), at, x.shape().str()));
  }
  std::vector<Tensor> parts;
  parts.reserve(sizes.size());
  int64_t start = 0;
  for (int64_t size : sizes) {
    parts.push_back(slice(x, at, Slice{start, start + size, 1}));
    start += size;
  }
  return parts;
}

}  // namespace heddle
