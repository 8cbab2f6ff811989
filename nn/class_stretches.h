// The classes of a last projection, a stretch at a time: what losses that never make its logits are built of.
//
// Purpose: nn/linear_cross_entropy.h and nn/distillation.h multiply each stretch of a weight's rows, take what they
// need of these logits and forget them. Invariants: no tensor of (rows, classes) is made; a packed weight is read as
// it lies. Errors: those of the functions that it calls; arguments were checked before. Thread safety: recording is per
// thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

// How the rows of a weight are stored, and so how they multiply.
struct ClassRows {
  std::optional<GgmlType> packed;

  // Elements of a row of the weight (V, C), or (V, bytes) where it is packed.
  int64_t width(const Tensor& weight) const;
  // The dtype of losses of x: at least f32.
  DType dtype(const Tensor& x, const Tensor& weight) const;
  // (N, C) times the transpose of some rows.
  Tensor logits(const Tensor& x, const Tensor& rows) const;
  // (N, rows) times the rows.
  Tensor back(const Tensor& g, const Tensor& rows) const;
  // The rows of class numbers (N), in floating point: (N, C).
  Tensor of(const Tensor& weight, const Tensor& targets) const;
};

// The first `count` classes, so many at a time.
struct ClassStretches {
  int64_t count = 0, stretch = 0;

  // Calls step(carry, {rows of each weight, number of the first}) for each stretch: one loop of the device, so that no
  // two stretches are in memory at once; the rest behind it. What steps give by rows is put together along axis 0.
  Scanned over(const std::vector<Tensor>& weights, const std::vector<Tensor>& init, const ScanBody& step) const;
};

// Maxima of the logits so far, and sums of exponentials behind them, (N, 1) each: Milakov and Gimelshein 2018, "Online
// normalizer calculation for softmax", algorithm 3.
struct RunningSums {
  Tensor most, sums;

  static RunningSums before(const Tensor& x);
  struct Widened;
  // With a stretch of logits (N, classes) more.
  Widened widened(const Tensor& logits) const;
  RunningSums with(const Tensor& logits) const;
  // log sum exp.
  Tensor logarithms() const;
};

// Sums with a stretch more, and what has to be known to add other things up behind the same maxima: what earlier ones
// are multiplied with, (N, 1), and the exponentials of the stretch, (N, classes).
struct RunningSums::Widened {
  RunningSums sums;
  Tensor kept, shares;
};

}  // namespace heddle::nn
