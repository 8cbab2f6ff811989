// Arithmetic on values, as each_lane takes it.
//
// Purpose: part of arithmetic_operations.cpp. Thread safety: pure.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tests/ptx/formats.h"

namespace heddle::ptx {

__extension__ typedef __int128 Signed128;
__extension__ typedef unsigned __int128 Unsigned128;

// Integers wrap around, those of 16 bits without meeting int.
struct Add {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) + uint64_t(b));
    else
      return a + b;
  }
};
struct Subtract {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) - uint64_t(b));
    else
      return a - b;
  }
};
struct Multiply {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) * uint64_t(b));
    else
      return a * b;
  }
};
struct MultiplyHigh {
  template <class T>
  T operator()(T a, T b) const {
    using W = std::conditional_t<std::is_signed_v<T>, Signed128, Unsigned128>;
    return static_cast<T>(W(a) * W(b) >> (8 * sizeof(T)));
  }
};
// Into twice the width.
template <class W>
struct MultiplyWide {
  template <class T>
  W operator()(T a, T b) const {
    return static_cast<W>(uint64_t(W(a)) * uint64_t(W(b)));
  }
};
template <class W>
struct MultiplyAddWide {
  template <class T>
  W operator()(T a, T b, W c) const {
    return static_cast<W>(uint64_t(W(a)) * uint64_t(W(b)) + uint64_t(c));
  }
};
struct MultiplyAdd {
  template <class T>
  T operator()(T a, T b, T c) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(uint64_t(a) * uint64_t(b) + uint64_t(c));
    else
      return std::fma(a, b, c);
  }
};
struct MultiplyAddHigh {
  template <class T>
  T operator()(T a, T b, T c) const {
    return Add()(MultiplyHigh()(a, b), c);
  }
};
struct FusedNarrow {
  double operator()(double a, double b, double c) const { return fused_to_odd(a, b, c); }
};
struct FusedNarrowRelu {
  double operator()(double a, double b, double c) const {
    const double v = fused_to_odd(a, b, c);
    return v > 0 || std::isnan(v) ? v : 0.0;
  }
};
// A division by zero gives ones, as the hardware does; the overflow of the lowest number wraps.
struct Divide {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>) {
      if (b == T{0}) return static_cast<T>(~T{0});
      if (std::is_signed_v<T> && b == static_cast<T>(-1)) return static_cast<T>(0 - uint64_t(a));
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }
};
struct Remainder {
  template <class T>
  T operator()(T a, T b) const {
    if (b == T{0}) return a;
    if (std::is_signed_v<T> && b == static_cast<T>(-1)) return T{0};
    return static_cast<T>(a % b);
  }
};
struct Absolute {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>)
      return a < T{0} ? static_cast<T>(0 - uint64_t(a)) : a;
    else
      return std::fabs(a);
  }
};
struct Negate {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(0 - uint64_t(a));
    else
      return -a;
  }
};
// Of floating-point numbers the one that is a number; -0 is below +0. With `KeepNan` NaN wins.
template <bool Largest, bool KeepNan>
struct Extreme {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (a != a || b != b) {
        if (KeepNan || (a != a && b != b)) return std::numeric_limits<T>::quiet_NaN();
        return a != a ? b : a;
      }
      if (a == b) return std::signbit(a) == Largest ? b : a;
    }
    return (a < b) == Largest ? b : a;
  }
};

// The sign of a, the magnitude of b.
struct CopySign {
  template <class T>
  T operator()(T a, T b) const {
    return std::copysign(b, a);
  }
};

}  // namespace heddle::ptx
