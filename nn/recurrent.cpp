#include "nn/recurrent.h"

#include <fmt/format.h>

#include <cmath>

#include "nn/init.h"

namespace heddle::nn {

Recurrent::Recurrent(const char* kind, int64_t gates, int64_t states, int64_t in, int64_t hidden, const RecurrentOptions& options)
    : Module(kind), states_(states), hidden_(hidden), options_(options) {
  if (in < 1 || hidden < 1) throw ValueError(fmt::format("[{}] sizes must be positive: in {}, hidden {}", kind, in, hidden));
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const auto add = [&](const char* name, const Shape& shape) {
    Tensor value = zeros(shape, DType::f32, options.device);
    init::uniform(value, -bound, bound, options.generator);
    return add_parameter(name, value);
  };
  weight_ih = add("weight_ih", {gates * hidden, in});
  weight_hh = add("weight_hh", {gates * hidden, hidden});
  bias_ih = add("bias_ih", {gates * hidden});
  bias_hh = add("bias_hh", {gates * hidden});
}

std::vector<Tensor> Recurrent::step(const std::vector<Tensor>& state, const Tensor& gates) const {
  const Tensor& h = state[0];
  const Tensor other = matmul(h, transpose(weight_hh)) + bias_hh;  // (N, gates * hidden)
  const auto part = [&](const Tensor& all, int64_t gate) { return slice(all, 1, {gate * hidden_, (gate + 1) * hidden_}); };
  if (states_ == 1) {
    const Tensor r = sigmoid(part(gates, 0) + part(other, 0)), z = sigmoid(part(gates, 1) + part(other, 1));
    const Tensor n = tanh(part(gates, 2) + r * part(other, 2));
    return {n + z * (h - n)};
  }
  const Tensor all = gates + other;
  const Tensor i = sigmoid(part(all, 0)), f = sigmoid(part(all, 1)), g = tanh(part(all, 2)), o = sigmoid(part(all, 3));
  const Tensor c = f * state[1] + i * g;
  return {o * tanh(c), c};
}

Recurrent::Result Recurrent::run(const Tensor& x, std::vector<Tensor> initial) const {
  if (x.rank() != 3 || x.dim(2) != weight_ih.dim(1)) {
    throw ShapeError(fmt::format("[{}] the sequence is {}; it must be (time, batch, {})", kind(), x.shape().str(), weight_ih.dim(1)));
  }
  const Shape shape{x.dim(1), hidden_};
  if (initial.empty()) initial.assign(static_cast<size_t>(states_), zeros(shape, x.dtype(), &x.device()));
  if (static_cast<int64_t>(initial.size()) != states_) throw ValueError(fmt::format("[{}] {} initial states; it has {}", kind(), initial.size(), states_));
  for (const Tensor& state : initial) {
    if (state.shape() != shape) throw ShapeError(fmt::format("[{}] an initial state is {}; it must be (batch, hidden) {}", kind(), state.shape().str(), shape.str()));
  }
  const Tensor gates = matmul(x, transpose(weight_ih)) + bias_ih;  // (T, N, gates * hidden)
  Scanned all = scan(
      [this](const std::vector<Tensor>& state, const std::vector<Tensor>& now) {
        const std::vector<Tensor> next = step(state, now[0]);
        return Scanned{next, {next[0]}};
      },
      initial, {gates}, {{}, options_.reverse, options_.checkpoint});
  return {all.ys[0], all.carry};
}

}  // namespace heddle::nn
