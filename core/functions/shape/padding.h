// Padding with what is there: mirrored, repeated or continued around.
//
// Purpose: torch.nn.functional.pad's other modes (constants: pad() of core/functions/shape/movement.h), for any number
// of axes. Views that are joined: gradients of any order are those of slices and sums. Errors: ShapeError, ValueError.
// Thread safety: recording is per thread.
#pragma once

#include <utility>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

enum class PadMode { constant, reflect, replicate, circular };
// (before, after) per axis, counted from the first; missing axes are not padded. reflect: 3 2 1 | 0 1 2 3 | 2 1 0, less
// than the axis; replicate: 0 0 | 0 1 2 | 2 2; circular: 1 2 | 0 1 2 | 0 1, at most the axis; constant: zeros.
Tensor pad(const Tensor& x, std::vector<std::pair<int64_t, int64_t>> amounts, PadMode mode,
           Caller caller = Caller::current());

}  // namespace heddle
