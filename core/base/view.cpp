#include "heddle/core/base/view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"

namespace heddle {

View View::dense(const Shape& shape) { return {0, shape, row_major_strides(shape)}; }

bool View::is_dense() const {
  if (offset != 0) return false;
  if (shape.numel() == 0) return true;
  int64_t expected = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[static_cast<size_t>(i)] != expected) return false;
    expected *= shape[i];
  }
  return true;
}

std::pair<int64_t, int64_t> View::extent() const {
  if (shape.numel() == 0) return {0, -1};
  int64_t low = offset, high = offset;
  for (int i = 0; i < shape.rank(); ++i) {
    const int64_t span = (shape[i] - 1) * strides[static_cast<size_t>(i)];
    (span < 0 ? low : high) += span;
  }
  return {low, high};
}

int64_t View::index(std::span<const int64_t> position) const {
  int64_t at = offset;
  for (size_t i = 0; i < position.size(); ++i) at += position[i] * strides[i];
  return at;
}

View View::permute(std::span<const int> order) const {
  View result{offset, {}, {}};
  for (size_t i = 0; i < order.size(); ++i) {
    result.shape.push_back(shape[order[i]]);
    result.strides[i] = strides[static_cast<size_t>(order[i])];
  }
  return result;
}

View View::expand(const Shape& target) const {
  if (target.rank() != shape.rank()) {
    throw ShapeError(fmt::format("[expand] {} and {} differ in rank", shape.str(), target.str()));
  }
  View result{offset, target, strides};
  for (int i = 0; i < target.rank(); ++i) {
    if (shape[i] == target[i]) continue;
    if (shape[i] != 1) throw ShapeError(fmt::format("[expand] {} cannot grow to {}", shape.str(), target.str()));
    result.strides[static_cast<size_t>(i)] = 0;
  }
  return result;
}

View View::slice(std::span<const int64_t> start, std::span<const int64_t> step, const Shape& counts) const {
  View result{offset, counts, {}};
  for (size_t i = 0; i < static_cast<size_t>(counts.rank()); ++i) {
    result.strides[i] = strides[i] * step[i];
    // The start of an empty range may lie outside; it must not move the offset out of the buffer.
    if (counts.numel() > 0) result.offset += start[i] * strides[i];
  }
  return result;
}

View View::flip(std::span<const int> axes) const {
  View result = *this;
  for (int axis : axes) {
    const auto a = static_cast<size_t>(axis);
    if (shape.numel() > 0) result.offset += (shape[axis] - 1) * strides[a];
    result.strides[a] = -strides[a];
  }
  return result;
}

std::optional<View> View::reshape(const Shape& target) const {
  if (target.numel() != shape.numel()) return std::nullopt;
  if (target == shape) return *this;
  View result{offset, target, row_major_strides(target)};
  if (shape.numel() == 0) return result;
  // Runs of source dimensions that lie without gaps in each other ("chunks") can be cut anew; walk both shapes from
  // the last dimension, and let target dimensions fill one chunk after the other.
  int to = target.rank() - 1;
  int64_t chunk = 1;         // elements of the current chunk of source dimensions
  int64_t chunk_stride = 1;  // stride of its innermost dimension
  bool open = false;         // whether the chunk has a dimension larger than 1 yet
  for (int from = shape.rank() - 1; from >= 0; --from) {
    if (shape[from] == 1) continue;
    if (!open) {
      chunk_stride = strides[static_cast<size_t>(from)];
      open = true;
    }
    chunk *= shape[from];
    // Does the next outer dimension (of size > 1) continue this chunk?
    int outer = from - 1;
    while (outer >= 0 && shape[outer] == 1) --outer;
    if (outer >= 0 && strides[static_cast<size_t>(outer)] == chunk * chunk_stride) continue;
    int64_t filled = 1;
    while (to >= 0 && (filled < chunk || target[to] == 1)) {
      result.strides[static_cast<size_t>(to)] = filled * chunk_stride;
      filled *= target[to--];
    }
    if (filled != chunk) return std::nullopt;
    chunk = 1;
    open = false;
  }
  return result;
}

bool View::operator==(const View& other) const {
  if (offset != other.offset || shape != other.shape) return false;
  for (size_t i = 0; i < static_cast<size_t>(shape.rank()); ++i) {
    if (strides[i] != other.strides[i]) return false;
  }
  return true;
}

std::string View::str() const {
  return fmt::format("{} strides ({}) offset {}", shape.str(),
                     fmt::join(std::span<const int64_t>(strides.data(), static_cast<size_t>(shape.rank())), ", "),
                     offset);
}

}  // namespace heddle
