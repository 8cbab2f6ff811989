// Conversions between types.
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// ---- cvt ----

// A float to the next integral value.
template <int Mode>  // a Rounding
struct Integral {
  template <class T>
  T operator()(T a) const {
    switch (static_cast<Rounding>(Mode)) {
      case Rounding::zero:
        return std::trunc(a);
      case Rounding::down:
        return std::floor(a);
      case Rounding::up:
        return std::ceil(a);
      default:
        return std::nearbyint(a);
    }
  }
};
// To an integer's range; NaN gives 0, and 2^(width - 1) where one of both types has 64 bits.
template <class D, int Mode>
struct ToInteger {
  template <class T>
  D operator()(T a) const {
    if (a != a) return sizeof(T) == 8 || sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << (8 * sizeof(D) - 1)) : D{0};
    const T v = Integral<Mode>()(a);
    constexpr int digits = std::numeric_limits<D>::digits;
    const T end = std::ldexp(T{1}, digits), least = std::is_signed_v<D> ? -end : T{0};
    if (v >= end) return std::numeric_limits<D>::max();
    if (v < least) return std::numeric_limits<D>::min();
    return static_cast<D>(v);
  }
};
template <class D>
struct ToFloat {
  template <class T>
  D operator()(T a) const {
    return static_cast<D>(a);
  }
};
template <class D>
struct Clamped {
  template <class T>
  D operator()(T a) const {
    const auto wide = static_cast<long double>(a);  // every integer of 64 bits
    if (wide < static_cast<long double>(std::numeric_limits<D>::min())) return std::numeric_limits<D>::min();
    if (wide > static_cast<long double>(std::numeric_limits<D>::max())) return std::numeric_limits<D>::max();
    return static_cast<D>(a);
  }
};
template <class Numbers>
struct FromNarrow {
  template <class T>
  double operator()(T a) const {
    return Numbers::value(static_cast<uint32_t>(a) & 0xffffu);
  }
};
template <class Numbers, int Mode>
struct ToNarrow {
  template <class T>
  uint32_t operator()(T a) const {
    return Numbers::round(static_cast<double>(a), static_cast<Rounding>(Mode));
  }
};
template <int Mode>
struct ToTf32 {
  uint32_t operator()(float a) const {
    const uint32_t r = Tf32::round(static_cast<double>(a), static_cast<Rounding>(Mode));
    // Tf32's bits are those of f32 without the last 13.
    return std::isnan(a) ? 0x7fffffffu : r << 13;
  }
};
template <class Numbers, int Mode>
struct ToNarrowPair {
  uint32_t operator()(float high, float low) const {
    return Numbers::round(static_cast<double>(high), static_cast<Rounding>(Mode)) << 16 |
           Numbers::round(static_cast<double>(low), static_cast<Rounding>(Mode));
  }
};

// A value of a type as its register holds it: registers may be wider than integers.
template <class Visit>
Run with_integer(Decoder& d, Type type, const Visit& visit) {
  switch (type) {
    case Type::u8:
    case Type::b8:
      return visit(uint8_t{});
    case Type::s8:
      return visit(int8_t{});
    case Type::u16:
    case Type::b16:
      return visit(uint16_t{});
    case Type::s16:
      return visit(int16_t{});
    case Type::u32:
    case Type::b32:
      return visit(uint32_t{});
    case Type::s32:
      return visit(int32_t{});
    case Type::u64:
    case Type::b64:
      return visit(uint64_t{});
    case Type::s64:
      return visit(int64_t{});
    default:
      d.fail("unknown type");
  }
}
// Reads T out of a register of another width, and writes D, extended, into one.
template <class F, class D, class S>
void convert(Block& b, const Op& op) {
  const auto* s = b.reg<std::byte>(op, 1);
  auto* d = b.reg<std::byte>(op, 0);
  const uint32_t from = op.count & 15u, to = op.count >> 4;
  constexpr int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD, FE_TONEAREST};
  if (op.rounding != 0) std::fesetround(modes[op.rounding]);
  b.active.each([=](uint32_t i) {
    S value;
    std::memcpy(&value, s + size_t{i} * from, sizeof value);
    const D made = static_cast<D>(F()(value));
    if (sizeof made == to) {
      std::memcpy(d + size_t{i} * to, &made, sizeof made);
    } else if constexpr (std::is_integral_v<D>) {
      const auto wide = static_cast<uint64_t>(made);  // with its sign
      std::memcpy(d + size_t{i} * to, &wide, to);
    }
  });
  if (op.rounding != 0) std::fesetround(FE_TONEAREST);
}

// A rounding as a type, so that a template can take it.
template <class Use>
Run with_mode(Rounding mode, const Use& use) {
  switch (mode) {
    case Rounding::zero:
      return use(std::integral_constant<int, 1>());
    case Rounding::down:
      return use(std::integral_constant<int, 2>());
    case Rounding::up:
      return use(std::integral_constant<int, 3>());
    case Rounding::nearest_away:
      return use(std::integral_constant<int, 4>());
    default:
      return use(std::integral_constant<int, 0>());
  }
}

struct Conversion {
  Type to, from;
  Rounding mode = Rounding::nearest_even;
  bool given = false;     // a rounding stands there
  bool integral = false;  // .rni and its like
  bool saturate = false, flush = false;
};

template <class S>
Run float_to_integer(Decoder& d, const Conversion& c) {
  return with_integer(d, c.to, [&](auto sample) -> Run {
    using D = decltype(sample);
    return with_mode(c.mode, [](auto mode) -> Run { return convert<ToInteger<D, decltype(mode)::value>, D, S>; });
  });
}

template <class D>
Run integer_to_float(Decoder& d, const Conversion& c) {
  d.op.rounding = static_cast<uint8_t>(c.mode);
  return with_integer(d, c.from, [](auto sample) -> Run { return convert<ToFloat<D>, D, decltype(sample)>; });
}

Run integer_to_integer(Decoder& d, const Conversion& c) {
  return with_integer(d, c.to, [&](auto to) -> Run {
    return with_integer(d, c.from, [&](auto from) -> Run {
      using D = decltype(to);
      using S = decltype(from);
      return c.saturate ? convert<Clamped<D>, D, S> : convert<Same, D, S>;
    });
  });
}

template <class T>
Run same_float(Decoder& d, const Conversion& c) {
  if (c.integral) {
    if (c.flush || c.saturate) d.fail("an integral value with .ftz or .sat is unknown");
    return with_mode(c.mode, [](auto mode) -> Run { return convert<Integral<decltype(mode)::value>, T, T>; });
  }
  if constexpr (std::is_same_v<T, float>) {
    if (c.flush) return c.saturate ? convert<Saturated<Flushed<Same>>, T, T> : convert<Flushed<Same>, T, T>;
  }
  return c.saturate ? convert<Saturated<Same>, T, T> : convert<Same, T, T>;
}

template <class Numbers, class S>
Run to_narrow(const Conversion& c) {
  return with_mode(c.mode,
                   [](auto mode) -> Run { return convert<ToNarrow<Numbers, decltype(mode)::value>, uint16_t, S>; });
}

Run conversion(Decoder& d, const Conversion& c) {
  const bool from_float = is_float(c.from), to_float = is_float(c.to);
  if (!from_float && !to_float) return integer_to_integer(d, c);
  if (c.saturate && !(c.from == c.to)) d.fail(".sat of this conversion is unknown");
  if (c.from == c.to && c.from == Type::f32) return same_float<float>(d, c);
  if (c.from == c.to && c.from == Type::f64) return same_float<double>(d, c);
  if (!to_float) {
    if (!c.integral) d.fail("a conversion to an integer lacks its rounding");
    if (c.flush && (c.mode == Rounding::down || c.mode == Rounding::up)) d.fail(".ftz with this rounding is unknown");
    if (c.from == Type::f32) return float_to_integer<float>(d, c);
    if (c.from == Type::f64) return float_to_integer<double>(d, c);
    d.fail("this conversion of 16 bits is unknown");
  }
  if (c.integral) d.fail("an integral rounding stands with integers");
  if (!from_float) {
    if (c.to == Type::f32) return integer_to_float<float>(d, c);
    if (c.to == Type::f64) return integer_to_float<double>(d, c);
    if (c.to == Type::f16 && c.mode == Rounding::nearest_even)
      return with_integer(d, c.from, [](auto s) -> Run { return convert<ToNarrow<F16, 0>, uint16_t, decltype(s)>; });
    d.fail("this conversion of integers is unknown");
  }
  if (c.from == Type::f16 && c.to == Type::f32) return convert<FromNarrow<F16>, float, uint16_t>;
  if (c.from == Type::f16 && c.to == Type::f64) return convert<FromNarrow<F16>, double, uint16_t>;
  if (c.from == Type::bf16 && c.to == Type::f32) return convert<FromNarrow<Bf16>, float, uint16_t>;
  if (c.from == Type::bf16 && c.to == Type::f64) return convert<FromNarrow<Bf16>, double, uint16_t>;
  if (c.from == Type::f32 && c.to == Type::f64)
    return c.flush ? convert<Flushed<Same>, double, float> : convert<ToFloat<double>, double, float>;
  if (!c.given) d.fail("the conversion lacks its rounding");
  if (c.from == Type::f64 && c.to == Type::f32) {
    d.op.rounding = static_cast<uint8_t>(c.mode);
    return convert<ToFloat<float>, float, double>;
  }
  if (c.from == Type::f32 && c.to == Type::tf32)
    return with_mode(c.mode, [](auto mode) -> Run { return convert<ToTf32<decltype(mode)::value>, uint32_t, float>; });
  if (c.from == Type::f32 && c.to == Type::f16) return to_narrow<F16, float>(c);
  if (c.from == Type::f32 && c.to == Type::bf16) return to_narrow<Bf16, float>(c);
  if (c.from == Type::f64 && c.to == Type::f16) return to_narrow<F16, double>(c);
  if (c.from == Type::f64 && c.to == Type::bf16) return to_narrow<Bf16, double>(c);
  d.fail("unknown conversion");
}

// cvt.rn.f16x2.f32 d, a, b: a into the upper half
void decode_pair(Decoder& d, const Conversion& c) {
  if (c.from != Type::f32 || c.saturate || c.flush || c.integral || !c.given) d.fail("unknown conversion");
  if (c.mode != Rounding::nearest_even && c.mode != Rounding::zero) d.fail("unknown rounding");
  const bool zero = c.mode == Rounding::zero;
  const Run run = c.to == Type::f16x2 ? (zero ? each_lane<ToNarrowPair<F16, 1>, uint32_t, float, float>
                                              : each_lane<ToNarrowPair<F16, 0>, uint32_t, float, float>)
                                      : (zero ? each_lane<ToNarrowPair<Bf16, 1>, uint32_t, float, float>
                                              : each_lane<ToNarrowPair<Bf16, 0>, uint32_t, float, float>);
  d.emit(run, Type::b32, {Type::f32, Type::f32});
}

void decode_cvt(Decoder& d) {
  Conversion c;
  c.to = d.type();
  c.from = d.type();
  c.saturate = d.take("sat");
  c.flush = d.take("ftz");
  constexpr std::string_view plain[] = {"rn", "rz", "rm", "rp", "rna"}, integral[] = {"rni", "rzi", "rmi", "rpi"};
  for (uint8_t i = 0; i < 5 && !c.given; ++i) {
    c.given = d.take(plain[i]) || (i < 4 && (c.integral = d.take(integral[i])));
    if (c.given) c.mode = static_cast<Rounding>(i);
  }
  if (c.to == Type::f16x2 || c.to == Type::bf16x2) return decode_pair(d, c);
  const Run run = conversion(d, c);
  d.expect_operands(2);
  // A source's register may be wider than its type, an integer's target too.
  const uint32_t to = std::max(bytes_of(c.to), is_float(c.to) ? 0 : d.register_bytes(d.operand(0)));
  const Operand& source = d.operand(1);
  const uint32_t from = source.kind == Operand::Kind::reg ? d.register_bytes(source) : std::max(bytes_of(c.from), 2u);
  if (from < bytes_of(c.from) || to < bytes_of(c.to)) d.fail("a register is narrower than its type");
  d.op.count = static_cast<uint8_t>(from | to << 4);
  d.emit(run, {d.target(d.operand(0), to), d.place(source, from)});
}

}  // namespace

void add_convert(Families& families) { families["cvt"] = decode_cvt; }

}  // namespace heddle::ptx
