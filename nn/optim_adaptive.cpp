// Optimizers that divide by a running size of the gradient: RMSprop, Adagrad, Adafactor.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/functions/functions.h"
#include "heddle/nn/optim.h"
#include "heddle/nn/optim_checks.h"

namespace heddle::nn {

// ---- RMSprop

RMSprop::RMSprop(std::vector<Tensor> parameters, const RmsPropOptions& options)
    : Optimizer(std::move(parameters), options.lr, "RMSprop"), options_(options) {
  check_beta(options.alpha, "RMSprop", "alpha");
  check_not_negative(options.eps, "RMSprop", "eps");
  check_not_negative(options.weight_decay, "RMSprop", "weight_decay");
  check_not_negative(options.momentum, "RMSprop", "momentum");
}

std::vector<Optimizer::State> RMSprop::states_of(const Shape& shape) const {
  std::vector<State> states = like(shape, {"v"});
  if (options_.centered) states.push_back({"mean", shape, 0});
  if (options_.momentum != 0) states.push_back({"momentum", shape, 0});
  return states;
}

void RMSprop::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  const double decayed = decay(slot, options_.weight_decay);
  const Tensor g = decayed != 0 ? gradient + number(decayed, p) * p : gradient;
  Tensor& v = state(slot, "v");
  const Tensor take = number(1 - options_.alpha, v);
  Tensor size = write(v, number(options_.alpha, v) * v + take * (g * g));
  if (options_.centered) {
    Tensor& mean = state(slot, "mean");
    const Tensor moved = write(mean, mean + take * (g - mean));
    size = size - moved * moved;
  }
  Tensor step = g / (sqrt(size) + number(options_.eps, v));
  if (options_.momentum != 0) {
    Tensor& buffer = state(slot, "momentum");
    step = write(buffer, number(options_.momentum, buffer) * buffer + step);
  }
  write_parameter(slot, p - rate(slot) * step);
}

// ---- Adagrad

Adagrad::Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options)
    : Optimizer(std::move(parameters), options.lr, "Adagrad"), options_(options) {
  check_not_negative(options.lr_decay, "Adagrad", "lr_decay");
  check_not_negative(options.eps, "Adagrad", "eps");
  check_not_negative(options.weight_decay, "Adagrad", "weight_decay");
  check_not_negative(options.initial_sum, "Adagrad", "initial_sum");
}

std::vector<Optimizer::State> Adagrad::states_of(const Shape& shape) const {
  return {{"sum", shape, options_.initial_sum}};
}

void Adagrad::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  const double decayed = decay(slot, options_.weight_decay);
  const Tensor g = decayed != 0 ? gradient + number(decayed, p) * p : gradient;
  Tensor& sum = state(slot, "sum");
  const Tensor size = write(sum, sum + g * g);
  const auto falling = [this](const Slot& s) {
    return lr_of(s) / (1 + static_cast<double>(s.steps - 1) * options_.lr_decay);
  };
  write_parameter(slot, p - varying(slot, "falling", falling, p) * (g / (sqrt(size) + number(options_.eps, sum))));
}

// ---- Adafactor

Adafactor::Adafactor(std::vector<Tensor> parameters, const AdafactorOptions& options)
    : Optimizer(std::move(parameters), options.lr, "Adafactor"), options_(options) {
  if (!(options.beta2_decay <= 0) || std::isinf(options.beta2_decay)) {
    throw ValueError(
        fmt::format("[Adafactor] beta2_decay is {}; it must be finite and not positive", options.beta2_decay));
  }
  if (options.eps1) check_not_negative(*options.eps1, "Adafactor", "eps1");
  check_not_negative(options.eps2, "Adafactor", "eps2");
  if (!(options.clip >= 1))
    throw ValueError(fmt::format("[Adafactor] clip is {}; it must be at least 1", options.clip));
  check_not_negative(options.weight_decay, "Adafactor", "weight_decay");
}

std::vector<Optimizer::State> Adafactor::states_of(const Shape& shape) const {
  if (shape.rank() < 2) return like(shape, {"v"});
  Shape rows, columns;
  for (int d = 0; d < shape.rank(); ++d) {
    rows.push_back(d == shape.rank() - 1 ? 1 : shape[d]);
    columns.push_back(d == shape.rank() - 2 ? 1 : shape[d]);
  }
  return {{"v_rows", rows, 0}, {"v_columns", columns, 0}};
}

namespace {

double machine_epsilon(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::numeric_limits<double>::epsilon();
    case DType::f16:
      return 0x1p-10;
    case DType::bf16:
      return 0x1p-7;
    default:
      return std::numeric_limits<float>::epsilon();
  }
}

double root_of_count(const Tensor& x) { return std::sqrt(std::max<double>(1, static_cast<double>(x.numel()))); }

}  // namespace

// The running mean of g^2: of a matrix, the product of those of rows and columns over their mean.
Tensor Adafactor::mean_square(Slot& slot, const Tensor& gradient) {
  const double eps1 = options_.eps1.value_or(machine_epsilon(slot.parameter.dtype()));
  const auto taken = [this](const Slot& s) { return std::pow(static_cast<double>(s.steps), options_.beta2_decay); };
  const auto moved = [&](const char* name, const Tensor& now) {
    Tensor& v = state(slot, name);
    return write(v, v + varying(slot, "taken", taken, v) * (now - v));
  };
  const Tensor squares = gradient * gradient;
  Tensor v;
  if (slot.parameter.rank() < 2) {
    v = moved("v", squares);
  } else {
    const Tensor rows = moved("v_rows", mean(squares, {-1}, true)),
                 columns = moved("v_columns", mean(squares, {-2}, true));
    v = rows * columns / clamp(mean(rows, {-2}, true), eps1, std::nullopt);
  }
  return clamp(v, eps1 * eps1, std::nullopt);
}

void Adafactor::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  const Tensor direction = rsqrt(mean_square(slot, gradient)) * gradient;
  const double count = root_of_count(p);
  const auto length = [](const Tensor& x) { return sqrt(sum(x * x)); };
  const Tensor wide = p.to(gradient.dtype());
  const Tensor scale = clamp(length(wide) / count, options_.eps2, std::nullopt) /
                       clamp(length(direction) / (count * options_.clip), 1.0, std::nullopt);
  const auto relative = [this](const Slot& s) {
    return std::min(lr_of(s), 1 / std::sqrt(static_cast<double>(s.steps)));
  };
  const Tensor start = decay(slot, options_.weight_decay) != 0 ? keep(slot, options_.weight_decay) * p : p;
  write_parameter(slot, start - varying(slot, "relative", relative, p) * (expand(scale, p.shape()) * direction));
}

}  // namespace heddle::nn
