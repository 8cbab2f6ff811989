// Integers that are not add and multiply: bits, shifts, fields, permutations, carries.
#include <algorithm>
#include <bit>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

struct And {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a & b);
  }
};
struct Or {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a | b);
  }
};
struct Xor {
  template <class T>
  T operator()(T a, T b) const {
    return static_cast<T>(a ^ b);
  }
};
struct Not {
  template <class T>
  T operator()(T a) const {
    return static_cast<T>(~a);
  }
};
struct NotPredicate {
  uint8_t operator()(uint8_t a) const { return a == 0; }
};
struct IsZero {
  template <class T>
  T operator()(T a) const {
    return a == 0;
  }
};
// Shifts by the width or more give zeros, or copies of the sign.
struct ShiftLeft {
  template <class T>
  T operator()(T a, uint32_t by) const {
    return by >= 8 * sizeof(T) ? T{0} : static_cast<T>(a << by);
  }
};
struct ShiftRight {
  template <class T>
  T operator()(T a, uint32_t by) const {
    if (by >= 8 * sizeof(T)) return a < T{0} ? static_cast<T>(-1) : T{0};
    return static_cast<T>(a >> by);
  }
};

template <class F>
Run bitwise(Decoder& d, Type type) {
  switch (bytes_of(type)) {
    case 1:
      return each_lane<F, uint8_t, uint8_t, uint8_t>;
    case 2:
      return each_lane<F, uint16_t, uint16_t, uint16_t>;
    case 4:
      return each_lane<F, uint32_t, uint32_t, uint32_t>;
    case 8:
      return each_lane<F, uint64_t, uint64_t, uint64_t>;
    default:
      d.fail("unknown type");
  }
}

template <class F>
void decode_bitwise(Decoder& d) {
  const Type type = d.type();
  d.emit(bitwise<F>(d, type), type, {type, type});
}

template <class F>
Run unary(Decoder& d, Type type) {
  switch (bytes_of(type)) {
    case 2:
      return each_lane<F, uint16_t, uint16_t>;
    case 4:
      return each_lane<F, uint32_t, uint32_t>;
    case 8:
      return each_lane<F, uint64_t, uint64_t>;
    default:
      d.fail("unknown type");
  }
}

void decode_not(Decoder& d) {
  const Type type = d.type();
  d.emit(type == Type::pred ? each_lane<NotPredicate, uint8_t, uint8_t> : unary<Not>(d, type), type, {type});
}

void decode_cnot(Decoder& d) {
  const Type type = d.type();
  d.emit(unary<IsZero>(d, type), type, {type});
}

void decode_shl(Decoder& d) {
  const Type type = d.type();
  const Run run = bytes_of(type) == 2   ? each_lane<ShiftLeft, uint16_t, uint16_t, uint32_t>
                  : bytes_of(type) == 4 ? each_lane<ShiftLeft, uint32_t, uint32_t, uint32_t>
                                        : each_lane<ShiftLeft, uint64_t, uint64_t, uint32_t>;
  d.emit(run, type, {type, Type::u32});
}

void decode_shr(Decoder& d) {
  const Type type = d.type();
  Run run = nullptr;
  if (is_signed(type)) {
    run = bytes_of(type) == 2   ? each_lane<ShiftRight, int16_t, int16_t, uint32_t>
          : bytes_of(type) == 4 ? each_lane<ShiftRight, int32_t, int32_t, uint32_t>
                                : each_lane<ShiftRight, int64_t, int64_t, uint32_t>;
  } else {
    run = bytes_of(type) == 2   ? each_lane<ShiftRight, uint16_t, uint16_t, uint32_t>
          : bytes_of(type) == 4 ? each_lane<ShiftRight, uint32_t, uint32_t, uint32_t>
                                : each_lane<ShiftRight, uint64_t, uint64_t, uint32_t>;
  }
  d.emit(run, type, {type, Type::u32});
}

// shf: 64 bits b:a, shifted; the upper (left) or lower (right) half.
template <bool Left, bool Wrap>
struct Funnel {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint32_t by = Wrap ? c & 31 : std::min(c, 32u);
    const uint64_t both = uint64_t{b} << 32 | a;
    return static_cast<uint32_t>(Left ? both << by >> 32 : both >> by);
  }
};

void decode_shf(Decoder& d) {
  const bool left = d.take("l"), right = d.take("r"), wrap = d.take("wrap"), clamp = d.take("clamp");
  if (left == right || wrap == clamp) d.fail("shf has a direction, and .wrap or .clamp");
  const Type type = d.type();
  if (type != Type::b32) d.fail("shf has the type b32");
  const Run run = left ? (wrap ? each_lane<Funnel<true, true>, uint32_t, uint32_t, uint32_t, uint32_t>
                               : each_lane<Funnel<true, false>, uint32_t, uint32_t, uint32_t, uint32_t>)
                       : (wrap ? each_lane<Funnel<false, true>, uint32_t, uint32_t, uint32_t, uint32_t>
                               : each_lane<Funnel<false, false>, uint32_t, uint32_t, uint32_t, uint32_t>);
  d.emit(run, type, {type, type, type});
}

// ---- fields ----

struct Extract {
  template <class T>
  T operator()(T a, uint32_t at, uint32_t length) const {
    constexpr uint32_t width = 8 * sizeof(T);
    at &= 0xff, length &= 0xff;
    using U = std::make_unsigned_t<T>;
    const auto u = static_cast<U>(a);
    const uint32_t last = std::min(at + length - 1, width - 1);
    const bool sign = std::is_signed_v<T> && length != 0 && (u >> last & 1);
    U field = at >= width ? U{0} : static_cast<U>(u >> at);
    const uint32_t kept = at >= width ? 0 : std::min(length, width - at);
    if (kept < width) field &= static_cast<U>((U{1} << kept) - 1);
    if (sign && kept < width) field |= static_cast<U>(~U{0} << kept);
    return static_cast<T>(length == 0 ? U{0} : field);
  }
};

void decode_bfe(Decoder& d) {
  const Type type = d.type();
  Run run = nullptr;
  switch (type) {
    case Type::u32:
      run = each_lane<Extract, uint32_t, uint32_t, uint32_t, uint32_t>;
      break;
    case Type::s32:
      run = each_lane<Extract, int32_t, int32_t, uint32_t, uint32_t>;
      break;
    case Type::u64:
      run = each_lane<Extract, uint64_t, uint64_t, uint32_t, uint32_t>;
      break;
    case Type::s64:
      run = each_lane<Extract, int64_t, int64_t, uint32_t, uint32_t>;
      break;
    default:
      d.fail("unknown type");
  }
  d.emit(run, type, {type, Type::u32, Type::u32});
}

// Puts `length` bits of a into b at `at`.
struct Insert {
  template <class T>
  T operator()(T a, T b, uint32_t at, uint32_t length) const {
    constexpr uint32_t width = 8 * sizeof(T);
    at &= 0xff, length &= 0xff;
    if (at >= width || length == 0) return b;
    const T ones = length >= width ? static_cast<T>(~T{0}) : static_cast<T>((T{1} << length) - 1);
    const T mask = static_cast<T>(ones << at);
    return static_cast<T>((b & ~mask) | (static_cast<T>(a << at) & mask));
  }
};

void decode_bfi(Decoder& d) {
  const Type type = d.type();
  const Run run = type == Type::b32 ? each_lane<Insert, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>
                                    : each_lane<Insert, uint64_t, uint64_t, uint64_t, uint32_t, uint32_t>;
  if (type != Type::b32 && type != Type::b64) d.fail("unknown type");
  d.emit(run, type, {type, type, Type::u32, Type::u32});
}

// ---- counts ----

struct Ones {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::popcount(a));
  }
};
struct LeadingZeros {
  template <class T>
  uint32_t operator()(T a) const {
    return static_cast<uint32_t>(std::countl_zero(a));
  }
};
// The highest bit that is no copy of the sign.
template <bool Signed>
struct HighestBit {
  template <class T>
  uint32_t operator()(T a) const {
    if (Signed && a >> (8 * sizeof(T) - 1)) a = static_cast<T>(~a);
    return a == 0 ? 0xffffffffu : static_cast<uint32_t>(8 * sizeof(T)) - 1 - static_cast<uint32_t>(std::countl_zero(a));
  }
};
struct Reversed {
  template <class T>
  T operator()(T a) const {
    T r = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i) r = static_cast<T>(r << 1 | (a >> i & 1));
    return r;
  }
};

template <class F>
void decode_count(Decoder& d) {
  const Type type = d.type();
  if (bytes_of(type) < 4) d.fail("unknown type");
  d.emit(bytes_of(type) == 4 ? each_lane<F, uint32_t, uint32_t> : each_lane<F, uint32_t, uint64_t>, Type::u32, {type});
}

void decode_bfind(Decoder& d) {
  if (d.take("shiftamt")) d.fail("bfind.shiftamt is unknown");
  const Type type = d.type();
  if (bytes_of(type) < 4) d.fail("unknown type");
  const bool wide = bytes_of(type) == 8;
  const Run run =
      is_signed(type)
          ? (wide ? each_lane<HighestBit<true>, uint32_t, uint64_t> : each_lane<HighestBit<true>, uint32_t, uint32_t>)
          : (wide ? each_lane<HighestBit<false>, uint32_t, uint64_t>
                  : each_lane<HighestBit<false>, uint32_t, uint32_t>);
  d.emit(run, Type::u32, {type});
}

void decode_brev(Decoder& d) {
  const Type type = d.type();
  d.emit(unary<Reversed>(d, type), type, {type});
}

// ---- bytes ----

// Four of the eight bytes of b:a; bit 3 of a selector copies the byte's sign.
struct Permute {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    const uint64_t both = uint64_t{b} << 32 | a;
    uint32_t r = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t selector = c >> (4 * i) & 15;
      auto byte = static_cast<uint32_t>(both >> (8 * (selector & 7)) & 0xff);
      if (selector & 8) byte = byte & 0x80 ? 0xff : 0;
      r |= byte << (8 * i);
    }
    return r;
  }
};

void decode_prmt(Decoder& d) {
  d.emit(each_lane<Permute, uint32_t, uint32_t, uint32_t, uint32_t>, d.type(), {Type::b32, Type::b32, Type::b32});
}

// Any function of three bits, by its table.
struct Lookup {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c, uint32_t table) const {
    uint32_t r = 0;
    for (uint32_t i = 0; i < 8; ++i) {
      if (table >> i & 1) r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
    return r;
  }
};

void decode_lop3(Decoder& d) {
  d.emit(each_lane<Lookup, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t>, d.type(),
         {Type::b32, Type::b32, Type::b32, Type::b32});
}

// c + the sum of four products of bytes.
template <class A, class B>
struct Dot4 {
  uint32_t operator()(uint32_t a, uint32_t b, uint32_t c) const {
    for (uint32_t i = 0; i < 4; ++i) {
      const auto x = static_cast<A>(a >> 8 * i);
      const auto y = static_cast<B>(b >> 8 * i);
      c += static_cast<uint32_t>(int32_t{x} * int32_t{y});
    }
    return c;
  }
};

void decode_dp4a(Decoder& d) {
  const bool a = is_signed(d.type()), b = is_signed(d.type());
  const Run run = a ? (b ? each_lane<Dot4<int8_t, int8_t>, uint32_t, uint32_t, uint32_t, uint32_t>
                         : each_lane<Dot4<int8_t, uint8_t>, uint32_t, uint32_t, uint32_t, uint32_t>)
                    : (b ? each_lane<Dot4<uint8_t, int8_t>, uint32_t, uint32_t, uint32_t, uint32_t>
                         : each_lane<Dot4<uint8_t, uint8_t>, uint32_t, uint32_t, uint32_t, uint32_t>);
  d.emit(run, Type::b32, {Type::b32, Type::b32, Type::b32});
}

}  // namespace

void add_integer(Families& families) {
  families["and"] = decode_bitwise<And>;
  families["or"] = decode_bitwise<Or>;
  families["xor"] = decode_bitwise<Xor>;
  families["not"] = decode_not;
  families["cnot"] = decode_cnot;
  families["shl"] = decode_shl;
  families["shr"] = decode_shr;
  families["shf"] = decode_shf;
  families["bfe"] = decode_bfe;
  families["bfi"] = decode_bfi;
  families["popc"] = decode_count<Ones>;
  families["clz"] = decode_count<LeadingZeros>;
  families["bfind"] = decode_bfind;
  families["brev"] = decode_brev;
  families["prmt"] = decode_prmt;
  families["lop3"] = decode_lop3;
  families["dp4a"] = decode_dp4a;
}

}  // namespace heddle::ptx
