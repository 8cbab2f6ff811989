#include "heddle/autograd/written_rows.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/passes.h"

namespace heddle::autograd {
namespace {

// Walks down from the end of a row; what it passes must be read by nobody else that is known.
class RowReader {
 public:
  // exp(z) / sum(exp(z)): the exponent's source, or null.
  NodePtr softmax(const NodePtr& node) {
    if (!plain(node, ops::div_op) || !plain(node->inputs[0], ops::exp_op)) return nullptr;
    const NodePtr e = node->inputs[0];
    return reduction(node->inputs[1], ops::sum_op, e, e->shape) ? source(e->inputs[0]) : nullptr;
  }

  // z - log(sum(exp(z))).
  NodePtr log_softmax(const NodePtr& node) {
    if (!plain(node, ops::sub_op)) return nullptr;
    const NodePtr z = node->inputs[0];
    NodePtr at = node->inputs[1];
    while ((at->op == &ops::expand_op || at->op == &ops::reshape_op) && !at->inputs.empty()) at = pass(at);
    if (!plain(at, ops::log_op)) return nullptr;
    NodePtr total = at->inputs[0], sum = total;
    while (sum->op == &ops::reshape_op && !sum->inputs.empty()) sum = pass(sum);
    if (!plain(sum, ops::sum_op) || !plain(sum->inputs[0], ops::exp_op) || sum->inputs[0]->inputs[0] != z)
      return nullptr;
    return aligned(node->inputs[1], sum, z->shape) ? source(z) : nullptr;
  }

  int axis() const { return axis_; }

 private:
  // What has its value (an EagerScope gives it at once) may have lost its inputs.
  static bool plain(const NodePtr& node, const OpDef& op) { return node->op == &op && !node->inputs.empty(); }
  // A node without a value and without a holder but this graph.
  bool free(const NodePtr& node) const {
    return !node->has_value() && node->handles.load(std::memory_order_relaxed) == 0;
  }
  NodePtr pass(const NodePtr& node) {
    whole_ = whole_ && free(node);
    return node->inputs[0];
  }

  // Does the chain from `spread` to `reduced` put the one reduced axis back where it was?
  bool aligned(const NodePtr& spread, const NodePtr& reduced, const Shape& full) {
    const std::vector<int64_t>& axes = axes_of(reduced->attrs);
    if (axes.size() != 1 || spread->shape != full || !whole_) return false;
    if (axis_ >= 0 && axis_ != axes[0]) return false;
    axis_ = static_cast<int>(axes[0]);
    const Shape kept = full.with(axis_, 1), dropped = full.without(axis_);
    for (NodePtr at = spread; at != reduced; at = at->inputs[0]) {
      if (at->inputs.size() != 1 || (at->shape != full && at->shape != kept && at->shape != dropped)) return false;
    }
    return true;
  }

  bool reduction(const NodePtr& spread, const OpDef& op, const NodePtr& of, const Shape& full) {
    NodePtr at = spread;
    while ((at->op == &ops::expand_op || at->op == &ops::reshape_op || at->op == &ops::stop_gradient_op) &&
           !at->inputs.empty())
      at = pass(at);
    return plain(at, op) && at->inputs[0] == of && free(at) && aligned(spread, at, full);
  }

  // z, or x where z = x - max(x) along the axis.
  NodePtr source(const NodePtr& z) {
    if (!plain(z, ops::sub_op)) return z;
    const NodePtr x = z->inputs[0];
    const bool whole = whole_;
    if (free(z) && reduction(z->inputs[1], ops::max_op, x, z->shape)) return x;
    whole_ = whole;
    return z;
  }

  int axis_ = -1;
  bool whole_ = true;
};

}  // namespace

std::optional<WrittenRow> differentiate_written_row(const NodePtr& node, const Tensor& g) {
  if (node->op != &ops::div_op && node->op != &ops::sub_op && node->op != &ops::log_op) return std::nullopt;
  if (!active_passes().has(Pass::softmax) || node->inputs.empty()) return std::nullopt;
  RowReader reader;
  const Tensor y(node);
  if (const NodePtr x = reader.softmax(node)) return WrittenRow{x, y * (g - sum(g * y, {reader.axis()}, true))};
  const bool outer_log = node->op == &ops::log_op;
  const NodePtr x = outer_log ? reader.softmax(node->inputs[0]) : reader.log_softmax(node);
  if (!x) return std::nullopt;
  return WrittenRow{x, g - exp(y) * sum(g, {reader.axis()}, true)};
}

}  // namespace heddle::autograd
