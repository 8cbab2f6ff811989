#include "heddle/core/simplify/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"

namespace heddle {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, std::string_view pass) : graph_(graph), pass_(pass) {}

  void vertices() {
    for (id_ = 0; id_ < static_cast<int>(graph_.nodes.size()); ++id_) {
      const IrNode& node = here();
      check(node.op != nullptr, "it has no operation");
      for (const int input : node.inputs) check(input >= 0 && input < id_, "it reads what comes later");
      const bool is_leaf = node.op->kind == OpKind::leaf;
      check(is_leaf == (node.leaf >= 0) && node.leaf < static_cast<int>(graph_.leaves.size()),
            "its leaf is not one of the graph's");
      if (node.op->arity >= 0 && !is_leaf && node.op->kind != OpKind::body)
        check(static_cast<int>(node.inputs.size()) == node.op->arity, "it has another number of inputs");
      shape();
    }
  }

  void same_interface(const Graph& before) {
    // A pass may look at a storage in another way: leaves are added, never taken away.
    if (graph_.leaves.size() < before.leaves.size() || graph_.storage_slots != before.storage_slots ||
        graph_.host_slots != before.host_slots) {
      throw std::logic_error(fmt::format("[passes] after '{}' the graph has other leaves", pass_));
    }
    if (graph_.outputs.size() != before.outputs.size())
      throw std::logic_error(fmt::format("[passes] after '{}' the graph has other outputs", pass_));
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      const IrOutput &now = graph_.outputs[i], &then = before.outputs[i];
      const bool known = now.node >= 0 && now.node < static_cast<int>(graph_.nodes.size());
      if (known && now.assign_slot == then.assign_slot) {
        const IrNode &a = graph_.nodes[static_cast<size_t>(now.node)],
                     &b = before.nodes[static_cast<size_t>(then.node)];
        if (a.shape == b.shape && a.dtype == b.dtype) continue;
      }
      throw std::logic_error(fmt::format("[passes] after '{}' output {} is another value", pass_, i));
    }
  }

 private:
  const IrNode& here() const { return graph_.nodes[static_cast<size_t>(id_)]; }
  const IrNode& input(size_t i) const { return graph_.nodes[static_cast<size_t>(here().inputs[i])]; }

  void check(bool good, const char* why) const {
    if (good) return;
    const IrNode& node = here();
    throw std::logic_error(fmt::format("[passes] after '{}' vertex %{} ({} {} {}) is wrong: {}", pass_, id_,
                                       node.op ? node.op->name : "?", node.shape.str(), name_of(node.dtype), why));
  }

  void shape() const {
    const IrNode& node = here();
    check(fits(node.op->attrs, node.attrs, node.inputs.empty() ? node.shape.rank() : input(0).shape.rank()),
          "its attributes are not those of its row");
    switch (node.op->kind) {
      case OpKind::elementwise:
        return elementwise();
      case OpKind::reduce:
        return reduce();
      case OpKind::movement:
        return movement();
      case OpKind::index:
        return index();
      case OpKind::contraction:
        return product();
      default:
        return;
    }
  }

  void elementwise() const {
    const IrNode& node = here();
    for (size_t i = 0; i < node.inputs.size(); ++i) check(input(i).shape == node.shape, "an input has another shape");
    if (node.op == &ops::cast_op || as_user(*node.op) != nullptr) return;
    if (node.op == &ops::where_op)
      return check(input(0).dtype == DType::boolean && input(1).dtype == node.dtype && input(2).dtype == node.dtype,
                   "dtypes of a choice differ");
    const DTypeRule rule = node.op->rule;
    const DType in = node.inputs.empty() ? node.dtype : input(0).dtype;
    for (size_t i = 1; i < node.inputs.size(); ++i) check(input(i).dtype == in, "inputs have different dtypes");
    const bool truth = rule == DTypeRule::compare || rule == DTypeRule::logical || rule == DTypeRule::test;
    check(node.dtype == (truth ? DType::boolean : in), "its dtype is not what its inputs give");
  }

  void reduce() const {
    const IrNode& node = here();
    const Shape& from = input(0).shape;
    int kept = 0;
    for (int d = 0; d < from.rank(); ++d) {
      if (names_axis(node.attrs, d)) continue;
      check(kept < node.shape.rank() && node.shape[kept] == from[d], "its shape is not what is left");
      ++kept;
    }
    check(kept == node.shape.rank(), "its shape is not what is left");
  }

  void movement() const {
    const IrNode& node = here();
    const int rank = node.shape.rank();
    for (size_t i = 0; i < node.inputs.size(); ++i) check(input(i).dtype == node.dtype, "moving changes no dtype");
    if (node.inputs.empty()) return check(false, "it moves nothing");
    const Shape& from = input(0).shape;
    if (node.op == &ops::reshape_op) return check(from.numel() == node.shape.numel(), "numbers of elements differ");
    check(from.rank() == rank, "ranks differ");
    if (node.op == &ops::concat_op) return joined();
    for (int d = 0; d < rank; ++d) {
      const size_t at = static_cast<size_t>(d);
      if (node.op == &ops::permute_op) {
        const int64_t axis = order_of(node.attrs)[at];
        check(axis >= 0 && axis < rank && node.shape[d] == from[static_cast<int>(axis)],
              "its shape is not its input's in that order");
      } else if (node.op == &ops::expand_op) {
        check(from[d] == node.shape[d] || from[d] == 1, "only dimensions of size 1 are repeated");
      } else if (node.op == &ops::slice_op && node.shape[d] > 0) {
        const SliceAttrs slice(node.attrs);
        const int64_t first = slice.start[at], last = first + (node.shape[d] - 1) * slice.step[at];
        check(first >= 0 && first < from[d] && last >= 0 && last < from[d], "it reads outside its input");
      } else if (node.op == &ops::pad_op) {
        const int64_t before = border_of(node.attrs)[at];
        check(before >= 0 && before + from[d] <= node.shape[d], "its input does not lie inside");
      } else if (node.op == &ops::flip_op) {
        check(from[d] == node.shape[d], "its shape is not its input's");
      }
    }
  }

  void joined() const {
    const IrNode& node = here();
    const int axis = axis_of(node.attrs);
    int64_t length = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      length += input(i).shape[axis];
      check(input(i).shape.with(axis, node.shape[axis]) == node.shape, "a part has another shape");
    }
    check(length == node.shape[axis], "parts do not add up");
  }

  void index() const { check(input(0).dtype == here().dtype && is_integer(input(1).dtype), "dtypes do not fit"); }

  void product() const {
    const IrNode& node = here();
    const Shape &a = input(0).shape, &b = input(1).shape;
    const int rank = node.shape.rank();
    check(rank >= 2 && a.rank() == rank && b.rank() == rank, "ranks differ");
    for (int d = 0; d < rank - 2; ++d) check(a[d] == node.shape[d] && b[d] == node.shape[d], "batches differ");
    check(a[rank - 2] == node.shape[rank - 2] && b[rank - 1] == node.shape[rank - 1] && a[rank - 1] == b[rank - 2],
          "sizes do not fit");
  }

  const Graph& graph_;
  std::string_view pass_;
  int id_ = 0;
};

}  // namespace

void verify_graph(const Graph& graph, const Graph& before, std::string_view pass) {
  Verifier verifier(graph, pass);
  verifier.vertices();
  verifier.same_interface(before);
}

}  // namespace heddle
