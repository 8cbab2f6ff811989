// Activations as modules: the elementwise functions of core/functions/math/activations.h, one line each (ReLU, GELU,
// SiLU, Tanh, Sigmoid, Softplus, Softmax: nn/layers.h).
//
// Purpose: parts of a Sequential. Invariants: modules are handles (nn/module.h); numbers are fixed when a module is
// made. Thread safety: none.
#pragma once

#include "heddle/core/device/device_ref.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// As an option of models and layers.
enum class Activation : uint8_t { relu, gelu, silu, tanh, sigmoid, gelu_tanh };
Tensor activate(const Tensor& x, Activation activation, Caller caller = Caller::current());

#define HEDDLE_ACTIVATION(Class)              \
  class Class : public Module {               \
   public:                                    \
    Class();                                  \
    Tensor forward(const Tensor& x) override; \
  };
HEDDLE_ACTIVATION(Identity)
HEDDLE_ACTIVATION(ReLU6)
HEDDLE_ACTIVATION(GELUTanh)
HEDDLE_ACTIVATION(SELU)
HEDDLE_ACTIVATION(Mish)
HEDDLE_ACTIVATION(Softsign)
HEDDLE_ACTIVATION(Tanhshrink)
HEDDLE_ACTIVATION(LogSigmoid)
HEDDLE_ACTIVATION(Hardsigmoid)
HEDDLE_ACTIVATION(Hardswish)
#undef HEDDLE_ACTIVATION

// With one number: its type, its name and its usual value.
#define HEDDLE_ACTIVATION_OF(Class, type, number, usual) \
  class Class : public Module {                          \
   public:                                               \
    explicit Class(type number = usual);                 \
    Tensor forward(const Tensor& x) override;            \
                                                         \
   private:                                              \
    type number##_;                                      \
  };
HEDDLE_ACTIVATION_OF(LeakyReLU, double, slope, 0.01)
HEDDLE_ACTIVATION_OF(ELU, double, alpha, 1)
HEDDLE_ACTIVATION_OF(CELU, double, alpha, 1)
HEDDLE_ACTIVATION_OF(Softshrink, double, lambda, 0.5)
HEDDLE_ACTIVATION_OF(Hardshrink, double, lambda, 0.5)
HEDDLE_ACTIVATION_OF(LogSoftmax, int, axis, -1)
HEDDLE_ACTIVATION_OF(Softmin, int, axis, -1)
HEDDLE_ACTIVATION_OF(GLU, int, axis, -1)
HEDDLE_ACTIVATION_OF(SwiGLU, int, axis, -1)
HEDDLE_ACTIVATION_OF(GEGLU, int, axis, -1)
#undef HEDDLE_ACTIVATION_OF

class Hardtanh : public Module {
 public:
  explicit Hardtanh(double low = -1, double high = 1);
  Tensor forward(const Tensor& x) override;

 private:
  double low_, high_;
};

// x where x > threshold, else value.
class Threshold : public Module {
 public:
  Threshold(double threshold, double value);
  Tensor forward(const Tensor& x) override;

 private:
  double threshold_, value_;
};

struct PReLUOptions {
  double first = 0.25;  // value of each weight
  DeviceRef device = {};
};

// x where x > 0, else weight x; parameter "weight" of one number, or of one for each channel (axis 1).
class PReLU : public Module {
 public:
  explicit PReLU(int64_t channels = 1, const PReLUOptions& options = {});
  Tensor forward(const Tensor& x) override;

  Tensor weight;
};

// In training a slope for each element, drawn from [low, high]; else their mean.
class RReLU : public Module {
 public:
  explicit RReLU(double low = 0.125, double high = 1.0 / 3, const DropoutOptions& options = {});
  Tensor forward(const Tensor& x) override;

 private:
  double low_, high_;
  Generator* generator_;
};

// Dropout of whole channels of (N, C, ...), PyTorch's Dropout1d to Dropout3d; and what keeps a SELU's mean and
// variance, of elements and of channels.
#define HEDDLE_DROPOUT(Class)                                           \
  class Class : public Module {                                         \
   public:                                                              \
    explicit Class(double p = 0.5, const DropoutOptions& options = {}); \
    Tensor forward(const Tensor& x) override;                           \
                                                                        \
   private:                                                             \
    double p_;                                                          \
    Generator* generator_;                                              \
  };
HEDDLE_DROPOUT(FeatureDropout)
HEDDLE_DROPOUT(AlphaDropout)
HEDDLE_DROPOUT(FeatureAlphaDropout)
#undef HEDDLE_DROPOUT

}  // namespace heddle::nn
