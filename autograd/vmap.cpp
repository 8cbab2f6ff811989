#include "heddle/autograd/vmap.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "heddle/autograd/batching.h"
#include "heddle/autograd/record.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/derived_scope.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using autograd::BatchCall;
using autograd::BatchRow;
using autograd::GradMode;

// x with its first axis as axis `to`, or with axis `from` as its first.
Tensor move_first_to(const Tensor& x, int to) {
  std::vector<int> order;
  for (int axis = 1; axis < x.rank(); ++axis) order.push_back(axis);
  order.insert(order.begin() + to, 0);
  return permute(x, order);
}
Tensor move_to_first(const Tensor& x, int from) {
  std::vector<int> order{from};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis != from) order.push_back(axis);
  }
  return permute(x, order);
}

Tensor repeated(const Tensor& x, int64_t size) { return expand(unsqueeze(x, 0), x.shape().inserted(0, size)); }

// Records again, with the mapped axis, what was recorded from examples.
class Replay {
 public:
  Replay(int64_t size, Randomness randomness, std::span<const NodePtr> keys) : size_(size), randomness_(randomness) {
    for (const NodePtr& key : keys) keys_.insert(key.get());
  }
  void put(const NodePtr& example, const Tensor& whole) { values_.emplace(example.get(), whole); }

  // Undefined when the node depends on no example.
  Tensor of(const NodePtr& root) {
    kept_.push_back(root);  // addresses in values_ stay valid
    for (const NodePtr& node : order(root)) {
      Tensor value;
      if (node->op == &ops::loop_op)
        map_loop(*node);
      else if (const auto loop = node->op == &ops::loop_result_op ? loops_.find(node->inputs[0].get()) : loops_.end();
               loop != loops_.end())
        value = part_of(loop->second, *node);
      else
        value = apply(*node);
      values_.emplace(node.get(), value);
    }
    return values_.at(root.get());
  }

 private:
  // What has no entry yet, inputs before users; values that are there depend on no example.
  std::vector<NodePtr> order(const NodePtr& root) const {
    std::vector<NodePtr> result;
    std::unordered_set<const Node*> seen;
    if (values_.contains(root.get())) return result;
    const auto enter = [&](const NodePtr& input) {
      return !values_.contains(input.get()) && seen.insert(input.get()).second;
    };
    post_order(
        root, enter, [](const Node& node) { return !node.has_value(); },
        [&](const NodePtr& node) { result.push_back(node); });
    return result;
  }

  // ---- loops: one over the same body with the mapped axis, in front of carries and behind the axis that slices are
  // cut along

  struct MappedLoop {
    NodePtr loop;                            // null where there are no examples
    std::vector<bool> mapped;                // by position in the body's order
    std::unordered_map<int, int> positions;  // in the new body's order, of values that are no arguments
  };

  static bool draws_inside(const LoopBody& body) {
    return std::any_of(body.order.begin(), body.order.end(), [](const NodePtr& node) {
      return node->op->kind == OpKind::random || (node->op == &ops::loop_op && draws_inside(*as_loop(*node).body));
    });
  }

  // Which values depend on an example: a carry does as soon as its next value does.
  static std::vector<bool> spread(const LoopBody& body, const LoopShape& shape, std::vector<bool> args, bool draw) {
    for (;;) {
      std::vector<bool> mapped = args;
      for (size_t i = args.size(); i < body.order.size(); ++i) {
        const Node& node = *body.order[i];
        const bool drawn = draw && (node.op->kind == OpKind::random ||
                                    (node.op == &ops::loop_op && draws_inside(*as_loop(node).body)));
        mapped.push_back(drawn || std::any_of(node.inputs.begin(), node.inputs.end(), [&](const NodePtr& input) {
                           return mapped[static_cast<size_t>(body.index.at(input.get()))];
                         }));
      }
      bool grew = false;
      for (size_t c = 0; c < static_cast<size_t>(shape.carries); ++c) {
        if (args[c] || !mapped[static_cast<size_t>(body.index.at(body.results[c].get()))]) continue;
        args[c] = grew = true;
      }
      if (!grew) return mapped;
    }
  }

  void map_loop(const Node& node) {
    const LoopBody& body = *as_loop(node).body;
    const LoopShape shape = LoopShape::of(node);
    const bool draw = draw_all_ ? draws_inside(body) : draws(node) && draws_inside(body);
    std::vector<bool> given;
    bool tracks = false;
    for (const NodePtr& input : node.inputs) {
      given.push_back(values_.at(input.get()).defined());
      tracks = tracks || input->tracks;
    }
    if (!draw && std::none_of(given.begin(), given.end(), [](bool b) { return b; })) return;
    MappedLoop made{nullptr, spread(body, shape, given, draw), {}};
    if (size_ > 0) {
      const CallerScope scope(node.where.caller);
      const GradMode mode(grad_mode() && (node.tracks || !tracks));
      std::optional<RecomputeScope> marks;
      if (node.keep != Keep::plain) marks.emplace();
      made.loop = batched_loop(node, body, shape, draw, made);
    }
    loops_.emplace(&node, std::move(made));
  }

  // An input of the loop as its body wants it: carries and tensors from outside with the mapped axis in front, arrays
  // that are cut with it second.
  Tensor loop_input(const NodePtr& input, bool mapped, bool cut) const {
    const Tensor& whole = values_.at(input.get());
    if (!mapped) return Tensor(input);
    if (!whole.defined()) return repeated(Tensor(input), size_);
    return cut ? transpose(whole, 0, 1) : whole;
  }

  NodePtr batched_loop(const Node& node, const LoopBody& body, const LoopShape& shape, bool draw,
                       MappedLoop& made) const {
    const size_t carries = static_cast<size_t>(shape.carries), outer = carries + static_cast<size_t>(shape.slices);
    std::vector<Tensor> inputs;
    for (size_t i = 0; i < node.inputs.size(); ++i)
      inputs.push_back(loop_input(node.inputs[i], made.mapped[i], i >= carries && i < outer));
    BodyTrace trace(*node.device, shape.length);
    Replay inner(size_, randomness_, {});
    inner.draw_all_ = draw;
    std::vector<NodePtr> args;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const Node& arg = *body.args[i];
      const Shape with = made.mapped[i] ? arg.shape.inserted(0, size_) : arg.shape;
      const Tensor now = i < outer ? trace.argument(with, arg.dtype) : inputs[i];
      args.push_back(made.mapped[i] ? make_example(*now.node(), arg.shape) : now.node());
      if (made.mapped[i]) inner.put(args.back(), now);
    }
    const std::vector<NodePtr> forward = call_body(body, args);
    const auto value = [&](size_t i) {
      const Tensor found = made.mapped[i] ? inner.of(forward[i]) : Tensor();
      return found.defined() ? found : made.mapped[i] ? repeated(Tensor(forward[i]), size_) : Tensor(forward[i]);
    };
    std::vector<NodePtr> results;
    for (size_t c = 0; c < carries; ++c) {
      const size_t at = static_cast<size_t>(body.index.at(body.results[c].get()));
      results.push_back(made.mapped[c] && !made.mapped[at] ? repeated(Tensor(forward[at]), size_).node()
                                                           : value(at).node());
    }
    // Somebody may ask the loop for any value; what nobody asks for costs nothing.
    std::vector<int> values;
    for (size_t i = body.args.size(); i < body.order.size(); ++i) {
      if (body.order[i]->op == &ops::loop_op) continue;
      values.push_back(static_cast<int>(i));
      results.push_back(value(i).node());
    }
    const BodyTrace::Closed closed = trace.close(results);
    std::vector<NodePtr> all;
    for (size_t i = 0; i < outer; ++i) all.push_back(inputs[i].node());
    all.insert(all.end(), closed.captured.begin(), closed.captured.end());
    for (size_t k = 0; k < values.size(); ++k)
      made.positions.emplace(values[k], closed.body->index.at(closed.body->results[carries + k].get()));
    return make_loop(*node.device, closed.body, std::move(all), shape);
  }

  // A result of the loop, for all examples.
  Tensor part_of(const MappedLoop& made, const Node& result) const {
    if (!made.loop) return zeros(result.shape.inserted(0, 0), result.dtype, result.device);
    const CallerScope scope(result.where.caller);
    const LoopResultAttrs asked(result.attrs);
    const int k = asked.index;
    const bool mapped = made.mapped[static_cast<size_t>(k)];
    if (!asked.stacked) {
      const Tensor carry = loop_carry(made.loop, k);
      return mapped ? carry : repeated(carry, size_);
    }
    const auto at = made.positions.find(k);
    const Tensor stack = loop_stack(made.loop, at == made.positions.end() ? k : at->second);
    return mapped ? transpose(stack, 0, 1) : repeated(stack, size_);
  }

  bool draws(const Node& node) const {
    if (draw_all_ && node.op->kind == OpKind::random) return true;
    return randomness_ == Randomness::different &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const NodePtr& input) { return keys_.contains(input.get()); });
  }

  Tensor apply(const Node& node) {
    if (node.has_value()) return {};
    BatchCall call{node, size_, randomness_, {}, {}};
    bool any = draws(node), tracks = false;
    for (const NodePtr& input : node.inputs) {
      const Tensor& value = values_.at(input.get());
      call.mapped.push_back(value.defined());
      call.in.push_back(value.defined() ? value : Tensor(input));
      any = any || value.defined();
      tracks = tracks || input->tracks;
    }
    if (!any) return {};
    const CallerScope scope(node.where.caller);
    // What was recorded without history, under a NoGradScope of the function's own, is so again.
    const GradMode mode(grad_mode() && (node.tracks || !tracks || !is_float(node.dtype)));
    std::optional<RecomputeScope> marks;
    if (node.keep != Keep::plain) marks.emplace();
    const Tensor result = size_ == 0 ? zeros(call.shape(), node.dtype, node.device) : batched(call);
    marks.reset();
    if (node.keep == Keep::result) detail::keep(result);
    if (result.shape() != call.shape() || result.dtype() != node.dtype) {
      throw Error(fmt::format("[vmap] the rule of '{}' gave {} {} for {} {}; a fault of the rule", node.op->name,
                              result.shape().str(), name_of(result.dtype()), call.shape().str(), name_of(node.dtype)));
    }
    return result;
  }

  Tensor batched(const BatchCall& call) {
    const OpDef& op = *call.node.op;
    const BatchRow* row = autograd::find_batching(op);
    if (row != nullptr && row->rule != nullptr) {
      const Tensor result = row->rule(call);
      if (result.defined()) return result;
    }
    if (op.decompose != nullptr) {
      NodePtr simpler;
      {
        const ExampleScope scope;  // over examples, as the node itself
        simpler = op.decompose(call.node).node();
      }
      const Tensor result = of(simpler);
      return result.defined() ? result : repeated(Tensor(simpler), size_);
    }
    throw ValueError(fmt::format("[vmap] op '{}' {} has no batching rule{}", op.name, call.node.shape.str(),
                                 row != nullptr
                                     ? fmt::format(": {}", row->reason)
                                     : "; call it outside of the mapped function, or loop over the examples"));
  }

  int64_t size_;
  Randomness randomness_;
  std::unordered_set<const Node*> keys_;
  std::unordered_map<const Node*, Tensor> values_;
  std::vector<NodePtr> kept_;
  bool draw_all_ = false;  // in the body of a loop that draws for each example
  std::unordered_map<const Node*, MappedLoop> loops_;
};

int checked_axis(int axis, int rank, const std::string& what) {
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  throw ShapeError(fmt::format("[vmap] axis {} is out of range for {}", axis, what));
}

}  // namespace

namespace detail {

Mapping::Mapping(const InAxes& in_axes, const VmapOptions& options, std::span<const std::vector<Tensor*>> places)
    : options_(options) {
  if (in_axes.size() != 1 && in_axes.size() != places.size()) {
    throw ValueError(
        fmt::format("[vmap] in_axes has {} entries, but the function was called with {} arguments; give one for each, "
                    "or one for all",
                    in_axes.size(), places.size()));
  }
  std::string sized;  // what gave the size
  if (options.axis_size) {
    size_ = *options.axis_size;
    sized = fmt::format("axis_size is {}", size_);
    if (size_ < 0) throw ValueError(fmt::format("[vmap] {}; it must not be negative", sized));
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const std::optional<int> given = in_axes[in_axes.size() == 1 ? 0 : i];
    if (!given) continue;
    for (Tensor* place : places[i]) {
      if (!place->defined()) continue;
      const int axis = checked_axis(*given, place->rank(), fmt::format("argument {}, {}", i, place->shape().str()));
      const int64_t size = place->dim(axis);
      const std::string here = fmt::format("argument {} {} has {} along axis {}", i, place->shape().str(), size, axis);
      if (!sized.empty() && size != size_)
        throw ShapeError(fmt::format("[vmap] the mapped axes differ in size: {}, {}", sized, here));
      size_ = size;
      if (sized.empty()) sized = here;
      whole_.push_back(move_to_first(*place, axis));
      examples_.push_back(make_example(*whole_.back().node(), whole_.back().shape().without(0)));
      *place = Tensor(examples_.back());
    }
  }
  if (sized.empty())
    throw ValueError(
        "[vmap] no argument is mapped: in_axes names no axis of a tensor; give one, or VmapOptions::axis_size");
}

void Mapping::note_keys(const ExampleScope& scope) { keys_ = scope.keys(); }

void Mapping::finish(const std::vector<int>& out_axes, std::span<Tensor* const> places) {
  if (options_.randomness == Randomness::error && !keys_.empty()) {
    throw ValueError(
        "[vmap] the function draws random numbers and Randomness::error forbids it; choose Randomness::different (each "
        "example its own) or same");
  }
  if (out_axes.size() != 1 && out_axes.size() != places.size()) {
    throw ValueError(fmt::format(
        "[vmap] out_axes has {} entries, but the function gave {} tensors; give one for each, or one for all",
        out_axes.size(), places.size()));
  }
  const DerivedScope derived;
  Replay replay(size_, options_.randomness, keys_);
  for (size_t i = 0; i < examples_.size(); ++i) replay.put(examples_[i], whole_[i]);
  for (size_t i = 0; i < places.size(); ++i) {
    Tensor& place = *places[i];
    if (!place.defined()) continue;
    const int axis = checked_axis(out_axes[out_axes.size() == 1 ? 0 : i], place.rank() + 1,
                                  fmt::format("result {}, {} and the mapped axis", i, place.shape().str()));
    const Tensor value = replay.of(place.node());
    place = move_first_to(value.defined() ? value : repeated(place, size_), axis);
  }
  for (Tensor* watched : watched_.values()) {
    if (const Tensor value = replay.of(watched->node()); value.defined()) *watched = value;
  }
}

}  // namespace detail
}  // namespace heddle
