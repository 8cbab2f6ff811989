// Square roots, reciprocals and the functions that a device approximates: here they are exact to the last place or so.
#include <bit>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

struct Reciprocal {
  template <class T>
  T operator()(T a) const {
    return T{1} / a;
  }
};
struct Root {
  template <class T>
  T operator()(T a) const {
    return std::sqrt(a);
  }
};
struct ReciprocalRoot {
  template <class T>
  T operator()(T a) const {
    if constexpr (std::is_same_v<T, float>)
      return static_cast<float>(1.0 / std::sqrt(static_cast<double>(a)));
    else
      return 1.0 / std::sqrt(a);
  }
};
// Of f64, .approx.ftz looks at the upper half of its operand and gives an upper half.
template <class F>
struct UpperHalf {
  static double upper(double x) { return std::bit_cast<double>(std::bit_cast<uint64_t>(x) & 0xffff'ffff'0000'0000ull); }
  static bool subnormal(double x) { return std::fabs(x) < 0x1p-1022; }
  double operator()(double a) const {
    if (subnormal(a)) a = std::copysign(0.0, a);
    const double r = upper(F()(upper(a)));
    return subnormal(r) ? std::copysign(0.0, r) : r;
  }
};
struct Sine {
  float operator()(float a) const { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct Cosine {
  float operator()(float a) const { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct PowerOfTwo {
  float operator()(float a) const { return static_cast<float>(std::exp2(static_cast<double>(a))); }
};
struct Logarithm {
  float operator()(float a) const { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct HyperbolicTangent {
  float operator()(float a) const { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};

template <class F>
Run of_f32(Decoder& d) {
  d.op.rounding = static_cast<uint8_t>(d.rounding());
  return d.take("ftz") ? each_lane_rounded<Flushed<F>, float, float> : each_lane_rounded<F, float, float>;
}

// rcp, sqrt, rsqrt
template <class F>
void decode_root(Decoder& d) {
  const Type type = d.type();
  const bool approximate = d.take("approx");
  Run run = nullptr;
  if (type == Type::f32) {
    run = of_f32<F>(d);
  } else if (type == Type::f64 && approximate && d.take("ftz")) {
    run = each_lane<UpperHalf<F>, double, double>;
  } else if (type == Type::f64) {  // without .ftz an approximation is one of all bits
    d.op.rounding = static_cast<uint8_t>(d.rounding());
    run = each_lane_rounded<F, double, double>;
  } else {
    d.fail("unknown type");
  }
  d.emit(run, type, {type});
}

template <class F>
void decode_approximate(Decoder& d) {
  const Type type = d.type();
  if (!d.take("approx") || type != Type::f32) d.fail("'" + std::string(d.head) + ".approx' of f32 is known");
  d.emit(of_f32<F>(d), type, {type});
}

}  // namespace

void add_functions(Families& families) {
  families["rcp"] = decode_root<Reciprocal>;
  families["sqrt"] = decode_root<Root>;
  families["rsqrt"] = decode_root<ReciprocalRoot>;
  families["sin"] = decode_approximate<Sine>;
  families["cos"] = decode_approximate<Cosine>;
  families["ex2"] = decode_approximate<PowerOfTwo>;
  families["lg2"] = decode_approximate<Logarithm>;
  families["tanh"] = decode_approximate<HyperbolicTangent>;
}

}  // namespace heddle::ptx
