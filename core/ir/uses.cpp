#include "heddle/core/ir/uses.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// index = stride * quotient + remainder with 0 <= remainder < stride, where the extents of its variables say so.
struct Division {
  Index quotient, remainder;
};

std::optional<Division> divide(const Index& index, int64_t stride, const IndexPrinter& printer) {
  Division d;
  d.remainder.constant = (index.constant % stride + stride) % stride;
  d.quotient.constant = (index.constant - d.remainder.constant) / stride;
  int64_t least = d.remainder.constant, most = least;
  for (const auto& [variable, coefficient] : index.terms) {
    const int64_t extent = printer.extent(variable);
    if (extent == 0) return std::nullopt;
    if (coefficient % stride == 0) {
      d.quotient.terms.emplace_back(variable, coefficient / stride);
      continue;
    }
    d.remainder.terms.emplace_back(variable, coefficient);
    (coefficient < 0 ? least : most) += coefficient * (extent - 1);
  }
  return least >= 0 && most < stride ? std::optional(d) : std::nullopt;
}

// An index over a block of dimensions of `in`, [first, end), as one index for each; nothing where that takes divisions.
std::optional<std::vector<Index>> taken_apart(const Index& linear, const Shape& in, int first, int end,
                                              IndexPrinter& printer) {
  std::vector<Index> parts;
  Index rest = linear;
  int64_t stride = 1;
  for (int d = first; d < end; ++d) stride *= in[d];
  for (int d = first; d < end; ++d) {
    stride /= in[d];
    const std::optional<Division> divided = divide(rest, stride, printer);
    if (divided) {
      parts.push_back(in[d] == 1 ? Index::literal(0) : divided->quotient);
      rest = divided->remainder;
      continue;
    }
    for (const auto& [variable, coefficient] : linear.terms) {
      const int64_t step = stride / coefficient;
      if (step > 1 && step * coefficient == stride) printer.wants_steps(variable, step);
    }
    return std::nullopt;
  }
  return parts;
}

// Splits or merges an index over `out` into one over `in` (same number of elements), block by block: dimensions of both
// shapes are grouped into the smallest blocks of equal size; inside a block the index is linearised and taken apart
// again.
std::vector<Index> reshape_index(const std::vector<Index>& index, const Shape& out, const Shape& in,
                                 IndexPrinter& printer) {
  std::vector<Index> result(in.rank(), Index::literal(0));
  if (in.numel() == 0) return result;  // nothing is read, and blocks of no elements cannot be matched
  int o = 0, i = 0;
  while (o < out.rank() || i < in.rank()) {
    int o_end = o, i_end = i;
    int64_t po = 1, pi = 1;
    if (o < out.rank()) po = out[o_end++];
    if (i < in.rank()) pi = in[i_end++];
    while (po != pi) {
      if ((po < pi && o_end < out.rank()) || i_end == in.rank())
        po *= out[o_end++];
      else
        pi *= in[i_end++];
    }
    // Linear index inside the block.
    Index linear = Index::literal(0);
    int64_t stride = 1;
    for (int d = o_end; d-- > o;) {
      if (out[d] != 1) {
        if (index[d].affine() && linear.affine()) {
          linear = affine_sum(linear, index[d], stride);
        } else {
          const std::string scaled = stride == 1
                                         ? printer.print(index[d])
                                         : fmt::format("({}) * {}", printer.print(index[d]), printer.constant(stride));
          linear = {0,
                    {},
                    printer.local(linear.is_literal() && linear.constant == 0
                                      ? scaled
                                      : fmt::format("{} + {}", printer.print(linear), scaled))};
        }
      }
      stride *= out[d];
    }
    int wide = 0;  // dimensions of the input's block that need an index
    for (int d = i; d < i_end; ++d) wide += in[d] != 1;
    stride = pi;
    std::string rest;
    const auto parts = wide > 1 && linear.affine() && !linear.terms.empty() ? taken_apart(linear, in, i, i_end, printer)
                                                                            : std::nullopt;
    if (parts) std::copy(parts->begin(), parts->end(), result.begin() + i);
    for (int d = i; d < i_end && !parts; ++d) {
      if (in[d] == 1) continue;
      stride /= in[d];
      if (wide == 1) {
        result[d] = linear;
      } else {
        if (rest.empty()) rest = printer.local(printer.print(linear));
        const std::string divided = stride == 1 ? rest : fmt::format("{} / {}", rest, printer.constant(stride));
        const bool first = stride * in[d] == pi;
        result[d] = {
            0, {}, printer.local(first ? divided : fmt::format("({}) % {}", divided, printer.constant(in[d])))};
      }
    }
    o = o_end;
    i = i_end;
  }
  return result;
}

std::vector<Index> resolve_one(const IrNode& node, const Shape& in, const std::vector<Index>& index,
                               IndexPrinter& printer) {
  if (node.op == &ops::reshape_op) return reshape_index(index, node.shape, in, printer);
  std::vector<Index> result(index.size());
  const auto scaled = [&](const Index& at, int64_t start, int64_t step) -> Index {
    if (at.affine()) return affine_sum(Index::literal(start), at, step);
    return {0,
            {},
            printer.local(
                fmt::format("{} + ({}) * {}", printer.constant(start), printer.print(at), printer.constant(step)))};
  };
  for (int d = 0; d < static_cast<int>(index.size()); ++d) {
    if (node.op == &ops::permute_op) {
      result[static_cast<size_t>(order_of(node.attrs)[static_cast<size_t>(d)])] = index[d];
    } else if (node.op == &ops::expand_op) {
      result[d] = in[d] == 1 ? Index::literal(0) : index[d];
    } else if (node.op == &ops::slice_op) {
      const SliceAttrs slice(node.attrs);
      result[d] = scaled(index[d], slice.start[static_cast<size_t>(d)], slice.step[static_cast<size_t>(d)]);
    } else {  // flip
      result[d] = names_axis(node.attrs, d) ? scaled(index[d], in[d] - 1, -1) : index[d];
    }
  }
  return result;
}

// For analysis only: whatever is not affine prints as a mark that makes paths comparable.
class MarkPrinter final : public IndexPrinter {
 public:
  std::string print(const Index& index) override {
    std::string text = fmt::format("({}", index.constant);
    for (const auto& [v, c] : index.terms) text += fmt::format("+{}*{}", c, v);
    return text + index.opaque + ")";
  }
  std::string constant(int64_t value) override { return std::to_string(value); }
  std::string local(const std::string& expression) override { return expression; }
};

class Walker {
 public:
  Walker(const Graph& graph, const Group& group, const std::vector<bool>& free_nodes)
      : graph_(graph), group_(group), free_(free_nodes) {}

  std::vector<Use> run() {
    if (group_.kind == GroupKind::join) return {};  // no kernel reads anything
    for (const Member& member : group_.members) {
      const IrNode& node = graph_.nodes[member.node];
      if (node.op == &ops::loop_result_op) continue;
      for (size_t i = 0; i < node.inputs.size(); ++i) {
        operand_ = member.node == group_.anchor && (group_.kind == GroupKind::matmul ||
                                                    group_.kind == GroupKind::body || group_.kind == GroupKind::loop);
        level_ = node.op->kind == OpKind::reduce ? Level::full : member.level;
        visit(node.inputs[i], member_path(graph_, group_, member, static_cast<int>(i)));
      }
    }
    return std::move(uses_);
  }

 private:
  void visit(int id, const Path& path) {
    if (!seen_.insert(fingerprint(id, path)).second) return;
    const IrNode& node = graph_.nodes[id];
    if (is_view_op(*node.op)) return visit(node.inputs[0], path.through(id));
    if (group_.find(id)) return;
    const bool here = std::binary_search(group_.inlined.begin(), group_.inlined.end(), id) || free_[id];
    if (node.op->kind == OpKind::constant) return;
    if (node.op == &join_op) return uses_.push_back({id, path, level_, operand_});
    if (node.op->kind == OpKind::movement || node.op == &ops::take_op || node.op == &ops::gather_op)
      return visit_irregular(id, path);
    if (node.op->kind == OpKind::random) return visit(node.inputs[0], at_start(node.inputs[0]));
    if (here) {
      for (int input : node.inputs) visit(input, path);
      return;
    }
    uses_.push_back({id, path, level_, operand_});
  }

  Path at_start(int id) const {
    Path path;
    path.shape = graph_.nodes[id].shape;
    path.base.assign(path.shape.rank(), Index::literal(0));
    return path;
  }

  // pad, concat, take and gather read their inputs at indices that depend on more than the position: others for each
  // path that leads to them.
  void visit_irregular(int id, const Path& path) {
    const IrNode& node = graph_.nodes[id];
    const size_t mark = irregular_++;
    const std::vector<Index> index = resolve(graph_, path, printer_);
    if (node.op == &ops::take_op || node.op == &ops::gather_op) {
      const int axis = axis_of(node.attrs);
      const Shape& indices = graph_.nodes[node.inputs[1]].shape;
      const bool take = node.op == &ops::take_op;
      Path to_indices{{}, indices, {}};
      for (int d = 0; d < indices.rank(); ++d) to_indices.base.push_back(index[take ? axis + d : d]);
      visit(node.inputs[1], to_indices);
      Path to_data{{}, graph_.nodes[node.inputs[0]].shape, {}};
      for (int d = 0; d < to_data.shape.rank(); ++d) {
        if (d == axis)
          to_data.base.push_back({0, {}, fmt::format("index{}_{}", id, mark)});
        else
          to_data.base.push_back(index[take && d > axis ? d + indices.rank() - 1 : d]);
      }
      return visit(node.inputs[0], to_data);
    }
    int64_t start = 0;
    for (int input : node.inputs) {
      Path inner{index, graph_.nodes[input].shape, {}};
      for (int d = 0; d < inner.shape.rank(); ++d)
        inner.base[d] = {0, {}, fmt::format("within{}_{}_{}_{}", id, mark, start, d)};
      visit(input, inner);
      ++start;
    }
  }

  std::string fingerprint(int id, const Path& path) {
    std::string text = fmt::format("{}:{}:{}:{}", id, static_cast<int>(level_), operand_, path.shape.str());
    for (const Index& index : path.base) text += printer_.print(index);
    for (int op : path.ops) text += fmt::format(",{}", op);
    return text;
  }

  const Graph& graph_;
  const Group& group_;
  const std::vector<bool>& free_;
  MarkPrinter printer_;
  Level level_ = Level::element;
  bool operand_ = false;
  size_t irregular_ = 0;
  std::unordered_set<std::string> seen_;
  std::vector<Use> uses_;
};

Shape joined(const Shape& a, const Shape& b) {
  Shape out = a;
  for (int64_t d : b) out.push_back(d);
  return out;
}

}  // namespace

Path member_path(const Graph& graph, const Group& group, const Member& member, int input) {
  const IrNode& node = graph.nodes[member.node];
  const Shape& shape = graph.nodes[node.inputs[input]].shape;
  if (member.node == group.anchor &&
      (group.kind == GroupKind::matmul || group.kind == GroupKind::body || group.kind == GroupKind::loop))
    return Path::domain(shape);
  // Elementwise: the inputs have the member's own shape.
  if (node.op->kind != OpKind::reduce)
    return Path::over(shape, member.level == Level::full ? joined(group.domain, group.inner) : group.domain);
  // The input of a reduction: kept dimensions run over the outer variables, reduced ones over the inner variables.
  Path path;
  path.shape = shape;
  int outer = 0, inner = group.domain.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    const bool reduced = names_axis(node.attrs, d);
    // The group's shapes have no dimensions of size 1.
    path.base.push_back(shape[d] == 1 ? Index::literal(0) : Index::variable(reduced ? inner++ : outer++));
  }
  return path;
}

std::vector<Index> resolve(const Graph& graph, const Path& path, IndexPrinter& printer) {
  std::vector<Index> index = path.base;
  for (int op : path.ops)
    index = resolve_one(graph.nodes[op], graph.nodes[graph.nodes[op].inputs[0]].shape, index, printer);
  return index;
}

std::vector<Use> external_uses(const Graph& graph, const Group& group, const std::vector<bool>& free_nodes) {
  return Walker(graph, group, free_nodes).run();
}

}  // namespace heddle
