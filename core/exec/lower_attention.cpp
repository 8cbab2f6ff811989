// Attention groups: shaders/attention.hk and shaders/attention_backward.hk over views of their operands.
#include <algorithm>
#include <bit>

#include "core/exec/attention_vertex.h"
#include "core/exec/bodies.h"
#include "core/exec/operand.h"
#include "core/graph/primitives.h"
#include "core/kernel/kernel_file.h"

namespace heddle {

const OpDef attention_gradients_op{
    .name = "attention_gradients", .kind = OpKind::body, .arity = ops::attention_query_gradient_op.arity, .rule = DTypeRule::any, .doc = "of keys, values and queries"};

namespace {

uint32_t word(int64_t value) { return static_cast<uint32_t>(static_cast<int32_t>(value)); }
uint32_t word(double value) { return std::bit_cast<uint32_t>(static_cast<float>(value)); }

bool wants_four_strides(const AttentionProblem& p, int input) { return input < 3 || input == p.bias || input == p.cotangent; }

AttentionGradient gradient_of(const OpDef& op, const Shape& shape, const AttentionProblem& p) {
  AttentionGradient g;
  if (&op == &ops::attention_key_gradient_op) g.which = 1;
  if (&op == &attention_gradients_op) g.which = 3;
  if (&op != &ops::attention_bias_gradient_op) return g;
  g.which = 2;
  g.reduce_batch = shape[0] == 1 && p.batch > 1;
  g.reduce_heads = shape[1] == 1 && p.heads > 1;
  g.reduce_queries = shape[2] == 1 && p.queries > 1;
  return g;
}

// How many columns one work item runs over.
int64_t columns_of(const AttentionProblem& p, const AttentionGradient& g) {
  if (g.which == 0) return p.keys;
  if (g.which == 1) return p.group() * p.queries;
  if (g.which == 3) return p.group() * p.queries * p.keys;  // no device with a limit takes it
  return (g.reduce_batch ? p.batch : 1) * (g.reduce_heads ? p.heads : 1) * p.queries;
}

class AttentionLowering {
 public:
  AttentionLowering(const LowerInput& in, const KernelFile& file)
      : in_(in), graph_(in.scheduled.graph), node_(graph_.nodes[in.group.anchor]), file_(file), e_(in.scheduled, in.group, file.constants.size()) {
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
    for (int axis = 0; axis < count; ++axis) add("", view && view->shape[axis] != 1 ? view->strides[static_cast<size_t>(axis)] : 0);
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
    options_.types = {{"T", operand(0).dtype}, {"TO", node_.dtype}, {"TB", p.bias < 0 ? DType::f32 : operand(p.bias).dtype}};
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

// Where a driver ends long loops in silence, long rows are left to the unfused graph.
bool attention_takes(const Node& node) { return attention_takes(*node.op, node.shape, attention_problem(node), node.inputs[0]->dtype, node.device->caps()); }

bool attention_takes(const OpDef& op, const Shape& shape, const AttentionProblem& p, DType dtype, const Caps& caps) {
  if (!attention_has_kernel(p, dtype)) return false;
  const bool forward = &op == &ops::attention_op;
  const AttentionGradient g = gradient_of(op, shape, p);
  const AttentionSizes s = attention_sizes(p, dtype);
  if (forward && !attention_pays(caps, s)) return false;
  if (caps.max_loop_iterations == UINT64_MAX) return true;
  const Bindings tunables = forward ? pick_attention(caps, s) : pick_attention_gradient(caps, s, g);
  const int64_t columns = forward ? std::min(p.keys, attention_chunk(p.keys, pick_attention_splits(caps, s))) : columns_of(p, g);
  return static_cast<uint64_t>(attention_iterations(tunables, columns, std::max(p.size, p.value_size))) <= caps.max_loop_iterations;
}

// q, k, v, bias and the cotangent may have any strides but that of their elements; the small operands lie densely, the logarithms
// behind the result they belong to.
bool attention_accepts(const IrNode& node, size_t input, const View& view) {
  std::vector<Shape> shapes(node.inputs.size(), Shape{1, 1, 1, 1});
  const AttentionProblem p = attention_problem(node.attrs, shapes, node.dtype);
  const int at = static_cast<int>(input);
  if (at == p.bias) return true;
  if (wants_four_strides(p, at)) return view.shape[3] == 1 || view.strides[3] == 1;
  if (at != p.stats) return view.is_dense();
  View from_start = view;
  from_start.offset = 0;
  return from_start.is_dense();
}

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
  const AttentionGradient g = gradient_of(*l.node_.op, l.node_.shape, p);
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
  return l.finish(pick_attention_gradient(in.caps, l.sizes(), g), columns_of(p, g));
}

}  // namespace heddle
