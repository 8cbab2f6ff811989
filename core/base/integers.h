// Whole numbers of pieces. Values are not negative and pieces not empty. Thread safety: pure functions.
#pragma once

#include <concepts>
#include <type_traits>

namespace heddle {

// How many pieces of `size` hold `value`; no sum in it overflows.
template <std::integral T>
constexpr T ceil_div(T value, std::type_identity_t<T> size) {
  return value / size + (value % size != 0 ? 1 : 0);
}

// The least multiple of `step` that is not below `value`.
template <std::integral T>
constexpr T round_up(T value, std::type_identity_t<T> step) {
  return ceil_div(value, step) * step;
}

}  // namespace heddle
