// Rules for activations that were written out: GELU in both forms, sigmoid, SiLU. Only where nobody else reads what
// they are made of: a gradient that was recorded through the written form would compute it once more.
#include <algorithm>
#include <cmath>

#include "heddle/core/ir/access.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/rules_patterns.h"

namespace heddle {
namespace {

void multiply(const Simplifier& graph, int id, int depth, Factors& product) {
  const IrNode& node = graph.at(id);
  if (const std::optional<double> c = graph.constant(id)) {
    product.constant *= *c;
  } else if (depth == 0) {
    product.vertices.push_back(id);
  } else if (node.op == &ops::mul_op) {
    multiply(graph, node.inputs[0], depth - 1, product);
    multiply(graph, node.inputs[1], depth - 1, product);
  } else if (node.op == &ops::div_op && graph.constant(node.inputs[1])) {
    product.constant /= *graph.constant(node.inputs[1]);
    multiply(graph, node.inputs[0], depth - 1, product);
  } else if (node.op == &ops::neg_op) {
    product.constant = -product.constant;
    multiply(graph, node.inputs[0], depth - 1, product);
  } else if (node.op == &ops::square_op || (node.op == &ops::pow_op && graph.constant(node.inputs[1]) == 3.0)) {
    const int times = node.op == &ops::square_op ? 2 : 3;
    for (int i = 0; i < times; ++i) multiply(graph, node.inputs[0], depth - 1, product);
  } else {
    product.vertices.push_back(id);
  }
}

// id = 1 + y: y.
std::optional<int> less_one(const Simplifier& graph, int id) {
  const IrNode& node = graph.at(id);
  if (node.op != &ops::add_op) return std::nullopt;
  if (graph.constant(node.inputs[1]) == 1.0) return node.inputs[0];
  return graph.constant(node.inputs[0]) == 1.0 ? std::optional(node.inputs[1]) : std::nullopt;
}

// Is id = c x^n?
bool is_power(const Simplifier& graph, int id, double c, int x, size_t n) {
  const Factors f = factors_of(graph, id);
  return about(f.constant, c, graph.at(id).dtype) && f.vertices == std::vector<int>(n, x);
}

constexpr double inverse_root_2 = 0.70710678118654752440, root_2_by_pi = 0.79788456080286535588, cubic = 0.044715;

// u = sqrt(2 / pi) (x + 0.044715 x^3), with or without x taken out.
bool is_gelu_argument(const Simplifier& graph, int u, int x) {
  const Factors f = factors_of(graph, u);
  const IrNode& whole = graph.at(u);
  const auto either = [&](const IrNode& sum, const auto& first, const auto& second) {
    return (first(sum.inputs[0]) && second(sum.inputs[1])) || (first(sum.inputs[1]) && second(sum.inputs[0]));
  };
  if (whole.op == &ops::add_op) {
    return either(
        whole, [&](int a) { return is_power(graph, a, root_2_by_pi, x, 1); },
        [&](int b) { return is_power(graph, b, root_2_by_pi * cubic, x, 3); });
  }
  if (!about(f.constant, root_2_by_pi, whole.dtype) || f.vertices.empty()) return false;
  if (f.vertices.size() == 1) {
    const IrNode& sum = graph.at(f.vertices[0]);
    return sum.op == &ops::add_op &&
           either(
               sum, [&](int a) { return a == x; }, [&](int b) { return is_power(graph, b, cubic, x, 3); });
  }
  if (f.vertices.size() != 2) return false;
  const int other = f.vertices[f.vertices[0] == x ? 1 : 0];
  const std::optional<int> rest = less_one(graph, other);
  return (f.vertices[0] == x || f.vertices[1] == x) && rest && is_power(graph, *rest, cubic, x, 2);
}

// 0.5 x (1 + erf(x / sqrt(2))), 0.5 x (1 + tanh(...)).
std::optional<int> gelu(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::mul_op || !is_float(node.dtype)) return std::nullopt;
  Factors f;
  for (const int input : node.inputs) multiply(graph, input, 4, f);
  if (f.vertices.size() != 2 || !about(f.constant, 0.5, node.dtype)) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const int x = f.vertices[side];
    const std::optional<int> inner = less_one(graph, f.vertices[1 - side]);
    if (!inner || graph.users_of(*inner) != 1 || graph.at(*inner).inputs.size() != 1) continue;
    const OpDef* op = graph.at(*inner).op;
    const int u = graph.at(*inner).inputs[0];
    if (op == &ops::erf_op && is_power(graph, u, inverse_root_2, x, 1))
      return graph.make({&ops::gelu_op, {}, {x}, node.shape, node.dtype});
    if (op == &ops::tanh_op && is_gelu_argument(graph, u, x))
      return graph.make({&ops::gelu_tanh_op, {}, {x}, node.shape, node.dtype});
  }
  return std::nullopt;
}

// id = 1 + exp(-x), for that alone: x.
std::optional<int> logistic_divisor(const Simplifier& graph, int id) {
  const std::optional<int> e = less_one(graph, id);
  if (!e || graph.at(*e).op != &ops::exp_op || graph.users_of(*e) != 1 || graph.users_of(id) != 1) return std::nullopt;
  const Factors f = factors_of(graph, graph.at(*e).inputs[0]);
  return f.constant == -1 && f.vertices.size() == 1 ? std::optional(f.vertices[0]) : std::nullopt;
}

// 1 / (1 + exp(-x)) and x / (1 + exp(-x)).
std::optional<int> logistic(Simplifier& graph, IrNode& node) {
  const bool divides = node.op == &ops::div_op;
  if (!divides && node.op != &ops::reciprocal_op) return std::nullopt;
  const std::optional<int> x = logistic_divisor(graph, node.inputs[divides ? 1 : 0]);
  if (!x) return std::nullopt;
  if (divides && node.inputs[0] == *x) return graph.make({&ops::silu_op, {}, {*x}, node.shape, node.dtype});
  if (divides && graph.constant(node.inputs[0]) != 1.0) return std::nullopt;
  return graph.make({&ops::sigmoid_op, {}, {*x}, node.shape, node.dtype});
}

// x * sigmoid(x).
std::optional<int> silu(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::mul_op) return std::nullopt;
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const int s = node.inputs[side], x = node.inputs[1 - side];
    if (graph.at(s).op != &ops::sigmoid_op || graph.at(s).inputs[0] != x || graph.users_of(s) != 1) continue;
    return graph.make({&ops::silu_op, {}, {x}, node.shape, node.dtype});
  }
  return std::nullopt;
}

}  // namespace

Factors factors_of(const Simplifier& graph, int id) {
  Factors product;
  multiply(graph, id, 5, product);
  std::sort(product.vertices.begin(), product.vertices.end());
  return product;
}

bool about(double value, double exact, DType t) {
  const double tolerance = t == DType::bf16 ? 1e-2 : t == DType::f16 ? 2e-3 : 2e-6;
  return std::abs(value - exact) <= tolerance * std::abs(exact);
}

int behind_reshape(const Simplifier& graph, int id) {
  while (graph.at(id).op == &ops::reshape_op &&
         squeezed(graph.at(id).shape) == squeezed(graph.at(graph.at(id).inputs[0]).shape))
    id = graph.at(id).inputs[0];
  return id;
}

std::span<const Rule> activation_rules() {
  static constexpr Rule rules[] = {{Pass::activations, gelu}, {Pass::activations, logistic}, {Pass::activations, silu}};
  return rules;
}

}  // namespace heddle
