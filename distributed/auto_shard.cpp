#include "heddle/distributed/auto_shard.h"

#include <fmt/format.h>

#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/collective.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/op/primitives.h"
#include "heddle/distributed/layout.h"
#include "heddle/distributed/op_cut.h"

namespace heddle::distributed {
namespace {

constexpr const char* who = "auto_shard";
struct Constraint {
  NodePtr node;  // whose address stays its own
  Layout layout;
};
using Constraints = std::unordered_map<const Node*, Constraint>;
thread_local Constraints* constraints_of_thread = nullptr;

// While alive, constrain() has a meaning on this thread.
class ConstraintScope {
 public:
  explicit ConstraintScope(Constraints& list) : before_(std::exchange(constraints_of_thread, &list)) {}
  ~ConstraintScope() { constraints_of_thread = before_; }
  ConstraintScope(const ConstraintScope&) = delete;
  ConstraintScope& operator=(const ConstraintScope&) = delete;

 private:
  Constraints* before_;
};

// Records again, over parts, what was recorded from examples of the whole.
class Replay {
 public:
  Replay(const MeshScope& scope, const Constraints& constraints) : scope_(scope), constraints_(constraints) {}

  void put(const NodePtr& example, Placed placed) { values_.emplace(example.get(), std::move(placed)); }

  Placed& of(const NodePtr& root) {
    std::unordered_set<const Node*> seen;
    const auto enter = [&](const NodePtr& input) {
      return !values_.contains(input.get()) && seen.insert(input.get()).second;
    };
    if (!values_.contains(root.get())) {
      post_order(
          root, enter, [](const Node& node) { return !node.has_value(); },
          [&](const NodePtr& node) { values_.emplace(node.get(), constrained(*node, placed(node))); });
    }
    return values_.at(root.get());
  }

 private:
  Placed placed(const NodePtr& node) {
    if (node->has_value() || node->inputs.empty()) return {Tensor(node), whole_layout(node->shape.rank())};
    refuse(*node);
    const CallerScope caller(node->where.caller);
    if (node->op == &ops::custom_op) return values_.at(node->inputs[0].get());  // gradients were taken
    std::vector<const Placed*> inputs;
    for (const NodePtr& input : node->inputs) inputs.push_back(&settled(input));
    const OpCut cut(*node, inputs, scope_);
    std::vector<NodePtr> parts;
    for (size_t i = 0; i < inputs.size(); ++i)
      parts.push_back(moved(inputs[i]->part, inputs[i]->layout, cut.of_input(i)).node());
    const Layout layout = cut.of_result();
    Tensor part(
        make_node(*node->op, std::move(parts), node->attrs, part_shape(node->shape, layout, scope_), node->dtype));
    if (const AxisMask axes = cut.reduced(Factor::Reduction::max); axes != 0) part = collective::pmax(part, axes);
    if (const AxisMask axes = cut.reduced(Factor::Reduction::min); axes != 0) part = collective::pmin(part, axes);
    return {part, layout};
  }

  // Without partial sums, which are added once for all that read them.
  const Placed& settled(const NodePtr& node) {
    Placed& value = values_.at(node.get());
    if (value.layout.partial != 0) {
      Layout added = value.layout;
      added.partial = 0;
      value = {moved(value.part, value.layout, added), added};
    }
    return value;
  }

  Placed constrained(const Node& node, Placed value) const {
    const auto found = constraints_.find(&node);
    if (found == constraints_.end()) return value;
    const Layout& wanted = found->second.layout;
    return {moved(value.part, value.layout, wanted), wanted};
  }

  static void refuse(const Node& node) {
    const OpKind kind = node.op->kind;
    if (kind != OpKind::effect && kind != OpKind::collective && kind != OpKind::leaf) return;
    const std::string line = node.where.str();
    throw ValueError(fmt::format("[{}] '{}'{} has no parts: loops, assignments and collectives are not for it", who,
                                 node.op->name, line.empty() ? "" : " (" + line + ")"));
  }

  const MeshScope& scope_;
  const Constraints& constraints_;
  std::unordered_map<const Node*, Placed> values_;
};

Shape whole_shape(const Shape& part, const Layout& layout, const MeshScope& scope) {
  Shape whole = part;
  for (int d = 0; d < part.rank(); ++d)
    whole = whole.with(d, part[d] * scope.size(layout.dims[static_cast<size_t>(d)]));
  return whole;
}

// What every rank runs.
std::vector<Tensor> run(const ShardFunction& f, const std::vector<Spec>& in, const std::vector<Spec>& out,
                        const std::vector<Tensor>& shards) {
  const MeshScope& scope = MeshScope::required(who);
  Constraints constraints;
  Replay replay(scope, constraints);
  std::vector<Tensor> examples;
  for (size_t i = 0; i < shards.size(); ++i) {
    const Layout layout = layout_of(in[i], shards[i].rank(), scope, who);
    const NodePtr example = make_example(*shards[i].node(), whole_shape(shards[i].shape(), layout, scope));
    example->varying = 0;  // the whole is the same everywhere
    replay.put(example, {shards[i], layout});
    examples.emplace_back(example);
  }
  std::vector<Tensor> results;
  {
    const ExampleScope recording;
    const ConstraintScope named(constraints);
    results = f(examples);
  }
  const NoGradScope no_gradients;
  std::vector<Tensor> parts;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].defined() || i >= out.size()) return results;  // shard_map says so
    const Placed& value = replay.of(results[i].node());
    const Layout wanted = layout_of(out[i], results[i].rank(), scope, who);
    part_shape(results[i].shape(), wanted, scope);  // ShapeError where there are no parts
    const Tensor part = moved(value.part, value.layout, wanted);
    parts.push_back(part);
    part.node()->varying &= wanted.axes();  // ranks computed the same: what was gathered, or from it
  }
  return parts;
}

ShardFunction program(ShardFunction f, const std::vector<Spec>& in, const std::vector<Spec>& out) {
  return [f = std::move(f), in, out](const std::vector<Tensor>& shards) { return run(f, in, out, shards); };
}

}  // namespace

ShardFunction auto_shard(ShardFunction f, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out) {
  ShardFunction parts = program(std::move(f), in, out);
  return shard_map(std::move(parts), mesh, std::move(in), std::move(out));
}

ShardFunction auto_shard(ShardFunction f, World& world, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out) {
  ShardFunction parts = program(std::move(f), in, out);
  return shard_map(std::move(parts), world, mesh, std::move(in), std::move(out));
}

Tensor constrain(const Tensor& x, const Spec& spec, Caller caller) {
  const CallerScope scope(caller);
  if (constraints_of_thread == nullptr) return x;
  const MeshScope& mesh = MeshScope::required("constrain");
  Layout layout = layout_of(spec, x.rank(), mesh, "constrain");
  part_shape(x.shape(), layout, mesh);
  const Tensor same(make_node(ops::reshape_op, {x.node()}, {}, x.shape(), x.dtype()));  // a node of its own
  constraints_of_thread->emplace(same.node().get(), Constraint{same.node(), std::move(layout)});
  return same;
}

}  // namespace heddle::distributed
