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
enum class Activation : uint8_t { relu, gelu, silu, tanh, sigmoid };
Tensor activate(const Tensor& x, Activation activation);

#define HEDDLE_ACTIVATION(Class, f)                                   \
  class Class : public Module {                                       \
   public:                                                            \
    Class() : Module(#Class) {}                                       \
    Tensor forward(const Tensor& x) override { return heddle::f(x); } \
  };
HEDDLE_ACTIVATION(Identity, Tensor)
HEDDLE_ACTIVATION(ReLU6, relu6)
HEDDLE_ACTIVATION(GELUTanh, gelu_tanh)
HEDDLE_ACTIVATION(SELU, selu)
HEDDLE_ACTIVATION(Mish, mish)
HEDDLE_ACTIVATION(Softsign, softsign)
HEDDLE_ACTIVATION(Tanhshrink, tanhshrink)
HEDDLE_ACTIVATION(LogSigmoid, logsigmoid)
HEDDLE_ACTIVATION(Hardsigmoid, hardsigmoid)
HEDDLE_ACTIVATION(Hardswish, hardswish)
#undef HEDDLE_ACTIVATION

// With one number: its type, its name and its usual value.
#define HEDDLE_ACTIVATION_OF(Class, f, type, number, usual)                      \
  class Class : public Module {                                                  \
   public:                                                                       \
    explicit Class(type number = usual) : Module(#Class), number##_(number) {}   \
    Tensor forward(const Tensor& x) override { return heddle::f(x, number##_); } \
                                                                                 \
   private:                                                                      \
    type number##_;                                                              \
  };
HEDDLE_ACTIVATION_OF(LeakyReLU, leaky_relu, double, slope, 0.01)
HEDDLE_ACTIVATION_OF(ELU, elu, double, alpha, 1)
HEDDLE_ACTIVATION_OF(CELU, celu, double, alpha, 1)
HEDDLE_ACTIVATION_OF(Softshrink, softshrink, double, lambda, 0.5)
HEDDLE_ACTIVATION_OF(Hardshrink, hardshrink, double, lambda, 0.5)
HEDDLE_ACTIVATION_OF(LogSoftmax, log_softmax, int, axis, -1)
HEDDLE_ACTIVATION_OF(Softmin, softmin, int, axis, -1)
HEDDLE_ACTIVATION_OF(GLU, glu, int, axis, -1)
HEDDLE_ACTIVATION_OF(SwiGLU, swiglu, int, axis, -1)
HEDDLE_ACTIVATION_OF(GEGLU, geglu, int, axis, -1)
#undef HEDDLE_ACTIVATION_OF

class Hardtanh : public Module {
 public:
  explicit Hardtanh(double low = -1, double high = 1) : Module("Hardtanh"), low_(low), high_(high) {}
  Tensor forward(const Tensor& x) override { return hardtanh(x, low_, high_); }

 private:
  double low_, high_;
};

// x where x > threshold, else value.
class Threshold : public Module {
 public:
  Threshold(double threshold, double value) : Module("Threshold"), threshold_(threshold), value_(value) {}
  Tensor forward(const Tensor& x) override { return heddle::threshold(x, threshold_, value_); }

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
  explicit PReLU(int64_t channels = 1, const PReLUOptions& options = {}) : Module("PReLU") {
    weight = add_parameter("weight", full(Shape{channels}, options.first, DType::f32, options.device));
  }
  Tensor forward(const Tensor& x) override { return prelu(x, weight); }

  Tensor weight;
};

// In training a slope for each element, drawn from [low, high]; else their mean.
class RReLU : public Module {
 public:
  explicit RReLU(double low = 0.125, double high = 1.0 / 3, const DropoutOptions& options = {})
      : Module("RReLU"), low_(low), high_(high), generator_(options.generator) {}
  Tensor forward(const Tensor& x) override { return rrelu(x, low_, high_, training(), generator_); }

 private:
  double low_, high_;
  Generator* generator_;
};

// Dropout of whole channels of (N, C, ...), PyTorch's Dropout1d to Dropout3d; and what keeps a SELU's mean and
// variance, of elements and of channels.
#define HEDDLE_DROPOUT(Class, f)                                                          \
  class Class : public Module {                                                           \
   public:                                                                                \
    explicit Class(double p = 0.5, const DropoutOptions& options = {})                    \
        : Module(#Class), p_(p), generator_(options.generator) {}                         \
    Tensor forward(const Tensor& x) override { return f(x, p_, training(), generator_); } \
                                                                                          \
   private:                                                                               \
    double p_;                                                                            \
    Generator* generator_;                                                                \
  };
HEDDLE_DROPOUT(FeatureDropout, feature_dropout)
HEDDLE_DROPOUT(AlphaDropout, alpha_dropout)
HEDDLE_DROPOUT(FeatureAlphaDropout, feature_alpha_dropout)
#undef HEDDLE_DROPOUT

}  // namespace heddle::nn
