// ConvProblem: one convolution or gradient as its schedules see it, and the numbers of its launch.
//
// Purpose: sizes and facts pick a schedule (conv_tiles.h); strides and offsets become launch constants of
// shaders/conv.hk and shaders/conv_weight_grad.hk. Invariants: plain values. Thread safety: pure functions.
#pragma once

#include <array>
#include <cstdint>

#include "heddle/core/contract/device.h"
#include "heddle/core/dialect/kernel_file.h"

namespace heddle {

using Extent3 = std::array<int64_t, 3>;  // depth, height, width

// One convolution, or one of its two gradients. Images with fewer than three dimensions have depth (and height) 1.
//   forward:      dst[n, o, q] = sum over c, k of src[n, c, q stride + k dilation - pad] w[o, c, k]
//   input_grad:   dst[n, o, q] = sum over c, k of src[n, c, (q + pad - k dilation) / stride] w[c, o, k], where stride
//   divides weight_grad:  dst[o, c, k] = sum over n, q of src[n, c, q stride + k dilation - pad] g[n, o, q]
struct ConvProblem {
  enum class Kind : uint8_t { forward, input_grad, weight_grad };
  Kind kind = Kind::forward;
  int64_t N = 1;         // images
  int64_t G = 1;         // groups
  int64_t CG = 1;        // channels of src in a group
  int64_t OG = 1;        // channels of dst (weight_grad: of g) in a group
  Extent3 in{1, 1, 1};   // size of src
  Extent3 out{1, 1, 1};  // size of dst (weight_grad: of g)
  Extent3 kernel{1, 1, 1}, stride{1, 1, 1}, dilation{1, 1, 1}, pad{0, 0, 0};
  bool x_w1 = false;     // neighbours along the width of src lie side by side, and no stride of src is negative
  bool g_w1 = false;     // weight_grad: the same of g
  bool w_k1 = false;     // positions of a kernel lie side by side, and no stride of w is negative (not weight_grad)
  bool w_c1 = false;     // with w_k1: so do the kernels of the channels of src
  bool sized = false;    // out says how large dst is, not only about how large
  bool flat = false;     // weight_grad: one position, whose pixels meet one by one and lie side by side in each plane
  bool w_o1 = false;     // kernels have one position, and those of the channels of dst lie side by side
  int64_t w_row = 0;     // with w_c1: from a channel of dst to the next in w; 0: not known
  bool winograd = true;  // sums may be rearranged by Winograd's transforms
  bool last = false;     // dst has its channels last (weight_grad: no meaning)
  int64_t parts = 1;     // partial sums: of runs of src's channels (weight_grad: of runs of rows)
  DType x = DType::f32, w = DType::f32;  // weight_grad: w is the dtype of g
};

// How an operand lies in memory: strides of its dimensions, in elements.
struct ConvImages {
  int64_t offset = 0, n = 0, c = 0;  // c: of a channel over all groups
  Extent3 space{0, 0, 0};
};
struct ConvWeights {
  int64_t offset = 0, group = 0, o = 0, c = 0;  // o, c: as in ConvProblem, within a group
  Extent3 space{0, 0, 0};
};
// Weights that lie densely as (channels of y, channels of x in a group, kernel...), where y is the result of the
// forward convolution.
ConvWeights dense_weights(const ConvProblem& problem);
// Values of the bodies' launch constants, by name.
Bindings conv_constants(const ConvProblem& problem, const ConvImages& x, const ConvWeights& w);
Bindings conv_weight_grad_constants(const ConvProblem& problem, const ConvImages& x, const ConvImages& g);

// Positions of a kernel.
inline int64_t conv_taps(const ConvProblem& problem) {
  return problem.kernel[0] * problem.kernel[1] * problem.kernel[2];
}
// Does each pixel of dst (weight_grad: of g) meet one of src, the one at its own place?
bool meets_one_by_one(const ConvProblem& problem);
// Do the pixels of an image of that size lie side by side, channel by channel?
bool is_plane(const ConvImages& images, const Extent3& size);
// Adds the facts that the bodies' text depends on.
void add_conv_facts(Bindings& values, const ConvProblem& problem);
// And those that the schedule of kernels of one position depends on.
void add_pointwise_facts(Bindings& values, const ConvProblem& problem);

}  // namespace heddle
