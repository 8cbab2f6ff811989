#include "heddle/autograd/autograd.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "heddle/autograd/rules.h"
#include "heddle/autograd/written_rows.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/derived_scope.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/attention_pattern.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {
namespace {

using autograd::find_gradient;
using autograd::GradientRow;
using autograd::RuleCall;

// A leaf, an argument of a loop's body, and a value written by assign begin a history; nothing is asked of what is
// behind them.
bool begins_history(const Node& node) { return node.op->kind == OpKind::leaf || node.op == &ops::assign_op; }

// Can a cotangent pass from this node to its inputs?
bool passes(const Node& node) {
  if (!node.tracks || begins_history(node) || !is_float(node.dtype)) return false;
  const GradientRow* row = find_gradient(*node.op);
  if (row == nullptr) {
    throw GradError(fmt::format(
        "[grad] op '{}' has neither a gradient rule nor a reason; add its row to autograd/rules_elementwise.inc",
        node.op->name));
  }
  return row->rule != nullptr;
}

// The differentiable nodes under `outputs`, inputs before users. Nothing is asked of what is behind `stops`.
std::vector<NodePtr> topological(std::span<const Tensor> outputs, const std::unordered_set<const Node*>& stops) {
  std::vector<NodePtr> order;
  std::unordered_set<const Node*> seen;
  const auto enter = [&](const NodePtr& input) {
    return input->tracks && is_float(input->dtype) && seen.insert(input.get()).second;
  };
  const auto opens = [&](const Node& node) { return !stops.contains(&node) && passes(node); };
  for (const Tensor& output : outputs) {
    if (seen.insert(output.node().get()).second)
      post_order(output.node(), enter, opens, [&](const NodePtr& node) { order.push_back(node); });
  }
  return order;
}

// A gradient of what all ranks share is the same on all of them: what varies has to be summed.
void check_varies(const Node& node, const Tensor& cotangent, std::string_view who) {
  const AxisMask extra = cotangent.node()->varying & ~node.varying & ~varies_as_loop;
  if (extra == 0 || (node.varying & varies_as_loop) != 0) return;
  const MeshScope* scope = MeshScope::current();
  if (scope == nullptr) return;
  const std::string line = node.where.str();
  throw AxisError(fmt::format("[grad] the cotangent of {} for '{}' {}{} varies along {}, the value does not", who,
                              node.op->name, node.shape.str(), line.empty() ? "" : " (" + line + ")",
                              scope->names(extra)));
}

void check_cotangent(const Node& node, const Tensor& cotangent, std::string_view who) {
  if (cotangent.shape() != node.shape || cotangent.dtype() != node.dtype) {
    throw GradError(fmt::format("[{}] cotangent {} {} does not fit the tensor {} {}; both must be the same", who,
                                cotangent.shape().str(), name_of(cotangent.dtype()), node.shape.str(),
                                name_of(node.dtype)));
  }
  check_varies(node, cotangent, who);
}

// Whether the rule of that node is several operations, which for f16 and bf16 compute in f32 and round once, as the row
// itself does.
bool computes_wide(const Node& node) {
  return node.op->kind == OpKind::elementwise && node.op->cost >= 4 && is_half(node.dtype) &&
         as_user(*node.op) == nullptr;
}

// The walk of one vjp: cotangents by node, complete when the node's turn comes.
class Walk {
 public:
  Walk(std::span<const Tensor> outputs, std::span<const Tensor> cotangents, std::unordered_set<const Node*> stops = {})
      : stops_(std::move(stops)), order_(topological(outputs, stops_)) {
    for (size_t i = 0; i < outputs.size(); ++i) add(outputs[i].node().get(), cotangents[i]);
  }

  const std::vector<NodePtr>& order() const { return order_; }
  void want(const Node* node) { needed_.insert(node); }

  // Runs rules from the outputs down to the wanted nodes; calls `reached(node, complete cotangent)` for every node that
  // was wanted.
  template <class F>
  void run(const F& reached) {
    const DerivedScope derived;
    const std::unordered_set<const Node*> wanted = needed_;
    for (const NodePtr& node : order_) {
      if (passes(*node) &&
          std::any_of(node->inputs.begin(), node->inputs.end(), [&](const NodePtr& in) { return needs(*in); })) {
        needed_.insert(node.get());
      }
    }
    for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
      const NodePtr& node = *it;
      if (node->op == &ops::loop_op) {
        if (parts_.contains(node.get()) && needed_.contains(node.get())) apply_rule(node, {});
        continue;
      }
      const auto found = cotangents_.find(node.get());
      if (found == cotangents_.end() || !needed_.contains(node.get())) continue;
      const Tensor g = run_hooks(*node, found->second);
      cotangents_.erase(found);
      if (wanted.contains(node.get())) reached(node, g);
      if (node->op == &ops::loop_result_op)
        parts_[node->inputs[0].get()].emplace_back(node, g);
      else if (passes(*node) && !apply_as_attention(node, g) && !apply_as_row(node, g))
        apply_rule(node, g);
    }
  }

 private:
  bool passes(const Node& node) const { return !stops_.contains(&node) && heddle::passes(node); }
  bool needs(const Node& node) const { return is_float(node.dtype) && needed_.contains(&node); }

  void add(const Node* node, const Tensor& g) {
    const auto [at, fresh] = cotangents_.try_emplace(node, g);
    if (!fresh) at->second = at->second + g;
  }

  static Tensor run_hooks(const Node& node, const Tensor& complete) {
    const std::shared_ptr<TensorImpl> target = node.grad_target.lock();
    if (target == nullptr || target->hooks.empty()) return complete;
    Tensor g = complete;
    const auto hooks = target->hooks;  // a hook may register another
    for (const auto& hook : hooks) {
      const Tensor replacement = hook(g);
      if (!replacement.defined()) continue;
      check_cotangent(node, replacement, "hook");
      g = replacement;
    }
    return g;
  }

  // A product that ends an attention which the user wrote out gets the gradient of the fused row, and so no cotangent
  // reaches its scores; the planner computes the row itself from then on. False when it is none.
  bool apply_as_attention(const NodePtr& node, const Tensor& g) {
    if (node->op != &ops::matmul_op || !active_passes().has(Pass::attention)) return false;
    const std::optional<RecognisedAttention> found = recognise_attention(node);
    if (!found) return false;
    const AttentionProblem p = attention_problem(*found->packed.node());
    // The row's result is (B, T, H, E), then logarithms that nobody sees.
    const Tensor result = permute(reshape(g, Shape{p.batch, p.heads, p.queries, p.value_size}), {0, 2, 1, 3});
    RuleCall call{*found->packed.node(),
                  found->packed,
                  pad(reshape(result, Shape{p.results()}), {{0, p.logarithms()}}),
                  {},
                  {},
                  {}};
    for (const NodePtr& in : found->packed.node()->inputs) call.in.emplace_back(in);
    call.wanted.assign(call.in.size(), false);
    call.result.resize(call.in.size());
    const std::array<const NodePtr*, 4> inputs{&found->queries, &found->keys, &found->values, &found->added};
    for (size_t i = 0; i < std::min(inputs.size(), call.in.size()); ++i)
      call.wanted[i] = *inputs[i] && needs(**inputs[i]);
    find_gradient(ops::attention_op)->rule(call);
    for (size_t i = 0; i < std::min(inputs.size(), call.in.size()); ++i) {
      if (!call.wanted[i] || !call.result[i].defined()) continue;
      const Tensor slope = i == 1 ? transpose(call.result[i]) : call.result[i];
      add(inputs[i]->get(), cast(reshape(slope, (*inputs[i])->shape), (*inputs[i])->dtype));
    }
    return true;
  }

  bool apply_as_row(const NodePtr& node, const Tensor& g) {
    const std::optional<autograd::WrittenRow> row = autograd::differentiate_written_row(node, g);
    if (row && needs(*row->x)) add(row->x.get(), row->slope);
    return row.has_value();
  }

  void apply_rule(const NodePtr& node, const Tensor& g) {
    const BackwardScope scope(node->where);
    const bool wide = computes_wide(*node);
    const auto taken = [wide](const Tensor& x) { return wide && is_half(x.dtype()) ? cast(x, DType::f32) : x; };
    RuleCall call{*node, taken(Tensor(node)), taken(g), {}, {}, {}};
    bool any = false;
    for (const NodePtr& in : node->inputs) {
      call.in.push_back(taken(Tensor(in)));
      call.wanted.push_back(needs(*in));
      any = any || call.wanted.back();
    }
    if (!any) return;
    call.result.resize(node->inputs.size());
    if (const auto parts = parts_.find(node.get()); parts != parts_.end()) call.parts = std::move(parts->second);
    find_gradient(*node->op)->rule(call);
    for (size_t i = 0; i < call.result.size(); ++i) {
      if (!call.result[i].defined() || !call.wanted[i]) continue;
      const Node& in = *node->inputs[i];
      const Tensor r = wide ? cast(call.result[i], in.dtype) : call.result[i];
      if (r.shape() != in.shape || r.dtype() != in.dtype) {
        throw Error(fmt::format("[grad] the rule of '{}' gave {} {} for input {}, which is {} {}; a fault of the rule",
                                node->op->name, r.shape().str(), name_of(r.dtype()), i, in.shape.str(),
                                name_of(in.dtype)));
      }
      check_varies(in, r, node->op->name);
      add(&in, r);
    }
  }

  std::unordered_set<const Node*> stops_;
  std::vector<NodePtr> order_;
  std::unordered_set<const Node*> needed_;
  std::unordered_map<const Node*, Tensor> cotangents_;
  std::unordered_map<const Node*, std::vector<std::pair<NodePtr, Tensor>>> parts_;  // by loop: its results' cotangents
};

// The cotangent to start from: the given one, or 1 for a tensor with one element.
Tensor start_cotangent(const Tensor& output, const Tensor& given, std::string_view who) {
  if (given.defined()) {
    check_cotangent(*output.node(), given, who);
    if (&given.device() != &output.device()) {
      throw GradError(fmt::format("[{}] the cotangent is on {} but the tensor is on {}", who, given.device().id(),
                                  output.device().id()));
    }
    return given;
  }
  if (output.numel() != 1) {
    throw GradError(
        fmt::format("[{}] a cotangent is needed for shape {}: only a tensor with one element has a gradient by itself; "
                    "reduce it (sum, mean) or pass the cotangent",
                    who, output.shape().str()));
  }
  return ones_like(output);
}

void check_output(const Tensor& output, std::string_view who) {
  if (!output.defined()) throw GradError(fmt::format("[{}] the tensor to differentiate is undefined", who));
  if (!is_float(output.dtype())) {
    throw GradError(
        fmt::format("[{}] a tensor of dtype {} has no gradient: only floating tensors are differentiable; likely an "
                    "argmax, a comparison or a "
                    "cast to integers on the way",
                    who, name_of(output.dtype())));
  }
}

// Why nothing arrives: the first op under `output` that stops a history which begins at a tracked leaf. Empty when
// there is none.
std::string blocking_reason(const Tensor& output) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack{output.node().get()};
  while (!stack.empty()) {
    const Node* node = stack.back();
    stack.pop_back();
    if (!seen.insert(node).second || begins_history(*node)) continue;
    const GradientRow* row = find_gradient(*node->op);
    const bool stops = row == nullptr || row->rule == nullptr;
    if (stops && !node->inputs.empty()) {
      return fmt::format("; the path ends at '{}', which has no gradient: {}", node->op->name,
                         row == nullptr ? "no rule" : row->reason);
    }
    for (const NodePtr& in : node->inputs) stack.push_back(in.get());
  }
  return {};
}

// Records backward nodes without history unless they shall be differentiated again.
class GradModeScope {
 public:
  explicit GradModeScope(bool on) : before_(grad_mode()) { set_grad_mode(on); }
  ~GradModeScope() { set_grad_mode(before_); }
  GradModeScope(const GradModeScope&) = delete;
  GradModeScope& operator=(const GradModeScope&) = delete;

 private:
  bool before_;
};

void accumulate(TensorImpl& target, const Tensor& g) {
  // A fresh handle: two leaves with one cotangent must not share a gradient that one of them may assign to.
  target.grad = target.grad.defined() ? target.grad + g : Tensor(g.node());
}

void check_input(const Tensor& input, size_t i) {
  if (!input.defined()) throw GradError(fmt::format("[grad] input {} is undefined", i));
  if (!is_float(input.dtype())) {
    throw GradError(
        fmt::format("[grad] input {} has dtype {}: only floating tensors have gradients", i, name_of(input.dtype())));
  }
  if (!input.requires_grad()) {
    throw GradError(
        fmt::format("[grad] input {} {} does not require a gradient; call set_requires_grad() before it is used", i,
                    input.shape().str()));
  }
}

}  // namespace

std::vector<Tensor> vjp(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                        std::span<const Tensor> cotangents, Caller caller) {
  const CallerScope scope(caller);
  if (outputs.size() != cotangents.size()) {
    throw GradError(fmt::format("[vjp] {} outputs but {} cotangents", outputs.size(), cotangents.size()));
  }
  for (size_t i = 0; i < outputs.size(); ++i) check_cotangent(*outputs[i].node(), cotangents[i], "vjp");
  return autograd::vjp_until(outputs, inputs, cotangents, {});
}

std::vector<Tensor> autograd::vjp_until(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                                        std::span<const Tensor> cotangents, std::unordered_set<const Node*> stops) {
  Walk walk(outputs, cotangents, std::move(stops));
  for (const Tensor& input : inputs) walk.want(input.node().get());
  std::vector<Tensor> result(inputs.size());
  walk.run([&](const NodePtr& node, const Tensor& g) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].node() == node) result[i] = Tensor(g.node());
    }
  });
  return result;
}

void backward(const Tensor& loss, const Tensor& cotangent, bool create_graph, Caller caller) {
  const CallerScope scope(caller);
  check_output(loss, "backward");
  if (!loss.requires_grad()) {
    throw GradError(fmt::format(
        "[backward] no path from the tensor {} to a leaf with requires_grad{}; it was made from constants, under "
        "no_grad, or after detach()",
        loss.shape().str(), blocking_reason(loss)));
  }
  const GradModeScope mode(create_graph);
  const Tensor start = start_cotangent(loss, cotangent, "backward");
  Walk walk(std::span(&loss, 1), std::span(&start, 1));
  bool any = false;
  for (const NodePtr& node : walk.order()) {
    const std::shared_ptr<TensorImpl> target = node->grad_target.lock();
    if (!begins_history(*node) || target == nullptr || !target->requires_grad) continue;
    walk.want(node.get());
    any = true;
  }
  if (!any) {
    throw GradError(fmt::format("[backward] no path from the tensor {} to a leaf with requires_grad{}",
                                loss.shape().str(), blocking_reason(loss)));
  }
  walk.run([](const NodePtr& node, const Tensor& g) {
    if (const std::shared_ptr<TensorImpl> target = node->grad_target.lock()) accumulate(*target, g);
  });
}

std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> cotangents, bool create_graph, bool allow_unused, Caller caller) {
  const CallerScope scope(caller);
  if (!cotangents.empty() && cotangents.size() != outputs.size()) {
    throw GradError(fmt::format("[grad] {} outputs but {} cotangents", outputs.size(), cotangents.size()));
  }
  for (const Tensor& output : outputs) check_output(output, "grad");
  for (size_t i = 0; i < inputs.size(); ++i) check_input(inputs[i], i);
  const GradModeScope mode(create_graph);
  std::vector<Tensor> starts;
  for (size_t i = 0; i < outputs.size(); ++i) {
    starts.push_back(start_cotangent(outputs[i], cotangents.empty() ? Tensor() : cotangents[i], "grad"));
  }
  std::vector<Tensor> result = vjp(outputs, inputs, starts);
  for (size_t i = 0; i < result.size() && !allow_unused; ++i) {
    if (result[i].defined()) continue;
    if (inputs[i].numel() == 0) {  // functions of nothing need no path: its gradient is nothing too
      result[i] = zeros_like(inputs[i]);
      continue;
    }
    std::string why;
    for (size_t k = 0; k < outputs.size() && why.empty(); ++k) why = blocking_reason(outputs[k]);
    throw GradError(
        fmt::format("[grad] no path from an output to input {} {}{}; was it replaced by a copy or detached? "
                    "allow_unused gives an undefined "
                    "tensor instead",
                    i, inputs[i].shape().str(), why));
  }
  return result;
}

std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs, const Tensor& cotangent,
                         bool create_graph, bool allow_unused, Caller caller) {
  return grad(std::span(&output, 1), inputs, std::span(&cotangent, 1), create_graph, allow_unused, caller);
}

Tensor grad(const Tensor& output, const Tensor& input, const Tensor& cotangent, bool create_graph, Caller caller) {
  return grad(std::span(&output, 1), std::span(&input, 1), std::span(&cotangent, 1), create_graph, false, caller)[0];
}

std::string gradient_status(const OpDef& op) {
  const GradientRow* row = find_gradient(op);
  if (row == nullptr) return "no rule: add a row to autograd/rules_elementwise.inc";
  return row->rule != nullptr ? "yes" : std::string(row->reason);
}

}  // namespace heddle
