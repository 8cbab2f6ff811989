#include "heddle/train/exact_squares.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace heddle::train {
namespace {

constexpr uint64_t digit_mask = 0xffffffff;
// Numbers between two carries: each adds less than 2^34 to a digit of 63 bits.
constexpr size_t block = size_t{1} << 28;

}  // namespace

void ExactSquares::add(std::span<const float> values) {
  for (size_t from = 0; from < values.size(); from += block) {
    add_block(values.subspan(from, std::min(block, values.size() - from)));
    carry();
  }
}

// x = m 2^(e - 150) of 24 bits m, where e is at least 1: x^2 = m^2 2^(2 (e - 1)) 2^-298.
void ExactSquares::add_block(std::span<const float> values) {
  for (const float value : values) {
    const float limited = limit_ > 0 ? std::clamp(value, -limit_, limit_) : value;  // of a NaN: NaN
    const uint32_t bits = std::bit_cast<uint32_t>(limited) & 0x7fffffff, exponent = bits >> 23;
    const uint64_t fraction = bits & 0x7fffff;
    if (exponent == 255) {
      ++(fraction != 0 ? nans_ : infinities_);
      continue;
    }
    const uint64_t m = exponent > 0 ? fraction | 0x800000 : fraction, square = m * m;
    const uint32_t place = exponent > 0 ? 2 * (exponent - 1) : 0, by = place % 32;
    int64_t* const digit = &digits_[place / 32];
    const uint64_t low = (square & digit_mask) << by, high = (square >> 32) << by;
    digit[0] += static_cast<int64_t>(low & digit_mask);
    digit[1] += static_cast<int64_t>((low >> 32) + (high & digit_mask));
    digit[2] += static_cast<int64_t>(high >> 32);
  }
}

void ExactSquares::carry() {
  for (size_t i = 0; i + 1 < digits; ++i) {
    digits_[i + 1] += digits_[i] >> 32;
    digits_[i] &= static_cast<int64_t>(digit_mask);
  }
}

std::vector<int64_t> ExactSquares::numbers() const {
  std::vector<int64_t> all(digits_.begin(), digits_.end());
  all.push_back(infinities_);
  all.push_back(nans_);
  return all;
}

void ExactSquares::add_numbers(std::span<const int64_t> all) {
  for (size_t at = 0; at + digits + 2 <= all.size(); at += digits + 2) {
    for (size_t i = 0; i < digits; ++i) digits_[i] += all[at + i];
    infinities_ += all[at + digits];
    nans_ += all[at + digits + 1];
  }
  carry();
}

float ExactSquares::root() const {
  if (nans_ > 0) return std::numeric_limits<float>::quiet_NaN();
  if (infinities_ > 0) return std::numeric_limits<float>::infinity();
  double sum = 0;
  for (size_t i = digits; i-- > 0;) sum += std::ldexp(static_cast<double>(digits_[i]), static_cast<int>(32 * i) - 298);
  const double root = std::sqrt(sum);
  return root > std::numeric_limits<float>::max() ? std::numeric_limits<float>::infinity() : static_cast<float>(root);
}

}  // namespace heddle::train
