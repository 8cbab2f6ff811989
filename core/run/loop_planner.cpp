#include "heddle/core/run/loop_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/memory/planned_loop.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/run/loop_factors.h"
#include "heddle/core/simplify/make_vertices.h"
#include "heddle/core/simplify/simplifier.h"

namespace heddle {
namespace {

// One value that the body stores in each iteration.
struct Output {
  int vertex = -1;
  std::vector<int> carries;  // that it is the next value of
  bool stacked = false;      // asked for from every iteration
  int history = -1;          // the carry that is asked for as it is before every iteration; -1: none
  int result = -1;           // vertex of the outer graph that holds its rows, or the last value; -1: none
};

class LoopPlanner {
 public:
  // `inputs` of the loop and everything that is added are vertices of `out`.
  LoopPlanner(Graph& out, const IrNode& node, std::vector<int> inputs, const Caps& caps, const BodyPlanner& planner)
      : out_(out),
        source_(*node.loop),
        shape_(source_.shape),
        inputs_(std::move(inputs)),
        caps_(caps),
        planner_(planner),
        origin_(node.origin),
        body_(source_.body),
        planned_(std::make_shared<PlannedLoop>()) {
    planned_->length = shape_.length;
    planned_->reverse = shape_.reverse;
  }

  // `wanted`: attributes of the vertices that ask for results; gives a vertex for each.
  std::vector<int> run(const std::vector<std::vector<int64_t>>& wanted) {
    find_unchanged();
    fold_constants();
    find_live(wanted);
    collect_outputs(wanted);
    plan_body();
    add_slots();
    add_loop(wanted);
    std::vector<int> results;
    for (const std::vector<int64_t>& ask : wanted)
      results.push_back(ask[0] == 0 ? last_value(static_cast<int>(ask[1])) : stacked_value(static_cast<int>(ask[1])));
    return results;
  }

 private:
  int arguments() const { return source_.body.storage_slots; }
  bool is_carry(int vertex) const { return vertex < shape_.carries; }
  const IrNode& argument(int a) const { return source_.body.nodes[static_cast<size_t>(a)]; }
  uint64_t alignment() const { return std::max<uint64_t>(16, caps_.buffer_alignment); }
  static uint64_t bytes_of(const IrNode& node) {
    return static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype);
  }
  uint64_t row_bytes(const IrNode& node) const { return round_up(std::max<uint64_t>(1, bytes_of(node)), alignment()); }
  int64_t row_elements(const IrNode& node) const { return static_cast<int64_t>(row_bytes(node) / size_of(node.dtype)); }

  int add(const OpDef& op, Attrs attrs, std::vector<int> inputs, const Shape& shape, DType dtype) {
    IrNode node{&op, std::move(attrs), std::move(inputs), shape, dtype};
    node.origin = origin_;
    return out_.add(std::move(node));
  }

  // ---- what the body computes

  // A carry that stays as it is comes from outside.
  void find_unchanged() {
    for (int c = 0; c < shape_.carries; ++c) unchanged_.push_back(source_.next[static_cast<size_t>(c)] == c);
  }
  bool from_outside(int a) const {
    return is_carry(a) ? unchanged_[static_cast<size_t>(a)] : a >= shape_.carries + shape_.slices;
  }

  void fold_constants() {
    body_.host_slots = out_.host_slots;
    for (int a = 0; a < arguments(); ++a) {
      if (!from_outside(a)) continue;
      const IrNode& given = out_.nodes[static_cast<size_t>(inputs_[static_cast<size_t>(a)])];
      IrNode& leaf = body_.nodes[static_cast<size_t>(a)];
      if (given.op == &ops::full_op)
        leaf = {&ops::full_op, given.attrs, {}, leaf.shape, leaf.dtype};
      else if (given.leaf >= 0 && out_.leaves[given.leaf].host_slot >= 0)
        body_.leaves[leaf.leaf] = {-1, out_.leaves[given.leaf].host_slot, View::dense(leaf.shape)};
    }
  }

  // Carries that something wanted depends on.
  void find_live(const std::vector<std::vector<int64_t>>& wanted) {
    live_.assign(static_cast<size_t>(shape_.carries), false);
    std::vector<bool> seen(body_.nodes.size(), false);
    std::vector<int> stack;
    const auto visit = [&](int vertex) {
      if (!seen[static_cast<size_t>(vertex)]) stack.push_back(vertex);
      seen[static_cast<size_t>(vertex)] = true;
    };
    for (const std::vector<int64_t>& ask : wanted) {
      const int vertex = ask[0] == 0 ? static_cast<int>(ask[1]) : source_.of_order[static_cast<size_t>(ask[1])];
      visit(vertex);
    }
    while (!stack.empty()) {
      const int vertex = stack.back();
      stack.pop_back();
      for (int input : body_.nodes[static_cast<size_t>(vertex)].inputs) visit(input);
      if (!is_carry(vertex) || from_outside(vertex)) continue;
      live_[static_cast<size_t>(vertex)] = true;
      visit(source_.next[static_cast<size_t>(vertex)]);
    }
  }

  void collect_outputs(const std::vector<std::vector<int64_t>>& wanted) {
    for (int c = 0; c < shape_.carries; ++c) {
      if (live_[static_cast<size_t>(c)]) outputs_.push_back({source_.next[static_cast<size_t>(c)], {c}});
    }
    std::map<int, bool> stacks;  // vertices of the body
    for (const std::vector<int64_t>& ask : wanted) {
      if (ask[0] == 0) continue;
      const int vertex = source_.of_order[static_cast<size_t>(ask[1])];
      if (vertex < arguments() && from_outside(vertex)) continue;
      if (is_carry(vertex))
        output_of_carry(vertex).history = vertex;
      else
        stacks[vertex] = true;
    }
    for (const auto& [vertex, wanted_once] : stacks) outputs_.push_back({vertex, {}, wanted_once});
  }

  Output& output_of_carry(int c) {
    return *std::find_if(outputs_.begin(), outputs_.end(), [&](const Output& o) {
      return std::find(o.carries.begin(), o.carries.end(), c) != o.carries.end();
    });
  }

  void plan_body() {
    for (const Output& output : outputs_) body_.outputs.push_back({output.vertex, 0});
    // Without the pass too (one operation at a time): what nobody asks for may read carries that are not kept.
    Graph prepared = drop_dead(planner_.prepare(body_));
    std::vector<Output> merged;
    for (size_t i = 0; i < outputs_.size(); ++i) {
      const Output& output = outputs_[i];
      const int vertex = prepared.outputs[i].node;
      const auto same = std::find_if(merged.begin(), merged.end(), [&](const Output& o) {
        return o.vertex == vertex && (o.history < 0 || output.history < 0);
      });
      asked_of_[output.vertex] = same - merged.begin();
      if (same == merged.end()) {
        merged.push_back(output);
        merged.back().vertex = vertex;
        continue;
      }
      same->carries.insert(same->carries.end(), output.carries.begin(), output.carries.end());
      same->stacked = same->stacked || output.stacked;
      same->history = std::max(same->history, output.history);
    }
    outputs_ = std::move(merged);
    if (caps_.machine() == Machine::cpu_loops) turned_ = turn_factors(prepared, shape_.carries + shape_.slices);
    prepared.outputs.clear();
    for (size_t o = 0; o < outputs_.size(); ++o) prepared.outputs.push_back({outputs_[o].vertex, output_slot(o)});
    for (const Output& output : outputs_) values_.push_back(prepared.nodes[static_cast<size_t>(output.vertex)]);
    planned_->body = planner_.plan(std::move(prepared));
    for (const OutputPlan& output : planned_->body.scheduled.outputs) {
      if (output.copy_back || !output.view.is_dense())
        throw std::logic_error("[plan] an output of a loop's body is not where it belongs");
    }
  }
  int output_slot(size_t o) const { return arguments() + static_cast<int>(o); }

  // ---- where it lies

  int operand(int vertex) {
    const auto at = std::find(operands_.begin(), operands_.end(), vertex);
    if (at != operands_.end()) return static_cast<int>(at - operands_.begin());
    operands_.push_back(vertex);
    return static_cast<int>(operands_.size()) - 1;
  }

  // The slices in rows of aligned size.
  int rows_of(int a) {
    const IrNode& slice = argument(a);
    const int given = inputs_[static_cast<size_t>(a)];
    const int64_t elements = row_elements(slice);
    if (elements == slice.shape.numel()) return given;
    const int flat = add(ops::reshape_op, {}, {given}, {shape_.length, slice.shape.numel()}, slice.dtype);
    return add(ops::pad_op, {{0, 0}}, {flat}, {shape_.length, elements}, slice.dtype);
  }

  // A copy of a matrix, column by column: of stored weights one for all runs.
  int turned(int given) {
    const int view = rewrite::permute(out_, given, {1, 0});
    const IrNode node = out_.nodes[static_cast<size_t>(view)];
    const int copy = add(copy_op, {}, {view}, node.shape, node.dtype);
    out_.nodes[static_cast<size_t>(copy)].once = true;
    return copy;
  }

  std::set<int> used_slots() const {
    std::set<int> used;
    for (const LoweredKernel& kernel : planned_->body.kernels) {
      kernel.for_each_binding([&](SlotRef ref, Access) {
        if (ref.kind == SlotRef::Kind::input) used.insert(ref.index);
      });
    }
    return used;
  }

  void add_slots() {
    planned_->slots.resize(static_cast<size_t>(arguments()) + outputs_.size());
    const std::set<int> used = used_slots();
    for (int a = 0; a < arguments(); ++a) {
      if (!used.contains(a)) continue;
      PlannedLoop::Slot& slot = planned_->slots[static_cast<size_t>(a)];
      if (from_outside(a)) {
        const int given = inputs_[static_cast<size_t>(a)];
        slot = {PlannedLoop::Slot::Kind::whole, operand(turned_.contains(a) ? turned(given) : given)};
      } else if (is_carry(a)) {
        const Output& next = output_of_carry(a);
        slot = {PlannedLoop::Slot::Kind::carried, operand(inputs_[static_cast<size_t>(a)]),
                output_slot(static_cast<size_t>(&next - outputs_.data()))};
      } else {
        slot = {PlannedLoop::Slot::Kind::row, operand(rows_of(a)), -1, 0, row_bytes(argument(a))};
      }
    }
    for (const Output& output : outputs_) {
      if (output.history >= 0) operand(initial_value(output));
    }
    planned_->operands = operands_.size();
  }

  // Of the carry whose values before each iteration are asked for.
  int initial_value(const Output& output) const { return inputs_[static_cast<size_t>(output.history)]; }

  void add_loop(const std::vector<std::vector<int64_t>>& wanted) {
    const int loop = add(ops::loop_op, {}, operands_, {0}, DType::f32);
    loop_ = loop;
    const uint64_t align = std::max<uint64_t>(256, alignment());
    uint64_t workspace = 0;
    for (uint64_t bytes : planned_->body.memory.arena.block_bytes) {
      planned_->block_places.push_back(workspace);
      workspace = round_up(workspace + bytes, align);
    }
    for (size_t o = 0; o < outputs_.size(); ++o) place_output(o, wanted, workspace, align);
    if (workspace > 0) planned_->workspace = add_result({static_cast<int64_t>(workspace / 4)}, DType::i32).second;
    out_.nodes[static_cast<size_t>(loop)].planned = planned_;
  }

  // A result of the loop: its vertex, and its place among the kernel's bindings.
  std::pair<int, int> add_result(const Shape& shape, DType dtype) {
    const int vertex = add(ops::loop_result_op, {{results_}}, {loop_}, shape, dtype);
    return {vertex, static_cast<int>(operands_.size()) + results_++};
  }

  void place_output(size_t o, const std::vector<std::vector<int64_t>>& wanted, uint64_t& workspace, uint64_t align) {
    Output& output = outputs_[o];
    const IrNode& value = values_[o];
    PlannedLoop::Slot& slot = planned_->slots[static_cast<size_t>(output_slot(o))];
    const bool history = output.history >= 0;
    if (output.stacked || history) {
      const auto [vertex, binding] = add_result({shape_.length + (history ? 1 : 0), row_elements(value)}, value.dtype);
      output.result = vertex;
      slot = {PlannedLoop::Slot::Kind::row, binding, -1, history && !shape_.reverse ? 1 : 0, row_bytes(value)};
      if (!history) return;
      const uint64_t row = shape_.reverse ? static_cast<uint64_t>(shape_.length) : 0;
      planned_->fills.push_back({operand(initial_value(output)), binding, row * slot.bytes,
                                 round_up(std::max<uint64_t>(1, bytes_of(value)), 4)});
      return;
    }
    const uint64_t bytes = round_up(std::max<uint64_t>(1, bytes_of(value)), align);
    slot = {PlannedLoop::Slot::Kind::in_turn, -1, -1, 0, bytes, workspace};
    if (shape_.length > 1) workspace += 2 * bytes;
    const bool last = std::any_of(wanted.begin(), wanted.end(), [&](const std::vector<int64_t>& ask) {
      return ask[0] == 0 &&
             std::find(output.carries.begin(), output.carries.end(), static_cast<int>(ask[1])) != output.carries.end();
    });
    if (!last && shape_.length == 1) workspace += bytes;
    if (last) std::tie(output.result, slot.binding) = add_result(value.shape, value.dtype);
  }

  // ---- what was asked for

  int rows(int vertex, int64_t first, int64_t count, const IrNode& value, const Shape& shape) {
    const Attrs range = slice_attrs(std::array<int64_t, 2>{first, 0}, std::array<int64_t, 2>{1, 1});
    const int flat = add(ops::slice_op, range, {vertex}, {count, value.shape.numel()}, value.dtype);
    return add(ops::reshape_op, {}, {flat}, shape, value.dtype);
  }

  Shape stacked_shape(const Shape& shape) const {
    Shape stacked{shape_.length};
    for (int64_t d : shape) stacked.push_back(d);
    return stacked;
  }

  int last_value(int c) {
    if (from_outside(c)) return inputs_[static_cast<size_t>(c)];
    const Output& output = output_of_carry(c);
    const IrNode& value = values_[static_cast<size_t>(&output - outputs_.data())];
    if (!output.stacked && output.history < 0) return output.result;
    const int64_t row = shape_.reverse ? 0 : shape_.length - (output.history >= 0 ? 0 : 1);
    return rows(output.result, row, 1, value, value.shape);
  }

  int stacked_value(int index) {
    const int vertex = source_.of_order[static_cast<size_t>(index)];
    if (vertex < arguments() && from_outside(vertex)) {
      const Shape& shape = argument(vertex).shape;
      Shape one{1};
      for (int64_t d : shape) one.push_back(d);
      const int given = add(ops::reshape_op, {}, {inputs_[static_cast<size_t>(vertex)]}, one, argument(vertex).dtype);
      return add(ops::expand_op, {}, {given}, stacked_shape(shape), argument(vertex).dtype);
    }
    const bool before = is_carry(vertex);
    const size_t o = before ? static_cast<size_t>(&output_of_carry(vertex) - outputs_.data())
                            : static_cast<size_t>(asked_of_.at(vertex));
    const Output& output = outputs_[o];
    const bool second = output.history >= 0 && before == shape_.reverse;
    return rows(output.result, second ? 1 : 0, shape_.length, values_[o], stacked_shape(values_[o].shape));
  }

  Graph& out_;
  const IrLoop& source_;
  const LoopShape shape_;
  std::vector<int> inputs_;
  const Caps& caps_;
  const BodyPlanner& planner_;
  int origin_;
  Graph body_;
  std::shared_ptr<PlannedLoop> planned_;
  std::vector<bool> unchanged_, live_;
  std::set<int> turned_;  // arguments that the body reads from a turned copy
  std::vector<Output> outputs_;
  std::vector<IrNode> values_;              // by output: shape and dtype
  std::map<int, std::ptrdiff_t> asked_of_;  // vertex of the body as imported -> output
  std::vector<int> operands_;
  int loop_ = -1;
  int64_t results_ = 0;
};

}  // namespace

Graph plan_loops(Graph graph, const Caps& caps, const BodyPlanner& planner) {
  std::map<int, std::vector<int>> asking;  // by loop
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (graph.nodes[i].op != &ops::loop_result_op) continue;
    const int loop = graph.nodes[i].inputs[0];
    if (!graph.nodes[static_cast<size_t>(loop)].planned) asking[loop].push_back(static_cast<int>(i));
  }
  if (asking.empty()) return graph;
  Graph out = graph.over_same_leaves();
  std::vector<int> to(graph.nodes.size(), -1);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (to[i] >= 0) continue;  // a result: it came with its loop
    IrNode node = std::move(graph.nodes[i]);
    for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
    if (node.op != &ops::loop_op) {
      to[i] = out.add(std::move(node));
      continue;
    }
    const std::vector<int>& results = asking[static_cast<int>(i)];
    std::vector<std::vector<int64_t>> wanted;
    for (int result : results) wanted.push_back(graph.nodes[static_cast<size_t>(result)].attrs.ints);
    const std::vector<int> made = LoopPlanner(out, node, node.inputs, caps, planner).run(wanted);
    for (size_t r = 0; r < results.size(); ++r) to[static_cast<size_t>(results[r])] = made[r];
  }
  for (const IrOutput& output : graph.outputs)
    out.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  return out;
}

}  // namespace heddle
