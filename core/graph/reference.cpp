#include "core/graph/reference.h"

#include <fmt/format.h>

#include <new>
#include <stdexcept>
#include <unordered_map>

#include "core/base/error.h"
#include "core/graph/primitives.h"
#include "core/graph/reference_ops.h"

namespace heddle {
namespace {

HostArray compute(const Node& node, reference::Inputs in) {
  switch (node.op->kind) {
    case OpKind::leaf: break;
    case OpKind::constant: return reference::constant(node);
    case OpKind::elementwise: return reference::elementwise(node, in);
    case OpKind::reduce: return reference::reduce(node, in);
    case OpKind::movement: return reference::movement(node, in);
    case OpKind::index: return reference::index(node, in);
    case OpKind::contraction: return reference::matmul(node, in);
    case OpKind::body: return reference::body(node, in);
    case OpKind::random: return reference::random_uniform(node, in);
    case OpKind::fused: return reference::fused(node, in);
    case OpKind::effect: return *in[1];  // assign: the value; the caller writes it where it belongs
  }
  return read_value(node);
}

// Inputs before users; what has a value already is not looked behind.
std::vector<const Node*> topological(std::span<const NodePtr> outputs, std::unordered_map<const Node*, int>& uses) {
  struct Frame {
    const Node* node;
    size_t next;
  };
  std::vector<const Node*> order;
  for (const NodePtr& output : outputs) {
    if (!uses.try_emplace(output.get(), 0).second) continue;
    std::vector<Frame> stack{{output.get(), 0}};
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (!top.node->has_value() && top.next < top.node->inputs.size()) {
        const Node* input = top.node->inputs[top.next++].get();
        if (++uses[input] == 1) stack.push_back({input, 0});
        continue;
      }
      order.push_back(top.node);
      stack.pop_back();
    }
  }
  return order;
}

// What the host cannot hold is a device's lack of memory, as on every other device.
HostArray compute_or_explain(const Node& node, reference::Inputs in) {
  const auto refuse = [&] {
    return OutOfMemory(fmt::format("[{}] the host has no memory for {} at 8 bytes an element", node.op->name, node.shape.str()));
  };
  try {
    return compute(node, in);
  } catch (const std::bad_alloc&) {
    throw refuse();
  } catch (const std::length_error&) {
    throw refuse();
  }
}

}  // namespace

std::vector<HostArray> evaluate_reference(std::span<const NodePtr> outputs) {
  std::unordered_map<const Node*, int> uses;
  const std::vector<const Node*> order = topological(outputs, uses);
  for (const NodePtr& output : outputs) ++uses[output.get()];  // never freed below
  std::unordered_map<const Node*, HostArray> values;
  std::vector<const HostArray*> in;
  for (const Node* node : order) {
    if (node->has_value()) {
      values.emplace(node, read_value(*node));
      continue;
    }
    in.clear();
    for (const NodePtr& input : node->inputs) in.push_back(&values.at(input.get()));
    values.emplace(node, compute_or_explain(*node, in));
    for (const NodePtr& input : node->inputs) {
      if (--uses[input.get()] == 0) values.erase(input.get());
    }
  }
  std::vector<HostArray> result;
  result.reserve(outputs.size());
  for (const NodePtr& output : outputs) result.push_back(values.at(output.get()));
  return result;
}

}  // namespace heddle
