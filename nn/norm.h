// Normalisation layers: LayerNorm, RMSNorm, GroupNorm, BatchNorm.
//
// Purpose: core/functions/nn/norms.h with parameters: weight starts as 1, bias as 0. Invariants: modules are handles
// (nn/module.h). Thread safety: none.
#pragma once

#include "heddle/core/device/device_ref.h"
#include "heddle/core/functions/nn/norms.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct LayerNormOptions {
  double eps = 1e-5;
  bool affine = true;
  bool bias = true;  // false: of an affine one the weight alone
  DeviceRef device = {};
};

// Over the last axes, whose sizes `shape` gives; parameters "weight" and "bias" of that shape.
class LayerNorm : public Module {
 public:
  explicit LayerNorm(const Shape& shape, const LayerNormOptions& options = {});
  explicit LayerNorm(int64_t size, const LayerNormOptions& options = {}) : LayerNorm(Shape{size}, options) {}
  Tensor forward(const Tensor& x) override;

  Tensor weight, bias;  // undefined without affine

 private:
  Shape shape_;
  double eps_;
};

struct RMSNormOptions {
  double eps = 1e-6;
  DeviceRef device = {};
};

// x / sqrt(mean(x^2) + eps) over the last axis; parameter "weight".
class RMSNorm : public Module {
 public:
  explicit RMSNorm(int64_t size, const RMSNormOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Tensor weight;

 private:
  double eps_;
};

struct GroupNormOptions {
  double eps = 1e-5;
  bool affine = true;
  DeviceRef device = {};
};

// x (N, C, ...) over groups of channels; parameters of shape (C).
class GroupNorm : public Module {
 public:
  GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Tensor weight, bias;

 private:
  int64_t groups_;
  double eps_;
};

struct BatchNormOptions {
  double eps = 1e-5;
  double momentum = 0.1;  // the batch's share of the running statistics
  bool affine = true;
  DeviceRef device = {};
};

// x (N, C, ...) over each channel; buffers "running_mean" and "running_var" follow the batches in training and are used
// in eval().
class BatchNorm : public Module {
 public:
  explicit BatchNorm(int64_t channels, const BatchNormOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Tensor weight, bias, running_mean, running_var;

 private:
  double eps_, momentum_;
};

}  // namespace heddle::nn
