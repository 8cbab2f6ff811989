// Optimizers whose step looks at a whole parameter: LAMB, Muon. And what all of them check.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/functions/functions.h"
#include "heddle/nn/optim.h"
#include "heddle/nn/optim_checks.h"

namespace heddle::nn {

void check_not_negative(double value, const char* name, const char* what) {
  if (!(value >= 0) || std::isinf(value))
    throw ValueError(fmt::format("[{}] {} is {}; it must be finite and not negative", name, what, value));
}

void check_beta(double value, const char* name, const char* what) {
  if (!(value >= 0 && value < 1))
    throw ValueError(fmt::format("[{}] {} is {}; it must be in [0, 1)", name, what, value));
}

// ---- LAMB

LAMB::LAMB(std::vector<Tensor> parameters, const LambOptions& options)
    : Optimizer(std::move(parameters), options.lr, "LAMB"), options_(options) {
  check_beta(options.beta1, "LAMB", "beta1");
  check_beta(options.beta2, "LAMB", "beta2");
  check_not_negative(options.eps, "LAMB", "eps");
  check_not_negative(options.weight_decay, "LAMB", "weight_decay");
}

std::vector<Optimizer::State> LAMB::states_of(const Shape& shape) const { return like(shape, {"m", "v"}); }

void LAMB::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  Tensor& m = state(slot, "m");
  Tensor& v = state(slot, "v");
  const Tensor m_next = write(m, m + number(1 - options_.beta1, m) * (gradient - m));
  const Tensor v_next = write(v, number(options_.beta2, v) * v + number(1 - options_.beta2, v) * (gradient * gradient));
  const auto corrected = [](double beta) {
    return [beta](const Slot& s) { return 1 / (1 - std::pow(beta, static_cast<double>(s.steps))); };
  };
  const Tensor& first = varying(slot, "first", corrected(options_.beta1), m);
  const Tensor& second = varying(slot, "second", corrected(options_.beta2), v);
  const Tensor wide = p.to(m.dtype());
  Tensor direction = m_next * first / (sqrt(v_next * second) + number(options_.eps, v));
  if (const double decayed = decay(slot, options_.weight_decay); decayed != 0)
    direction = direction + number(decayed, wide) * wide;
  const Tensor own = sqrt(sum(wide * wide)), other = sqrt(sum(direction * direction));
  const Tensor trust = where(own * other > 0.0, own / other, ones_like(own));
  write_parameter(slot, p - rate(slot) * (expand(trust, p.shape()) * direction));
}

// ---- Muon

Muon::Muon(std::vector<Tensor> parameters, const MuonOptions& options)
    : Optimizer(std::move(parameters), options.lr, "Muon"), options_(options) {
  check_beta(options.momentum, "Muon", "momentum");
  check_not_negative(options.weight_decay, "Muon", "weight_decay");
  if (options.iterations < 1 || options.iterations > 100)
    throw ValueError(fmt::format("[Muon] iterations is {}; it must be in [1, 100]", options.iterations));
  for (size_t i = 0; i < this->parameters().size(); ++i) {
    const Shape& shape = this->parameters()[i].shape();
    if (shape.rank() != 2)
      throw ValueError(fmt::format("[Muon] parameter {} is {}, not a matrix; give it to another optimizer, AdamW say",
                                   i, shape.str()));
  }
}

std::vector<Optimizer::State> Muon::states_of(const Shape& shape) const { return like(shape, {"momentum"}); }

namespace {

// U V^T of x = U S V^T, nearly: singular values end between 0.7 and 1.2. The polynomial a x + b x^3 + c x^5 of the
// paper.
Tensor nearly_orthogonal(const Tensor& given, int iterations) {
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315, eps = 1e-7;
  const bool tall = given.shape()[0] > given.shape()[1];
  Tensor x = tall ? transpose(given) : given;
  x = x / clamp(sqrt(sum(x * x)), eps, std::nullopt);
  for (int i = 0; i < iterations; ++i) {
    const Tensor gram = matmul(x, transpose(x));
    x = a * x + matmul(b * gram + c * matmul(gram, gram), x);
  }
  return tall ? transpose(x) : x;
}

}  // namespace

void Muon::update_slot(Slot& slot, const Tensor& gradient) {
  const Tensor& p = slot.shaped;
  if (p.numel() == 0) return;
  Tensor& m = state(slot, "momentum");
  const Tensor m_next = write(m, m + number(1 - options_.momentum, m) * (gradient - m));
  const Tensor direction = options_.nesterov ? gradient + number(options_.momentum, m) * (m_next - gradient) : m_next;
  const auto rows = static_cast<double>(p.shape()[0]), columns = static_cast<double>(p.shape()[1]);
  const double shape_factor =
      options_.match_adam ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
  const Tensor start = decay(slot, options_.weight_decay) != 0 ? keep(slot, options_.weight_decay) * p : p;
  write_parameter(slot, start - rate(slot) * (shape_factor * nearly_orthogonal(direction, options_.iterations)));
}

}  // namespace heddle::nn
