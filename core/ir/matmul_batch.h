// How the kernel of a matmul runs over batches, for the materializer and for lowering.
// Thread safety: pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "heddle/core/base/view.h"

namespace heddle {

// The batch dimensions of two matmul operands as at most two loops.
struct MatmulBatch {
  std::array<int64_t, 2> sizes{1, 1};
  std::array<int64_t, 2> a_strides{0, 0};
  std::array<int64_t, 2> b_strides{0, 0};
};
// Nothing when more than two loops are needed.
std::optional<MatmulBatch> try_matmul_batch(const View& a, const View& b);
MatmulBatch matmul_batch(const View& a, const View& b);

}  // namespace heddle
