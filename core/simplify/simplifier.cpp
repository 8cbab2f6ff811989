#include "heddle/core/simplify/simplifier.h"

#include <bit>
#include <cmath>
#include <limits>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

std::vector<uint64_t> structure(const IrNode& node) {
  std::vector<uint64_t> key{reinterpret_cast<uint64_t>(node.op), static_cast<uint64_t>(node.dtype),
                            std::bit_cast<uint64_t>(node.attrs.real), std::bit_cast<uint64_t>(node.attrs.real2),
                            static_cast<uint64_t>(node.shape.rank()) | static_cast<uint64_t>(node.keep) << 32};
  for (int64_t d : node.shape) key.push_back(static_cast<uint64_t>(d));
  for (int64_t i : node.attrs.ints) key.push_back(static_cast<uint64_t>(i));
  key.push_back(node.inputs.size());
  for (int i : node.inputs) key.push_back(static_cast<uint64_t>(i));
  key.push_back(reinterpret_cast<uint64_t>(node.loop.get()));
  return key;
}

std::span<const Rule> rules_of(OpKind kind) {
  switch (kind) {
    case OpKind::movement:
      return movement_rules();
    case OpKind::elementwise:
      return elementwise_rules();
    case OpKind::reduce:
      return reduce_rules();
    case OpKind::contraction:
      return product_rules();
    default:
      return {};
  }
}

}  // namespace

Simplifier::Simplifier(const Graph& in, PassSet passes) : in_(in), passes_(passes) { out_ = in.over_same_leaves(); }

Graph Simplifier::run() {
  mark_live();
  std::vector<int> to(in_.nodes.size(), -1);
  for (size_t i = 0; i < in_.nodes.size(); ++i) {
    if (!live_[i]) continue;
    IrNode node = in_.nodes[i];
    for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
    keep_ = node.keep;
    origin_ = node.origin;
    to[i] = make(std::move(node));
    users_of_[to[i]] += users_[i] - readers_gone(static_cast<int>(i), to);
  }
  for (const IrOutput& output : in_.outputs)
    out_.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  settle_sizes(out_, anything_varies(in_));
  return passes_.has(Pass::dead) ? drop_dead(std::move(out_)) : std::move(out_);
}

// A vertex that has become what it was made from (a reshape there and back) does not read it any more, nor does what
// lay between for it alone.
int Simplifier::readers_gone(int vertex, const std::vector<int>& to) const {
  const auto old = [&](int id) -> const IrNode& { return in_.nodes[static_cast<size_t>(id)]; };
  const int same = to[static_cast<size_t>(vertex)];
  int gone = 0;
  for (int id : old(vertex).inputs) {
    while (to[static_cast<size_t>(id)] != same && users_[static_cast<size_t>(id)] == 1 && old(id).inputs.size() == 1)
      id = old(id).inputs[0];
    gone += to[static_cast<size_t>(id)] == same;
  }
  return gone;
}

void Simplifier::mark_live() {
  live_.assign(in_.nodes.size(), !passes_.has(Pass::dead));
  users_.assign(in_.nodes.size(), 0);
  for (const IrOutput& output : in_.outputs) {
    live_[static_cast<size_t>(output.node)] = true;
    ++users_[static_cast<size_t>(output.node)];
  }
  for (size_t i = in_.nodes.size(); i-- > 0;) {
    if (!live_[i]) continue;
    for (int input : in_.nodes[i].inputs) {
      live_[static_cast<size_t>(input)] = true;
      ++users_[static_cast<size_t>(input)];
    }
  }
}

bool Simplifier::is_full(int id) const { return at(id).op == &ops::full_op; }
std::optional<double> Simplifier::constant(int id) const {
  return is_full(id) ? std::optional(at(id).attrs.real) : std::nullopt;
}

int Simplifier::users_of(int id) const {
  const auto found = users_of_.find(id);
  return found == users_of_.end() ? 0 : found->second;
}

int Simplifier::make(IrNode node) {
  node.keep = keep_;  // what a rule makes in a vertex's place is kept as that vertex is
  node.origin = origin_;
  if (std::optional<int> same = rewrite(node)) return *same;
  if (node.leaf >= 0 || !passes_.has(Pass::cse)) return out_.add(std::move(node));
  auto [entry, fresh] = known_.try_emplace(structure(node), 0);
  if (fresh) entry->second = out_.add(std::move(node));
  return entry->second;
}

int Simplifier::make_full(const Shape& shape, DType dtype, double value) {
  IrNode full{&ops::full_op, {}, {}, shape, dtype};
  full.attrs.real =
      rounded(value, is_half(dtype) ? DType::f32 : dtype);  // a number beside a half-precision value has f32's digits
  return make(std::move(full));
}

const IrNode& Simplifier::behind_views(int id) const {
  while (is_view_op(*at(id).op)) id = at(id).inputs[0];
  return at(id);
}

bool Simplifier::divides_by_zero(const IrNode& node) const {
  const IrNode& divisor = behind_views(node.inputs[1]);
  return divisor.op == &ops::full_op && divisor.attrs.real == 0;
}

std::optional<int> Simplifier::rewrite(IrNode& node) {
  // What no kernel computes, or drivers compute wrongly, is no pass: `fold` switched off must not bring it back.
  if (node.op == &ops::stop_gradient_op) return node.inputs[0];
  if (node.op == &ops::div_op && divides_by_zero(node)) {
    // x / 0 is x * inf in every case; drivers take liberties with a literal zero divisor (llvmpipe stores garbage).
    const double infinity =
        std::copysign(std::numeric_limits<double>::infinity(), behind_views(node.inputs[1]).attrs.real);
    return make(
        {&ops::mul_op, {}, {node.inputs[0], make_full(node.shape, node.dtype, infinity)}, node.shape, node.dtype});
  }
  // A constant made of numbers that vary does too.
  uint16_t numbers = 0;
  for (int input : node.inputs) numbers |= is_full(input) ? at(input).varies & varies::numbers : 0;
  for (const Rule& rule : rules_of(node.op->kind)) {
    if (!passes_.has(rule.pass)) continue;
    const std::optional<int> same = rule.apply(*this, node);
    if (same && is_full(*same)) out_.nodes[static_cast<size_t>(*same)].varies |= numbers;
    if (same) return same;
  }
  return std::nullopt;
}

Graph drop_dead(Graph graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  for (const IrOutput& output : graph.outputs) live[static_cast<size_t>(output.node)] = true;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (int input : graph.nodes[i].inputs) live[static_cast<size_t>(input)] = true;
  }
  // A loop that has its plan writes all of its results, in their order.
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const IrNode& node = graph.nodes[i];
    if (node.op != &ops::loop_result_op) continue;
    const auto loop = static_cast<size_t>(node.inputs[0]);
    live[i] = live[i] || (live[loop] && graph.nodes[loop].planned);
  }
  Graph kept = graph.over_same_leaves();
  std::vector<int> to(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!live[i]) continue;
    for (int& input : graph.nodes[i].inputs) input = to[static_cast<size_t>(input)];
    to[i] = kept.add(std::move(graph.nodes[i]));
  }
  for (const IrOutput& output : graph.outputs)
    kept.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  return kept;
}

Graph simplify(const Graph& graph, PassSet passes) { return Simplifier(graph, passes).run(); }
Graph simplify(const Graph& graph) { return simplify(graph, active_passes()); }

}  // namespace heddle
