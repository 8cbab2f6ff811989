// How gradients are divided into lists, each of which is sent while the next is computed: for who trains
// (train/shared_gradients.h, train/sharded_step.h), and for forecasts of it (distributed/forecast/gradient_sync.h).
// Thread safety: pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace heddle::distributed {

// A list that is sent while others are computed costs a submission and a call more, so that it has many gradients, of a
// large model more, and a small model has one. The last ones get shorter: for them alone an update waits when all is
// computed. Of a list that begins where `left` bytes of all are in none yet:
inline constexpr int64_t list_bytes = 512 << 10, least_list_bytes = 128 << 10, long_lists = 16;
constexpr int64_t list_bytes_of(int64_t all, int64_t left) {
  if (all <= list_bytes) return list_bytes;
  return std::clamp(left / 2, least_list_bytes, std::max(list_bytes, all / long_lists));
}

// Under zero2 and zero3 a bucket ends with the parameter that makes it so large: so that a link's latency and a
// submission do not count, and a small part of the model, since two are on the device.
inline constexpr int64_t least_bucket_bytes = 256 << 10, most_bucket_bytes = 16 << 20, buckets_of_model = 32;
constexpr int64_t bucket_bytes_of(int64_t model_bytes) {
  return std::clamp(model_bytes / buckets_of_model, least_bucket_bytes, most_bucket_bytes);
}

// Values of so many bytes, in their order, in lists of `enough(left)` bytes at least but for the last, where `left` are
// in no list yet: how many values each has.
template <typename Enough>
std::vector<size_t> lengths_of_lists(const std::vector<int64_t>& bytes, const Enough& enough) {
  std::vector<size_t> lengths;
  int64_t left = std::accumulate(bytes.begin(), bytes.end(), int64_t{0}), in_list = 0, least = 0;
  for (const int64_t value : bytes) {
    if (lengths.empty() || in_list >= least) {
      lengths.push_back(0);
      in_list = 0;
      least = enough(left);
    }
    ++lengths.back();
    in_list += value;
    left -= value;
  }
  return lengths;
}

}  // namespace heddle::distributed
