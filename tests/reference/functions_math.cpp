// Composed elementwise functions and activations.
#include <functional>

#include "tests/reference/functions.h"

namespace heddle::tests {

void add_math(Functions& t) {
  const auto two = [&t](const char* name, std::function<Tensor(const Tensor&, const Tensor&)> f) {
    t[name] = one([f](Inputs in, const Arguments&) { return f(in[0], in[1]); });
  };
  const auto single = [&t](const char* name, std::function<Tensor(const Tensor&)> f) {
    t[name] = one([f](Inputs in, const Arguments&) { return f(in[0]); });
  };
  two("hypot", hypot);
  two("logaddexp", logaddexp);
  two("xlogy", xlogy);
  two("remainder", [](const Tensor& x, const Tensor& y) { return remainder(x, y); });
  two("fmod", [](const Tensor& x, const Tensor& y) { return fmod(x, y); });
  two("floor_divide", [](const Tensor& x, const Tensor& y) { return floor_divide(x, y); });
  two("heaviside", heaviside);
  two("logical_xor", logical_xor);
  two("bitwise_left_shift", bitwise_left_shift);
  two("bitwise_right_shift", bitwise_right_shift);
  two("prelu", prelu);
  single("frac", frac);
  single("deg2rad", deg2rad);
  single("rad2deg", rad2deg);
  single("sinc", sinc);
  single("digamma", digamma);
  single("isfinite", isfinite);
  single("logsigmoid", logsigmoid);
  single("hardsigmoid", hardsigmoid);
  single("hardswish", hardswish);
  single("relu6", relu6);
  single("selu", selu);
  single("mish", mish);
  single("softsign", softsign);
  single("tanhshrink", tanhshrink);
  t["lerp"] = one([](Inputs in, const Arguments& a) {
    return in.size() == 3 ? lerp(in[0], in[1], in[2]) : lerp(in[0], in[1], a.real("weight"));
  });
  t["addcmul"] = one([](Inputs in, const Arguments& a) { return addcmul(in[0], in[1], in[2], a.real("value", 1)); });
  t["addcdiv"] = one([](Inputs in, const Arguments& a) { return addcdiv(in[0], in[1], in[2], a.real("value", 1)); });
  t["nan_to_num"] = one([](Inputs in, const Arguments& a) {
    return nan_to_num(in[0], a.real("nan"), a.maybe_real("infinity"), a.maybe_real("minus_infinity"));
  });
  t["isclose"] = one([](Inputs in, const Arguments& a) {
    return isclose(in[0], in[1], a.real("relative", 1e-5), a.real("absolute", 1e-8), a.flag("equal_nan"));
  });
  t["logit"] = one([](Inputs in, const Arguments& a) { return logit(in[0], a.maybe_real("epsilon")); });
  t["hardtanh"] =
      one([](Inputs in, const Arguments& a) { return hardtanh(in[0], a.real("low", -1), a.real("high", 1)); });
  t["leaky_relu"] = one([](Inputs in, const Arguments& a) { return leaky_relu(in[0], a.real("slope", 0.01)); });
  t["elu"] = one([](Inputs in, const Arguments& a) { return elu(in[0], a.real("alpha", 1)); });
  t["celu"] = one([](Inputs in, const Arguments& a) { return celu(in[0], a.real("alpha", 1)); });
  t["softshrink"] = one([](Inputs in, const Arguments& a) { return softshrink(in[0], a.real("lambda", 0.5)); });
  t["hardshrink"] = one([](Inputs in, const Arguments& a) { return hardshrink(in[0], a.real("lambda", 0.5)); });
  t["threshold"] =
      one([](Inputs in, const Arguments& a) { return threshold(in[0], a.real("threshold"), a.real("value")); });
  t["glu"] = one([](Inputs in, const Arguments& a) { return glu(in[0], a.axis("axis")); });
  t["geglu"] = one([](Inputs in, const Arguments& a) { return geglu(in[0], a.axis("axis")); });
  t["swiglu"] = one([](Inputs in, const Arguments& a) { return swiglu(in[0], a.axis("axis")); });
  t["reglu"] = one([](Inputs in, const Arguments& a) { return reglu(in[0], a.axis("axis")); });
}

}  // namespace heddle::tests
