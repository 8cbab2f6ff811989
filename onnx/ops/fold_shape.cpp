// Folds of shape.inc.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "heddle/onnx/ops/fold.h"
#include "heddle/onnx/ops/shapes.h"

namespace heddle::onnx::fold {
namespace {

HostTensor viewed(const HostTensor& x, const Shape& shape) { return {x.type, shape, x.bytes}; }

constexpr int64_t largest = int64_t{1} << 16;

// Places of the elements of a strided view: shape, strides in elements, first place.
std::vector<size_t> walk(const Shape& shape, const std::vector<int64_t>& strides, int64_t start) {
  std::vector<size_t> result(static_cast<size_t>(shape.numel()));
  std::vector<int64_t> at(static_cast<size_t>(shape.rank()), 0);
  for (size_t& place : result) {
    place = static_cast<size_t>(std::inner_product(at.begin(), at.end(), strides.begin(), start));
    for (int axis = shape.rank() - 1; axis >= 0 && ++at[static_cast<size_t>(axis)] == shape[axis]; --axis)
      at[static_cast<size_t>(axis)] = 0;
  }
  return result;
}

std::vector<int64_t> strides_of(const Shape& shape) {
  const auto strides = row_major_strides(shape);
  return {strides.begin(), strides.begin() + shape.rank()};
}

HostTensor cut(const HostTensor& x, const std::vector<shapes::Range>& ranges) {
  std::vector<int64_t> strides = strides_of(x.shape);
  Shape shape;
  int64_t start = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    shape.push_back(ranges[i].count);
    start += ranges[i].start * strides[i];
    strides[i] *= ranges[i].step;
  }
  return picked(x, walk(shape, strides, start), shape);
}

}  // namespace

Hosts constant(const HostCall& c) {
  HostTensor value = shapes::constant(c);
  return {value};
}
Hosts reshape(const HostCall& c) { return {viewed(c.input(0), shapes::reshaped(c, c.input(0).shape, c.ints(1)))}; }
Hosts flatten(const HostCall& c) { return {viewed(c.input(0), shapes::flattened(c, c.input(0).shape))}; }
Hosts squeeze(const HostCall& c) {
  return {viewed(c.input(0), shapes::squeezed(c, c.input(0).shape, list(c, "axes", 1)))};
}
Hosts unsqueeze(const HostCall& c) {
  const std::optional<std::vector<int64_t>> axes = list(c, "axes", 1);
  if (!axes) c.fail("has no axes");
  return {viewed(c.input(0), shapes::unsqueezed(c, c.input(0).shape, *axes))};
}

Hosts transpose(const HostCall& c) {
  const HostTensor& x = c.input(0);
  const std::vector<int64_t> from = strides_of(x.shape);
  std::vector<int64_t> strides;
  Shape shape;
  for (const int axis : shapes::permutation(c, x.shape.rank())) {
    shape.push_back(x.shape[axis]);
    strides.push_back(from[static_cast<size_t>(axis)]);
  }
  return {picked(x, walk(shape, strides, 0), shape)};
}

Hosts expand(const HostCall& c) {
  const HostTensor& x = c.input(0);
  const Shape shape = broadcast_shapes(x.shape, shapes::checked(c, c.ints(1)), "onnx");
  if (shape.numel() > largest) return {};
  return {picked(x, places(x.shape, shape), shape)};
}

Hosts tile(const HostCall& c) {
  const HostTensor& x = c.input(0);
  const std::vector<int64_t> repeats = c.ints(1), from = strides_of(x.shape);
  if (repeats.size() != from.size()) c.fail("one number of copies for each axis is needed");
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < repeats.size(); ++i) {
    sizes.push_back(repeats[i]);
    sizes.push_back(x.shape[static_cast<int>(i)]);
  }
  if (sizes.size() > Shape::max_rank) return {};
  const Shape wide = shapes::checked(c, sizes);
  if (wide.numel() > largest) return {};
  std::vector<int64_t> strides;
  Shape shape;
  for (size_t i = 0; i < repeats.size(); ++i) {
    strides.push_back(0);
    strides.push_back(from[i]);
    shape.push_back(repeats[i] * x.shape[static_cast<int>(i)]);
  }
  return {picked(x, walk(wide, strides, 0), shape)};
}

Hosts concat(const HostCall& c) {
  const HostTensor& first = c.input(0);
  const int rank = first.shape.rank();
  const int axis = axis_of(c, c.integer("axis", c.opset() < 4 ? std::optional<int64_t>(1) : std::nullopt), rank);
  int64_t length = 0, outer = 1, inner = 1;
  for (size_t i = 0; i < c.count(); ++i) {
    const HostTensor& x = c.input(i);
    if (x.type != first.type || x.shape.rank() != rank || x.shape.with(axis, 1) != first.shape.with(axis, 1))
      c.fail("types or shapes of the parts differ");
    length += x.shape[axis];
  }
  for (int i = 0; i < rank; ++i) (i < axis ? outer : inner) *= i == axis ? 1 : first.shape[i];
  std::string bytes;
  for (int64_t row = 0; row < outer; ++row) {
    for (size_t i = 0; i < c.count(); ++i) {
      const size_t piece = static_cast<size_t>(c.input(i).shape[axis] * inner) * size_of(first.type);
      bytes.append(*c.input(i).bytes, static_cast<size_t>(row) * piece, piece);
    }
  }
  return {
      HostTensor{first.type, first.shape.with(axis, length), std::make_shared<const std::string>(std::move(bytes))}};
}

Hosts split(const HostCall& c) {
  const HostTensor& x = c.input(0);
  const int axis = axis_of(c, c.integer("axis", 0), x.shape.rank());
  Hosts parts;
  int64_t start = 0;
  for (const int64_t size : shapes::split(c, x.shape[axis], list(c, "split", 1))) {
    std::vector<shapes::Range> ranges;
    for (const int64_t n : x.shape.dims()) ranges.push_back({0, n, 1});
    ranges[static_cast<size_t>(axis)] = {start, size, 1};
    parts.push_back(cut(x, ranges));
    start += size;
  }
  return parts;
}

Hosts slice(const HostCall& c) {
  const bool old = c.opset() < 10;
  const std::vector<int64_t> starts = old ? c.integers("starts") : c.ints(1),
                             ends = old ? c.integers("ends") : c.ints(2);
  const std::optional<std::vector<int64_t>> steps = c.given(4) ? std::optional(c.ints(4)) : std::nullopt;
  return {cut(c.input(0), shapes::slices(c, c.input(0).shape, starts, ends, list(c, "axes", 3), steps))};
}

Hosts constant_of_shape(const HostCall& c) {
  const Shape shape = shapes::checked(c, c.ints(0));
  const HostTensor* value = c.attribute_tensor("value");
  if (shape.numel() > largest || (value && value->shape.numel() != 1)) return {};
  const HostTensor element = value ? *value : HostTensor::of_reals(Type::f32, Shape{}, {0});
  return {picked(element, std::vector<size_t>(static_cast<size_t>(shape.numel()), 0), shape)};
}

Hosts gather(const HostCall& c) {
  const HostTensor &x = c.input(0), &indices = c.input(1);
  const int axis = axis_of(c, c.integer("axis", 0), x.shape.rank());
  const int64_t size = x.shape[axis];
  if (size == 0) return {};
  Shape shape;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape[i]), outer *= x.shape[i];
  for (const int64_t n : indices.shape.dims()) shape.push_back(n);
  for (int i = axis + 1; i < x.shape.rank(); ++i) shape.push_back(x.shape[i]), inner *= x.shape[i];
  if (shape.numel() > largest) return {};
  std::vector<size_t> from;
  const std::vector<int64_t> at = indices.ints();
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t index : at) {
      if (index < -size || index >= size) c.fail(fmt::format("index {} is out of range for {} elements", index, size));
      const int64_t row = o * size + (index < 0 ? index + size : index);
      for (int64_t i = 0; i < inner; ++i) from.push_back(static_cast<size_t>(row * inner + i));
    }
  }
  return {picked(x, from, shape)};
}

Hosts range(const HostCall& c) {
  const Type type = c.input(0).type;
  if (is_float(type) || type == Type::u64) return {};
  const int64_t start = c.ints(0).at(0), limit = c.ints(1).at(0), step = c.ints(2).at(0);
  if (step == 0) c.fail("the step is 0");
  const int64_t count =
      shapes::range_count(static_cast<double>(start), static_cast<double>(limit), static_cast<double>(step));
  if (count > largest) return {};
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(start + i * step);
  return {HostTensor::of_ints(type, Shape{count}, values)};
}

}  // namespace heddle::onnx::fold
