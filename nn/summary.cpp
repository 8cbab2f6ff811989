#include "heddle/nn/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>
#include <unordered_set>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"
#include "heddle/nn/functional.h"

namespace heddle::nn {
namespace {

double elements(const Shape& shape) { return static_cast<double>(shape.numel()); }

double flops_of(const Node& node) {
  const auto per_output_channel = [&](size_t weight) {
    const Shape& shape = node.inputs[weight]->shape;  // (O, C / groups, kernel...)
    return elements(shape) / static_cast<double>(shape[0]);
  };
  if (node.op == &ops::matmul_op) return 2 * elements(node.shape) * static_cast<double>(node.inputs[0]->shape.dim(-1));
  if (node.op == &ops::conv_op) return 2 * elements(node.shape) * per_output_channel(1);
  if (node.op == &ops::conv_input_grad_op) return 2 * elements(node.inputs[0]->shape) * per_output_channel(1);
  if (node.op == &ops::attention_op) {
    const AttentionProblem p = attention_problem(node);
    return 2 * static_cast<double>(p.batch * p.heads * p.queries * p.keys * (p.size + p.value_size));
  }
  if (node.op == &ops::loop_op) {
    double once = 0;
    for (const NodePtr& inner : as_loop(node).body->order) once += flops_of(*inner);
    return once * static_cast<double>(LoopShape::of(node).length);
  }
  return 0;
}

// Which inputs of a node a gradient flows into.
using Tracks = std::function<bool(size_t input)>;

double backward_flops_of(const Node& node, const Tracks& tracks);

// Of an iteration. A carry tracks as soon as its value after an iteration does.
double backward_flops_of_body(const Node& loop, const Tracks& tracks) {
  const LoopBody& body = *as_loop(loop).body;
  std::vector<bool> flows(body.order.size());
  for (size_t i = 0; i < body.args.size(); ++i) flows[i] = tracks(i);
  const auto at = [&](const NodePtr& node) { return static_cast<size_t>(body.index.at(node.get())); };
  const auto of = [&](const Node& node) { return [&](size_t input) { return flows[at(node.inputs[input])]; }; };
  const auto pass = [&] {
    for (size_t i = body.args.size(); i < body.order.size(); ++i) {
      const Node& node = *body.order[i];
      flows[i] = is_float(node.dtype) &&
                 std::ranges::any_of(node.inputs, [&](const NodePtr& input) { return flows[at(input)]; });
    }
  };
  const auto carries = static_cast<size_t>(LoopShape::of(loop).carries);
  for (bool changed = true; changed;) {
    pass();
    changed = false;
    for (size_t c = 0; c < carries; ++c) {
      if (flows[c] || !flows[at(body.results[c])]) continue;
      flows[c] = changed = true;
    }
  }
  double flops = 0;
  for (const NodePtr& inner : body.order) flops += backward_flops_of(*inner, of(*inner));
  return flops;
}

double backward_flops_of(const Node& node, const Tracks& tracks) {
  if (node.op == &ops::loop_op)
    return backward_flops_of_body(node, tracks) * static_cast<double>(LoopShape::of(node).length);
  const double forward = flops_of(node);
  if (forward == 0) return 0;
  if (node.op != &ops::attention_op) return forward * (tracks(0) + tracks(1));
  if (!tracks(0) && !tracks(1) && !tracks(2)) return 0;
  const AttentionProblem p = attention_problem(node);
  return 2 * static_cast<double>(p.batch * p.heads * p.queries * p.keys * (3 * p.size + 2 * p.value_size));
}

uint64_t bytes_of(const Node& node) { return static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype); }

// What a view shows.
const NodePtr& base_of(const NodePtr& node) {
  const NodePtr* base = &node;
  while ((*base)->inputs.size() == 1 && (*base)->op->kind == OpKind::movement && (*base)->op != &ops::pad_op)
    base = &(*base)->inputs[0];
  return *base;
}

// Which module each node of a call belongs to: the innermost one that was under way when it was recorded.
class Recorder {
 public:
  explicit Recorder(Module& root) {
    root.apply([this](const std::string& path, Module& module) { listen(path, module); });
  }
  ~Recorder() {
    for (auto& [module, number] : hooks_) module.remove_hook(number);
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  std::unordered_map<std::string, SummaryRow> rows;  // by path

  // All that `root` needs and nobody has yet is the module's.
  void claim(const NodePtr& root, SummaryRow* row) {
    const auto claims = [&](const NodePtr& node) {
      if (!owners_.emplace(node.get(), row).second) return false;
      if (row == nullptr) return true;
      row->flops += flops_of(*node);
      row->backward_flops += backward_flops_of(*node, [&](size_t input) { return node->inputs[input]->tracks; });
      return true;
    };
    if (claims(root))
      post_order(
          root, claims, [](const Node&) { return true; }, [&](const NodePtr& node) { alive_.push_back(node); });
  }

  bool knows(const NodePtr& node) const { return owners_.contains(node.get()); }
  SummaryRow* owner(const NodePtr& node) const { return owners_.at(node.get()); }

 private:
  void listen(const std::string& path, Module& module) {
    SummaryRow& row = rows[path];
    hooks_.emplace_back(
        module, module.register_forward_pre_hook([this, &row](Module&, const Tensor& x) { return enter(row, x); }));
    hooks_.emplace_back(module, module.register_forward_hook(
                                    [this, &row](Module&, const Tensor&, const Tensor& y) { return leave(row, y); }));
  }
  Tensor enter(SummaryRow& row, const Tensor& x) {
    claim(x.node(), calls_.empty() ? nullptr : calls_.back());
    calls_.push_back(&row);
    return {};
  }
  Tensor leave(SummaryRow& row, const Tensor& y) {
    claim(y.node(), &row);
    calls_.pop_back();
    ++row.calls;
    row.output = y.shape();
    const NodePtr& base = base_of(y.node());
    if (owner(base) == &row && base->op->kind != OpKind::leaf && base->op->kind != OpKind::constant)
      row.output_bytes += bytes_of(*base);
    return {};
  }

  std::unordered_map<const Node*, SummaryRow*> owners_;  // null: of the caller
  std::vector<NodePtr> alive_;
  std::vector<SummaryRow*> calls_;  // under way
  std::vector<std::pair<Module, size_t>> hooks_;
};

// Adds to each row the bytes that the gradients read of what it computed.
void count_kept(const Recorder& recorder, const Tensor& result, const std::vector<Tensor>& parameters) {
  const Tensor cotangent = ones_like(result.detach());
  const std::vector<Tensor> gradients = grad(std::span(&result, 1), parameters, std::span(&cotangent, 1), false, true);
  std::unordered_set<const Node*> seen, kept;
  const auto keep = [&](const NodePtr& node) {
    const NodePtr& base = base_of(node);
    SummaryRow* row = recorder.knows(base) ? recorder.owner(base) : nullptr;
    if (row == nullptr || base->has_value() || base->op->kind == OpKind::constant || base->op->kind == OpKind::leaf)
      return;
    if (kept.insert(base.get()).second) row->kept_bytes += bytes_of(*base);
  };
  const auto enter = [&](const NodePtr& node) {
    if (recorder.knows(node)) keep(node);
    return !recorder.knows(node) && seen.insert(node.get()).second;
  };
  // A loop's gradient asks the loop itself for what it stacks.
  const auto leave = [&](const NodePtr& node) {
    if (node->op != &ops::loop_result_op || !recorder.knows(node->inputs[0])) return;
    if (SummaryRow* row = recorder.owner(node->inputs[0]); row != nullptr && kept.insert(node.get()).second)
      row->kept_bytes += bytes_of(*node);
  };
  for (const Tensor& gradient : gradients) {
    if (gradient.defined() && enter(gradient.node()))
      post_order(
          gradient.node(), enter, [](const Node&) { return true; }, leave);
  }
}

// Puts the default generator back where it was.
class SameDraws {
 public:
  SameDraws() : offset_(default_generator().offset) {}
  ~SameDraws() { default_generator().offset = offset_; }

 private:
  uint64_t offset_;
};

class Rows {
 public:
  Rows(const Recorder& recorder, Summary& summary) : recorder_(recorder), summary_(summary) {}

  // Rows of a module and, behind it, of its parts.
  void visit(const std::string& path, const Module& module) {
    SummaryRow row = recorder_.rows.at(path);
    row.path = path;
    row.kind = module.kind();
    row.parameters = own_parameters(module);
    summary_.flops += row.flops;
    summary_.backward_flops += row.backward_flops;
    summary_.output_bytes += row.output_bytes;
    summary_.kept_bytes += row.kept_bytes;
    summary_.rows.push_back(std::move(row));
    for (const auto& [name, child] : module.named_children()) visit(path.empty() ? name : path + "." + name, child);
  }

 private:
  int64_t own_parameters(const Module& module) {
    int64_t count = 0;
    for (const auto& [name, parameter] : module.named_parameters()) {
      if (name.find('.') == std::string::npos && seen_.insert(parameter.impl().get()).second)
        count += parameter.numel();
    }
    return count;
  }

  const Recorder& recorder_;
  Summary& summary_;
  std::unordered_set<const TensorImpl*> seen_;
};

std::string amount(double value, const char* unit) {
  static constexpr const char* prefixes[] = {"", "k", "M", "G", "T"};
  size_t at = 0;
  for (; value >= 1000 && at + 1 < std::size(prefixes); ++at) value /= 1000;
  return value == 0 ? ""
         : at == 0  ? fmt::format("{:.0f} {}", value, unit)
                    : fmt::format("{:.4g} {}{}", value, prefixes[at], unit);
}

std::string line(size_t width, const SummaryRow& row, const std::string& output) {
  return fmt::format("{:<{}}  {:<14}  {:<20}{:>14}{:>14}{:>14}{:>12}{:>12}\n", row.path, width, row.kind, output,
                     row.parameters == 0 ? "" : fmt::format("{}", row.parameters), amount(row.flops, "flop"),
                     amount(row.backward_flops, "flop"), amount(static_cast<double>(row.output_bytes), "B"),
                     amount(static_cast<double>(row.kept_bytes), "B"));
}

}  // namespace

Summary summarize(Module& module, const Callable<Tensor()>& forward) {
  const SameDraws same_draws;
  // What forward() writes into its buffers is dropped.
  StateDict buffers;
  for (const auto& [name, buffer] : module.named_buffers()) buffers.emplace(name, buffer.detach());
  const detail::Replaced replaced(module, buffers);
  Recorder recorder(module);
  Summary summary;
  const std::vector<Tensor> parameters = module.parameters();
  std::vector<Tensor> trained;
  for (const Tensor& parameter : parameters) {
    summary.parameters += parameter.numel();
    summary.parameter_bytes += static_cast<uint64_t>(parameter.numel()) * size_of(parameter.dtype());
    if (!parameter.requires_grad()) continue;
    summary.trained += parameter.numel();
    trained.push_back(parameter);
  }
  const Tensor result = forward();
  recorder.claim(result.node(), &recorder.rows.at(""));
  if (result.requires_grad()) count_kept(recorder, result, trained);
  Rows(recorder, summary).visit("", module);
  return summary;
}

Summary summarize(Module& module, const Tensor& input) {
  return summarize(module, [&] { return module(input); });
}

std::unique_ptr<DeviceContext> blank_device() {
  Caps caps = NullDevice::null_caps();
  caps.memory_bytes = 0;
  caps.max_binding_bytes = caps.max_allocation_bytes = uint64_t{1} << 62;
  return std::make_unique<DeviceContext>(
      std::make_unique<NullDevice>(caps),
      DeviceInfo{.id = "null:0", .backend = "null", .available = true, .caps = caps});
}

std::string Summary::str() const {
  size_t width = 5;
  for (const SummaryRow& row : rows) width = std::max(width, row.path.size());
  std::string text = fmt::format("{:<{}}  {:<14}  {:<20}{:>14}{:>14}{:>14}{:>12}{:>12}\n", "layer", width, "kind",
                                 "output", "parameters", "forward", "backward", "bytes", "kept");
  for (const SummaryRow& row : rows) {
    if (row.parameters == 0 && row.flops == 0 && row.output_bytes == 0 && row.kept_bytes == 0) continue;
    text += line(width, row, row.calls == 0 ? "" : row.output.str());
  }
  text += line(width,
               {.path = "total",
                .parameters = parameters,
                .flops = flops,
                .backward_flops = backward_flops,
                .output_bytes = output_bytes,
                .kept_bytes = kept_bytes},
               "");
  if (trained != parameters) text += fmt::format("{} of {} parameters are trained\n", trained, parameters);
  return text;
}

}  // namespace heddle::nn
