// Shapes: compositions of movement.
#include "heddle/core/functions/shape/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {

using build::axis_of;
using build::broadcasts_to;
using build::check_dims;
using build::check_rank;
using build::positions;
using build::product;
using build::times;
using build::two_axes;

namespace {

// Equal ranks, devices and dimensions; those along `axis` may differ (-1: none may).
void check_parts(const char* op, std::span<const Tensor> parts, int axis) {
  if (parts.empty()) throw ValueError(fmt::format("[{}] needs at least one tensor; got none", op));
  const Shape& first = parts[0].shape();
  for (size_t i = 1; i < parts.size(); ++i) {
    build::check_device(parts[0], parts[i], op);
    const Shape& shape = parts[i].shape();
    const bool fits = shape.rank() == first.rank() &&
                      (axis < 0 || axis >= first.rank() ? shape : shape.with(axis, first[axis])) == first;
    if (fits) continue;
    throw ShapeError(fmt::format("[{}] all tensors must have one shape{}; got {} for tensor 0 and {} for tensor {}", op,
                                 axis < 0 ? "" : fmt::format(" but along axis {}", axis), first.str(), shape.str(), i));
  }
}

Tensor joined(const char* op, std::span<const Tensor> parts, int axis) {
  check_parts(op, parts, axis);
  return concat(parts, axis);
}

Tensor rolled(const Tensor& x, int axis, int64_t shift) {
  const int64_t size = x.dim(axis);
  if (size == 0) return x;
  const int64_t rest = shift % size, by = rest < 0 ? rest + size : rest;
  if (by == 0) return x;
  return concat({slice(x, axis, {.start = size - by}), slice(x, axis, {.stop = size - by})}, axis);
}

// As many leading axes of 1 as `repeats` has numbers more than x axes.
Tensor repeated(const char* op, Tensor x, const std::vector<int64_t>& repeats) {
  check_dims(op, static_cast<int>(repeats.size()));
  for (int64_t n : repeats) {
    if (n < 0)
      throw ValueError(
          fmt::format("[{}] numbers of copies must not be negative; got ({})", op, fmt::join(repeats, ", ")));
  }
  Shape lead;
  for (int i = x.rank(); i < static_cast<int>(repeats.size()); ++i) lead.push_back(1);
  for (int64_t d : x.shape()) lead.push_back(d);
  x = reshape(x, lead);
  const auto copies = std::count_if(repeats.begin(), repeats.end(), [](int64_t n) { return n != 1; });
  if (lead.rank() + copies <= Shape::max_rank) {  // all at once: (d0, d1) to (r0, d0, r1, d1)
    Shape apart, grown, result;
    for (int i = 0; i < lead.rank(); ++i) {
      const int64_t n = repeats[static_cast<size_t>(i)];
      if (n != 1) {
        apart.push_back(1);
        grown.push_back(n);
      }
      apart.push_back(lead[i]);
      grown.push_back(lead[i]);
      result.push_back(times(n, lead[i]));
    }
    return reshape(expand(reshape(x, apart), grown), result);
  }
  for (int i = 0; i < lead.rank(); ++i) {
    const int64_t n = repeats[static_cast<size_t>(i)], outer = product(x.shape(), 0, i),
                  rest = product(x.shape(), i, x.rank());
    const Shape result = x.shape().with(i, times(n, x.dim(i)));
    if (n != 1) x = reshape(expand(reshape(x, Shape{outer, 1, rest}), Shape{outer, n, rest}), result);
  }
  return x;
}

}  // namespace

Tensor roll(const Tensor& x, std::vector<int64_t> shifts, std::vector<int> axes, Caller caller) {
  const CallerScope scope(caller);
  if (axes.empty()) {
    if (shifts.size() != 1)
      throw ValueError(
          fmt::format("[roll] without axes there is one shift, of the flat tensor; got ({})", fmt::join(shifts, ", ")));
    return reshape(rolled(reshape(x, Shape{x.numel()}), 0, shifts[0]), x.shape());
  }
  if (shifts.size() != axes.size())
    throw ValueError(fmt::format("[roll] as many shifts as axes; got shifts ({}) and axes ({})",
                                 fmt::join(shifts, ", "), fmt::join(axes, ", ")));
  Tensor result = x;
  for (size_t i = 0; i < axes.size(); ++i) result = rolled(result, axis_of("roll", x, axes[i]), shifts[i]);
  return result;
}
Tensor roll(const Tensor& x, int64_t shift, int axis, Caller caller) {
  const CallerScope scope(caller);
  return rolled(x, axis_of("roll", x, axis), shift);
}

Tensor repeat(const Tensor& x, std::vector<int64_t> repeats, Caller caller) {
  const CallerScope scope(caller);
  if (static_cast<int>(repeats.size()) < x.rank()) {
    throw ShapeError(
        fmt::format("[repeat] at least one number of copies for each axis; got ({}) for {}; tile() fills up with 1",
                    fmt::join(repeats, ", "), x.shape().str()));
  }
  return repeated("repeat", x, repeats);
}
Tensor tile(const Tensor& x, std::vector<int64_t> repeats, Caller caller) {
  const CallerScope scope(caller);
  if (static_cast<int>(repeats.size()) < x.rank())
    repeats.insert(repeats.begin(), static_cast<size_t>(x.rank()) - repeats.size(), 1);
  return repeated("tile", x, repeats);
}

Tensor repeat_interleave(const Tensor& x, int64_t repeats, std::optional<int> axis, Caller caller) {
  const CallerScope scope(caller);
  if (repeats < 0)
    throw ValueError(fmt::format("[repeat_interleave] the number of copies must not be negative; got {}", repeats));
  const Tensor in = axis ? x : reshape(x, Shape{x.numel()});
  const int at = axis ? axis_of("repeat_interleave", x, *axis) : 0;
  const int64_t outer = product(in.shape(), 0, at + 1), inner = product(in.shape(), at + 1, in.rank());
  return reshape(expand(reshape(in, Shape{outer, 1, inner}), Shape{outer, repeats, inner}),
                 in.shape().with(at, times(in.dim(at), repeats)));
}

Tensor stack(std::span<const Tensor> parts, int axis, Caller caller) {
  const CallerScope scope(caller);
  check_parts("stack", parts, -1);
  check_dims("stack", parts[0].rank() + 1);
  const int at = normalize_axis(axis, parts[0].rank() + 1, "stack");
  std::vector<Tensor> slices;
  for (const Tensor& part : parts) slices.push_back(unsqueeze(part, at));
  return concat(slices, at);
}

std::vector<Tensor> unstack(const Tensor& x, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("unstack", x, axis);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < x.dim(at); ++i) parts.push_back(squeeze(slice(x, at, {.start = i, .stop = i + 1}), at));
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, int64_t chunks, int axis, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("chunk", x, axis);
  if (chunks < 1) throw ValueError(fmt::format("[chunk] the number of chunks must be positive; got {}", chunks));
  const int64_t size = x.dim(at), each = size / chunks + (size % chunks != 0);
  if (std::min(chunks, size == 0 ? chunks : size) > build::most_parts) {
    throw ValueError(
        fmt::format("[chunk] {} chunks of axis {} of {}; at most 2^20 are made", chunks, at, x.shape().str()));
  }
  if (size == 0) return std::vector<Tensor>(static_cast<size_t>(chunks), x);
  std::vector<Tensor> parts;
  for (int64_t start = 0; start < size; start += each)
    parts.push_back(slice(x, at, {.start = start, .stop = std::min(size, start + each)}));
  return parts;
}

Tensor hstack(std::span<const Tensor> parts, Caller caller) {
  const CallerScope scope(caller);
  std::vector<Tensor> in;
  for (const Tensor& part : parts) in.push_back(atleast_1d(part));
  return joined("hstack", in, !in.empty() && in[0].rank() == 1 ? 0 : 1);
}
Tensor vstack(std::span<const Tensor> parts, Caller caller) {
  const CallerScope scope(caller);
  std::vector<Tensor> in;
  for (const Tensor& part : parts) in.push_back(atleast_2d(part));
  return joined("vstack", in, 0);
}
Tensor dstack(std::span<const Tensor> parts, Caller caller) {
  const CallerScope scope(caller);
  std::vector<Tensor> in;
  for (const Tensor& part : parts) in.push_back(atleast_3d(part));
  return joined("dstack", in, 2);
}

Tensor swapaxes(const Tensor& x, int axis0, int axis1, Caller caller) {
  const CallerScope scope(caller);
  return transpose(x, axis_of("swapaxes", x, axis0), axis_of("swapaxes", x, axis1));
}

Tensor moveaxis(const Tensor& x, std::vector<int> source, std::vector<int> destination, Caller caller) {
  const CallerScope scope(caller);
  const auto refuse = [&] {
    throw ValueError(fmt::format("[moveaxis] as many sources as destinations, each axis once; got ({}) to ({})",
                                 fmt::join(source, ", "), fmt::join(destination, ", ")));
  };
  if (source.size() != destination.size()) refuse();
  std::vector<int> order(static_cast<size_t>(x.rank()), -1);
  std::vector<bool> moved(order.size());
  for (size_t i = 0; i < source.size(); ++i) {
    const auto from = static_cast<size_t>(axis_of("moveaxis", x, source[i])),
               to = static_cast<size_t>(axis_of("moveaxis", x, destination[i]));
    if (moved[from] || order[to] >= 0) refuse();
    moved[from] = true;
    order[to] = static_cast<int>(from);
  }
  size_t next = 0;
  for (int& axis : order) {
    if (axis >= 0) continue;
    while (moved[next]) ++next;
    axis = static_cast<int>(next++);
  }
  return permute(x, std::move(order));
}
Tensor moveaxis(const Tensor& x, int source, int destination, Caller caller) {
  return moveaxis(x, std::vector<int>{source}, std::vector<int>{destination}, caller);
}

Tensor flatten(const Tensor& x, int start, int end, Caller caller) {
  const CallerScope scope(caller);
  const int rank = std::max(x.rank(), 1), first = normalize_axis(start, rank, "flatten"),
            last = normalize_axis(end, rank, "flatten");
  if (first > last)
    throw ValueError(fmt::format("[flatten] the first axis comes before the last; got {} and {} of {}", start, end,
                                 x.shape().str()));
  if (x.rank() == 0) return reshape(x, Shape{1});
  Shape shape;
  for (int i = 0; i < first; ++i) shape.push_back(x.dim(i));
  shape.push_back(product(x.shape(), first, last + 1));
  for (int i = last + 1; i < x.rank(); ++i) shape.push_back(x.dim(i));
  return reshape(x, shape);
}

Tensor unflatten(const Tensor& x, int axis, std::vector<int64_t> sizes, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("unflatten", x, axis);
  const std::vector<int64_t> asked = sizes;
  int64_t known = 1;
  auto unknown = sizes.end();
  bool fits = !sizes.empty();
  for (auto size = sizes.begin(); fits && size != sizes.end(); ++size) {
    if (*size == -1 && unknown == sizes.end()) {
      unknown = size;
    } else {
      fits = *size >= 0 && !__builtin_mul_overflow(known, *size, &known);
    }
  }
  if (fits && unknown != sizes.end()) {
    fits = known > 0 && x.dim(at) % known == 0;
    if (fits) *unknown = x.dim(at) / known;
  } else {
    fits = fits && known == x.dim(at);
  }
  if (!fits)
    throw ShapeError(fmt::format("[unflatten] the sizes multiply to axis {} of {}; got ({}); one may be -1", at,
                                 x.shape().str(), fmt::join(asked, ", ")));
  check_dims("unflatten", x.rank() - 1 + static_cast<int>(sizes.size()));
  Shape shape;
  for (int i = 0; i < at; ++i) shape.push_back(x.dim(i));
  for (int64_t size : sizes) shape.push_back(size);
  for (int i = at + 1; i < x.rank(); ++i) shape.push_back(x.dim(i));
  return reshape(x, shape);
}

Tensor ravel(TensorArg x) {
  const CallerScope scope(x.caller);
  return reshape(x.tensor, Shape{x.tensor.numel()});
}

Tensor broadcast_to(const Tensor& x, const Shape& shape, Caller caller) {
  const CallerScope scope(caller);
  if (!broadcasts_to(x.shape(), shape))
    throw ShapeError(fmt::format("[broadcast_to] counted from the last, each axis is equal or 1; got {} for {}",
                                 x.shape().str(), shape.str()));
  return build::broadcast(x, shape);
}

std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Caller caller) {
  const CallerScope scope(caller);
  Shape shape;
  for (const Tensor& x : tensors) shape = broadcast_shapes(shape, x.shape(), "broadcast_tensors");
  std::vector<Tensor> results;
  for (const Tensor& x : tensors) results.push_back(build::broadcast(x, shape));
  return results;
}

Tensor atleast_1d(TensorArg x) {
  const CallerScope scope(x.caller);
  return x.tensor.rank() >= 1 ? x.tensor : reshape(x.tensor, Shape{1});
}
Tensor atleast_2d(TensorArg x) {
  const CallerScope scope(x.caller);
  return x.tensor.rank() >= 2 ? x.tensor : reshape(x.tensor, Shape{1, x.tensor.numel()});
}
Tensor atleast_3d(TensorArg x) {
  const CallerScope scope(x.caller);
  const Tensor& in = x.tensor;
  if (in.rank() >= 3) return in;
  return reshape(in, in.rank() == 2 ? Shape{in.dim(0), in.dim(1), 1} : Shape{1, in.numel(), 1});
}

std::vector<Tensor> meshgrid(std::span<const Tensor> vectors, GridIndexing indexing, Caller caller) {
  const CallerScope scope(caller);
  check_dims("meshgrid", static_cast<int>(vectors.size()));
  const bool swapped = indexing == GridIndexing::xy && vectors.size() >= 2;
  std::vector<int64_t> sizes;
  for (const Tensor& v : vectors) {
    if (v.rank() > 1)
      throw ShapeError(
          fmt::format("[meshgrid] takes vectors; got {} for tensor {}; ravel() it", v.shape().str(), sizes.size()));
    build::check_device(vectors[0], v, "meshgrid");
    sizes.push_back(v.numel());
  }
  if (swapped) std::swap(sizes[0], sizes[1]);
  const Shape grid(sizes);
  std::vector<Tensor> results;
  for (int i = 0; i < grid.rank(); ++i) {
    Shape along(std::vector<int64_t>(sizes.size(), 1));
    const int axis = swapped && i < 2 ? 1 - i : i;
    results.push_back(expand(reshape(vectors[static_cast<size_t>(i)], along.with(axis, grid[axis])), grid));
  }
  return results;
}

Tensor rot90(const Tensor& x, int64_t k, std::vector<int> axes, Caller caller) {
  const CallerScope scope(caller);
  check_rank("rot90", x, 2);
  if (axes.size() != 2)
    throw ValueError(fmt::format("[rot90] turns a plane of two axes; got ({})", fmt::join(axes, ", ")));
  const auto [a, b] = two_axes("rot90", x.rank(), axes[0], axes[1]);
  switch (((k % 4) + 4) % 4) {
    case 1:
      return transpose(flip(x, {b}), a, b);
    case 2:
      return flip(x, {a, b});
    case 3:
      return flip(transpose(x, a, b), {b});
    default:
      return x;
  }
}
Tensor fliplr(TensorArg x) {
  const CallerScope scope(x.caller);
  check_rank("fliplr", x.tensor, 2);
  return flip(x.tensor, {1});
}
Tensor flipud(TensorArg x) {
  const CallerScope scope(x.caller);
  check_rank("flipud", x.tensor, 1);
  return flip(x.tensor, {0});
}

}  // namespace heddle
