#include "heddle/core/specialise/materialize.h"

#include <algorithm>
#include <set>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/bodies.h"
#include "heddle/core/ir/matmul_batch.h"
#include "heddle/core/ir/picks.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// What a chain of view ops above a stored value or leaf comes to.
struct Chain {
  int base = -1;
  std::optional<View> view;
};

class Materializer {
 public:
  Materializer(Graph graph, uint32_t max_bindings, uint64_t max_binding_bytes)
      : in_(std::move(graph)), max_parts_(std::max<size_t>(2, max_bindings / 2)), most_(max_binding_bytes) {
    for (const IrOutput& output : in_.outputs) {
      if (output.assign_slot >= 0) assigned_.insert(output.assign_slot);
      note_read(output.node);
    }
    for (const IrNode& node : in_.nodes) {
      for (const int input : node.inputs) note_read(input);
    }
  }

  Materialized run() {
    out_.graph = in_.over_same_leaves();
    std::vector<int> to(in_.nodes.size());
    for (size_t i = 0; i < in_.nodes.size(); ++i) {
      IrNode node = std::move(in_.nodes[i]);
      for (int& input : node.inputs) input = to[input];
      const bool operands =
          node.op->kind == OpKind::contraction || node.op->kind == OpKind::body || node.op == &ops::loop_op;
      if (operands) {
        for (size_t n = 0; n < node.inputs.size(); ++n) node.inputs[n] = in_memory(node, n);
      }
      if (node.op == &ops::matmul_op) check_batch(node);
      if (node.op == &ops::concat_op && !try_join(node)) split_concat(node);
      to[i] = out_.graph.add(std::move(node));
      if (picks_beyond(out_.graph, to[i], most_)) to[i] = copy(to[i]);
      if (at(to[i]).op == &join_op) place_parts(to[i]);
    }
    for (const IrOutput& output : in_.outputs) add_output(to[output.node], output.assign_slot);
    return std::move(out_);
  }

 private:
  const IrNode& at(int id) const { return out_.graph.nodes[id]; }

  void note_read(int id) {
    const int leaf = in_.nodes[static_cast<size_t>(id)].leaf;
    if (leaf >= 0) read_.insert(in_.leaves[static_cast<size_t>(leaf)].slot);
  }

  Chain follow(int id) const {
    std::vector<int> views;
    while (is_view_op(*at(id).op)) {
      views.push_back(id);
      id = at(id).inputs[0];
    }
    const IrNode& base = at(id);
    const bool leaf = base.leaf >= 0 && out_.graph.leaves[base.leaf].slot >= 0;
    const bool stored = base.op->kind == OpKind::elementwise || base.op->kind == OpKind::reduce ||
                        base.op->kind == OpKind::contraction || base.op->kind == OpKind::body ||
                        base.op == &ops::loop_result_op || base.op == &join_op;
    if (!leaf && !stored) return {id, std::nullopt};
    return {id, compose(out_.graph, views, leaf ? out_.graph.leaves[base.leaf].view : View::dense(base.shape))};
  }

  // The matmul body runs two loops over batches; operands that need more are made dense. Narrow integers are multiplied
  // as i32.
  void check_batch(IrNode& node) {
    for (int& input : node.inputs) {
      const DType t = at(input).dtype;
      if (t != DType::i8 && t != DType::u8 && t != DType::boolean) continue;
      input = out_.graph.add({&ops::cast_op, {}, {input}, at(input).shape, DType::i32});
    }
    const Chain a = follow(node.inputs[0]), b = follow(node.inputs[1]);
    if (a.view && b.view && try_matmul_batch(*a.view, *b.view)) return;
    for (int& input : node.inputs) input = copy(input);
  }

  // Every part is at least one buffer of the kernel that reads it.
  void split_concat(IrNode& node) {
    const int axis = axis_of(node.attrs);
    while (node.inputs.size() > max_parts_) {
      std::vector<int> joined;
      for (size_t first = 0; first < node.inputs.size(); first += max_parts_) {
        const size_t count = std::min(max_parts_, node.inputs.size() - first);
        IrNode part{node.op,
                    node.attrs,
                    {node.inputs.begin() + static_cast<std::ptrdiff_t>(first),
                     node.inputs.begin() + static_cast<std::ptrdiff_t>(first + count)},
                    {},
                    node.dtype};
        int64_t length = 0;
        for (int input : part.inputs) length += at(input).shape[axis];
        part.shape = node.shape.with(axis, length);
        joined.push_back(count == 1 ? part.inputs[0] : copy(out_.graph.add(std::move(part))));
      }
      node.inputs = std::move(joined);
    }
  }

  // Parts that each fill one stretch of the result are written there by whoever computes them: the concat itself costs
  // nothing. So are many, and long ones that are computed or several: a kernel that read all would decide for each
  // element which part it is of (28 gradients of 0.8 MB in all on a core of an EPYC: 50 ms, copies one by one 0.3).
  bool try_join(IrNode& node) {
    const int axis = axis_of(node.attrs);
    for (int d = 0; d < axis; ++d) {
      if (node.shape[d] != 1) return false;
    }
    if (node.inputs.size() <= max_parts_ && !is_of_long_parts(node)) return false;
    for (int& input : node.inputs) input = copy(input);
    node.op = &join_op;
    return true;
  }

  // Few stored parts are read by one kernel, which takes them one after the other (lower_elementwise_lines.cpp).
  bool is_of_long_parts(const IrNode& concat) const {
    static constexpr int64_t least_elements = 4096;  // of a part, on average
    static constexpr size_t few = 4;
    if (concat.inputs.size() < 2) return false;
    if (concat.shape.numel() < least_elements * static_cast<int64_t>(concat.inputs.size())) return false;
    return std::ranges::all_of(concat.inputs, [&](int input) {
      const IrNode& base = at(follow(input).base);
      if (base.leaf >= 0) return concat.inputs.size() > few;
      // Few constants, such as room at the end of a list, are filled in.
      if (base.op->kind == OpKind::constant) return at(input).shape.numel() <= least_elements;
      return base.op->kind == OpKind::elementwise || base.op->kind == OpKind::reduce ||
             base.op->kind == OpKind::contraction || base.op->kind == OpKind::body;
    });
  }

  void place_parts(int join) {
    int64_t offset = 0;
    for (int part : at(join).inputs) {
      out_.placed[part] = {join, offset};
      offset += at(part).shape.numel();
    }
  }

  int copy(int id) {
    const IrNode& node = at(id);
    IrNode stored{&copy_op, {}, {id}, node.shape, node.dtype};
    stored.origin = node.origin;
    return out_.graph.add(std::move(stored));
  }

  // The operand itself, or a dense copy of it.
  int in_memory(const IrNode& node, size_t n) {
    const int id = node.inputs[n];
    const Chain chain = follow(id);
    if (!chain.view || is_scalar_arithmetic(chain.base)) return copy(id);
    if (node.op == &ops::loop_op) return chain.view->is_dense() ? id : copy(id);
    if (node.op->kind != OpKind::body) return id;
    const BodyRow& row = body_row(*node.op);
    const bool fits =
        (!row.dense_operands || chain.view->is_dense()) && (!row.accepts || row.accepts(node, n, *chain.view));
    return fits ? id : copy(id);
  }

  // Scalar arithmetic may be computed by its users and then has no storage; an operand needs one.
  bool is_scalar_arithmetic(int id) const {
    return at(id).leaf < 0 && at(id).op->kind == OpKind::elementwise && at(id).op != &copy_op &&
           at(id).shape.numel() == 1;
  }

  void add_output(int id, int assign_slot) {
    out_.graph.outputs.push_back({id, assign_slot});
    Chain chain = follow(id);
    const IrNode* base = &at(chain.base);
    const bool on_leaf = base->leaf >= 0;
    const bool clobbered =
        on_leaf && out_.graph.leaves[base->leaf].slot >= 0 && assigned_.contains(out_.graph.leaves[base->leaf].slot);
    // The parts of a join are written before the join's turn: too early for memory whose old value somebody reads.
    const bool early = assign_slot >= 0 && base->op == &join_op && read_.contains(assign_slot);
    const bool second_write = assign_slot >= 0 && chain.base >= 0 && written_.contains(chain.base);
    if (!chain.view || (assign_slot >= 0 && (on_leaf || chain.base != id || second_write)) || clobbered || early) {
      out_.graph.outputs.back().node = copy(id);
      chain = {out_.graph.outputs.back().node, View::dense(at(id).shape)};
    }
    if (assign_slot >= 0) written_.insert(chain.base);
    out_.outputs.push_back({chain.base, *chain.view, assign_slot, false});
  }

  Graph in_;
  size_t max_parts_;
  uint64_t most_;  // bytes of one binding
  Materialized out_;
  std::set<int> assigned_;  // slots that this graph overwrites
  std::set<int> read_;      // slots whose old value this graph reads
  std::set<int> written_;   // vertices that are already some assign's value
};

}  // namespace

Materialized materialize(Graph graph, uint32_t max_bindings, uint64_t max_binding_bytes) {
  return Materializer(std::move(graph), max_bindings, max_binding_bytes).run();
}

}  // namespace heddle
