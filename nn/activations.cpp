#include "heddle/nn/activations.h"

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/bags.h"

namespace heddle::nn {

Tensor activate(const Tensor& x, Activation activation, Caller caller) {
  const CallerScope scope(caller);
  switch (activation) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::silu:
      return silu(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::gelu_tanh:
      return gelu_tanh(x);
  }
  throw ValueError("[activate] this activation is not known");
}

#define HEDDLE_ACTIVATION(Class, f)  \
  Class::Class() : Module(#Class) {} \
  Tensor Class::forward(const Tensor& x) { return heddle::f(x); }
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

#define HEDDLE_ACTIVATION_OF(Class, f, type, number)               \
  Class::Class(type number) : Module(#Class), number##_(number) {} \
  Tensor Class::forward(const Tensor& x) { return heddle::f(x, number##_); }
HEDDLE_ACTIVATION_OF(LeakyReLU, leaky_relu, double, slope)
HEDDLE_ACTIVATION_OF(ELU, elu, double, alpha)
HEDDLE_ACTIVATION_OF(CELU, celu, double, alpha)
HEDDLE_ACTIVATION_OF(Softshrink, softshrink, double, lambda)
HEDDLE_ACTIVATION_OF(Hardshrink, hardshrink, double, lambda)
HEDDLE_ACTIVATION_OF(LogSoftmax, log_softmax, int, axis)
HEDDLE_ACTIVATION_OF(Softmin, softmin, int, axis)
HEDDLE_ACTIVATION_OF(GLU, glu, int, axis)
HEDDLE_ACTIVATION_OF(SwiGLU, swiglu, int, axis)
HEDDLE_ACTIVATION_OF(GEGLU, geglu, int, axis)
#undef HEDDLE_ACTIVATION_OF

Hardtanh::Hardtanh(double low, double high) : Module("Hardtanh"), low_(low), high_(high) {}
Tensor Hardtanh::forward(const Tensor& x) { return hardtanh(x, low_, high_); }

Threshold::Threshold(double threshold, double value) : Module("Threshold"), threshold_(threshold), value_(value) {}
Tensor Threshold::forward(const Tensor& x) { return heddle::threshold(x, threshold_, value_); }

PReLU::PReLU(int64_t channels, const PReLUOptions& options) : Module("PReLU") {
  weight = add_parameter("weight", full(Shape{channels}, options.first, DType::f32, options.device));
}
Tensor PReLU::forward(const Tensor& x) { return prelu(x, weight); }

RReLU::RReLU(double low, double high, const DropoutOptions& options)
    : Module("RReLU"), low_(low), high_(high), generator_(options.generator) {}
Tensor RReLU::forward(const Tensor& x) { return rrelu(x, low_, high_, training(), generator_); }

#define HEDDLE_DROPOUT(Class, f)                                                                                  \
  Class::Class(double p, const DropoutOptions& options) : Module(#Class), p_(p), generator_(options.generator) {} \
  Tensor Class::forward(const Tensor& x) { return f(x, p_, training(), generator_); }
HEDDLE_DROPOUT(FeatureDropout, feature_dropout)
HEDDLE_DROPOUT(AlphaDropout, alpha_dropout)
HEDDLE_DROPOUT(FeatureAlphaDropout, feature_alpha_dropout)
#undef HEDDLE_DROPOUT

}  // namespace heddle::nn
