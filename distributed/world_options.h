// WorldOptions: what a world and its communication thread are told. Thread safety: plain value.
#pragma once

#include <cstddef>

namespace heddle::distributed {

struct WorldOptions {
  double limit_seconds = 600;              // that a call may be without any progress before it fails
  size_t piece_bytes = size_t{256} << 10;  // of values that travel at a time
};

}  // namespace heddle::distributed
