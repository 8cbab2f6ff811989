#include "heddle/core/ir/access.h"

#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

Index Index::plus(int64_t c) const {
  Index out = *this;
  out.constant += c;
  return out;
}

int64_t Index::coefficient(int v) const {
  for (const auto& [variable, coefficient] : terms) {
    if (variable == v) return coefficient;
  }
  return 0;
}

Index affine_sum(const Index& a, const Index& b, int64_t factor_b) {
  Index out;
  out.constant = a.constant + b.constant * factor_b;
  out.terms = a.terms;
  for (const auto& [v, c] : b.terms) {
    auto at = std::lower_bound(out.terms.begin(), out.terms.end(), v,
                               [](const auto& term, int key) { return term.first < key; });
    if (at != out.terms.end() && at->first == v) {
      at->second += c * factor_b;
    } else {
      out.terms.insert(at, {v, c * factor_b});
    }
  }
  std::erase_if(out.terms, [](const auto& term) { return term.second == 0; });
  return out;
}

Path Path::domain(const Shape& shape) {
  Path path;
  path.shape = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    path.base.push_back(shape[d] == 1 ? Index::literal(0) : Index::variable(d));
  }
  return path;
}

Path Path::over(const Shape& shape, const Shape& domain) {
  Path path;
  path.shape = shape;
  int variable = 0;
  for (int64_t d : shape) {
    while (d != 1 && domain[variable] == 1) ++variable;
    path.base.push_back(d == 1 ? Index::literal(0) : Index::variable(variable++));
  }
  return path;
}

Shape squeezed(const Shape& shape) {
  Shape out;
  for (int64_t d : shape) {
    if (d != 1) out.push_back(d);
  }
  return out;
}

std::optional<View> apply_view_op(const IrNode& node, const View& view) {
  if (node.op == &ops::reshape_op) return view.reshape(node.shape);
  if (node.op == &ops::expand_op) return view.expand(node.shape);
  if (node.op == &ops::slice_op) {
    const SliceAttrs slice(node.attrs);
    return view.slice(slice.start, slice.step, node.shape);
  }
  const bool permutes = node.op == &ops::permute_op;
  const std::vector<int64_t>& list = permutes ? order_of(node.attrs) : axes_of(node.attrs);
  const std::vector<int> axes(list.begin(), list.end());
  return permutes ? view.permute(axes) : view.flip(axes);
}

std::optional<View> compose(const Graph& graph, const std::vector<int>& ops, View view) {
  for (auto op = ops.rbegin(); op != ops.rend(); ++op) {
    std::optional<View> next = apply_view_op(graph.nodes[*op], view);
    if (!next) return std::nullopt;
    view = *next;
  }
  return view;
}

}  // namespace heddle
