// Functions that make tensors: constants, random numbers; casts; normalisations.
#include "heddle/core/device/context.h"
#include "heddle/core/functions/nn/norms.h"
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

// The device of a call without inputs: that of an empty first input, which such a case has.
DeviceContext* where(Inputs in) { return in.empty() ? nullptr : &in[0].device(); }

Shape shape(const Arguments& a) {
  Shape s;
  for (const int64_t d : a.integers("shape")) s.push_back(d);
  return s;
}

DType dtype(const Arguments& a) { return parse_dtype(a.text("dtype", "f32")); }

// f(shape, device, generator, arguments)
template <class F>
Function draw(F f) {
  return one([f](Inputs in, const Arguments& a) {
    Generator generator{7, 0};
    return f(shape(a), where(in), &generator, a);
  });
}

void add_random(Functions& t) {
  t["uniform"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return uniform(s, a.real("low", 0), a.real("high", 1), d, g);
  });
  t["normal"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return normal(s, a.real("mean", 0), a.real("stddev", 1), d, g);
  });
  t["bernoulli"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return bernoulli(s, a.real("p", 0.5), d, g);
  });
  t["randint"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return randint(a.integer("low", 0), a.integer("high", 9), s, d, g);
  });
  t["randperm"] = draw([](const Shape&, DeviceContext* d, Generator* g, const Arguments& a) {
    return randperm(a.integer("count", 9), d, g);
  });
  t["exponential"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return exponential(s, a.real("rate", 1), d, g);
  });
  t["gumbel"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return gumbel(s, a.real("location", 0), a.real("scale", 1), d, g);
  });
  t["laplace"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return laplace(s, a.real("location", 0), a.real("scale", 1), d, g);
  });
  t["cauchy"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return cauchy(s, a.real("location", 0), a.real("scale", 1), d, g);
  });
  t["log_normal"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return log_normal(s, a.real("mean", 0), a.real("deviation", 1), d, g);
  });
  t["truncated_normal"] = draw([](const Shape& s, DeviceContext* d, Generator* g, const Arguments& a) {
    return truncated_normal(s, a.real("mean", 0), a.real("deviation", 1), a.real("low", -2), a.real("high", 2), d, g);
  });
  t["dropout"] =
      one([](Inputs in, const Arguments& a) { return dropout(in[0], a.real("p", 0.5), a.flag("training", true)); });
  t["feature_dropout"] = one(
      [](Inputs in, const Arguments& a) { return feature_dropout(in[0], a.real("p", 0.5), a.flag("training", true)); });
  t["multinomial"] = one(
      [](Inputs in, const Arguments& a) { return multinomial(in[0], a.integer("count", 1), a.flag("replacement")); });
  t["categorical"] = one([](Inputs in, const Arguments& a) { return categorical(in[0], a.axis("axis")); });
  t["gumbel_softmax"] = one([](Inputs in, const Arguments& a) {
    return gumbel_softmax(in[0], a.real("temperature", 1), a.flag("hard"), a.axis("axis"));
  });
}

void add_norms(Functions& t) {
  const auto maybe = [](Inputs in, size_t k) { return k < in.size() ? in[k] : Tensor(); };
  t["layer_norm"] = one([=](Inputs in, const Arguments& a) {
    return layer_norm(in[0], shape(a), maybe(in, 1), maybe(in, 2), a.real("eps", 1e-5));
  });
  t["rms_norm"] =
      one([=](Inputs in, const Arguments& a) { return rms_norm(in[0], maybe(in, 1), a.real("eps", 1e-6)); });
  t["group_norm"] = one([=](Inputs in, const Arguments& a) {
    return group_norm(in[0], a.integer("groups", 1), maybe(in, 1), maybe(in, 2), a.real("eps", 1e-5));
  });
  t["instance_norm"] = one([=](Inputs in, const Arguments& a) {
    return instance_norm(in[0], maybe(in, 1), maybe(in, 2), a.real("eps", 1e-5));
  });
  t["batch_norm"] = one([=](Inputs in, const Arguments& a) {
    return batch_norm(in[0], a.flag("training", true) ? Tensor() : in[3], a.flag("training", true) ? Tensor() : in[4],
                      in[1], in[2], a.flag("training", true), 0.1, a.real("eps", 1e-5));
  });
}

}  // namespace

void add_creation(Functions& t) {
  t["full"] = one([](Inputs in, const Arguments& a) { return full(shape(a), a.real("value"), dtype(a), where(in)); });
  t["zeros"] = one([](Inputs in, const Arguments& a) { return zeros(shape(a), dtype(a), where(in)); });
  t["ones"] = one([](Inputs in, const Arguments& a) { return ones(shape(a), dtype(a), where(in)); });
  t["arange"] = one([](Inputs in, const Arguments& a) {
    return arange(a.real("start"), a.real("stop"), a.real("step", 1), dtype(a), where(in));
  });
  t["linspace"] = one([](Inputs in, const Arguments& a) {
    return linspace(a.real("start"), a.real("stop"), a.integer("count"), dtype(a), where(in));
  });
  t["full_like"] = one([](Inputs in, const Arguments& a) { return full_like(in[0], a.real("value")); });
  t["zeros_like"] = one([](Inputs in, const Arguments&) { return zeros_like(in[0]); });
  t["ones_like"] = one([](Inputs in, const Arguments&) { return ones_like(in[0]); });
  t["cast"] = one([](Inputs in, const Arguments& a) { return cast(in[0], dtype(a)); });
  t["stop_gradient"] = one([](Inputs in, const Arguments&) { return stop_gradient(in[0]); });
  add_random(t);
  add_norms(t);
}

}  // namespace heddle::tests
