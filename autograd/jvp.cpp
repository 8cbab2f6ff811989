// Forward mode over the recorded graph.
#include <fmt/format.h>

#include <unordered_map>
#include <unordered_set>

#include "heddle/autograd/loop_iteration.h"
#include "heddle/autograd/record.h"
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/derived_scope.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/custom.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

bool begins_tangents(const Node& node) { return node.op->kind == OpKind::leaf || node.op == &ops::assign_op; }

bool tracked_float(const Node& node) { return node.tracks && is_float(node.dtype); }

// Does a tangent pass from the inputs to this node?
bool carries(const Node& node) {
  if (!tracked_float(node) || begins_tangents(node)) return false;
  const GradientRow* row = find_gradient(*node.op);
  return row != nullptr && row->rule != nullptr;
}

// Rows that are linear in some of their inputs together: y(x + t) = y(x) + y(t), the other inputs as they are.
bool linear_in(const OpDef& op, size_t input) {
  if (op.kind == OpKind::movement) return &op != &ops::pad_op;  // a border of other than 0 has no tangent: see below
  if (&op == &ops::take_op || &op == &ops::gather_op) return input == 0;
  if (&op == &ops::scatter_rows_op) return input != 1;
  if (op.kind == OpKind::collective) return &op != &ops::pmax_op && &op != &ops::pmin_op;
  return &op == &ops::sum_op || &op == &ops::cumsum_op;
}

bool bilinear(const OpDef& op) {
  return &op == &ops::matmul_op || &op == &ops::conv_op || &op == &ops::conv_input_grad_op ||
         &op == &ops::conv_weight_grad_op;
}

Tensor remake(const Node& node, std::vector<NodePtr> inputs, Attrs attrs) {
  return Tensor(make_node(*node.op, std::move(inputs), std::move(attrs), node.shape, node.dtype));
}

class Push {
 public:
  explicit Push(Tangents tangents) : tangents_(std::move(tangents)) {}

  Tensor of(const NodePtr& root) {
    for (const NodePtr& node : order(root)) {
      Tensor tangent;
      if (node->op == &ops::loop_op)
        apply_to_loop(node);
      else if (carries(*node))
        tangent = apply(node);
      tangents_.emplace(node.get(), tangent);
    }
    return tangents_.at(root.get());
  }

 private:
  // What has no entry yet, inputs before users.
  std::vector<NodePtr> order(const NodePtr& root) const {
    std::vector<NodePtr> result;
    std::unordered_set<const Node*> seen{root.get()};
    if (tangents_.contains(root.get())) return result;
    const auto enter = [&](const NodePtr& input) {
      return tracked_float(*input) && !tangents_.contains(input.get()) && seen.insert(input.get()).second;
    };
    post_order(
        root, enter, [&](const Node& node) { return carries(node); },
        [&](const NodePtr& node) { result.push_back(node); });
    return result;
  }

  void apply_to_loop(const NodePtr& node) {
    if (!node->tracks) return;
    std::vector<Tensor> t;
    bool any = false;
    for (const NodePtr& input : node->inputs) {
      const auto found = tangents_.find(input.get());
      t.push_back(found == tangents_.end() || !is_float(input->dtype) ? Tensor() : found->second);
      any = any || t.back().defined();
    }
    const CallerScope scope(node->where.caller);
    if (any) loops_.emplace(node.get(), push_loop(node, std::move(t)));
  }

  Tensor apply(const NodePtr& node) {
    if (node->op == &ops::loop_result_op) {
      const auto found = loops_.find(node->inputs[0].get());
      return found == loops_.end() ? Tensor() : pushed_part(found->second, *node);
    }
    std::vector<Tensor> in, t;
    bool any = false;
    for (const NodePtr& input : node->inputs) {
      in.emplace_back(input);
      const auto found = tangents_.find(input.get());
      t.push_back(found == tangents_.end() || !is_float(input->dtype) ? Tensor() : found->second);
      any = any || t.back().defined();
    }
    if (!any) return {};
    const CallerScope scope(node->where.caller);
    const Tensor result = forward(node, in, t);
    if (result.defined() && (result.shape() != node->shape || result.dtype() != node->dtype)) {
      throw Error(fmt::format("[jvp] the rule of '{}' gave {} {} for {} {}; a fault of the rule", node->op->name,
                              result.shape().str(), name_of(result.dtype()), node->shape.str(), name_of(node->dtype)));
    }
    return result;
  }

  Tensor forward(const NodePtr& node, std::span<const Tensor> in, std::span<const Tensor> t) {
    const OpDef& op = *node->op;
    if (&op == &ops::cast_op) return cast(t[0], node->dtype);
    if (&op == &ops::where_op) return chosen(in[0], t);
    if (&op == &ops::pad_op) {
      Attrs attrs = node->attrs;
      attrs.real = 0;
      return remake(*node, {t[0].node()}, std::move(attrs));
    }
    if (op.kind == OpKind::elementwise) return elementwise(node, in, t);
    if (bilinear(op)) return product(*node, in, t);
    if (linear_in(op, 0)) return linear(*node, in, t);
    if (&op == &ops::custom_op) return custom(*node, in, t);
    if (op.kind == OpKind::body && op.decompose != nullptr) return of(decomposed(*node));
    return transposed_rule(*node, Tensor(node), in, t);
  }

  NodePtr decomposed(const Node& node) {
    const GradMode on(true);
    kept_.push_back(node.op->decompose(node).node());  // addresses in tangents_ stay valid
    return kept_.back();
  }

  static Tensor chosen(const Tensor& condition, std::span<const Tensor> t) {
    if (!t[1].defined()) return where(condition, 0, t[2]);
    return t[2].defined() ? where(condition, t[1], t[2]) : where(condition, t[1], 0);
  }

  // The Jacobian is diagonal, so the gradient rule is its own transpose.
  static Tensor elementwise(const NodePtr& node, std::span<const Tensor> in, std::span<const Tensor> t) {
    Tensor total;
    for (size_t i = 0; i < in.size(); ++i) {
      if (!t[i].defined()) continue;
      RuleCall call{*node, Tensor(node), t[i], {in.begin(), in.end()}, {}, {}};
      call.wanted.resize(in.size());
      call.wanted[i] = true;
      call.result.resize(in.size());
      find_gradient(*node->op)->rule(call);
      const Tensor& part = call.result[i];
      if (part.defined()) total = total.defined() ? total + part : part;
    }
    return total;
  }

  static Tensor product(const Node& node, std::span<const Tensor> in, std::span<const Tensor> t) {
    Tensor total;
    if (t[0].defined()) total = remake(node, {t[0].node(), in[1].node()}, node.attrs);
    if (!t[1].defined()) return total;
    const Tensor second = remake(node, {in[0].node(), t[1].node()}, node.attrs);
    return total.defined() ? total + second : second;
  }

  static Tensor linear(const Node& node, std::span<const Tensor> in, std::span<const Tensor> t) {
    std::vector<NodePtr> inputs;
    for (size_t i = 0; i < in.size(); ++i) {
      inputs.push_back(!linear_in(*node.op, i) ? in[i].node()
                       : t[i].defined()        ? t[i].node()
                                               : zeros_like(in[i]).node());
    }
    return remake(node, std::move(inputs), node.attrs);
  }

  static Tensor custom(const Node& node, std::span<const Tensor> in, std::span<const Tensor> t) {
    const std::shared_ptr<const CustomRule> rule = find_custom_rule(node);
    if (!rule || !rule->jvp) return transposed_rule(node, in[0], in, t);
    std::vector<Tensor> tangents;
    bool any = false;
    for (size_t i = 1; i <= rule->arguments; ++i) {
      any = any || t[i].defined();
      tangents.push_back(t[i].defined() ? t[i] : zeros_like(in[i]));
    }
    return any ? rule->jvp(in, tangents) : Tensor();
  }

  Tangents tangents_;
  std::unordered_map<const Node*, PushedLoop> loops_;
  std::vector<NodePtr> kept_;
};

}  // namespace

Tensor stand_in(const Tensor& x) {
  const GradMode on(true);
  const NodePtr node = make_node(ops::reshape_op, {x.node()}, {}, x.shape(), x.dtype());
  node->tracks = true;
  return Tensor(node);
}

Tensor zero_stand_in(const Node& like) {
  const Tensor made = stand_in(zeros(like.shape, like.dtype, like.device));
  made.node()->varying = like.varying;
  return made;
}

bool tracks_outside(std::span<const Tensor> outputs, std::span<const Tensor> stand_ins) {
  std::unordered_set<const Node*> seen;
  for (const Tensor& x : stand_ins) {
    seen.insert(x.node().get());
    for (const NodePtr& input : x.node()->inputs) {
      if (input->tracks) return true;
    }
  }
  std::vector<const Node*> stack;
  for (const Tensor& output : outputs) {
    if (output.defined() && seen.insert(output.node().get()).second) stack.push_back(output.node().get());
  }
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!node->tracks) continue;
    if (begins_tangents(*node)) return true;
    bool inner = false;
    for (const NodePtr& input : node->inputs) {
      if (!input->tracks) continue;
      inner = true;
      if (seen.insert(input.get()).second) stack.push_back(input.get());
    }
    if (!inner) return true;  // a stand-in of an outer transform
  }
  return false;
}

std::vector<Tensor> push_forward(std::span<const Tensor> outputs, Tangents tangents) {
  const DerivedScope derived;
  Push push(std::move(tangents));
  std::vector<Tensor> result;
  for (const Tensor& output : outputs) result.push_back(is_float(output.dtype()) ? push.of(output.node()) : Tensor());
  return result;
}

Tensor transposed_rule(const Node& node, const Tensor& value, std::span<const Tensor> inputs,
                       std::span<const Tensor> tangents) {
  const GradientRow* row = find_gradient(*node.op);
  if (row == nullptr || row->rule == nullptr)
    throw GradError(
        fmt::format("[jvp] op '{}' has no derivative{}", node.op->name, row ? fmt::format(": {}", row->reason) : ""));
  RuleCall call{node, value, {}, {inputs.begin(), inputs.end()}, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) call.wanted.push_back(i < tangents.size() && tangents[i].defined());
  call.result.resize(inputs.size());
  Tensor cotangent;
  {
    const GradMode on(true);
    cotangent = zero_stand_in(node);
    call.g = cotangent;
    row->rule(call);
  }
  std::vector<Tensor> outputs, seeds;
  std::unordered_set<const Node*> stops{cotangent.node().get(), value.node().get()};
  for (size_t i = 0; i < inputs.size(); ++i) {
    stops.insert(inputs[i].node().get());
    if (!call.wanted[i] || !call.result[i].defined()) continue;
    outputs.push_back(call.result[i]);
    seeds.push_back(tangents[i]);
  }
  return vjp_until(outputs, {&cotangent, 1}, seeds, std::move(stops))[0];
}

}  // namespace heddle::autograd
