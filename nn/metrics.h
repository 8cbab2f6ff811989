// Metrics of classification and language models, counted on the device.
//
// Purpose: add() records counts into tensors whose place never changes, like an optimizer's state: nothing waits until
// a result is asked for. Invariants: counts are exact to 2^31; Mean adds up to 256 batches in f32 and then, with one
// wait, in double. Labels and predictions outside [0, classes) are not counted. Errors: ShapeError and DTypeError for
// arguments that do not fit. A metric of nothing is NaN. Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/device/device_ref.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

// A mean over batches of different size, of a loss say; its exponential is the perplexity of a language model.
class Mean {
 public:
  explicit Mean(DeviceRef device = {});
  // `value` is the mean of a batch of `weight` examples, rank 0.
  void add(const Tensor& value, double weight = 1, Caller caller = Caller::current());
  double value() const;
  double perplexity() const;
  void reset();

 private:
  void fold() const;

  mutable Tensor sum_;  // f32, of the adds since the last fold()
  mutable int64_t open_ = 0;
  mutable double folded_ = 0;
  double weight_ = 0;
};

// Counts of (label, prediction).
class ConfusionMatrix {
 public:
  explicit ConfusionMatrix(int64_t classes, DeviceRef device = {});
  // Integers of one shape.
  void add(const Tensor& predicted, const Tensor& labels, Caller caller = Caller::current());
  // counts()[label][prediction].
  std::vector<std::vector<int64_t>> counts() const;
  double accuracy() const;
  // Of each class: right among those predicted, right among those of the class, and 2 P R / (P + R); NaN for a class
  // without any.
  std::vector<double> precision() const;
  std::vector<double> recall() const;
  std::vector<double> f1() const;
  // The mean over classes that occur or were predicted.
  double macro_f1() const;
  void reset();

 private:
  int64_t classes_;
  Tensor counts_;  // (classes * classes), i32
};

// The share of examples whose label is among the k largest scores.
class TopK {
 public:
  explicit TopK(int64_t k, DeviceRef device = {});
  // scores (N, classes); labels (N), integers.
  void add(const Tensor& scores, const Tensor& labels, Caller caller = Caller::current());
  double value() const;
  void reset();

 private:
  int64_t k_;
  Tensor right_;  // i32
  int64_t seen_ = 0;
};

}  // namespace heddle::nn
