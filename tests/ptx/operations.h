// An operation on values as an operation on all active lanes.
//
// Purpose: `each_lane<F, D, S...>` is the Run of d = F()(a, b, ...), with the loop over lanes around it; wrappers
// change F: rounding, saturation, subnormal numbers to zero. Thread safety: as Block.
#pragma once

#include <cfenv>
#include <cmath>
#include <utility>

#include "tests/ptx/block.h"
#include "tests/ptx/decoder.h"

namespace heddle::ptx {

template <class F, class D, class... S>
void over_lanes(const Active& active, D* d, const S*... s) {
  active.each([=](uint32_t i) { d[i] = static_cast<D>(F()(s[i]...)); });
}

template <class F, class D, class... S, size_t... I>
void each_lane_of(Block& b, const Op& op, std::index_sequence<I...>) {
  over_lanes<F>(b.active, b.reg<D>(op, 0), static_cast<const S*>(b.reg<S>(op, static_cast<int>(I) + 1))...);
}

template <class F, class D, class... S>
void each_lane(Block& b, const Op& op) {
  each_lane_of<F, D, S...>(b, op, std::index_sequence_for<S...>());
}

// With the processor's rounding as the instruction says.
template <class F, class D, class... S>
void each_lane_rounded(Block& b, const Op& op) {
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  if (op.rounding != 0) std::fesetround(modes[op.rounding]);
  each_lane<F, D, S...>(b, op);
  if (op.rounding != 0) std::fesetround(FE_TONEAREST);
}

// The value as it is.
struct Same {
  template <class T>
  T operator()(T a) const {
    return a;
  }
};

// Subnormal operands and results become zeros of their sign.
template <class F>
struct Flushed {
  static float flush(float x) { return std::fabs(x) < 0x1p-126f ? std::copysign(0.0f, x) : x; }
  static double flush(double x) { return x; }
  template <class... S>
  auto operator()(S... s) const {
    return flush(F()(flush(s)...));
  }
};

// Into [0, 1]; NaN becomes 0.
template <class F>
struct Saturated {
  template <class... S>
  auto operator()(S... s) const {
    const auto v = F()(s...);
    using T = decltype(v);
    return v > 0 ? (v < 1 ? v : T{1}) : T{0};
  }
};

// F on values of 16 bits, each held exactly in a double, rounded once.
template <class Numbers, class F>
struct Narrow {
  template <class... S>
  uint16_t operator()(S... s) const {
    return static_cast<uint16_t>(Numbers::round(F()(Numbers::value(s)...)));
  }
};
// The same on both halves of a word.
template <class Numbers, class F>
struct NarrowPair {
  template <class... S>
  uint32_t operator()(S... s) const {
    const uint32_t low = Numbers::round(F()(Numbers::value(s & 0xffffu)...));
    const uint32_t high = Numbers::round(F()(Numbers::value(s >> 16)...));
    return low | high << 16;
  }
};

}  // namespace heddle::ptx
