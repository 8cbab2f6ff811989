// ExactSquares: the sum of squares of f32 numbers without rounding.
//
// Purpose: a norm that is the same bits however its elements are shared out to ranks and in whatever order they are
// added. A square of an f32 has 48 bits at a place that its exponent says, so a sum of them is a whole number times
// 2^-298; it is kept in digits of 32 bits (a superaccumulator: Kulisch 2002, "Advanced arithmetic for the digital
// computer"). Invariants: numbers() of several sums add up element by element. Thread safety: plain value.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace heddle::train {

class ExactSquares {
 public:
  // `limit`: above 0, numbers of larger magnitude count as that large.
  explicit ExactSquares(double limit = 0) : limit_(static_cast<float>(limit)) {}

  void add(std::span<const float> values);
  // As many for every sum: for sums of others, which add() takes one behind the other.
  std::vector<int64_t> numbers() const;
  void add_numbers(std::span<const int64_t> all);
  // The square root of the sum, rounded to f32; NaN where a NaN was added, infinite where an infinity was.
  float root() const;

 private:
  static constexpr size_t digits = 21;  // 506 bits of exponents, 48 of a square, 62 of the count

  void add_block(std::span<const float> values);
  void carry();

  float limit_;
  std::array<int64_t, digits> digits_{};  // the lowest first; behind each add() below 2^32 each
  int64_t infinities_ = 0, nans_ = 0;
};

}  // namespace heddle::train
