// Subscript: what stands in the brackets of x[...].
//
//   x[2], x[-1]                          one element of the first axis; the axis goes
//   x[Slice{1, 3}], x[Slice{}]           elements 1 and 2; all of them
//   x[{0, Slice{.step = -1}, Slice{}}]   one item an axis: an index, or a slice
//   x[{ellipsis, 0}]                     `ellipsis` stands for the axes that no other item names
//   x[{new_axis, ellipsis}]              `new_axis` puts in an axis of size 1
//
// Purpose: PyTorch's basic indexing: `ellipsis` is its "...", `new_axis` its None. Axes behind the last item are taken
// whole. Indices and bounds count from the end when negative; bounds are clipped, an index out of range is refused.
// Picks by tensors are functions: take(), masked_select(), index_put() (core/functions/functions.h). Thread safety:
// plain values.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/core/base/caller.h"

namespace heddle {

// Python's slice along one axis: start/stop count from the end when negative and are clipped; step may be negative, not
// 0.
struct Slice {
  std::optional<int64_t> start = {}, stop = {};
  int64_t step = 1;
};

struct Ellipsis {};
inline constexpr Ellipsis ellipsis{};
struct NewAxis {};
inline constexpr NewAxis new_axis{};

struct SubscriptItem {
  enum class Kind : uint8_t { index, slice, rest, added };

  template <std::integral I>
  requires(!std::same_as<I, bool>) SubscriptItem(I at)
      : kind(Kind::index), index(std::in_range<int64_t>(at) ? static_cast<int64_t>(at) : INT64_MAX) {}
  SubscriptItem(Slice range) : kind(Kind::slice), slice(range) {}
  SubscriptItem(Ellipsis) : kind(Kind::rest) {}
  SubscriptItem(NewAxis) : kind(Kind::added) {}

  Kind kind;
  int64_t index = 0;
  Slice slice;
};

struct Subscript {
  template <class T>
  requires std::convertible_to<T, SubscriptItem> Subscript(T item, Caller where = Caller::current())
      : Subscript({SubscriptItem(item)}, where) {}
  Subscript(std::initializer_list<SubscriptItem> list, Caller where = Caller::current());

  std::vector<SubscriptItem> items;
  Caller caller;
};

}  // namespace heddle
