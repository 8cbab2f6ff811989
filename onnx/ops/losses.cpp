// Builders of losses.inc.
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// -weight x[target] of log-probabilities (N, C, ...) and targets (N, ...).
Tensor likelihood_loss(const Call& c, const Tensor& x) {
  const Tensor target = heddle::cast(c.tensor(1), DType::i64);
  const std::string how = c.text("reduction", "mean");
  const bool ignores = c.has("ignore_index");
  const Tensor ignored = ignores ? heddle::eq(target, number(c, Type::i64, c.integer("ignore_index"))) : Tensor();
  const Tensor place = ignores ? heddle::where(ignored, zeros_like(target), target) : target;
  Tensor loss = 0.0 - squeeze(heddle::gather(x, 1, heddle::unsqueeze(place, 1)), 1);
  Tensor weight = c.given(2) ? take(c.tensor(2), place, 0) : ones_like(loss);
  if (ignores) weight = heddle::where(ignored, zeros_like(weight), weight);
  loss = ignores ? heddle::where(ignored, zeros_like(loss), loss * weight) : loss * weight;
  if (how == "none") return loss;
  return how == "sum" ? heddle::sum(loss) : heddle::sum(loss) / heddle::sum(weight);
}

// Tensors x1.. g1.. s1.. of an optimizer's inputs after rate and step.
struct Updates {
  size_t count = 0;
  const Call& c;
  Tensor part(size_t kind, size_t i) const { return c.tensor(2 + kind * count + i); }
};

Updates updates_of(const Call& c, size_t kinds) {
  if (c.count() < 2 + kinds || (c.count() - 2) % kinds != 0) c.fail("has another number of inputs");
  return {(c.count() - 2) / kinds, c};
}

}  // namespace

void negative_log_likelihood(Call& c) { c.out(likelihood_loss(c, c.tensor(0)), c.type(0)); }

void softmax_cross_entropy(Call& c) {
  const Tensor log = heddle::log_softmax(c.tensor(0), 1);
  c.out(likelihood_loss(c, log), c.type(0));
  c.out(log, c.type(0));
}

void adagrad(Call& c) {
  const Updates u = updates_of(c, 3);
  const Tensor rate = c.tensor(0) / (1.0 + heddle::cast(c.tensor(1), c.tensor(0).dtype()) * c.real("decay_factor", 0));
  std::vector<Tensor> sums;
  for (size_t i = 0; i < u.count; ++i) {
    const Tensor g = u.part(1, i) + u.part(0, i) * c.real("norm_coefficient", 0);
    sums.push_back(u.part(2, i) + square(g));
    c.out(u.part(0, i) - rate * g / (heddle::sqrt(sums.back()) + c.real("epsilon", 1e-6)));
  }
  for (const Tensor& sum : sums) c.out(sum);
}

void adam(Call& c) {
  const Updates u = updates_of(c, 4);
  const double alpha = c.real("alpha", 0.9), beta = c.real("beta", 0.999), after = c.real("norm_coefficient_post", 0);
  const Tensor step = heddle::cast(c.tensor(1), DType::f32);
  const Tensor corrected = c.tensor(0) * heddle::sqrt(1.0 - heddle::pow(beta, step)) / (1.0 - heddle::pow(alpha, step));
  const Tensor rate = heddle::where(step > 0.0, corrected, c.tensor(0));
  std::vector<Tensor> first, second;
  for (size_t i = 0; i < u.count; ++i) {
    const Tensor g = u.part(1, i) + u.part(0, i) * c.real("norm_coefficient", 0);
    first.push_back(u.part(2, i) * alpha + g * (1 - alpha));
    second.push_back(u.part(3, i) * beta + square(g) * (1 - beta));
    const Tensor moved = u.part(0, i) - rate * first.back() / (heddle::sqrt(second.back()) + c.real("epsilon", 1e-6));
    c.out(moved * (1 - after));
  }
  for (const Tensor& t : first) c.out(t);
  for (const Tensor& t : second) c.out(t);
}

void momentum(Call& c) {
  const Updates u = updates_of(c, 3);
  const double alpha = c.real("alpha"), beta = c.real("beta");
  const bool nesterov = c.text("mode") == "nesterov";
  const Tensor share = heddle::where(c.tensor(1) > 0.0, full(Shape{}, beta, DType::f32, &c.device()), 1.0);
  std::vector<Tensor> velocities;
  for (size_t i = 0; i < u.count; ++i) {
    const Tensor g = u.part(1, i) + u.part(0, i) * c.real("norm_coefficient");
    velocities.push_back(u.part(2, i) * alpha + g * share);
    c.out(u.part(0, i) - c.tensor(0) * (nesterov ? g + velocities.back() * alpha : velocities.back()));
  }
  for (const Tensor& velocity : velocities) c.out(velocity);
}

}  // namespace heddle::onnx::build
