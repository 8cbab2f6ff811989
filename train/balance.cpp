#include "heddle/train/balance.h"

#include <algorithm>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/core/ir/dynamic_shapes.h"

namespace heddle::train {
namespace {

constexpr double least_gain = 1.1;  // an update's time by that with other shares

void check(const Config& c) {
  if (c.training.parts > 0)
    throw ValueError("[train] --balance with --parts: each rank takes as many parts as the others");
  if (c.training.sharding != "none")
    throw ValueError("[train] --balance with --sharding: shares change between updates without shards alone");
  if (c.training.compress != "none")
    throw ValueError("[train] --balance with --compress: shares change between updates that are not compressed alone");
}

std::vector<double> speeds_of(const std::vector<int64_t>& examples, const std::vector<double>& seconds) {
  std::vector<double> speeds(examples.size());
  for (size_t r = 0; r < speeds.size(); ++r) speeds[r] = static_cast<double>(examples[r]) / seconds[r];
  return speeds;
}

// How much longer an update takes than with balanced shares; 1 where nothing would change.
double gain_of(const std::vector<int64_t>& examples, const std::vector<double>& seconds) {
  const std::vector<int64_t> better = balanced_shares(examples, seconds);
  const std::vector<double> speeds = speeds_of(examples, seconds);
  double longest = 0;
  for (size_t r = 0; r < speeds.size(); ++r) longest = std::max(longest, static_cast<double>(better[r]) / speeds[r]);
  return std::ranges::max(seconds) / longest;
}

}  // namespace

std::vector<int64_t> balanced_shares(const std::vector<int64_t>& examples, const std::vector<double>& seconds) {
  if (!std::ranges::all_of(seconds, [](double s) { return s > 0; })) return examples;
  const std::vector<double> speeds = speeds_of(examples, seconds);
  const int64_t batch = std::accumulate(examples.begin(), examples.end(), int64_t{0});
  const double per_speed = static_cast<double>(batch) / std::accumulate(speeds.begin(), speeds.end(), 0.0);
  std::vector<int64_t> shares(examples.size());
  for (size_t r = 0; r < shares.size(); ++r)
    shares[r] = std::max<int64_t>(1, static_cast<int64_t>(speeds[r] * per_speed));
  // What rounding left, and took: an example at a time, where the time of an update stays shortest.
  const auto after = [&](size_t r, int64_t more) { return static_cast<double>(shares[r] + more) / speeds[r]; };
  int64_t left = batch - std::accumulate(shares.begin(), shares.end(), int64_t{0});
  for (; left > 0; --left) {
    size_t best = 0;
    for (size_t r = 1; r < shares.size(); ++r) best = after(r, 1) < after(best, 1) ? r : best;
    ++shares[best];
  }
  for (; left < 0; ++left) {
    size_t most = 0;
    for (size_t r = 1; r < shares.size(); ++r)
      most = shares[r] > 1 && (shares[most] == 1 || after(r, 0) > after(most, 0)) ? r : most;
    --shares[most];
  }
  return shares;
}

Balance::Balance(Replicas& replicas, const Config& config)
    : replicas_(replicas),
      batch_(config.training.batch),
      wanted_(config.training.balance && !replicas.alone()),
      fixed_sizes_(wanted_ && dynamic_shapes() == DynamicShapes::automatic) {
  if (config.training.balance) check(config);
  if (fixed_sizes_) set_dynamic_shapes(DynamicShapes::never);
}

Balance::~Balance() {
  if (fixed_sizes_) set_dynamic_shapes(DynamicShapes::automatic);
}

bool Balance::follow(const std::vector<double>& seconds) {
  if (!wanted_) return false;
  const std::vector<int64_t> examples = replicas_.shares_of(batch_);
  if (seconds.empty() || gain_of(examples, seconds) < least_gain) {
    seen_.clear();
    return false;
  }
  seen_.push_back(seconds);
  if (seen_.size() < enough_) return false;
  std::vector<double> together(seconds.size());
  for (const std::vector<double>& window : seen_) {
    for (size_t r = 0; r < together.size(); ++r) together[r] += window[r];
  }
  seen_.clear();
  enough_ *= 2;
  replicas_.share(balanced_shares(examples, together));
  return true;
}

}  // namespace heddle::train
