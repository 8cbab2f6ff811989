#include "heddle/onnx/ops/shapes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

namespace heddle::onnx::shapes {
namespace {

int axis_of(const NodeView& view, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) view.fail(fmt::format("axis {} is out of range for {} dimensions", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

}  // namespace

Shape checked(const NodeView& view, const std::vector<int64_t>& sizes) {
  if (sizes.size() > Shape::max_rank)
    view.unsupported(fmt::format("{} dimensions; {} is the most", sizes.size(), Shape::max_rank));
  uint64_t elements = 1;
  for (const int64_t size : sizes) {
    if (size < 0) view.fail(fmt::format("a size of ({}) is negative", fmt::join(sizes, ", ")));
    if (size > 0 && elements > (uint64_t{1} << 60) / static_cast<uint64_t>(size))
      view.fail(fmt::format("({}) has too many elements", fmt::join(sizes, ", ")));
    elements *= static_cast<uint64_t>(std::max<int64_t>(size, 1));
  }
  return Shape(sizes);
}

Shape reshaped(const NodeView& view, const Shape& from, const std::vector<int64_t>& target) {
  std::vector<int64_t> sizes = target;
  const bool zeros = view.integer("allowzero", 0) != 0;
  std::optional<size_t> inferred;
  int64_t known = 1;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && !zeros) {
      if (i >= static_cast<size_t>(from.rank())) view.fail(fmt::format("dimension {} of the input is asked for", i));
      sizes[i] = from[static_cast<int>(i)];
    }
    if (sizes[i] == -1) {
      if (inferred) view.fail("two sizes are -1");
      inferred = i;
    } else {
      known *= std::max<int64_t>(sizes[i], 0);
    }
  }
  if (inferred) {
    if (known == 0 || from.numel() % known != 0)
      view.fail(fmt::format("{} does not fit ({})", from.str(), fmt::join(target, ", ")));
    sizes[*inferred] = from.numel() / known;
  }
  const Shape shape = checked(view, sizes);
  if (shape.numel() != from.numel())
    view.fail(fmt::format("{} does not fit ({})", from.str(), fmt::join(target, ", ")));
  return shape;
}

Shape flattened(const NodeView& view, const Shape& from) {
  const int64_t axis = view.integer("axis", 1);
  const int at = axis == from.rank() ? from.rank() : axis_of(view, axis, from.rank());
  int64_t rows = 1, columns = 1;
  for (int i = 0; i < from.rank(); ++i) (i < at ? rows : columns) *= from[i];
  return Shape{rows, columns};
}

Shape squeezed(const NodeView& view, const Shape& from, const std::optional<std::vector<int64_t>>& axes) {
  std::vector<bool> gone(static_cast<size_t>(from.rank()), false);
  if (axes) {
    for (const int64_t axis : *axes) {
      const int at = axis_of(view, axis, from.rank());
      if (from[at] != 1) view.fail(fmt::format("axis {} of {} is not 1", axis, from.str()));
      gone[static_cast<size_t>(at)] = true;
    }
  }
  Shape shape;
  for (int i = 0; i < from.rank(); ++i) {
    if (axes ? !gone[static_cast<size_t>(i)] : from[i] != 1) shape.push_back(from[i]);
  }
  return shape;
}

Shape unsqueezed(const NodeView& view, const Shape& from, const std::vector<int64_t>& axes) {
  const int rank = from.rank() + static_cast<int>(axes.size());
  if (rank > Shape::max_rank) view.unsupported(fmt::format("{} dimensions; {} is the most", rank, Shape::max_rank));
  std::vector<bool> added(static_cast<size_t>(rank), false);
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(axis_of(view, axis, rank));
    if (added[at]) view.fail(fmt::format("axis {} is added twice", axis));
    added[at] = true;
  }
  Shape shape;
  int next = 0;
  for (int i = 0; i < rank; ++i) shape.push_back(added[static_cast<size_t>(i)] ? 1 : from[next++]);
  return shape;
}

std::vector<int> permutation(const NodeView& view, int rank) {
  std::vector<int> order(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) order[static_cast<size_t>(i)] = rank - 1 - i;
  if (!view.has("perm")) return order;
  const std::vector<int64_t> given = view.integers("perm");
  std::vector<int64_t> sorted = given;
  std::ranges::sort(sorted);
  bool right = sorted.size() == order.size();
  for (size_t i = 0; right && i < sorted.size(); ++i) right = sorted[i] == static_cast<int64_t>(i);
  if (!right) view.fail(fmt::format("perm ({}) is no order of {} axes", fmt::join(given, ", "), rank));
  return {given.begin(), given.end()};
}

std::vector<int64_t> split(const NodeView& view, int64_t length, const std::optional<std::vector<int64_t>>& given) {
  if (given) {
    int64_t total = 0;
    for (const int64_t size : *given) total += size < 0 ? length + 1 : std::min(size, length + 1);
    if (total != length) view.fail(fmt::format("({}) is no division of {}", fmt::join(*given, ", "), length));
    return *given;
  }
  const int64_t parts = view.integer("num_outputs", static_cast<int64_t>(view.node().outputs.size()));
  if (parts < 1 || parts > static_cast<int64_t>(view.node().outputs.size()))
    view.fail("num_outputs is not that of the outputs");
  const int64_t each = (length + parts - 1) / parts;
  std::vector<int64_t> sizes;
  for (int64_t i = 0; i < parts; ++i) sizes.push_back(std::clamp<int64_t>(length - i * each, 0, each));
  return sizes;
}

std::vector<Range> slices(const NodeView& view, const Shape& from, const std::vector<int64_t>& starts,
                          const std::vector<int64_t>& ends, const std::optional<std::vector<int64_t>>& axes,
                          const std::optional<std::vector<int64_t>>& steps) {
  std::vector<Range> ranges;
  for (const int64_t size : from.dims()) ranges.push_back({0, size, 1});
  const size_t count = starts.size();
  if (ends.size() != count || (axes && axes->size() != count) || (steps && steps->size() != count))
    view.fail("starts, ends, axes and steps have different lengths");
  for (size_t i = 0; i < count; ++i) {
    const int axis = axis_of(view, axes ? (*axes)[i] : static_cast<int64_t>(i), from.rank());
    const int64_t size = from[axis], step = steps ? (*steps)[i] : 1;
    if (step == 0) view.fail("a step is 0");
    // Places beyond the axis are moved to its ends; the one before the first counts as an end of backward steps.
    const auto place = [&](int64_t at, int64_t low, int64_t high) {
      return std::clamp(at < 0 ? at + size : at, low, high);
    };
    const int64_t start = step > 0 ? place(starts[i], 0, size) : place(starts[i], 0, size - 1);
    const int64_t end = step > 0 ? place(ends[i], 0, size) : place(std::max(ends[i], -size - 1), -1, size - 1);
    const int64_t span = step > 0 ? end - start : start - end, width = step > 0            ? step
                                                                       : step == INT64_MIN ? INT64_MAX
                                                                                           : -step;
    ranges[static_cast<size_t>(axis)] = {start, span <= 0 || size == 0 ? 0 : (span - 1) / width + 1, step};
  }
  return ranges;
}

HostTensor constant(const NodeView& view) {
  if (const HostTensor* value = view.attribute_tensor("value")) return *value;
  if (view.has("value_float")) return HostTensor::of_reals(Type::f32, Shape{}, {view.real("value_float")});
  if (view.has("value_int")) return HostTensor::of_ints(Type::i64, Shape{}, {view.integer("value_int")});
  if (view.has("value_floats")) {
    const std::vector<double> values = view.reals("value_floats");
    return HostTensor::of_reals(Type::f32, Shape{static_cast<int64_t>(values.size())}, values);
  }
  if (!view.has("value_ints")) view.fail("has no value");
  const std::vector<int64_t> values = view.integers("value_ints");
  return HostTensor::of_ints(Type::i64, Shape{static_cast<int64_t>(values.size())}, values);
}

int64_t range_count(double start, double limit, double step) {
  const double count = std::ceil((limit - start) / step);
  return !(count > 0) ? 0 : count < 0x1p62 ? static_cast<int64_t>(count) : int64_t{1} << 62;
}

}  // namespace heddle::onnx::shapes
