#include "heddle/core/reference/reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <stdexcept>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/excess_precision.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/reference/reference_ops.h"

namespace heddle {
namespace {

HostArray compute(const Node& node, reference::Inputs in) {
  switch (node.op->kind) {
    case OpKind::leaf:
      break;
    case OpKind::constant:
      return reference::constant(node);
    case OpKind::elementwise:
      return reference::elementwise(node, in);
    case OpKind::reduce:
      return reference::reduce(node, in);
    case OpKind::movement:
      return reference::movement(node, in);
    case OpKind::index:
      return reference::index(node, in);
    case OpKind::contraction:
      return reference::matmul(node, in);
    case OpKind::body:
      return reference::body(node, in);
    case OpKind::random:
      return reference::random_uniform(node, in);
    case OpKind::fused:
      return reference::fused(node, in);
    case OpKind::effect:
      return *in.back();      // the value; the caller writes it where it belongs
    case OpKind::collective:  // what communicates has a value by now (core/run/segments.h): pvary is left
      if (communicates(*node.op)) break;
      return *in.back();
  }
  return read_value(node);  // which says what is missing
}

thread_local int rounding_scopes = 0;

// A constant is as exact as it was made (a number beside f16 has f32's digits).
HostArray stored(const Node& node, HostArray value) {
  if (!is_float(value.dtype) || node.op == &ops::full_op || node.op->kind == OpKind::movement ||
      is_part_of_sum(*node.op, node.attrs))
    return value;
  if (rounding_scopes == 0 && (excess_precision() || !is_half(value.dtype))) return value;
  for (double& v : value.floats) v = rounded(v, value.dtype);
  return value;
}

// Inputs before users; what has a value already is not looked behind.
std::vector<const Node*> topological(std::span<const NodePtr> outputs, std::unordered_map<const Node*, int>& uses) {
  std::vector<const Node*> order;
  const auto enter = [&](const NodePtr& input) { return ++uses[input.get()] == 1; };
  const auto opens = [](const Node& node) { return !node.has_value(); };
  for (const NodePtr& output : outputs) {
    if (uses.try_emplace(output.get(), 0).second)
      post_order(output, enter, opens, [&](const NodePtr& node) { order.push_back(node.get()); });
  }
  return order;
}

// What the host cannot hold is a device's lack of memory, as on every other device.
HostArray compute_or_explain(const Node& node, reference::Inputs in) {
  const auto refuse = [&] {
    return OutOfMemory(
        fmt::format("[{}] the host has no memory for {} at 8 bytes an element", node.op->name, node.shape.str()));
  };
  try {
    return compute(node, in);
  } catch (const std::bad_alloc&) {
    throw refuse();
  } catch (const std::length_error&) {
    throw refuse();
  }
}

// Row `at` of an array along axis 0, and the other way.
HostArray row_of(const HostArray& all, int64_t at, const Shape& shape) {
  HostArray row{shape, all.dtype, {}, {}};
  const auto first = static_cast<std::ptrdiff_t>(at * shape.numel()),
             last = first + static_cast<std::ptrdiff_t>(shape.numel());
  if (is_float(all.dtype))
    row.floats.assign(all.floats.begin() + first, all.floats.begin() + last);
  else
    row.ints.assign(all.ints.begin() + first, all.ints.begin() + last);
  return row;
}

void put_row(HostArray& all, int64_t at, const HostArray& row) {
  const auto first = static_cast<std::ptrdiff_t>(at * row.shape.numel());
  std::copy(row.floats.begin(), row.floats.end(), all.floats.begin() + (is_float(all.dtype) ? first : 0));
  std::copy(row.ints.begin(), row.ints.end(), all.ints.begin() + (is_float(all.dtype) ? 0 : first));
}

// Values of a graph, node by node; those of a loop's body once an iteration.
class Evaluator {
 public:
  explicit Evaluator(std::vector<const Node*> order, std::unordered_map<const Node*, int> uses)
      : order_(std::move(order)), uses_(std::move(uses)) {}

  std::unordered_map<const Node*, HostArray> values;  // arguments of a body are put here before run()

  void run() {
    std::vector<const HostArray*> in;
    for (const Node* node : order_) {
      if (values.contains(node)) continue;
      if (node->has_value()) {
        values.emplace(node, read_value(*node));
        continue;
      }
      if (node->op == &ops::loop_result_op) {
        values.emplace(node, results_.at(node));
        continue;
      }
      if (node->op == &ops::loop_arg_op) {
        throw ValueError(
            fmt::format("[scan] a value inside a loop is used outside of it (it depends on a {} {} carry or slice)",
                        node->shape.str(), name_of(node->dtype)));
      }
      in.clear();
      for (const NodePtr& input : node->inputs) in.push_back(&values.at(input.get()));
      if (node->op == &ops::loop_op) {
        run_loop(as_loop(*node), in);
        values.emplace(node, reference::blank(node->shape, node->dtype));
      } else {
        values.emplace(node, stored(*node, compute_or_explain(*node, in)));
      }
      for (const NodePtr& input : node->inputs) {
        if (--uses_[input.get()] == 0) values.erase(input.get());
      }
    }
  }

 private:
  // The vertices of this graph that ask the loop for results get theirs.
  void run_loop(const LoopNode& loop, reference::Inputs in) {
    const LoopShape shape = LoopShape::of(loop);
    const LoopBody& body = *loop.body;
    std::vector<const Node*> asking;
    for (const Node* node : order_) {
      if (node->op == &ops::loop_result_op && !node->has_value() && node->inputs[0].get() == &loop)
        asking.push_back(node);
    }
    for (const Node* ask : asking) results_.insert_or_assign(ask, reference::blank(ask->shape, ask->dtype));
    std::vector<HostArray> carries;
    for (int c = 0; c < shape.carries; ++c) carries.push_back(*in[static_cast<size_t>(c)]);
    std::vector<const Node*> order;
    std::unordered_map<const Node*, int> uses;
    for (const NodePtr& node : body.order) {
      order.push_back(node.get());
      uses[node.get()] = 1;  // everything may be asked for
      for (const NodePtr& input : node->inputs) ++uses[input.get()];
    }
    for (int64_t i = 0; i < shape.length; ++i) {
      const int64_t slice = shape.reverse ? shape.length - 1 - i : i;
      Evaluator iteration(order, uses);
      for (int a = 0; a < static_cast<int>(in.size()); ++a) {
        const Node* arg = body.args[static_cast<size_t>(a)].get();
        const HostArray& given = a < shape.carries ? carries[static_cast<size_t>(a)] : *in[static_cast<size_t>(a)];
        iteration.values.emplace(
            arg, a >= shape.carries && a < shape.carries + shape.slices ? row_of(given, slice, arg->shape) : given);
      }
      iteration.run();
      for (const Node* ask : asking) {
        if (const LoopResultAttrs result(ask->attrs); result.stacked)
          put_row(results_.at(ask), slice, iteration.values.at(body.order[static_cast<size_t>(result.index)].get()));
      }
      for (int c = 0; c < shape.carries; ++c)
        carries[static_cast<size_t>(c)] = iteration.values.at(body.results[static_cast<size_t>(c)].get());
    }
    for (const Node* ask : asking) {
      if (const LoopResultAttrs result(ask->attrs); !result.stacked)
        results_.at(ask) = carries[static_cast<size_t>(result.index)];
    }
  }

  std::vector<const Node*> order_;
  std::unordered_map<const Node*, int> uses_;
  std::unordered_map<const Node*, HostArray> results_;
};

}  // namespace

RoundingScope::RoundingScope() { ++rounding_scopes; }
RoundingScope::~RoundingScope() { --rounding_scopes; }

std::vector<HostArray> evaluate_reference(std::span<const NodePtr> outputs) {
  std::unordered_map<const Node*, int> uses;
  std::vector<const Node*> order = topological(outputs, uses);
  for (const NodePtr& output : outputs) ++uses[output.get()];  // never freed
  Evaluator evaluator(std::move(order), std::move(uses));
  evaluator.run();
  std::vector<HostArray> result;
  result.reserve(outputs.size());
  for (const NodePtr& output : outputs) result.push_back(evaluator.values.at(output.get()));
  return result;
}

}  // namespace heddle
