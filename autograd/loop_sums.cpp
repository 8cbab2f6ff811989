#include "heddle/autograd/loop_sums.h"

#include <unordered_set>

#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

std::vector<int> axes_as_int(const std::vector<int64_t>& axes) { return {axes.begin(), axes.end()}; }

bool moves(const Node& node) { return node.op == &ops::reshape_op || node.op == &ops::permute_op; }
bool moves_or_casts(const Node& node) { return moves(node) || node.op == &ops::cast_op; }

// The axis of iterations, then those of one iteration behind it.
std::vector<int> axes_of_all(const std::vector<int64_t>& axes) {
  std::vector<int> all{0};
  for (const int64_t axis : axes) all.push_back(static_cast<int>(axis) + 1);
  return all;
}

// The value of `node` in all iterations, from the stacks below it.
Tensor lifted(const NodePtr& node, const FactorStacks& stacks) {
  if (const auto at = stacks.find(node.get()); at != stacks.end()) return at->second;
  const Tensor x = lifted(node->inputs[0], stacks);
  if (node->op == &ops::cast_op) return cast(x, node->dtype);
  if (node->op == &ops::reshape_op) return reshape(x, node->shape.inserted(0, x.dim(0)));
  return permute(x, axes_of_all(order_of(node->attrs)));
}

// (T, B..., K, N) -> (B..., T K, N)
Tensor rows_of_all(const Tensor& stack) {
  const int rank = stack.rank();
  std::vector<int> order;
  Shape shape;
  for (int axis = 1; axis < rank - 2; ++axis) {
    order.push_back(axis);
    shape.push_back(stack.dim(axis));
  }
  order.insert(order.end(), {0, rank - 2, rank - 1});
  shape.push_back(stack.dim(0) * stack.dim(rank - 2));
  shape.push_back(stack.dim(rank - 1));
  return reshape(rank > 3 ? permute(stack, order) : stack, shape);
}

Tensor product_of_all(const Node& product, const FactorStacks& stacks) {
  const Tensor a = lifted(product.inputs[0], stacks), b = lifted(product.inputs[1], stacks);
  return matmul(transpose(rows_of_all(transpose(a))), rows_of_all(b));
}

bool has_stack(const NodePtr& node, const FactorStacks& stacks) {
  return stacks.contains(node.get()) || (moves_or_casts(*node) && has_stack(node->inputs[0], stacks));
}

// Of rows that are stacked, or that products make.
Tensor sum_of_all(const Node& node, const FactorStacks& stacks) {
  if (!has_stack(node.inputs[0], stacks))
    return sum(sum_after_loop(node.inputs[0], stacks), axes_as_int(axes_of(node.attrs)));
  return sum(lifted(node.inputs[0], stacks), axes_of_all(axes_of(node.attrs)));
}

// What a term's sum over all iterations reads.
struct Factors {
  std::vector<NodePtr> of_products, of_sums;
};

class FactorFinder {
 public:
  explicit FactorFinder(const std::function<bool(const Node&)>& is_stacked) : is_stacked_(is_stacked) {}

  // False where the term is not made of products and sums of rows.
  bool collect(const NodePtr& term, Factors& found) const {
    if (term->has_value() || is_stacked_(*term)) return false;
    if (term->op == &ops::add_op) return collect(term->inputs[0], found) && collect(term->inputs[1], found);
    if (moves_or_casts(*term)) return collect(term->inputs[0], found);
    if (term->op == &ops::matmul_op) {
      for (const NodePtr& operand : term->inputs) found.of_products.push_back(factor(operand));
      return true;
    }
    if (term->op != &ops::sum_op) return false;
    Factors rows;
    if (collect(term->inputs[0], rows) && rows.of_sums.empty())
      found.of_products.insert(found.of_products.end(), rows.of_products.begin(), rows.of_products.end());
    else
      found.of_sums.push_back(factor(term->inputs[0]));
    return true;
  }

 private:
  // What `operand` is a view or a cast of, if that is stacked; else what it is a view of.
  NodePtr factor(const NodePtr& operand) const {
    NodePtr below = operand;
    while (!below->has_value() && !is_stacked_(*below) && moves_or_casts(*below)) below = below->inputs[0];
    if (is_stacked_(*below)) return below;
    below = operand;
    while (!below->has_value() && moves(*below)) below = below->inputs[0];
    return below;
  }

  const std::function<bool(const Node&)>& is_stacked_;
};

}  // namespace

LateSums choose_late_sums(std::span<const Tensor> terms, const std::function<bool(const Node&)>& is_stacked,
                          int64_t room) {
  LateSums result{std::vector<bool>(terms.size(), false), {}};
  std::unordered_set<const Node*> chosen;
  const FactorFinder finder(is_stacked);
  const auto choose = [&](size_t term, bool products) {
    Factors factors;
    if (!terms[term].defined() || !finder.collect(terms[term].node(), factors)) return;
    if (factors.of_products.empty() == products) return;
    std::vector<NodePtr> all = std::move(factors.of_products);
    all.insert(all.end(), factors.of_sums.begin(), factors.of_sums.end());
    std::unordered_set<const Node*> fresh;
    int64_t elements = 0;
    for (const NodePtr& factor : all) {
      if (!chosen.contains(factor.get()) && !is_stacked(*factor) && fresh.insert(factor.get()).second)
        elements += factor->shape.numel();
    }
    if (elements > (products ? room : 0)) return;
    room -= elements;
    result.chosen[term] = true;
    for (const NodePtr& factor : all) {
      if (chosen.insert(factor.get()).second) result.factors.push_back(factor);
    }
  };
  for (bool products : {true, false}) {
    for (size_t term = 0; term < terms.size(); ++term) choose(term, products);
  }
  return result;
}

Tensor sum_after_loop(const NodePtr& term, const FactorStacks& stacks) {
  const auto part = [&](size_t input) { return sum_after_loop(term->inputs[input], stacks); };
  if (term->op == &ops::add_op) return part(0) + part(1);
  if (term->op == &ops::matmul_op) return product_of_all(*term, stacks);
  if (term->op == &ops::sum_op) return sum_of_all(*term, stacks);
  if (term->op == &ops::cast_op) return cast(part(0), term->dtype);
  if (term->op == &ops::reshape_op) return reshape(part(0), term->shape);
  return permute(part(0), axes_as_int(order_of(term->attrs)));
}

}  // namespace heddle::autograd
