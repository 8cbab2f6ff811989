// The formulas; what they share is in optimizer.cpp.
#include "heddle/nn/optim.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/nn/optim_checks.h"

namespace heddle::nn {

// ---- SGD

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.lr, "SGD", options.momentum != 0 ? options.states : StateType::f32),
      options_(options) {
  check_not_negative(options.momentum, "SGD", "momentum");
  check_not_negative(options.weight_decay, "SGD", "weight_decay");
  if (!std::isfinite(options.dampening))
    throw ValueError(fmt::format("[SGD] dampening is {}; it must be finite", options.dampening));
  if (options.nesterov && (options.momentum <= 0 || options.dampening != 0)) {
    throw ValueError(
        fmt::format("[SGD] Nesterov needs a momentum above 0 and no dampening; got momentum {}, dampening {}",
                    options.momentum, options.dampening));
  }
}

std::vector<Optimizer::State> SGD::states_of(const Shape& shape) const {
  return options_.momentum != 0 ? of_moments(shape, {momentum}) : std::vector<State>{};
}

void SGD::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  const auto times = [&](double factor, const Tensor& x) { return number(factor, x) * x; };
  const double decayed = decay(slot, options_.weight_decay);
  Tensor d = decayed != 0 ? gradient + times(decayed, p) : gradient;
  if (options_.momentum != 0) {
    const Tensor buffer = read(slot, momentum);
    // The first step takes the gradient whole, as PyTorch does; without dampening the general form says the same.
    const bool whole = slot.steps == 1 || options_.dampening == 0;
    const Tensor moved =
        write(slot, momentum, times(options_.momentum, buffer) + (whole ? d : times(1 - options_.dampening, d)));
    d = options_.nesterov ? d + times(options_.momentum, moved) : moved;
  }
  write_parameter(slot, p - rate(slot) * d);
}

// ---- Adam, AdamW

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, false, "Adam") {}
AdamW::AdamW(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, true, "AdamW") {}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, const char* name)
    : Optimizer(std::move(parameters), options.lr, name, options.states), options_(options), decoupled_(decoupled) {
  check_beta(options.beta1, name, "beta1");
  check_beta(options.beta2, name, "beta2");
  check_not_negative(options.eps, name, "eps");
  check_not_negative(options.weight_decay, name, "weight_decay");
}

std::vector<Optimizer::State> Adam::states_of(const Shape& shape) const {
  return of_moments(shape, {first_moment, second_moment});
}

void Adam::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  const double decayed = decay(slot, options_.weight_decay);
  const Tensor g = decayed != 0 && !decoupled_ ? gradient + number(decayed, p) * p : gradient;
  const Tensor m = read(slot, first_moment), v = read(slot, second_moment);
  const Tensor m_next = write(slot, first_moment, m + number(1 - options_.beta1, m) * (g - m));
  const Tensor v_next =
      write(slot, second_moment, number(options_.beta2, v) * v + number(1 - options_.beta2, v) * (g * g));
  const Tensor start = decayed != 0 && decoupled_ ? keep(slot, options_.weight_decay) * p : p;
  const auto steps = [](const Slot& s) { return static_cast<double>(s.steps); };
  const Tensor& step_size = varying(
      slot, "step_size", [this, steps](const Slot& s) { return lr_of(s) / (1 - std::pow(options_.beta1, steps(s))); },
      p);
  const Tensor& inverse_root = varying(
      slot, "inverse_root",
      [this, steps](const Slot& s) { return 1 / std::sqrt(1 - std::pow(options_.beta2, steps(s))); }, p);
  write_parameter(slot, start - step_size * (m_next / (sqrt(v_next) * inverse_root + number(options_.eps, v))));
}

// ---- Lion

Lion::Lion(std::vector<Tensor> parameters, const LionOptions& options)
    : Optimizer(std::move(parameters), options.lr, "Lion", options.states), options_(options) {
  check_beta(options.beta1, "Lion", "beta1");
  check_beta(options.beta2, "Lion", "beta2");
  check_not_negative(options.weight_decay, "Lion", "weight_decay");
}

std::vector<Optimizer::State> Lion::states_of(const Shape& shape) const { return of_moments(shape, {first_moment}); }

void Lion::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  const Tensor m = read(slot, first_moment);
  const Tensor direction = sign(number(options_.beta1, m) * m + number(1 - options_.beta1, m) * gradient);
  const Tensor start = decay(slot, options_.weight_decay) != 0 ? keep(slot, options_.weight_decay) * p : p;
  write(slot, first_moment, number(options_.beta2, m) * m + number(1 - options_.beta2, m) * gradient);
  write_parameter(slot, start - rate(slot) * direction);
}

}  // namespace heddle::nn
