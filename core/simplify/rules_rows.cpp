// Rules for softmax, log-softmax and normalisations that were written out: they become what the library's functions
// record, so both give the same kernels. What changes besides is for the better: one division a row instead of one an
// element, no overflow of exponentials, variances without cancellation.
#include <algorithm>
#include <cmath>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/rules_patterns.h"

namespace heddle {
namespace {

// A value per row that is spread over the rows' elements: expand(kept), where `kept` has size 1 along the reduced axes;
// `row` is what lies behind the reshape that put these axes back.
struct Spread {
  int kept = -1, row = -1;
};
std::optional<Spread> spread(const Simplifier& graph, int id) {
  if (graph.at(id).op != &ops::expand_op) return std::nullopt;
  const int kept = graph.at(id).inputs[0];
  return Spread{kept, behind_reshape(graph, kept)};
}

int expand(Simplifier& graph, int kept, const Shape& shape) {
  return graph.make({&ops::expand_op, {}, {kept}, shape, graph.at(kept).dtype});
}
int unary(Simplifier& graph, const OpDef& op, int x) {
  return graph.make({&op, {}, {x}, graph.at(x).shape, graph.at(x).dtype});
}
int binary(Simplifier& graph, const OpDef& op, int x, int y) {
  return graph.make({&op, {}, {x, y}, graph.at(x).shape, graph.at(x).dtype});
}

Shape kept_shape(const Shape& shape, const std::vector<int64_t>& axes) {
  Shape kept = shape;
  for (const int64_t axis : axes) kept = kept.with(static_cast<int>(axis), 1);
  return kept;
}

// The reduction of x over `axes`, with these kept as size 1.
int reduced(Simplifier& graph, const OpDef& op, int x, const std::vector<int64_t>& axes) {
  const IrNode& from = graph.at(x);
  Shape dropped;
  for (int d = 0; d < from.shape.rank(); ++d) {
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) dropped.push_back(from.shape[d]);
  }
  const DType t = from.dtype;
  const Shape kept = kept_shape(from.shape, axes);
  return graph.make({&ops::reshape_op, {}, {graph.make({&op, Attrs{axes}, {x}, dropped, t})}, kept, t});
}

// ---- softmax
// Was the largest of each row subtracted?
bool is_shifted(const Simplifier& graph, int z) {
  if (graph.at(z).op != &ops::sub_op) return false;
  const std::optional<Spread> s = spread(graph, graph.at(z).inputs[1]);
  return s && graph.at(s->row).op == &ops::max_op && graph.at(s->row).inputs[0] == graph.at(z).inputs[0];
}

// z less its largest along `axes`.
int shifted(Simplifier& graph, int z, const std::vector<int64_t>& axes) {
  const Shape shape = graph.at(z).shape;
  return binary(graph, ops::sub_op, z, expand(graph, reduced(graph, ops::max_op, z, axes), shape));
}

// Is the exponential `e` read by its sum `total` and one more alone, the sum once, and summed where it is spread again?
bool may_shift(const Simplifier& graph, int e, const Spread& total, int readers) {
  const IrNode& sum = graph.at(total.row);
  return graph.users_of(e) == readers && graph.users_of(total.row) == 1 && graph.at(e).shape.numel() > 0 &&
         graph.at(total.kept).shape == kept_shape(graph.at(e).shape, axes_of(sum.attrs));
}

// exp(z) / sum(exp(z)) -> exp(z - max z) * (1 / sum).
std::optional<int> softmax(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::div_op || graph.at(node.inputs[0]).op != &ops::exp_op) return std::nullopt;
  const int e = node.inputs[0], z = graph.at(e).inputs[0];
  const std::optional<Spread> total = spread(graph, node.inputs[1]);
  if (!total || graph.at(total->row).op != &ops::sum_op || graph.at(total->row).inputs[0] != e) return std::nullopt;
  const std::vector<int64_t> axes = axes_of(graph.at(total->row).attrs);
  if (is_shifted(graph, z) || !may_shift(graph, e, *total, 2)) {
    return binary(graph, ops::mul_op, e, expand(graph, unary(graph, ops::reciprocal_op, total->kept), node.shape));
  }
  const int stable = unary(graph, ops::exp_op, shifted(graph, z, axes));
  const int inverse = unary(graph, ops::reciprocal_op, reduced(graph, ops::sum_op, stable, axes));
  return binary(graph, ops::mul_op, stable, expand(graph, inverse, node.shape));
}

// log(exp(z) * (1 / s)) -> z - log(s).
std::optional<int> log_of_softmax(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::log_op || graph.at(node.inputs[0]).op != &ops::mul_op) return std::nullopt;
  const IrNode& product = graph.at(node.inputs[0]);
  const int e = product.inputs[0];
  const std::optional<Spread> inverse = spread(graph, product.inputs[1]);
  if (graph.at(e).op != &ops::exp_op || !inverse || graph.at(inverse->kept).op != &ops::reciprocal_op)
    return std::nullopt;
  const int total = graph.at(inverse->kept).inputs[0], sum = behind_reshape(graph, total), z = graph.at(e).inputs[0];
  if (graph.at(sum).op != &ops::sum_op || graph.at(sum).inputs[0] != e) return std::nullopt;
  return binary(graph, ops::sub_op, z, expand(graph, unary(graph, ops::log_op, total), node.shape));
}

// z - log(sum(exp(z))) -> (z - max z) - log(sum(exp(z - max z))).
std::optional<int> log_softmax(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::sub_op) return std::nullopt;
  const int z = node.inputs[0];
  const std::optional<Spread> log = spread(graph, node.inputs[1]);
  if (!log || graph.at(log->row).op != &ops::log_op || graph.users_of(log->row) != 1 || is_shifted(graph, z))
    return std::nullopt;
  const int kept = graph.at(log->row).inputs[0];
  const Spread total{log->kept, behind_reshape(graph, kept)};
  if (graph.at(total.row).op != &ops::sum_op) return std::nullopt;
  const int e = graph.at(total.row).inputs[0];
  if (graph.at(e).op != &ops::exp_op || graph.at(e).inputs[0] != z || !may_shift(graph, e, total, 1))
    return std::nullopt;
  const std::vector<int64_t> axes = axes_of(graph.at(total.row).attrs);
  const int stable = shifted(graph, z, axes);
  const int sum = reduced(graph, ops::sum_op, unary(graph, ops::exp_op, stable), axes);
  return binary(graph, ops::sub_op, stable, expand(graph, unary(graph, ops::log_op, sum), node.shape));
}

// ---- norms
// x / spread(sqrt(v)) -> x * spread(rsqrt(v)).
std::optional<int> divide_by_root(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::div_op) return std::nullopt;
  const std::optional<Spread> root = spread(graph, node.inputs[1]);
  if (!root || graph.at(root->row).op != &ops::sqrt_op) return std::nullopt;
  const int inverse = unary(graph, ops::rsqrt_op, graph.at(root->row).inputs[0]);
  const Shape kept = graph.at(root->kept).shape;
  return binary(graph, ops::mul_op, node.inputs[0],
                expand(graph, graph.make({&ops::reshape_op, {}, {inverse}, kept, node.dtype}), node.shape));
}

// 1 / sqrt(v) -> rsqrt(v).
std::optional<int> inverse_root(Simplifier& graph, IrNode& node) {
  const bool divides = node.op == &ops::div_op && graph.constant(node.inputs[0]) == 1.0;
  if (!divides && node.op != &ops::reciprocal_op) return std::nullopt;
  const int root = node.inputs[divides ? 1 : 0];
  if (graph.at(root).op != &ops::sqrt_op || graph.users_of(root) != 1) return std::nullopt;
  return unary(graph, ops::rsqrt_op, graph.at(root).inputs[0]);
}

// A sum times a constant.
struct ScaledSum {
  int x = -1;  // what is summed
  std::vector<int64_t> axes;
  double factor = 1;
};
std::optional<ScaledSum> scaled_sum(const Simplifier& graph, int id) {
  ScaledSum s;
  id = behind_reshape(graph, id);
  const Factors f = factors_of(graph, id);
  if (f.vertices.size() != 1) return std::nullopt;
  const IrNode& sum = graph.at(behind_reshape(graph, f.vertices[0]));
  if (sum.op != &ops::sum_op) return std::nullopt;
  return ScaledSum{sum.inputs[0], axes_of(sum.attrs), f.constant};
}

// y, when id is y * y (or square(y)).
std::optional<int> square_of(const Simplifier& graph, int id) {
  const IrNode& node = graph.at(behind_reshape(graph, id));
  if (node.op == &ops::square_op) return node.inputs[0];
  if (node.op == &ops::mul_op && node.inputs[0] == node.inputs[1]) return node.inputs[0];
  return std::nullopt;
}

double inverse_count(const Simplifier& graph, const ScaledSum& s) {
  double count = 1;
  for (const int64_t axis : s.axes) count *= static_cast<double>(graph.at(s.x).shape[static_cast<int>(axis)]);
  return 1 / count;
}
bool is_mean(const Simplifier& graph, const ScaledSum& s) {
  return about(s.factor, inverse_count(graph, s), graph.at(s.x).dtype);
}

// Is c a value less its mean over `axes`?
bool is_centred(const Simplifier& graph, int c, const std::vector<int64_t>& axes) {
  if (graph.at(c).op != &ops::sub_op) return false;
  const std::optional<Spread> s = spread(graph, graph.at(c).inputs[1]);
  const std::optional<ScaledSum> m = s ? scaled_sum(graph, s->row) : std::nullopt;
  return m && m->x == graph.at(c).inputs[0] && m->axes == axes && is_mean(graph, *m);
}

// (sum(c^2) - sum(c)^2 / n) of centred c, as var() computes it -> sum(c^2): the rest is what rounding left of 0.
std::optional<int> without_excess(Simplifier& graph, int difference) {
  const IrNode& node = graph.at(difference);
  const std::optional<ScaledSum> squares = scaled_sum(graph, node.inputs[0]);
  const Factors excess = factors_of(graph, node.inputs[1]);
  if (!squares || squares->factor != 1) return std::nullopt;
  const std::optional<int> c = square_of(graph, squares->x);
  if (!c || !is_centred(graph, *c, squares->axes)) return std::nullopt;
  // The square of a sum is one factor, or two.
  if (excess.vertices.empty() || excess.vertices.size() > 2 || excess.vertices.front() != excess.vertices.back())
    return std::nullopt;
  const int total =
      excess.vertices.size() == 2 ? excess.vertices[0] : square_of(graph, excess.vertices[0]).value_or(-1);
  if (total < 0) return std::nullopt;
  const std::optional<ScaledSum> sum = scaled_sum(graph, total);
  return sum && sum->x == *c && sum->axes == squares->axes ? std::optional(node.inputs[0]) : std::nullopt;
}

// mean(x^2) - mean(x)^2 -> mean((x - mean(x))^2).
std::optional<int> without_cancellation(Simplifier& graph, int difference) {
  const IrNode node = graph.at(difference);
  const std::optional<ScaledSum> squares = scaled_sum(graph, node.inputs[0]);
  const int m = square_of(graph, node.inputs[1]).value_or(-1),
            x = squares ? square_of(graph, squares->x).value_or(-1) : -1;
  const std::optional<ScaledSum> mean = m >= 0 ? scaled_sum(graph, m) : std::nullopt;
  if (x < 0 || !mean || mean->x != x || mean->axes != squares->axes || !is_mean(graph, *mean) ||
      !is_mean(graph, *squares))
    return std::nullopt;
  const Shape full = graph.at(x).shape, kept = kept_shape(full, mean->axes);
  const int middle = graph.make({&ops::reshape_op, {}, {m}, kept, node.dtype});
  const int centred = binary(graph, ops::sub_op, x, expand(graph, middle, full));
  const int sum = reduced(graph, ops::sum_op, binary(graph, ops::mul_op, centred, centred), mean->axes);
  const int variance = binary(graph, ops::mul_op, sum, graph.make_full(kept, node.dtype, inverse_count(graph, *mean)));
  return graph.make({&ops::reshape_op, {}, {variance}, node.shape, node.dtype});
}

// rsqrt(variance + eps), of which no digits are lost before it is taken.
std::optional<int> variance_under_root(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::rsqrt_op || graph.at(node.inputs[0]).op != &ops::add_op) return std::nullopt;
  const IrNode sum = graph.at(node.inputs[0]);
  if (graph.constant(sum.inputs[1]).value_or(0) <= 0) return std::nullopt;
  int variance = sum.inputs[0];
  std::optional<double> factor;
  if (graph.at(variance).op == &ops::mul_op) {
    factor = graph.constant(graph.at(variance).inputs[1]);
    if (!factor) return std::nullopt;
    variance = graph.at(variance).inputs[0];
  }
  if (graph.at(variance).op != &ops::sub_op) return std::nullopt;
  std::optional<int> better = without_excess(graph, variance);
  if (!better && !factor) better = without_cancellation(graph, variance);
  if (!better) return std::nullopt;
  if (factor) better = binary(graph, ops::mul_op, *better, graph.make_full(sum.shape, node.dtype, *factor));
  return unary(graph, ops::rsqrt_op, binary(graph, ops::add_op, *better, sum.inputs[1]));
}

}  // namespace

std::span<const Rule> row_rules() {
  static constexpr Rule rules[] = {{Pass::softmax, softmax},     {Pass::softmax, log_of_softmax},
                                   {Pass::softmax, log_softmax}, {Pass::norms, divide_by_root},
                                   {Pass::norms, inverse_root},  {Pass::norms, variance_under_root}};
  return rules;
}

}  // namespace heddle
