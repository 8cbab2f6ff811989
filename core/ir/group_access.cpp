#include "heddle/core/ir/group_access.h"

#include <algorithm>
#include <set>
#include <utility>

#include "heddle/core/graph/loop.h"
#include "heddle/core/ir/access.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"

namespace heddle {

bool is_anchor_kind(const IrNode& node) {
  return node.op->kind == OpKind::elementwise || node.op->kind == OpKind::reduce ||
         node.op->kind == OpKind::contraction || node.op->kind == OpKind::body || is_loop(*node.op) ||
         node.op == &join_op;
}

std::optional<Index> linear_access(const Graph& graph, const Use& use) {
  const std::optional<View> view = compose(graph, use.path.ops, View::dense(graph.nodes[use.node].shape));
  if (!view) return std::nullopt;
  Index linear = Index::literal(view->offset);
  for (int d = 0; d < use.path.shape.rank(); ++d) {
    if (use.path.shape[d] == 1) continue;
    if (!use.path.base[d].affine()) return std::nullopt;
    linear = affine_sum(linear, use.path.base[d], view->strides[d]);
  }
  return linear;
}

bool is_dense_over(const Index& access, const Shape& shape, int first) {
  if (access.constant != 0) return false;
  const auto strides = row_major_strides(shape);
  int used = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    if (access.coefficient(first + d) != strides[d]) return false;
    ++used;
  }
  return used == static_cast<int>(access.terms.size());
}

Shape full_shape(const Group& group) {
  Shape shape = group.domain;
  for (int64_t d : group.inner) shape.push_back(d);
  return shape;
}

Shape reduced_shape(const Graph& graph, const IrNode& node) {
  Shape shape;
  for (int64_t axis : axes_of(node.attrs)) shape.push_back(graph.nodes[node.inputs[0]].shape[static_cast<int>(axis)]);
  return squeezed(shape);
}

bool comes_from_reduction(const Graph& graph, int id, const Shape& rows, const Shape& inner, int depth) {
  const IrNode& node = graph.nodes[id];
  if (depth == 0 || node.leaf >= 0) return false;
  if (node.op->kind == OpKind::reduce) return squeezed(node.shape) == rows && reduced_shape(graph, node) == inner;
  if (node.op->kind != OpKind::elementwise && !is_view_op(*node.op)) return false;
  return std::any_of(node.inputs.begin(), node.inputs.end(),
                     [&](int input) { return comes_from_reduction(graph, input, rows, inner, depth - 1); });
}

namespace {

// Longer kernels gain nothing more from fusion and take drivers' compilers very long.
constexpr size_t max_vertices = 96;
// So do those that read the same at many indices: a product's gradient, a scan by doubling, was 2,000 lines of text and
// half a minute of PoCL's.
constexpr size_t max_repeated_reads = 48;

// The operand's chain below the function must be views of something that lies in memory.
bool prologue_base_is_memory(const Graph& graph, const std::vector<bool>& free_nodes, int id, const Use& use) {
  std::vector<int> views = use.path.ops;
  while (is_view_op(*graph.nodes[id].op)) {
    views.push_back(id);
    id = graph.nodes[id].inputs[0];
  }
  const IrNode& base = graph.nodes[id];
  if (base.leaf < 0 && (!is_anchor_kind(base) || free_nodes[id])) return false;
  const View view = base.leaf >= 0 ? graph.leaves[base.leaf].view : View::dense(base.shape);
  return compose(graph, views, view).has_value();
}

}  // namespace

// A cheap unary function of one matmul operand is applied while the operand is loaded.
bool is_prologue(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, int id,
                 const std::vector<Use>& uses) {
  const IrNode& node = graph.nodes[id];
  // Up to two batch dimensions always fit the body's two batch loops, whatever the views below the function.
  if (group.kind != GroupKind::matmul || group.domain.rank() > 4 || uses.size() != 1 || node.inputs.size() != 1)
    return false;
  if (node.op == &copy_op || as_user(*node.op) != nullptr || node.op->cost > 2) return false;
  const DType from = graph.nodes[node.inputs[0]].dtype;
  const bool half = from == DType::f16 || from == DType::bf16;
  const bool floats = (from == DType::f32 || half) && node.dtype == DType::f32;
  const bool same_half = half && node.dtype == from && node.op != &ops::cast_op;
  // Quantised operands are read as they lie: bytes that are multiplied as i32, or become floats.
  const bool bytes = node.op == &ops::cast_op && (from == DType::i8 || from == DType::u8) &&
                     (node.dtype == DType::i32 || node.dtype == DType::f32);
  if (!floats && !same_half && !bytes) return false;
  return prologue_base_is_memory(graph, free_nodes, node.inputs[0], uses[0]);
}

bool fits_kernel(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, uint32_t max_bindings) {
  std::set<std::pair<int, int>> buffers;  // (0, slot) inputs, (1, vertex) others, (2, dtype) host values
  const std::vector<Use> uses = external_uses(graph, group, free_nodes);
  for (const Use& use : uses) {
    const IrNode& node = graph.nodes[use.node];
    if (node.leaf < 0)
      buffers.insert({1, use.node});
    else if (graph.leaves[node.leaf].slot >= 0)
      buffers.insert({0, graph.leaves[node.leaf].slot});
    else
      buffers.insert({2, static_cast<int>(node.dtype)});  // a binding for each type it is read as
  }
  if (group.members.size() + group.inlined.size() > max_vertices) return false;
  if (uses.size() > buffers.size() + max_repeated_reads) return false;
  size_t stores = 0;
  for (const Member& member : group.members) stores += member.stored;
  return buffers.size() + stores <= max_bindings;
}

}  // namespace heddle
