// Layers: Linear, Dropout, Flatten and the activations as modules; Sequential comes with nn/containers.h.
//
// Purpose: the parts a network is made of.
// Invariants: modules are handles (nn/module.h): a layer put into a Sequential shares its parameters with the original.
// Thread safety: none.
#pragma once

#include "heddle/core/device/device_ref.h"
#include "heddle/nn/containers.h"
#include "heddle/nn/init.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct LinearOptions {
  bool bias = true;
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

// y = x W^T + b; x (..., in), W (out, in), b (out). First values as PyTorch: both uniform in +-1/sqrt(in).
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out, const LinearOptions& options = {});
  // Over a weight (out, in) that is there, such as an embedding's, and an undefined bias or one (out): parameters of
  // several modules are shared, not copied.
  explicit Linear(const Tensor& weight, const Tensor& bias = {});
  Tensor forward(const Tensor& x) override;

  Tensor weight;
  Tensor bias;  // undefined without bias
};

struct DropoutOptions {
  Generator* generator = nullptr;  // null: the process's
};

// In training: zeroes each element with probability p and scales the others by 1 / (1 - p). Otherwise x.
class Dropout : public Module {
 public:
  explicit Dropout(double p = 0.5, const DropoutOptions& options = {});
  Tensor forward(const Tensor& x) override;

 private:
  double p_;
  Generator* generator_;
};

// (N, ...) -> (N, product of the rest). With start: the axes from there on become one.
class Flatten : public Module {
 public:
  explicit Flatten(int start = 1);
  Tensor forward(const Tensor& x) override;

 private:
  int start_;
};

// The elementwise functions of core as modules.
#define HEDDLE_ACTIVATION(Class)              \
  class Class : public Module {               \
   public:                                    \
    Class();                                  \
    Tensor forward(const Tensor& x) override; \
  };
HEDDLE_ACTIVATION(ReLU)
HEDDLE_ACTIVATION(GELU)
HEDDLE_ACTIVATION(SiLU)
HEDDLE_ACTIVATION(Tanh)
HEDDLE_ACTIVATION(Sigmoid)
HEDDLE_ACTIVATION(Softplus)
#undef HEDDLE_ACTIVATION

// Softmax along an axis.
class Softmax : public Module {
 public:
  explicit Softmax(int axis = -1);
  Tensor forward(const Tensor& x) override;

 private:
  int axis_;
};

}  // namespace heddle::nn
