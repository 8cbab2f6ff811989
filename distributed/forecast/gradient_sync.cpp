#include "heddle/distributed/forecast/gradient_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/distributed/gradient_lists.h"

namespace heddle::distributed {
namespace {

constexpr std::array<std::string_view, 4> sharding_names = {"none", "zero1", "zero2", "zero3"};
constexpr uint64_t value_bytes = 4;

double bytes_of(const std::vector<Bucket>& buckets) {
  double all = 0;
  for (const Bucket& bucket : buckets) all += bucket.bytes;
  return all;
}

// In lists as training divides what has any bytes.
template <typename Enough>
std::vector<Bucket> joined(std::vector<Bucket> buckets, const Enough& enough) {
  std::erase_if(buckets, [](const Bucket& bucket) { return bucket.bytes == 0; });
  std::vector<int64_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(std::llround(bucket.bytes));
  std::vector<Bucket> lists;
  auto next = buckets.begin();
  for (size_t length : lengths_of_lists(bytes, enough)) {
    Bucket& list = lists.emplace_back();
    for (; length > 0; --length, ++next) {
      list.bytes += next->bytes;
      list.ready = std::max(list.ready, next->ready);
    }
  }
  return lists;
}

}  // namespace

Sharding parse_sharding(std::string_view name) {
  const auto found = std::find(sharding_names.begin(), sharding_names.end(), name);
  if (found == sharding_names.end())
    throw ValueError(fmt::format("[plan] --sharding is {}; it must be none, zero1, zero2 or zero3", name));
  return static_cast<Sharding>(found - sharding_names.begin());
}

std::string_view name_of(Sharding sharding) { return sharding_names[static_cast<size_t>(sharding)]; }

double sync_bytes(const SyncWork& work, Sharding sharding, const Sharers& sharers) {
  const auto exact = [&](Move move, double elements, double width) {
    return static_cast<double>(exact_bytes_of(move, static_cast<uint64_t>(std::llround(elements)),
                                              static_cast<uint64_t>(std::llround(width)), sharers.ranks, 0));
  };
  const auto values = static_cast<double>(work.shared_values);
  if (sharding == Sharding::none)
    return exact(Move::all_reduce, work.elements + values, work.gradient_bytes) +
           static_cast<double>(work.lists - 1) * exact(Move::all_reduce, 0, work.gradient_bytes);
  const double scattered = exact(Move::reduce_scatter, work.elements, work.gradient_bytes);
  const double gathered = exact(Move::all_gather, work.elements, work.parameter_bytes);
  const double rest = exact(Move::all_reduce, values, value_bytes);
  if (sharding != Sharding::zero3) return scattered + gathered + rest;
  return static_cast<double>(work.microbatches) * (scattered + 2 * gathered) + rest;
}

double gather_seconds(double bytes, const Sharers& sharers) {
  return seconds_of(Move::all_gather, bytes, sharers.ranks, sharers.level);
}

double sum_seconds(double bytes, Sharding sharding, const Sharers& sharers) {
  return seconds_of(sharding == Sharding::none ? Move::all_reduce : Move::reduce_scatter, bytes, sharers.ranks,
                    sharers.level);
}

std::vector<Bucket> in_lists(const std::vector<Bucket>& buckets) {
  const int64_t all = std::llround(bytes_of(buckets));
  return joined(buckets, [&](int64_t left) { return list_bytes_of(all, left); });
}

std::vector<Bucket> in_shard_buckets(const std::vector<Bucket>& buckets) {
  const int64_t enough = bucket_bytes_of(std::llround(bytes_of(buckets)));
  return joined(buckets, [&](int64_t) { return enough; });
}

void cut_behind_each(std::vector<Bucket>& buckets, double& computed, double cut) {
  double later = 0;
  for (Bucket& bucket : buckets) bucket.ready += later += cut;
  computed += later;
}

SumsRun run_sums(std::vector<Bucket> buckets, Sharding sharding, const Sharers& sharers, double computed) {
  std::stable_sort(buckets.begin(), buckets.end(), [](const Bucket& a, const Bucket& b) { return a.ready < b.ready; });
  const Move move = sharding == Sharding::none ? Move::all_reduce : Move::reduce_scatter;
  const double left = 1 - std::min(sharers.level.processor_share(), 1.0);  // of the processor, beside sending
  std::vector<Interval> calls;
  double now = 0, done = 0, over = -1;  // done: of what is computed by `computed`; over: when all of that is
  for (const Bucket& bucket : buckets) {
    const double sending = bytes_of(move, bucket.bytes, sharers.ranks) / sharers.level.bandwidth;
    const double waiting = sum_seconds(bucket.bytes, sharding, sharers) - sending;
    now += std::max(bucket.ready - done, 0.0);
    done = std::max(done, bucket.ready);
    if (over < 0 && done + left * sending >= computed) over = now + (done < computed ? (computed - done) / left : 0);
    calls.push_back({now, now + sending + waiting});
    now += sending;
    done += left * sending;
  }
  if (over < 0) over = now + computed - done;
  SumsRun run{.end = over};
  for (const Interval& call : calls) run.end = std::max(run.end, call.over);
  run.overlap = overlap_of(calls, over);
  return run;
}

}  // namespace heddle::distributed
