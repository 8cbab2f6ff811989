#include "heddle/core/run/number_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/unravel.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/graph/run_once.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/run/evaluation.h"

namespace heddle {
namespace {

// A result whose numbers are not known one by one.
[[noreturn]] void report_result(const Node& node, std::string_view more) {
  const std::string place = node.where.str();
  throw NumericError(
      fmt::format("[check_numbers] '{}' {} {} has a NaN or an infinity{}{}", node.op->name, node.shape.str(),
                  name_of(node.dtype), more, place.empty() ? "" : " (" + place + ")"),
      {std::string(node.op->name), node.shape.str(), 0, 0, static_cast<uint64_t>(node.shape.numel()), 0, place});
}

// What is to be known of a value.
struct Numbers {
  uint64_t nan = 0, inf = 0, count = 0;
  size_t first = 0;                                                   // element that is neither
  double low = std::numeric_limits<double>::infinity(), high = -low;  // of the finite ones

  bool finite() const { return nan + inf == 0; }
};

Numbers look_at(const HostArray& values) {
  Numbers found;
  found.count = static_cast<uint64_t>(values.shape.numel());
  for (size_t i = 0; i < values.floats.size(); ++i) {
    const double v = values.floats[i];
    if (std::isfinite(v)) {
      found.low = std::min(found.low, v);
      found.high = std::max(found.high, v);
      continue;
    }
    if (found.finite()) found.first = i;
    ++(std::isnan(v) ? found.nan : found.inf);
  }
  return found;
}

std::string shown(const Node& node, const Numbers& n) {
  std::string text = fmt::format("{} {} {}", node.op->name, node.shape.str(), name_of(node.dtype));
  if (n.low <= n.high) text += fmt::format(" in [{:.4g}, {:.4g}]", n.low, n.high);
  if (n.nan > 0) text += fmt::format(" with {} NaN", n.nan);
  if (n.inf > 0) text += fmt::format(" with {} infinite", n.inf);
  return text;
}

std::string how_many(const Numbers& n) {
  if (n.inf == 0) return fmt::format("{} NaN", n.nan);
  return n.nan == 0 ? fmt::format("{} infinite", n.inf) : fmt::format("{} NaN and {} infinite", n.nan, n.inf);
}

// Computes the operations of an evaluation again, one by one, each from the values of the others.
class Search {
 public:
  Search(const Evaluation& evaluation, std::vector<const Node*> bad) : evaluation_(evaluation), bad_(std::move(bad)) {}

  [[noreturn]] void report(const Node* culprit) const {
    const Numbers& n = numbers_.at(culprit);
    const std::string place = culprit->where.str();
    const bool came_in = culprit->has_value();
    std::string text =
        came_in ? fmt::format("a tensor {} {} that nothing of this step computes has", culprit->shape.str(),
                              name_of(culprit->dtype))
                : fmt::format("'{}' {} {} made", culprit->op->name, culprit->shape.str(), name_of(culprit->dtype));
    text += fmt::format(" {} of {} elements, the first at [{}]", how_many(n), n.count,
                        fmt::join(unravel(culprit->shape, static_cast<int64_t>(n.first)), ", "));
    if (!culprit->inputs.empty()) {
      std::vector<std::string> inputs;
      for (const NodePtr& input : culprit->inputs) inputs.push_back(shown(*input, numbers_.at(input.get())));
      text += fmt::format("; its inputs: {}", fmt::join(inputs, ", "));
    }
    if (!place.empty()) text += fmt::format(" ({})", place);
    throw NumericError("[check_numbers] " + text, {std::string(came_in ? "leaf" : culprit->op->name),
                                                   culprit->shape.str(), n.nan, n.inf, n.count, n.first, place});
  }

  // Null: nobody is to blame.
  const Node* run() {
    const std::vector<const Node*> order = needed();
    for (const Node* node : order) compute(*node);
    return blame(order);
  }

  const Node* first_bad() const { return bad_.front(); }

  bool reproduced() const {
    return std::any_of(bad_.begin(), bad_.end(), [&](const Node* node) { return !numbers_.at(node).finite(); });
  }

 private:
  // What the bad results depend on, in the order of recording, in which inputs come first.
  std::vector<const Node*> needed() {
    std::unordered_map<const Node*, bool> wanted;
    for (const Node* node : bad_) wanted[node] = true;
    std::vector<const Node*> order;
    for (size_t i = evaluation_.captured.order.size(); i-- > 0;) {
      const Node* node = evaluation_.captured.order[i].get();
      if (!wanted[node]) continue;
      order.push_back(node);
      if (node->has_value()) continue;
      for (const NodePtr& input : node->inputs) {
        ++uses_[input.get()];
        wanted[input.get()] = true;
      }
    }
    std::reverse(order.begin(), order.end());
    return order;
  }

  void compute(const Node& node) {
    if (node.has_value()) {
      numbers_[&node] = is_float(node.dtype) ? look_at(read_value(node)) : Numbers{};
      return;
    }
    NodePtr value;
    if (node.op == &ops::assign_op) {
      value = value_of(node.inputs[1]);
    } else {
      value = std::make_shared<Node>();
      value->op = node.op;
      value->attrs = node.attrs;
      value->shape = node.shape;
      value->dtype = node.dtype;
      value->device = node.device;
      for (const NodePtr& input : node.inputs) value->inputs.push_back(value_of(input));
      Evaluation single = prepare_evaluation(*node.device, {&value, 1});
      run_evaluation(single);
    }
    numbers_[&node] = is_float(node.dtype) ? look_at(read_value(*value)) : Numbers{};
    values_[&node] = std::move(value);
    for (const NodePtr& input : node.inputs) {
      if (--uses_[input.get()] == 0) values_.erase(input.get());
    }
  }

  NodePtr value_of(const NodePtr& node) const { return node->has_value() ? node : values_.at(node.get()); }

  bool made_it(const Node& node) const {
    const Numbers& n = numbers_.at(&node);
    if (node.op->kind == OpKind::constant || n.finite()) return false;
    if (node.has_value()) return n.nan > 0;
    uint64_t nan = 0, inf = 0;
    for (const NodePtr& input : node.inputs) {
      nan += numbers_.at(input.get()).nan;
      inf += numbers_.at(input.get()).inf;
    }
    return nan + inf == 0 || (n.nan > 0 && nan == 0);
  }

  // Of those from which a bad result has its numbers, through values that all have some, the first; a tensor that came
  // in counts when no operation does.
  const Node* blame(const std::vector<const Node*>& order) const {
    std::unordered_map<const Node*, bool> reached;
    for (const Node* node : bad_) reached[node] = true;
    const Node *made = nullptr, *came_in = nullptr;
    for (size_t i = order.size(); i-- > 0;) {
      const Node* node = order[i];
      if (!reached[node] || numbers_.at(node).finite()) continue;
      if (made_it(*node)) (node->has_value() ? came_in : made) = node;
      if (node->has_value()) continue;
      for (const NodePtr& input : node->inputs) reached[input.get()] = true;
    }
    return made ? made : came_in;
  }

  const Evaluation& evaluation_;
  std::vector<const Node*> bad_;
  std::unordered_map<const Node*, int> uses_;
  std::unordered_map<const Node*, NodePtr> values_;
  std::unordered_map<const Node*, Numbers> numbers_;
};

// The floating results that hold a NaN or an infinity, found on the device: one byte a result comes to the host.
std::vector<const Node*> bad_outputs(const Evaluation& evaluation, std::span<const GraphOutput> outputs) {
  std::vector<const Node*> looked_at, bad;
  std::vector<Tensor> flags;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Node& node = *evaluation.captured.outputs[i];
    if (!is_float(node.dtype) || node.shape.numel() == 0) continue;
    const Tensor value(make_leaf(outputs[i].storage, outputs[i].view, node.dtype));
    flags.push_back(reshape(max(logical_or(isnan(value), isinf(value))), Shape{1}));
    looked_at.push_back(&node);
  }
  if (flags.empty()) return {};
  const NodePtr all = concat(flags, 0).node();
  flags.clear();
  Evaluation check = prepare_evaluation(*evaluation.device, {&all, 1});
  run_evaluation(check);
  const std::vector<uint8_t> bytes = read_bytes(*all);
  for (size_t i = 0; i < looked_at.size(); ++i) {
    if (bytes[i] != 0) bad.push_back(looked_at[i]);
  }
  return bad;
}

}  // namespace

void check_numbers(const Evaluation& evaluation, std::span<const GraphOutput> outputs) {
  const NumberGuardScope off(false);
  const PendingPause pause;
  const NoGradScope no_grad;
  std::vector<const Node*> bad = bad_outputs(evaluation, outputs);
  if (bad.empty()) return;
  if (run_once())
    report_result(*bad.front(), "; its operations are not computed again, so it is not known where it began");
  Search search(evaluation, std::move(bad));
  if (const Node* culprit = search.run()) search.report(culprit);
  if (!search.reproduced())
    report_result(*search.first_bad(), " that appears only where operations are fused: one by one they stay finite");
}

}  // namespace heddle
