// How gradients are divided into lists, each of which is sent while the next is computed: for who trains
// (train/shared_gradients.h, train/sharded_step.h), and for forecasts of it (distributed/forecast/gradient_sync.h).
// Thread safety: pure.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heddle::distributed {

// A list that is sent while others are computed costs a submission and a call more. Of a large model it has more, so
// that there are not many.
inline constexpr int64_t least_list_bytes = 512 << 10, most_lists = 16;

// Under zero2 and zero3 a bucket ends with the parameter that makes it so large: so that a link's latency and a
// submission do not count, and a small part of the model, since two are on the device.
inline constexpr int64_t least_bucket_bytes = 256 << 10, most_bucket_bytes = 16 << 20, buckets_of_model = 32;
constexpr int64_t bucket_bytes_of(int64_t model_bytes) {
  return std::clamp(model_bytes / buckets_of_model, least_bucket_bytes, most_bucket_bytes);
}

}  // namespace heddle::distributed
