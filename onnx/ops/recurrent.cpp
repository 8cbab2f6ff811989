// Builders of recurrent.inc.
//
// The products with the inputs of all steps are one matrix product before the scan; the scan's body multiplies the
// carried state alone. X (T, B, I), W (D, G H, I), R (D, G H, H), B (D, 2 G H) for D directions and G gates.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "heddle/core/functions/control/control.h"
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

using Activation = std::function<Tensor(const Tensor&)>;

struct Named {
  const char* name;
  bool alpha, beta;  // which it takes
  double default_alpha, default_beta;
  Tensor (*apply)(const Tensor& x, double alpha, double beta);
};

constexpr Named activations[] = {
    {"Relu", false, false, 0, 0, [](const Tensor& x, double, double) { return heddle::relu(x); }},
    {"Tanh", false, false, 0, 0, [](const Tensor& x, double, double) { return heddle::tanh(x); }},
    {"Sigmoid", false, false, 0, 0, [](const Tensor& x, double, double) { return heddle::sigmoid(x); }},
    {"Affine", true, true, 1, 0, [](const Tensor& x, double a, double b) { return x * a + b; }},
    {"LeakyRelu", true, false, 0.01, 0, [](const Tensor& x, double a, double) { return heddle::leaky_relu(x, a); }},
    {"ThresholdedRelu", true, false, 1, 0,
     [](const Tensor& x, double a, double) { return heddle::where(x >= a, x, zeros_like(x)); }},
    {"ScaledTanh", true, true, 1, 1, [](const Tensor& x, double a, double b) { return heddle::tanh(x * b) * a; }},
    {"HardSigmoid", true, true, 0.2, 0.5, [](const Tensor& x, double a, double b) { return clamp(x * a + b, 0, 1); }},
    {"Elu", true, false, 1, 0, [](const Tensor& x, double a, double) { return heddle::elu(x, a); }},
    {"Softsign", false, false, 0, 0, [](const Tensor& x, double, double) { return heddle::softsign(x); }},
    {"Softplus", false, false, 0, 0, [](const Tensor& x, double, double) { return heddle::softplus(x); }},
};

// All of a node's activations, direction after direction; numbers go to those that take them, in order.
std::vector<Activation> activations_of(const Call& c, std::vector<std::string> defaults, size_t directions) {
  std::vector<std::string> names = c.texts("activations");
  if (names.empty()) {
    for (size_t d = 0; d < directions; ++d) names.insert(names.end(), defaults.begin(), defaults.end());
  }
  if (names.size() != directions * defaults.size())
    c.fail(fmt::format("{} activations for {} directions", names.size(), directions));
  const std::vector<double> alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  size_t alpha = 0, beta = 0;
  std::vector<Activation> result;
  for (const std::string& name : names) {
    const auto* found = std::ranges::find_if(activations, [&](const Named& n) { return name == n.name; });
    if (found == std::end(activations)) c.unsupported(fmt::format("activation {}", name));
    const double a = found->alpha && alpha < alphas.size() ? alphas[alpha++] : found->default_alpha;
    const double b = found->beta && beta < betas.size() ? betas[beta++] : found->default_beta;
    result.push_back([apply = found->apply, a, b](const Tensor& x) { return apply(x, a, b); });
  }
  return result;
}

// What one direction works with.
struct Direction {
  Tensor projected;             // (T, B, G H): X W^T, and the biases that may be added to it
  Tensor recurrent;             // (G H, H)
  Tensor recurrent_bias;        // (G H), or undefined: added to projected
  Tensor peepholes;             // (3 H), or undefined
  std::vector<Tensor> initial;  // each (B, H)
  std::vector<Activation> f;
};

// One step: the gates' inputs x (B, G H) and the states; gives the new states, the first of which is the output.
using Step = std::function<std::vector<Tensor>(const Direction&, const Tensor& x, const std::vector<Tensor>& states)>;

struct Layer {
  Tensor x, lengths;  // (T, B, I); (B) or undefined
  int64_t steps = 0, batch = 0, hidden = 0;
  bool batch_first = false;
  std::vector<bool> reversed;
};

Layer layer_of(const Call& c) {
  Layer layer;
  layer.batch_first = c.integer("layout", 0) != 0;
  layer.x = layer.batch_first ? heddle::transpose(c.tensor(0), 0, 1) : c.tensor(0);
  if (layer.x.rank() != 3) c.fail("takes three axes");
  layer.steps = layer.x.dim(0);
  layer.batch = layer.x.dim(1);
  layer.hidden = c.tensor(2).dim(-1);
  if (c.has("hidden_size") && c.integer("hidden_size") != layer.hidden)
    c.fail("hidden_size is not that of the weights");
  if (c.given(4)) layer.lengths = heddle::cast(c.tensor(4), DType::i64);
  const std::string direction = c.text("direction", "forward");
  if (direction != "reverse") layer.reversed.push_back(false);
  if (direction != "forward") layer.reversed.push_back(true);
  if (c.tensor(1).dim(0) != static_cast<int64_t>(layer.reversed.size()))
    c.fail("the weights are of another number of directions");
  return layer;
}

// Each sequence turned around within its length: (T, B, ...).
Tensor turned(const Layer& layer, const Tensor& x) {
  if (!layer.lengths.defined()) return flip(x, {0});
  const Tensor t = heddle::unsqueeze(arange(0, static_cast<double>(layer.steps), 1, DType::i64, &x.device()), 1);
  const Tensor at = heddle::where(t < layer.lengths, layer.lengths - 1.0 - t, t);
  return take_along_axis(x, heddle::unsqueeze(at, -1), 0);
}

Tensor initial_state(const Call& c, const Layer& layer, size_t input, size_t direction) {
  if (!c.given(input)) return zeros(Shape{layer.batch, layer.hidden}, layer.x.dtype(), &c.device());
  const Tensor all = layer.batch_first ? heddle::transpose(c.tensor(input), 0, 1) : c.tensor(input);
  return select(all, 0, static_cast<int64_t>(direction));
}

// Outputs (T, B, H) and last states of one direction.
std::pair<Tensor, std::vector<Tensor>> run_direction(const Layer& layer, const Direction& d, bool reversed,
                                                     const Step& step) {
  std::vector<Tensor> xs{reversed ? turned(layer, d.projected) : d.projected};
  if (layer.lengths.defined())
    xs.push_back(arange(0, static_cast<double>(layer.steps), 1, DType::i64, &layer.x.device()));
  const auto body = [&](const std::vector<Tensor>& states, const std::vector<Tensor>& x) {
    std::vector<Tensor> next = step(d, x[0], states);
    Tensor y = next[0];
    if (layer.lengths.defined()) {
      const Tensor runs = heddle::unsqueeze(x[1] < layer.lengths, -1);
      y = heddle::where(runs, y, zeros_like(y));
      for (size_t i = 0; i < next.size(); ++i) next[i] = heddle::where(runs, next[i], states[i]);
    }
    return Scanned{next, {y}};
  };
  const Scanned result = heddle::scan(body, d.initial, xs);
  return {reversed ? turned(layer, result.ys[0]) : result.ys[0], result.carry};
}

// W, R and B of a direction; `apart` keeps the recurrent bias by itself.
Direction direction_of(const Call& c, const Layer& layer, size_t number, int64_t gates, bool apart) {
  const auto at = static_cast<int64_t>(number);
  const int64_t width = gates * layer.hidden;
  Direction d;
  const Tensor weight = select(c.tensor(1), 0, at);
  d.recurrent = select(c.tensor(2), 0, at);
  d.projected = heddle::matmul(layer.x, heddle::transpose(weight));
  if (c.given(3)) {
    const Tensor bias = select(c.tensor(3), 0, at);
    d.projected = d.projected + narrow(bias, 0, 0, width);
    d.recurrent_bias = narrow(bias, 0, width, width);
    if (!apart) d.projected = d.projected + d.recurrent_bias;
  }
  return d;
}

// All directions; `states` beside the output are given out as well.
void run_layer(Call& c, int64_t gates, const std::vector<std::string>& defaults, size_t states, bool apart,
               const Step& step) {
  const Layer layer = layer_of(c);
  const std::vector<Activation> all = activations_of(c, defaults, layer.reversed.size());
  std::vector<Tensor> ys;
  std::vector<std::vector<Tensor>> last(states);
  for (size_t n = 0; n < layer.reversed.size(); ++n) {
    Direction d = direction_of(c, layer, n, gates, apart);
    const auto first = all.begin() + static_cast<ptrdiff_t>(n * defaults.size());
    d.f.assign(first, first + static_cast<ptrdiff_t>(defaults.size()));
    for (size_t s = 0; s < states; ++s) d.initial.push_back(initial_state(c, layer, 5 + s, n));
    if (c.given(7)) d.peepholes = select(c.tensor(7), 0, static_cast<int64_t>(n));
    const auto [y, carry] = run_direction(layer, d, layer.reversed[n], step);
    ys.push_back(y);
    for (size_t s = 0; s < states; ++s) last[s].push_back(carry[s]);
  }
  const Tensor y = heddle::stack(ys, 1);  // (T, D, B, H)
  c.out(layer.batch_first ? permute(y, {2, 0, 1, 3}) : y, c.type(0));
  for (const std::vector<Tensor>& state : last) {
    const Tensor together = heddle::stack(state, 0);
    c.out(layer.batch_first ? heddle::transpose(together, 0, 1) : together, c.type(0));
  }
}

Tensor clipped(const Call& c, const Tensor& x) {
  if (!c.has("clip")) return x;
  const double limit = c.real("clip");
  return clamp(x, -limit, limit);
}

}  // namespace

void rnn(Call& c) {
  run_layer(c, 1, {"Tanh"}, 1, false, [&](const Direction& d, const Tensor& x, const std::vector<Tensor>& states) {
    return std::vector{d.f[0](clipped(c, x + heddle::matmul(states[0], heddle::transpose(d.recurrent))))};
  });
}

// Gates update, reset, hidden.
void gru(Call& c) {
  const bool linear = c.integer("linear_before_reset", 0) != 0;
  run_layer(
      c, 3, {"Sigmoid", "Tanh"}, 1, true, [&](const Direction& d, const Tensor& x, const std::vector<Tensor>& states) {
        const int64_t h = states[0].dim(1);
        const auto gate = [&](const Tensor& all, int64_t number) { return narrow(all, -1, number * h, h); };
        const auto bias = [&](int64_t number, int64_t count) {
          return d.recurrent_bias.defined() ? narrow(d.recurrent_bias, 0, number * h, count * h) : Tensor();
        };
        const auto product = [&](const Tensor& state, int64_t number, int64_t count) {
          const Tensor y = heddle::matmul(state, heddle::transpose(narrow(d.recurrent, 0, number * h, count * h)));
          const Tensor b = bias(number, count);
          return b.defined() ? y + b : y;
        };
        const Tensor both = d.f[0](clipped(c, narrow(x, -1, 0, 2 * h) + product(states[0], 0, 2)));
        const Tensor z = gate(both, 0), r = gate(both, 1);
        const Tensor candidate = linear ? r * product(states[0], 2, 1) : product(r * states[0], 2, 1);
        const Tensor n = d.f[1](clipped(c, gate(x, 2) + candidate));
        return std::vector{(1.0 - z) * n + z * states[0]};
      });
}

// Gates input, output, forget, cell.
void lstm(Call& c) {
  const bool coupled = c.integer("input_forget", 0) != 0;
  run_layer(c, 4, {"Sigmoid", "Tanh", "Tanh"}, 2, false,
            [&](const Direction& d, const Tensor& x, const std::vector<Tensor>& states) {
              const Tensor gates = x + heddle::matmul(states[0], heddle::transpose(d.recurrent));
              const int64_t h = states[0].dim(1);
              const auto gate = [&](int64_t number, int64_t peephole, const Tensor& cell) {
                Tensor g = narrow(gates, -1, number * h, h);
                if (d.peepholes.defined() && peephole >= 0) g = g + narrow(d.peepholes, 0, peephole * h, h) * cell;
                return clipped(c, g);
              };
              const Tensor i = d.f[0](gate(0, 0, states[1]));
              const Tensor f = coupled ? 1.0 - i : d.f[0](gate(2, 2, states[1]));
              const Tensor cell = f * states[1] + i * d.f[1](gate(3, -1, states[1]));
              const Tensor o = d.f[0](gate(1, 1, cell));
              return std::vector{o * d.f[2](cell), cell};
            });
}

}  // namespace heddle::onnx::build
