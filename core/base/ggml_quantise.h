// Numbers into GGML's blocks: what dequantise() (core/base/ggml_types.h) takes apart.
//
// Purpose: models are written as GGUF files in fewer bits, and trained beside weights that are packed on the way in. Of
// each block or group a few scales are tried; each gives whole numbers, those the scale (and minimum) of least squares,
// and the pair with the least squared error stays. The scales of Q4_K and Q6_K are rounded under the block's own, and
// the numbers rounded once more under what that gave. NF4's scale is the largest magnitude and each number the nearest
// level, as its authors have it. Errors: ValueError "[quantise] ..." for values that are not finite or beyond the
// type's range, and for counts that are no whole blocks. Thread safety: pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/core/base/ggml_types.h"

namespace heddle {

// `values`: whole blocks of a tensor's innermost axis, one after the other. Bytes as a GGUF file has them.
std::vector<uint8_t> quantise(GgmlType type, std::span<const float> values);

}  // namespace heddle
