// Rotary positions: pairs of a head's elements turn by an angle that grows with the position.
//
// Element i of the first half turns with element i of the second, as Hugging Face's weights want it. Frequency i of
// `size` elements is base^(-2 i / size), divided by a factor of its own where positions are stretched. Su et al. 2021,
// "RoFormer". Errors: those of the functions. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

// Cosines and signed sines of positions, for turning heads: (T, 1, 1, size / 2) and (T, 1, 2, size / 2).
struct RotaryAngles {
  Tensor cosines, sines;
};
// Positions (T), i32; factors (size / 2) f32, or none.
RotaryAngles rotary_angles(const Tensor& positions, int64_t size, double base, const Tensor& factors = {});
// Heads (B, T, H, D): the first `size` elements turned, the others as they are.
Tensor rotated(const Tensor& heads, const RotaryAngles& angles);

// Llama 3.1's factors, size / 2: waves of more than context / low positions are `factor` times as long, those of less
// than context / high stay, and between these it goes over by the number of waves in the context. Chen et al. 2023,
// "Extending context window by position interpolation"; Grattafiori et al. 2024, "The Llama 3 herd of models".
struct StretchedWaves {
  double factor = 8, low = 1, high = 4;
  double context = 8192;  // of the model before it was stretched
};
std::vector<double> rotary_factors(int64_t size, double base, const StretchedWaves& waves);

}  // namespace heddle::nn
