// Lengths of Fourier transforms: factors, and how a long one is cut. Internal to core/functions/math. Thread safety:
// pure functions.
#pragma once

#include <cstdint>

namespace heddle::build {

constexpr int64_t largest_radix = 31;  // above it, Bluestein's two transforms cost less than a pass of that radix

int64_t smallest_factor(int64_t n);  // above 1; n itself for primes. n >= 2
// Whether no prime factor is above largest_radix.
bool is_smooth(int64_t n);
// The length of the two transforms of Bluestein's convolution for n: at least 2 n - 1, factors up to 7, cheapest.
int64_t convolution_length(int64_t n);
// A factor n1 of n with n1 <= n / n1, both at least 16 and n1 at most `longest`, as near the root as there is,
// multiples of 16 first; 0: none.
int64_t first_of_two_passes(int64_t n, int64_t longest);
// Rows of the matrix that a row of n elements is to the four steps of one launch (shaders/fft_steps.hki): a factor of n
// that leaves few lanes of 16 without work, both sides from 16 to 512 and, n even, the rows' length even, so that
// element n / 2 meets no root; 0: none, or n is not smooth.
int64_t column_of(int64_t n);

// The passes of a smooth length: how many have the radices 16, 8, 4, 2, 3, 5 and 7, four bits each from the lowest on;
// radices of others, five bits each; which occur, a bit each in that order, the eighth for primes above 7. Without
// sixteens they are eights and fours. n <= 2^14: no count exceeds its bits.
struct Passes {
  uint32_t counts = 0, primes = 0, radices = 0;
};
Passes passes_of(int64_t n, bool sixteens);

}  // namespace heddle::build
