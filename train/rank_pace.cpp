#include "heddle/train/rank_pace.h"

#include <algorithm>
#include <utility>

#include "heddle/core/base/median.h"
#include "heddle/core/base/seconds_since.h"

namespace heddle::train {
namespace {

constexpr double slow = 1.5;  // times the others' median
constexpr int enough = 2;     // windows

double median_of_others(std::vector<double> seconds, size_t rank) {
  seconds.erase(seconds.begin() + static_cast<std::ptrdiff_t>(rank));
  return median(std::move(seconds));
}

}  // namespace

void RankPace::open() {
  start_ = std::chrono::steady_clock::now();
  waited_ = replicas_.waited_seconds();
}

void RankPace::begin_again() {
  windows_ = 0;
  slow_.assign(slow_.size(), 0);
}

std::vector<Straggler> RankPace::close(int64_t updates) {
  if (replicas_.alone() || updates == 0) return {};
  const double own = seconds_since(start_) - (replicas_.waited_seconds() - waited_);
  constexpr double nanoseconds = 1e9;
  const auto mine = static_cast<int64_t>(std::max(own, 0.0) / static_cast<double>(updates) * nanoseconds);
  const std::vector<int64_t> all = replicas_.gather({mine});
  if (++windows_ == 1) return {};
  seconds_.clear();
  for (const int64_t one : all) seconds_.push_back(static_cast<double>(one) / nanoseconds);
  slow_.resize(seconds_.size());
  named_.resize(seconds_.size());
  std::vector<Straggler> found;
  for (size_t rank = 0; rank < seconds_.size(); ++rank) {
    const double others = median_of_others(seconds_, rank);
    slow_[rank] = seconds_[rank] > slow * others ? slow_[rank] + 1 : 0;
    if (slow_[rank] < enough || named_[rank]) continue;
    named_[rank] = true;
    found.push_back({.rank = static_cast<int>(rank), .seconds = seconds_[rank], .others = others});
  }
  return found;
}

}  // namespace heddle::train
