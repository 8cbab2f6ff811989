// Add, subtract, multiply, divide, minimum and maximum, of integers and of floating-point numbers.
#include <algorithm>
#include <type_traits>

#include "tests/ptx/arithmetic.h"
#include "tests/ptx/carries.h"
#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// ---- by type ----

template <class F>
Run of_integers(Decoder& d, Type type) {
  switch (type) {
    case Type::u16:
    case Type::b16:
      return each_lane<F, uint16_t, uint16_t, uint16_t>;
    case Type::s16:
      return each_lane<F, int16_t, int16_t, int16_t>;
    case Type::u32:
    case Type::b32:
      return each_lane<F, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return each_lane<F, int32_t, int32_t, int32_t>;
    case Type::u64:
    case Type::b64:
      return each_lane<F, uint64_t, uint64_t, uint64_t>;
    case Type::s64:
      return each_lane<F, int64_t, int64_t, int64_t>;
    default:
      d.fail("unknown type");
  }
}

template <class F, class T, class... S>
Run changed(Decoder& d, bool flush, bool saturate) {
  if (!flush && !saturate) return each_lane_rounded<F, T, S...>;
  if (!std::is_same_v<T, float>) d.fail(".ftz and .sat stand with f32");
  if (flush && saturate) return each_lane_rounded<Saturated<Flushed<F>>, T, S...>;
  return flush ? each_lane_rounded<Flushed<F>, T, S...> : each_lane_rounded<Saturated<F>, T, S...>;
}

// f32 and f64 with the processor's rounding.
template <class F>
Run of_floats(Decoder& d, Type type, bool three) {
  const bool flush = d.take("ftz"), saturate = d.take("sat");
  d.op.rounding = static_cast<uint8_t>(d.rounding());
  if (type == Type::f32) {
    if constexpr (std::is_invocable_v<F, float, float, float>) {
      if (three) return changed<F, float, float, float, float>(d, flush, saturate);
    }
    if constexpr (std::is_invocable_v<F, float, float>) return changed<F, float, float, float>(d, flush, saturate);
  }
  if (type == Type::f64) {
    if constexpr (std::is_invocable_v<F, double, double, double>) {
      if (three) return changed<F, double, double, double, double>(d, flush, saturate);
    }
    if constexpr (std::is_invocable_v<F, double, double>) return changed<F, double, double, double>(d, flush, saturate);
  }
  d.fail("unknown type");
}

template <class F>
Run of_narrow(Decoder& d, Type type, bool three) {
  if (d.take("ftz") || d.take("sat")) d.fail(".ftz and .sat of 16 bits are unknown");
  d.take("rn");
  if constexpr (std::is_invocable_v<F, double, double, double>) {
    if (!three) d.fail("three operands are expected");
    switch (type) {
      case Type::f16:
        return each_lane<Narrow<F16, F>, uint16_t, uint16_t, uint16_t, uint16_t>;
      case Type::bf16:
        return each_lane<Narrow<Bf16, F>, uint16_t, uint16_t, uint16_t, uint16_t>;
      case Type::f16x2:
        return each_lane<NarrowPair<F16, F>, uint32_t, uint32_t, uint32_t, uint32_t>;
      default:
        return each_lane<NarrowPair<Bf16, F>, uint32_t, uint32_t, uint32_t, uint32_t>;
    }
  } else if constexpr (std::is_invocable_v<F, double, double>) {
    switch (type) {
      case Type::f16:
        return each_lane<Narrow<F16, F>, uint16_t, uint16_t, uint16_t>;
      case Type::bf16:
        return each_lane<Narrow<Bf16, F>, uint16_t, uint16_t, uint16_t>;
      case Type::f16x2:
        return each_lane<NarrowPair<F16, F>, uint32_t, uint32_t, uint32_t>;
      default:
        return each_lane<NarrowPair<Bf16, F>, uint32_t, uint32_t, uint32_t>;
    }
  } else {
    switch (type) {
      case Type::f16:
        return each_lane<Narrow<F16, F>, uint16_t, uint16_t>;
      case Type::bf16:
        return each_lane<Narrow<Bf16, F>, uint16_t, uint16_t>;
      case Type::f16x2:
        return each_lane<NarrowPair<F16, F>, uint32_t, uint32_t>;
      default:
        return each_lane<NarrowPair<Bf16, F>, uint32_t, uint32_t>;
    }
  }
}

// ---- families ----

template <class F, Sum What>
void decode_sum(Decoder& d) {
  if (d.take("cc")) return decode_carry<What>(d, false, true);
  const Type type = d.type();
  Run run = nullptr;
  if (is_narrow(type))
    run = of_narrow<F>(d, type, false);
  else if (is_float(type))
    run = of_floats<F>(d, type, false);
  else
    run = of_integers<F>(d, type);
  d.emit(run, type, {type, type});
}

template <Sum What>
void decode_sum_with_carry(Decoder& d) {
  decode_carry<What>(d, true, d.take("cc"));
}

Type doubled(Decoder& d, Type type) {
  switch (type) {
    case Type::u16:
      return Type::u32;
    case Type::s16:
      return Type::s32;
    case Type::u32:
      return Type::u64;
    case Type::s32:
      return Type::s64;
    default:
      d.fail(".wide stands with integers of 16 and 32 bits");
  }
}

void decode_mul(Decoder& d) {
  const bool wide = d.take("wide"), high = d.take("hi"), low = d.take("lo");
  const Type type = d.type();
  if (is_float(type)) {
    const Run run = is_narrow(type) ? of_narrow<Multiply>(d, type, false) : of_floats<Multiply>(d, type, false);
    return d.emit(run, type, {type, type});
  }
  if (wide + high + low != 1) d.fail("mul of integers is .lo, .hi or .wide");
  if (!wide)
    return d.emit(high ? of_integers<MultiplyHigh>(d, type) : of_integers<Multiply>(d, type), type, {type, type});
  const Type to = doubled(d, type);
  const Run run = type == Type::u16   ? each_lane<MultiplyWide<uint32_t>, uint32_t, uint16_t, uint16_t>
                  : type == Type::s16 ? each_lane<MultiplyWide<int32_t>, int32_t, int16_t, int16_t>
                  : type == Type::u32 ? each_lane<MultiplyWide<uint64_t>, uint64_t, uint32_t, uint32_t>
                                      : each_lane<MultiplyWide<int64_t>, int64_t, int32_t, int32_t>;
  d.emit(run, to, {type, type});
}

template <class F>
Run of_three_integers(Decoder& d, Type type) {
  switch (type) {
    case Type::u16:
      return each_lane<F, uint16_t, uint16_t, uint16_t, uint16_t>;
    case Type::s16:
      return each_lane<F, int16_t, int16_t, int16_t, int16_t>;
    case Type::u32:
      return each_lane<F, uint32_t, uint32_t, uint32_t, uint32_t>;
    case Type::s32:
      return each_lane<F, int32_t, int32_t, int32_t, int32_t>;
    case Type::u64:
      return each_lane<F, uint64_t, uint64_t, uint64_t, uint64_t>;
    case Type::s64:
      return each_lane<F, int64_t, int64_t, int64_t, int64_t>;
    default:
      d.fail("unknown type");
  }
}

// Most of a product's instructions. Where the compiler must not assume that the processor has the instruction, a * b +
// c rounded once is a call of the C library for each lane; a copy of the loop that may assume it gives the same bits.
#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("avx2,fma"))) void fuse_dense(uint32_t count, float* d, const float* a, const float* b,
                                                    const float* c) {
#ifndef __clang__
#pragma GCC ivdep
#endif
  for (uint32_t i = 0; i < count; ++i) d[i] = __builtin_fmaf(a[i], b[i], c[i]);
}

void fuse_f32(Block& b, const Op& op) {
  const Active& lanes = b.active;
  if (!lanes.dense || op.rounding != 0) return each_lane_rounded<MultiplyAdd, float, float, float, float>(b, op);
  const uint32_t first = lanes.list[0];
  fuse_dense(lanes.count, b.reg<float>(op, 0) + first, b.reg<float>(op, 1) + first, b.reg<float>(op, 2) + first,
             b.reg<float>(op, 3) + first);
}

Run with_instruction(Run run) {
  const bool here = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx2");
  return here && run == each_lane_rounded<MultiplyAdd, float, float, float, float> ? fuse_f32 : run;
}
#else
Run with_instruction(Run run) { return run; }
#endif

void decode_fma(Decoder& d) {
  const bool relu = d.take("relu");
  const Type type = d.type();
  if (!is_float(type)) d.fail("unknown type");
  if (relu && !is_narrow(type)) d.fail(".relu stands with 16 bits");
  Run run = nullptr;
  if (is_narrow(type))
    run = relu ? of_narrow<FusedNarrowRelu>(d, type, true) : of_narrow<FusedNarrow>(d, type, true);
  else
    run = with_instruction(of_floats<MultiplyAdd>(d, type, true));
  d.emit(run, type, {type, type, type});
}

void decode_mad_with_carry(Decoder& d) {
  const bool high = d.take("hi");
  if (!high && !d.take("lo")) d.fail("madc is .lo or .hi");
  const bool out = d.take("cc");
  high ? decode_carry<Sum::mad_high>(d, true, out) : decode_carry<Sum::mad_low>(d, true, out);
}

void decode_mad(Decoder& d) {
  const bool wide = d.take("wide"), high = d.take("hi"), low = d.take("lo");
  if (wide + high + low == 0) return decode_fma(d);
  if (d.take("cc")) {
    if (wide) d.fail("a product of twice the width has no carry");
    return high ? decode_carry<Sum::mad_high>(d, false, true) : decode_carry<Sum::mad_low>(d, false, true);
  }
  const Type type = d.type();
  if (!wide)
    return d.emit(high ? of_three_integers<MultiplyAddHigh>(d, type) : of_three_integers<MultiplyAdd>(d, type), type,
                  {type, type, type});
  const Type to = doubled(d, type);
  const Run run = type == Type::u16   ? each_lane<MultiplyAddWide<uint32_t>, uint32_t, uint16_t, uint16_t, uint32_t>
                  : type == Type::s16 ? each_lane<MultiplyAddWide<int32_t>, int32_t, int16_t, int16_t, int32_t>
                  : type == Type::u32 ? each_lane<MultiplyAddWide<uint64_t>, uint64_t, uint32_t, uint32_t, uint64_t>
                                      : each_lane<MultiplyAddWide<int64_t>, int64_t, int32_t, int32_t, int64_t>;
  d.emit(run, to, {type, type, to});
}

void decode_div(Decoder& d) {
  const Type type = d.type();
  // .full and .approx are within 2 units in the last place of the device; the exact quotient is one of those.
  d.take("full");
  d.take("approx");
  if (is_narrow(type)) d.fail("unknown type");
  d.emit(is_float(type) ? of_floats<Divide>(d, type, false) : of_integers<Divide>(d, type), type, {type, type});
}

void decode_rem(Decoder& d) {
  const Type type = d.type();
  d.emit(of_integers<Remainder>(d, type), type, {type, type});
}

template <class F>
Run of_one(Decoder& d, Type type) {
  if (is_narrow(type)) return of_narrow<F>(d, type, false);
  if (type == Type::f32) return d.take("ftz") ? each_lane<Flushed<F>, float, float> : each_lane<F, float, float>;
  switch (type) {
    case Type::f64:
      return each_lane<F, double, double>;
    case Type::s16:
      return each_lane<F, int16_t, int16_t>;
    case Type::s32:
      return each_lane<F, int32_t, int32_t>;
    case Type::s64:
      return each_lane<F, int64_t, int64_t>;
    default:
      d.fail("unknown type");
  }
}

template <class F>
void decode_one(Decoder& d) {
  const Type type = d.type();
  d.emit(of_one<F>(d, type), type, {type});
}

template <bool Largest>
void decode_extreme(Decoder& d) {
  const bool nan = d.take("NaN");
  const Type type = d.type();
  Run run = nullptr;
  if (is_narrow(type))
    run = nan ? of_narrow<Extreme<Largest, true>>(d, type, false) : of_narrow<Extreme<Largest, false>>(d, type, false);
  else if (is_float(type))
    run = nan ? of_floats<Extreme<Largest, true>>(d, type, false) : of_floats<Extreme<Largest, false>>(d, type, false);
  else
    run = of_integers<Extreme<Largest, false>>(d, type);
  d.emit(run, type, {type, type});
}

void decode_copysign(Decoder& d) {
  const Type type = d.type();
  d.emit(of_floats<CopySign>(d, type, false), type, {type, type});
}

}  // namespace

void add_arithmetic(Families& families) {
  families["add"] = decode_sum<Add, Sum::add>;
  families["sub"] = decode_sum<Subtract, Sum::subtract>;
  families["addc"] = decode_sum_with_carry<Sum::add>;
  families["subc"] = decode_sum_with_carry<Sum::subtract>;
  families["mul"] = decode_mul;
  families["mad"] = decode_mad;
  families["madc"] = decode_mad_with_carry;
  families["fma"] = decode_fma;
  families["div"] = decode_div;
  families["rem"] = decode_rem;
  families["abs"] = decode_one<Absolute>;
  families["neg"] = decode_one<Negate>;
  families["copysign"] = decode_copysign;
  families["min"] = decode_extreme<false>;
  families["max"] = decode_extreme<true>;
}

}  // namespace heddle::ptx
