// States of optimizers in 8 bits: blocks of codes with a scale each. Internal to nn.
//
// Purpose: Dettmers et al. 2021, "8-bit Optimizers via Block-wise Quantization", section 2: the elements of a state, in
// row-major order, in blocks of 256; a block's scale is its largest magnitude, and each element over it the nearest
// number of a dynamic code (their section 1.3): the zeros in front of the first bit that is set are a power of ten, the
// bits behind it a fraction, the middle of one of as many equal parts of [0.1, 1]. What differs: blocks are an eighth
// of theirs, and a number above 0 is never 0 in the code of positive numbers, since a second moment of 0 beside a first
// one that is not would make a step without measure. Everything is elementwise but the scale, a maximum over a row.
// Invariants: a state of n elements is codes (ceil(n / 256), 256) u8 and scales (ceil(n / 256), 1) f32; what lies
// behind its end is 0. A block with a NaN or an infinity is NaN. Errors: ShapeError for values that are no blocks.
// Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

inline constexpr int64_t state_block = 256;
// Smaller parameters, of which there are many and which take few bytes, keep their states in floating point.
inline constexpr int64_t least_packed_state = 4096;

// with_sign: a bit for the sign and seven for the magnitude, the code of a sign alone is 1. positive: eight bits for
// the magnitude, the code 1 is 1. Magnitudes go down to 5.5e-7 and 3.25e-7.
enum class StateCode : uint8_t { with_sign, positive };

struct PackedState {
  Tensor codes, scales;
};
// values: blocks, (N, 256) f32; of StateCode::positive none is negative.
PackedState packed_state(const Tensor& values, StateCode code);
// (N, 256) f32.
Tensor unpacked_state(const PackedState& state, StateCode code);

// The elements in blocks, zeros behind the last one.
Tensor in_blocks(const Tensor& x);
// The elements of blocks in that shape.
Tensor out_of_blocks(const Tensor& blocks, const Shape& shape);

}  // namespace heddle::nn
