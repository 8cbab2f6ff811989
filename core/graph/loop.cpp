#include "heddle/core/graph/loop.h"

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/custom.h"
#include "heddle/core/graph/key_writer.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

thread_local BodyTrace* traced_body = nullptr;

// `node` over other inputs.
NodePtr record_again(const Node& node, std::vector<NodePtr> inputs, DeviceContext& device) {
  NodePtr made;
  if (node.op == &ops::loop_op) {
    made = make_loop(device, as_loop(node).body, std::move(inputs), LoopShape::of(node));
  } else if (const std::shared_ptr<const CustomRule> rule =
                 node.op == &ops::custom_op ? find_custom_rule(node) : nullptr) {
    std::vector<Tensor> others;
    for (size_t i = 1; i < inputs.size(); ++i) others.emplace_back(inputs[i]);
    made = make_custom(Tensor(inputs[0]), others, rule).node();
  } else {
    made = inputs.empty() ? make_node_on(device, *node.op, node.attrs, node.shape, node.dtype)
                          : make_node(*node.op, std::move(inputs), node.attrs, node.shape, node.dtype);
  }
  made->where = node.where;
  if (made->keep == Keep::plain) made->keep = node.keep;
  return made;
}

std::shared_ptr<const LoopBody> make_body(std::vector<NodePtr> args, const std::vector<NodePtr>& others,
                                          std::vector<NodePtr> results) {
  auto body = std::make_shared<LoopBody>();
  body->order = args;
  body->args = std::move(args);
  for (const NodePtr& node : others) {
    if (node->op != &ops::loop_arg_op) body->order.push_back(node);
  }
  body->results = std::move(results);
  for (size_t i = 0; i < body->order.size(); ++i) body->index.emplace(body->order[i].get(), static_cast<int>(i));
  KeyWriter writer(body->key);
  writer.word(body->args.size());
  const auto number_of = [&](const Node& node) { return body->index.at(&node); };
  for (const NodePtr& node : body->order) writer.pending(*node, number_of);
  for (const NodePtr& result : body->results) writer.output(static_cast<size_t>(number_of(*result)), -1);
  return body;
}

// `value` once for each iteration, along a new first axis.
Tensor repeated(const NodePtr& value, const Shape& stacked) {
  const NodePtr one = make_node(ops::reshape_op, {value}, {}, value->shape.inserted(0, 1), value->dtype);
  return Tensor(one->shape == stacked ? one : make_node(ops::expand_op, {one}, {}, stacked, value->dtype));
}

}  // namespace

NodePtr make_loop(DeviceContext& device, std::shared_ptr<const LoopBody> body, std::vector<NodePtr> inputs,
                  const LoopShape& shape) {
  auto node = std::make_shared<LoopNode>();
  node->op = &ops::loop_op;
  node->attrs.ints = {shape.length, shape.carries, shape.slices, shape.reverse, shape.checkpoint};
  node->shape = Shape{0};
  node->dtype = DType::f32;
  node->device = &device;
  for (const NodePtr& input : inputs) {
    if (input->device != &device) {
      throw ValueError("[scan] tensors live on different devices: a " + input->shape.str() + " tensor on " +
                       input->device->id() + ", the loop on " + device.id() + "; move one with to()");
    }
    node->tracks = node->tracks || (input->tracks && is_float(input->dtype));
  }
  node->tracks = node->tracks && grad_mode();
  node->varying = unify_inputs(ops::loop_op, {}, inputs);
  node->where = current_line();
  node->keep = RecomputeScope::mark();
  node->inputs = std::move(inputs);
  node->body = std::move(body);
  if (BodyTrace* trace = BodyTrace::current()) trace->note(node);
  return node;
}

Tensor loop_carry(const NodePtr& loop, int carry) {
  const Node& result = *as_loop(*loop).body->results[static_cast<size_t>(carry)];
  return Tensor(make_node(ops::loop_result_op, {loop}, {{0, carry}}, result.shape, result.dtype));
}

Tensor loop_stack(const NodePtr& loop, int index) {
  const LoopShape shape = LoopShape::of(*loop);
  const Node& value = *as_loop(*loop).body->order[static_cast<size_t>(index)];
  Shape stacked{shape.length};
  for (int64_t d : value.shape) stacked.push_back(d);
  if (value.op == &ops::loop_arg_op && index >= shape.carries) {
    const NodePtr& given = loop->inputs[static_cast<size_t>(index)];
    return index < shape.carries + shape.slices ? Tensor(given) : repeated(given, stacked);
  }
  return Tensor(make_node(ops::loop_result_op, {loop}, {{1, index}}, stacked, value.dtype));
}

std::vector<NodePtr> call_body(const LoopBody& body, std::span<const NodePtr> args) {
  std::vector<NodePtr> made(args.begin(), args.end());
  for (size_t i = args.size(); i < body.order.size(); ++i) {
    const Node& node = *body.order[i];
    std::vector<NodePtr> inputs;
    for (const NodePtr& input : node.inputs) inputs.push_back(made[static_cast<size_t>(body.index.at(input.get()))]);
    made.push_back(record_again(node, std::move(inputs), *node.device));
  }
  return made;
}

std::vector<NodePtr> nodes_below(std::span<const NodePtr> roots, const std::function<bool(const Node&)>& stop) {
  std::vector<NodePtr> order;
  std::unordered_set<const Node*> seen;
  const auto enter = [&](const NodePtr& input) { return seen.insert(input.get()).second; };
  const auto opens = [&](const Node& node) { return !stop(node); };
  for (const NodePtr& root : roots) {
    if (enter(root)) post_order(root, enter, opens, [&](const NodePtr& node) { order.push_back(node); });
  }
  return order;
}

std::vector<NodePtr> substitute(std::span<const NodePtr> roots, const std::unordered_map<const Node*, NodePtr>& to) {
  std::unordered_map<const Node*, NodePtr> now;
  for (const NodePtr& node : nodes_below(roots, [&](const Node& n) { return to.contains(&n) || n.has_value(); })) {
    if (const auto other = to.find(node.get()); other != to.end()) {
      now.emplace(node.get(), other->second);
      continue;
    }
    std::vector<NodePtr> inputs;
    bool same = true;
    if (!node->has_value()) {
      for (const NodePtr& input : node->inputs) {
        inputs.push_back(now.at(input.get()));
        same = same && inputs.back() == input;
      }
    }
    now.emplace(node.get(), same ? node : record_again(*node, std::move(inputs), *node->device));
  }
  std::vector<NodePtr> result;
  for (const NodePtr& root : roots) result.push_back(now.at(root.get()));
  return result;
}

// ---- tracing

BodyTrace::BodyTrace(DeviceContext& device, int64_t length) : device_(device), length_(length), outer_(traced_body) {
  traced_body = this;
}

BodyTrace::~BodyTrace() { end(); }

void BodyTrace::end() {
  if (!ended_) traced_body = outer_;
  marks_.end();
  ended_ = true;
}

BodyTrace* BodyTrace::current() { return traced_body; }

Tensor BodyTrace::argument(const Shape& shape, DType dtype) {
  NodePtr node = make_node_on(device_, ops::loop_arg_op, {}, shape, dtype);
  node->tracks = grad_mode() && is_float(dtype);
  args_.push_back(node);
  return Tensor(node);
}

Tensor BodyTrace::iteration() {
  if (iteration_ == nullptr) {
    iteration_ = std::make_shared<Node>();
    iteration_->op = &ops::loop_arg_op;
    iteration_->dtype = DType::i32;
    iteration_->device = &device_;
    note(iteration_);
  }
  return Tensor(iteration_);
}

BodyTrace::Closed BodyTrace::close(const std::vector<NodePtr>& results, bool hoist) {
  end();
  if (iteration_) args_.push_back(iteration_);
  const auto is_argument = [&](const Node& node) { return node.op == &ops::loop_arg_op && inside_.contains(&node); };
  const auto is_end = [&](const Node& node) {
    return is_argument(node) || node.has_value() || !inside_.contains(&node);
  };
  // What depends on an argument is computed by every iteration.
  std::unordered_set<const Node*> varies;
  for (const NodePtr& node : nodes_below(results, is_end)) {
    const auto varying = [&](const NodePtr& input) { return varies.contains(input.get()); };
    if (is_end(*node) ? is_argument(*node) : std::any_of(node->inputs.begin(), node->inputs.end(), varying))
      varies.insert(node.get());
  }
  const auto is_captured = [&](const Node& node) {
    const bool costs_nothing = node.op->kind == OpKind::constant || is_view_op(*node.op);
    return !varies.contains(&node) && (is_end(node) || (hoist && !costs_nothing));
  };
  const std::vector<NodePtr> order =
      nodes_below(results, [&](const Node& node) { return is_end(node) || is_captured(node); });

  // The body belongs to nobody: a trace of its own keeps it from being pending, and modes of the moment from marking
  // it.
  BodyTrace unnoticed(device_, length_);
  const NoGradScope no_gradients;
  Closed closed;
  std::vector<NodePtr> captured_args, others;
  std::unordered_map<const Node*, NodePtr> to;
  for (const NodePtr& node : order) {
    NodePtr now = node;
    if (is_captured(*node)) {
      closed.captured.push_back(node);
      now = unnoticed.argument(node->shape, node->dtype).node();
      captured_args.push_back(now);
    } else if (!is_argument(*node)) {
      std::vector<NodePtr> inputs;
      for (const NodePtr& input : node->inputs) inputs.push_back(to.at(input.get()));
      now = record_again(*node, std::move(inputs), device_);
      others.push_back(now);
    }
    to.emplace(node.get(), now);
  }
  std::vector<NodePtr> mapped;
  for (const NodePtr& result : results) mapped.push_back(to.at(result.get()));
  args_.insert(args_.end(), captured_args.begin(), captured_args.end());
  closed.body = make_body(args_, others, std::move(mapped));
  return closed;
}

}  // namespace heddle
