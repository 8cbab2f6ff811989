// The formulas; what they share is in optimizer.cpp.
#include "nn/optim.h"

#include <fmt/format.h>

#include <cmath>

namespace heddle::nn {
namespace {

void check_not_negative(double value, const char* name, const char* what) {
  if (!(value >= 0) || std::isinf(value))
    throw ValueError(fmt::format("[{}] {} is {}; it must be finite and not negative", name, what, value));
}

void check_beta(double value, const char* name, const char* what) {
  if (!(value >= 0 && value < 1))
    throw ValueError(fmt::format("[{}] {} is {}; it must be in [0, 1)", name, what, value));
}

}  // namespace

// ---- SGD

SGD::SGD(std::vector<Tensor> parameters, const SgdOptions& options)
    : Optimizer(std::move(parameters), options.lr, "SGD"), options_(options) {
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

std::vector<std::string> SGD::state_names() const {
  return options_.momentum != 0 ? std::vector<std::string>{"momentum"} : std::vector<std::string>{};
}

void SGD::begin_update() { lr_scalars_.clear(); }

void SGD::update_slot(Slot& slot, const Tensor& gradient) {
  Tensor& p = slot.parameter;
  Tensor& rate = lr_scalars_[&p.device()];
  if (!rate.defined()) rate = Tensor::host_scalar([this] { return static_cast<float>(lr()); }, &p.device());
  const auto times = [&](double factor, const Tensor& x) { return number(factor, x) * x; };
  Tensor d = options_.weight_decay != 0 ? gradient + times(options_.weight_decay, p) : gradient;
  if (options_.momentum != 0) {
    Tensor& buffer = state(slot, "momentum");
    // The first step takes the gradient whole, as PyTorch does; without dampening the general form says the same.
    const bool whole = slot.steps == 1 || options_.dampening == 0;
    const Tensor moved = write(buffer, times(options_.momentum, buffer) + (whole ? d : times(1 - options_.dampening, d)));
    d = options_.nesterov ? d + times(options_.momentum, moved) : moved;
  }
  write(p, p - spread(rate, p) * d);
}

// ---- Adam, AdamW

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, false, "Adam") {}
AdamW::AdamW(std::vector<Tensor> parameters, const AdamOptions& options)
    : Adam(std::move(parameters), options, true, "AdamW") {}

Adam::Adam(std::vector<Tensor> parameters, const AdamOptions& options, bool decoupled, const char* name)
    : Optimizer(std::move(parameters), options.lr, name), options_(options), decoupled_(decoupled) {
  check_beta(options.beta1, name, "beta1");
  check_beta(options.beta2, name, "beta2");
  check_not_negative(options.eps, name, "eps");
  check_not_negative(options.weight_decay, name, "weight_decay");
}

std::vector<std::string> Adam::state_names() const { return {"m", "v"}; }

void Adam::begin_update() { scalars_.clear(); }

const Adam::Scalars& Adam::scalars(const Slot& slot) {
  DeviceContext* device = &slot.parameter.device();
  const auto [at, fresh] = scalars_.try_emplace({device, slot.steps});
  if (fresh) {
    // Slots live as long as the optimizer, or until load_state_dict() makes compiled functions look again.
    const auto scalar = [device, &slot](auto value) { return Tensor::host_scalar([value, &slot] { return static_cast<float>(value(static_cast<double>(slot.steps))); }, device); };
    at->second.step_size = scalar([this](double t) { return lr() / (1 - std::pow(options_.beta1, t)); });
    at->second.inverse_root = scalar([this](double t) { return 1 / std::sqrt(1 - std::pow(options_.beta2, t)); });
    if (decoupled_ && options_.weight_decay != 0) at->second.keep = scalar([this](double) { return 1 - lr() * options_.weight_decay; });
  }
  return at->second;
}

void Adam::update_slot(Slot& slot, const Tensor& gradient) {
  const Scalars& s = scalars(slot);
  Tensor& p = slot.parameter;
  const bool decayed = options_.weight_decay != 0;
  const Tensor g = decayed && !decoupled_ ? gradient + number(options_.weight_decay, p) * p : gradient;
  Tensor& m = state(slot, "m");
  Tensor& v = state(slot, "v");
  const Tensor m_next = write(m, m + number(1 - options_.beta1, m) * (g - m));
  const Tensor v_next = write(v, number(options_.beta2, v) * v + number(1 - options_.beta2, v) * (g * g));
  const Tensor start = decayed && decoupled_ ? spread(s.keep, p) * p : p;
  write(p, start - spread(s.step_size, p) * (m_next / (sqrt(v_next) * spread(s.inverse_root, p) + number(options_.eps, v))));
}

// ---- Lion

Lion::Lion(std::vector<Tensor> parameters, const LionOptions& options) : Optimizer(std::move(parameters), options.lr, "Lion"), options_(options) {
  check_beta(options.beta1, "Lion", "beta1");
  check_beta(options.beta2, "Lion", "beta2");
  check_not_negative(options.weight_decay, "Lion", "weight_decay");
}

std::vector<std::string> Lion::state_names() const { return {"m"}; }

void Lion::begin_update() { scalars_.clear(); }

void Lion::update_slot(Slot& slot, const Tensor& gradient) {
  Tensor& p = slot.parameter;
  auto& [rate, keep] = scalars_[&p.device()];
  if (!rate.defined()) {
    rate = Tensor::host_scalar([this] { return static_cast<float>(lr()); }, &p.device());
    keep = Tensor::host_scalar([this] { return static_cast<float>(1 - lr() * options_.weight_decay); }, &p.device());
  }
  Tensor& m = state(slot, "m");
  const Tensor direction = sign(number(options_.beta1, m) * m + number(1 - options_.beta1, m) * gradient);
  const Tensor start = options_.weight_decay != 0 ? spread(keep, p) * p : p;
  write(m, number(options_.beta2, m) * m + number(1 - options_.beta2, m) * gradient);
  write(p, start - spread(rate, p) * direction);
}

}  // namespace heddle::nn
