// How gradients are divided into lists, each of which is sent while the next is computed: for who trains
// (train/shared_gradients.h), and for forecasts of it (distributed/forecast/gradient_sync.h). Thread safety: pure.
#pragma once

#include <cstdint>

namespace heddle::distributed {

// A list that is sent while others are computed costs a submission and a call more. Of a large model it has more, so
// that there are not many.
inline constexpr int64_t least_list_bytes = 512 << 10, most_lists = 16;

}  // namespace heddle::distributed
