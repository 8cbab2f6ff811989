// Attention groups: shaders/attention.hk and shaders/attention_backward.hk over views of their operands.
#include <algorithm>
#include <bit>

#include "heddle/core/contract/grid.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/ir/attention_vertex.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(static_cast<int32_t>(value)); }
uint32_t word(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

class AttentionLowering {
 public:
  AttentionLowering(const LowerInput& in, const KernelFile& file)
      : in_(in),
        graph_(in.scheduled.graph),
        node_(graph_.nodes[in.group.anchor]),
        file_(file),
        e_(in.scheduled, in.group, file.constants.size()) {
    p = attention_problem(graph_, node_);
    for (int input : node_.inputs) operands_.push_back(resolve_operand(in.scheduled, in.group, input, "x"));
  }

  // Buffer `name` of the body is operand `input`, or left out.
  void bind(const char* name, int input) {
    if (input < 0) {
      options_.dropped_buffers.push_back(name);
    } else {
      slots_.push_back(operand(input).slot);
    }
  }
  void bind_projections() {
    bind("q", 0);
    bind("k", 1);
    bind("v", 2);
  }
  void bind_features() {
    bind("bias", p.bias);
    bind("mask", p.mask);
    bind("lengths", p.lengths);
    bind("key", p.key);
  }
  AttentionSizes sizes() const { return nominal_sizes(graph_, node_, attention_sizes(p, operand(0).dtype)); }
  const Operand& operand(int input) const { return operands_[static_cast<size_t>(input)]; }

  void add(const char* name, int64_t value) {
    named_[name] = value;
    constants_.push_back(word(value));
  }
  void add(double value) { constants_.push_back(word(value)); }
  // Offset and strides of the first three dimensions; a bias has a fourth. Dimensions of size 1 are repeated.
  void add_view(int input, int count) {
    const View* view = input < 0 ? nullptr : &operand(input).view;
    add("", view ? view->offset : 0);
    for (int axis = 0; axis < count; ++axis)
      add("", view && view->shape[axis] != 1 ? view->strides[static_cast<size_t>(axis)] : 0);
  }
  void add_sizes() {
    add("BATCH", p.batch);
    add("H", p.heads);
    add("G", p.group());
    add("M", p.queries);
    add("N", p.keys);
    add("D", p.size);
    add("E", p.value_size);
    for (int input = 0; input < 3; ++input) add_view(input, 3);
  }

  LoweredKernel finish(const Bindings& tunables, int64_t columns) {
    options_.tunables = tunables;
    options_.types = {
        {"T", operand(0).dtype}, {"TO", node_.dtype}, {"TB", p.bias < 0 ? DType::f32 : operand(p.bias).dtype}};
    // The result goes wherever the planner put this vertex: its buffer is the emitter's.
    e_.store(in_.group.anchor, "x", "0");
    LoweredKernel kernel;
    kernel.source = file_.instantiate(options_);
    kernel.source.name = e_.kernel_name();
    kernel.bindings = slots_;
    kernel.bindings.push_back(e_.slots()[0]);
    kernel.constants = constants_;
    const auto groups = file_.groups(options_.tunables, named_);
    const auto grid = fold_groups(int64_t{groups[0]} * groups[1], in_.caps);
    std::copy(grid.begin(), grid.end(), kernel.groups);
    kernel.loop_iterations = attention_iterations(tunables, columns, std::max(p.size, p.value_size));
    return kernel;
  }

  const LowerInput& in_;
  const Graph& graph_;
  const IrNode& node_;
  const KernelFile& file_;
  AttentionProblem p;

 private:
  Emitter e_;
  std::vector<Operand> operands_;
  std::vector<SlotRef> slots_;
  std::vector<uint32_t> constants_;
  Bindings named_;
  KernelFile::Options options_;
};

}  // namespace

LoweredKernel lower_attention(const LowerInput& in) {
  AttentionLowering l(in, KernelFile::builtin("attention"));
  const AttentionProblem& p = l.p;
  l.bind_projections();
  l.bind_features();
  l.add_sizes();
  l.add_view(p.bias, 4);
  l.add("", p.splits * p.results());
  l.add("SPLITS", p.splits);
  l.add("", attention_chunk(p.keys, p.splits));
  l.add(p.scale);
  l.add(p.drop);
  return l.finish(pick_attention(in.caps, l.sizes()), std::min(p.keys, attention_chunk(p.keys, p.splits)));
}

LoweredKernel lower_attention_gradient(const LowerInput& in) {
  AttentionLowering l(in, KernelFile::builtin("attention_backward"));
  const AttentionProblem& p = l.p;
  const AttentionGradient g = attention_gradient(*l.node_.op, l.node_.shape, p);
  l.bind_projections();
  l.bind("grad", p.cotangent);
  l.bind("stats", p.stats);
  l.bind("delta", p.delta);
  l.bind_features();
  l.add_sizes();
  l.add_view(p.cotangent, 3);
  l.add_view(p.bias, 4);
  l.add("", l.operand(p.stats).view.offset);
  l.add(p.scale);
  l.add(p.drop);
  return l.finish(pick_attention_gradient(in.caps, l.sizes(), g), attention_columns(p, g));
}

}  // namespace heddle
