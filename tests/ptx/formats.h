// Numbers of 16 bits and tf32.
//
// Purpose: their values as doubles (exact), and doubles rounded to them once. Thread safety: pure.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace heddle::ptx {

enum class Rounding : uint8_t { nearest_even, zero, down, up, nearest_away };

// A format with a sign, `mantissa` bits and an exponent whose smallest normal value is 2^lowest.
template <int Mantissa, int Lowest, int Highest>
struct Format {
  static constexpr uint32_t infinity = static_cast<uint32_t>(Highest - Lowest + 2) << Mantissa;
  static constexpr uint32_t sign = infinity + (1u << Mantissa);

  static double value(uint32_t bits) {
    const uint32_t magnitude = bits & (sign - 1);
    const uint32_t exponent = magnitude >> Mantissa, fraction = magnitude & ((1u << Mantissa) - 1);
    double v;
    if (magnitude >= infinity)
      v = magnitude == infinity ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    else if (exponent == 0)
      v = fraction * power(Lowest - Mantissa);
    else
      v = (fraction + (1u << Mantissa)) * power(static_cast<int>(exponent) - 1 + Lowest - Mantissa);
    return bits & sign ? -v : v;
  }

  static uint32_t round(double v, Rounding how = Rounding::nearest_even) {
    if (std::isnan(v)) return sign - 1;
    const bool negative = std::signbit(v);
    const uint32_t top = negative ? sign : 0u;
    const double magnitude = std::fabs(v);
    if (magnitude == 0) return top;
    if (std::isinf(v)) return top | infinity;
    const int exponent = std::max(exponent_of(magnitude), Lowest);
    if (exponent > Highest + 1) return top | overflow(negative, how);
    const double steps = magnitude * power(Mantissa - exponent), whole = std::floor(steps), rest = steps - whole;
    auto kept = static_cast<uint32_t>(whole);
    if (away(rest, kept, negative, how)) ++kept;
    const uint32_t bits = (static_cast<uint32_t>(exponent - Lowest) << Mantissa) + kept;
    return top | (bits >= infinity ? overflow(negative, how) : bits);
  }

 private:
  static double power(int exponent) {  // of 2, where it is a normal double
    return std::bit_cast<double>(static_cast<uint64_t>(exponent + 1023) << 52);
  }
  static int exponent_of(double magnitude) {
    const auto field = static_cast<int>(std::bit_cast<uint64_t>(magnitude) >> 52);
    return field == 0 ? -1023 : field - 1023;
  }
  static bool away(double rest, uint32_t kept, bool negative, Rounding how) {
    switch (how) {
      case Rounding::nearest_even:
        return rest > 0.5 || (rest == 0.5 && (kept & 1));
      case Rounding::nearest_away:
        return rest >= 0.5;
      case Rounding::down:
        return negative && rest > 0;
      case Rounding::up:
        return !negative && rest > 0;
      default:
        return false;
    }
  }
  static uint32_t overflow(bool negative, Rounding how) {
    const bool stays =
        how == Rounding::zero || (how == Rounding::down && !negative) || (how == Rounding::up && negative);
    return stays ? infinity - 1 : infinity;
  }
};

using F16 = Format<10, -14, 15>;
using Bf16 = Format<7, -126, 127>;
using Tf32 = Format<10, -126, 127>;

// a * b + c, rounded to odd where a double does not hold it: rounding that to 11 bits or fewer rounds once. The product
// must be exact in a double.
inline double fused_to_odd(double a, double b, double c) {
  const double product = a * b, sum = product + c;
  if (!std::isfinite(sum)) return sum;
  const double part = sum - product, error = (product - (sum - part)) + (c - part);
  const auto bits = std::bit_cast<uint64_t>(sum);
  if (error == 0 || (bits & 1)) return sum;
  const bool outwards = (error > 0) == (sum > 0);
  return std::bit_cast<double>(outwards ? bits + 1 : bits - 1);
}

}  // namespace heddle::ptx
