#include "heddle/train/summaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/post_order.h"

namespace heddle::train {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// What is read of one tensor.
struct Counted {
  Tensor moments;  // (4): least, largest, sum, sum of squares
  Tensor counts;   // (parts) i64
};

// The range stays on the device, so that the counting of every step has one plan.
Counted record(const Tensor& tensor, int64_t parts) {
  const Tensor x = reshape(tensor.dtype() == DType::f64 ? tensor : cast(tensor, DType::f32), {-1});
  const Tensor finite = isfinite(x), kept = where(finite, x, 0.0);
  const Tensor low = min(where(finite, x, infinity)), high = max(where(finite, x, -infinity));
  const Tensor width = high * 0.5 - low * 0.5;  // halves do not overflow
  const Tensor place = where(width > 0.0, (x * 0.5 - low * 0.5) / width, 0.5);
  return {stack({low, high, sum(kept), sum(square(kept))}, 0), histogram(where(finite, place, -1.0), parts, 0, 1)};
}

HistogramSummary read(const Counted& counted) {
  const std::vector<double> moments = counted.moments.to_doubles();
  HistogramSummary summary;
  summary.counts = counted.counts.to_doubles();
  if (moments[0] > moments[1]) return summary;  // nothing finite
  summary.min = moments[0];
  summary.max = moments[1];
  summary.sum = moments[2];
  summary.sum_squares = moments[3];
  return summary;
}

// Names of vertices: '/' makes groups, and ':' would name an output.
std::string clean(std::string name, char dot) {
  std::replace(name.begin(), name.end(), ':', '_');
  std::replace(name.begin(), name.end(), ' ', '_');
  std::replace(name.begin(), name.end(), '.', dot);
  std::erase_if(name, [](char c) { return c == '(' || c == ')'; });
  return name;
}

class Namer {
 public:
  explicit Namer(const std::vector<std::pair<std::string, Tensor>>& leaves) {
    for (const auto& [name, tensor] : leaves) known_.emplace(tensor.node().get(), clean(name, '/'));
  }
  const std::string& name(const NodePtr& node) {
    const auto found = known_.find(node.get());
    if (found != known_.end()) return found->second;
    const std::string place = clean(node->where.str(), '.'), op(node->op->name);
    const std::string base = node->inputs.empty() && node->has_value() ? "input"
                             : place.empty()                           ? op
                                                                       : place + "/" + op;
    const int number = used_[base]++;
    return known_.emplace(node.get(), number == 0 ? base : fmt::format("{}_{}", base, number)).first->second;
  }

 private:
  std::unordered_map<const Node*, std::string> known_;
  std::unordered_map<std::string, int> used_;
};

}  // namespace

std::vector<HistogramSummary> histograms_of(std::span<const Tensor> tensors, int64_t parts) {
  const NoGradScope no_grad;
  std::vector<Counted> counted;
  std::vector<HistogramSummary> summaries;
  for (const Tensor& x : tensors) counted.push_back(x.numel() == 0 ? Counted{} : record(x.detach(), parts));
  for (const Counted& c : counted)
    summaries.push_back(
        c.counts.defined() ? read(c) : HistogramSummary{.counts = std::vector<double>(static_cast<size_t>(parts))});
  return summaries;
}

std::vector<GraphVertex> recorded_graph(const Tensor& result,
                                        const std::vector<std::pair<std::string, Tensor>>& leaves) {
  Namer namer(leaves);
  std::unordered_set<const Node*> seen;
  std::vector<GraphVertex> vertices;
  post_order(
      result.node(), [&](const NodePtr& node) { return seen.insert(node.get()).second; },
      [](const Node&) { return true; },
      [&](const NodePtr& node) {
        GraphVertex vertex{namer.name(node), std::string(node->op->name), {}, {node->shape.begin(), node->shape.end()}};
        for (const NodePtr& input : node->inputs) vertex.inputs.push_back(namer.name(input));
        vertices.push_back(std::move(vertex));
      });
  return vertices;
}

}  // namespace heddle::train
