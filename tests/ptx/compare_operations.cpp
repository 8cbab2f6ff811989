// Comparisons and selections.
#include <type_traits>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// Comparisons with NaN are false, those whose name ends in u true.
template <class T>
bool nan(T a, T b) {
  return a != a || b != b;
}
struct Equal {
  template <class T>
  bool operator()(T a, T b) const {
    return a == b;
  }
};
struct NotEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return !nan(a, b) && a != b;
  }
};
struct Less {
  template <class T>
  bool operator()(T a, T b) const {
    return a < b;
  }
};
struct LessEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a <= b;
  }
};
struct Greater {
  template <class T>
  bool operator()(T a, T b) const {
    return a > b;
  }
};
struct GreaterEqual {
  template <class T>
  bool operator()(T a, T b) const {
    return a >= b;
  }
};
struct AreNumbers {
  template <class T>
  bool operator()(T a, T b) const {
    return !nan(a, b);
  }
};
struct AreNotNumbers {
  template <class T>
  bool operator()(T a, T b) const {
    return nan(a, b);
  }
};
template <class F>
struct OrNan {
  template <class T>
  bool operator()(T a, T b) const {
    return nan(a, b) || F()(a, b);
  }
};
template <class Numbers, class F>
struct OfNarrow {
  bool operator()(uint16_t a, uint16_t b) const { return F()(Numbers::value(a), Numbers::value(b)); }
};
template <class F>
struct FlushedComparison {
  bool operator()(float a, float b) const { return F()(Flushed<F>::flush(a), Flushed<F>::flush(b)); }
};

// What a comparison is combined with a predicate by, in Op::immediate.
constexpr int64_t alone = 0, both = 1, either = 2, differ = 3, negated = 4, two_targets = 8;

// p|q = a < b, and of it and c
template <class F, class T>
void compare(Block& b, const Op& op) {
  auto* p = b.reg<uint8_t>(op, 0);
  const auto *x = b.reg<T>(op, 1), *y = b.reg<T>(op, 2);
  if (op.immediate == alone) return b.active.each([=](uint32_t i) { p[i] = F()(x[i], y[i]); });
  auto* q = b.reg<uint8_t>(op, 3);
  const auto* with = b.reg<uint8_t>(op, 4);
  const int64_t how = op.immediate & 3;
  const bool inverse = op.immediate & negated, two = op.immediate & two_targets;
  b.active.each([=](uint32_t i) {
    const bool w = (with[i] != 0) != inverse, r = F()(x[i], y[i]);
    const auto joined = [=](bool v) {
      return how == alone ? v : how == both ? (v && w) : how == either ? (v || w) : v != w;
    };
    p[i] = joined(r);
    if (two) q[i] = joined(!r);
  });
}

template <class F>
Run of_type(Decoder& d, Type type) {
  const bool flush = d.take("ftz");
  if (flush && type != Type::f32) d.fail(".ftz stands with f32");
  switch (type) {
    case Type::b16:
    case Type::u16:
      return compare<F, uint16_t>;
    case Type::s16:
      return compare<F, int16_t>;
    case Type::b32:
    case Type::u32:
      return compare<F, uint32_t>;
    case Type::s32:
      return compare<F, int32_t>;
    case Type::b64:
    case Type::u64:
      return compare<F, uint64_t>;
    case Type::s64:
      return compare<F, int64_t>;
    case Type::f32:
      return flush ? compare<FlushedComparison<F>, float> : compare<F, float>;
    case Type::f64:
      return compare<F, double>;
    case Type::f16:
      return compare<OfNarrow<F16, F>, uint16_t>;
    case Type::bf16:
      return compare<OfNarrow<Bf16, F>, uint16_t>;
    default:
      d.fail("unknown type");
  }
}

Run comparison(Decoder& d, Type type) {
  const std::string_view how = d.first();
  if (how == "eq") return of_type<Equal>(d, type);
  if (how == "ne") return of_type<NotEqual>(d, type);
  if (how == "lt" || how == "lo") return of_type<Less>(d, type);
  if (how == "le" || how == "ls") return of_type<LessEqual>(d, type);
  if (how == "gt" || how == "hi") return of_type<Greater>(d, type);
  if (how == "ge" || how == "hs") return of_type<GreaterEqual>(d, type);
  if (is_float(type)) {
    if (how == "equ") return of_type<OrNan<Equal>>(d, type);
    if (how == "neu") return of_type<OrNan<NotEqual>>(d, type);
    if (how == "ltu") return of_type<OrNan<Less>>(d, type);
    if (how == "leu") return of_type<OrNan<LessEqual>>(d, type);
    if (how == "gtu") return of_type<OrNan<Greater>>(d, type);
    if (how == "geu") return of_type<OrNan<GreaterEqual>>(d, type);
    if (how == "num") return of_type<AreNumbers>(d, type);
    if (how == "nan") return of_type<AreNotNumbers>(d, type);
  }
  d.fail("unknown comparison '" + std::string(how) + "'");
}

// setp.lt.and.s32 p|q, a, b, c: p = (a < b) and c, q = not (a < b) and c
void decode_setp(Decoder& d) {
  const Type type = d.type();
  const int64_t how = d.take("and") ? both : d.take("or") ? either : d.take("xor") ? differ : alone;
  const Run run = comparison(d, type);
  d.expect_operands(how == alone ? 3 : 4);
  Operand p = d.operand(0), with = how == alone ? p : d.operand(3);
  const bool two = !p.parts.empty();
  const Operand q = two ? p.parts[0] : p;
  p.parts.clear();
  with.parts.clear();
  d.op.immediate = how | (with.negated ? negated : 0) | (two ? two_targets : 0);
  with.negated = false;
  d.emit(run, {d.target(p, 1), d.source(1, type), d.source(2, type), d.target(q, 1), d.place(with, 1)});
}

// ---- selections ----

struct Select {
  template <class T>
  T operator()(T a, T b, uint8_t p) const {
    return p ? a : b;
  }
};

void decode_selp(Decoder& d) {
  const Type type = d.type();
  Run run = nullptr;
  switch (bytes_of(type)) {
    case 2:
      run = each_lane<Select, uint16_t, uint16_t, uint16_t, uint8_t>;
      break;
    case 4:
      run = each_lane<Select, uint32_t, uint32_t, uint32_t, uint8_t>;
      break;
    case 8:
      run = each_lane<Select, uint64_t, uint64_t, uint64_t, uint8_t>;
      break;
    default:
      d.fail("unknown type");
  }
  d.emit(run, type, {type, type, Type::pred});
}

template <class C>
struct SelectBySign {
  template <class T>
  T operator()(T a, T b, C c) const {
    return c >= 0 ? a : b;
  }
};

// slct.u32.f32 d, a, b, c: a where c is not negative
void decode_slct(Decoder& d) {
  d.take("ftz");
  const Type type = d.type(), by = d.type();
  if ((by != Type::f32 && by != Type::s32) || (bytes_of(type) != 4 && bytes_of(type) != 8)) d.fail("unknown type");
  const bool wide = bytes_of(type) == 8;
  const Run run = by == Type::f32 ? (wide ? each_lane<SelectBySign<float>, uint64_t, uint64_t, uint64_t, float>
                                          : each_lane<SelectBySign<float>, uint32_t, uint32_t, uint32_t, float>)
                                  : (wide ? each_lane<SelectBySign<int32_t>, uint64_t, uint64_t, uint64_t, int32_t>
                                          : each_lane<SelectBySign<int32_t>, uint32_t, uint32_t, uint32_t, int32_t>);
  d.emit(run, type, {type, type, by});
}

struct Finite {
  template <class T>
  bool operator()(T a) const {
    return std::isfinite(a);
  }
};
struct Infinite {
  template <class T>
  bool operator()(T a) const {
    return std::isinf(a);
  }
};
struct IsNumber {
  template <class T>
  bool operator()(T a) const {
    return !std::isnan(a);
  }
};
struct IsNan {
  template <class T>
  bool operator()(T a) const {
    return std::isnan(a);
  }
};

void decode_testp(Decoder& d) {
  const Type type = d.type();
  const std::string_view what = d.first();
  const bool wide = type == Type::f64;
  if (!wide && type != Type::f32) d.fail("unknown type");
  Run run = nullptr;
  if (what == "finite")
    run = wide ? each_lane<Finite, uint8_t, double> : each_lane<Finite, uint8_t, float>;
  else if (what == "infinite")
    run = wide ? each_lane<Infinite, uint8_t, double> : each_lane<Infinite, uint8_t, float>;
  else if (what == "number")
    run = wide ? each_lane<IsNumber, uint8_t, double> : each_lane<IsNumber, uint8_t, float>;
  else if (what == "notanumber")
    run = wide ? each_lane<IsNan, uint8_t, double> : each_lane<IsNan, uint8_t, float>;
  else
    d.fail("unknown test '" + std::string(what) + "'");
  d.emit(run, Type::pred, {type});
}

}  // namespace

void add_compare(Families& families) {
  families["setp"] = decode_setp;
  families["selp"] = decode_selp;
  families["slct"] = decode_slct;
  families["testp"] = decode_testp;
}

}  // namespace heddle::ptx
