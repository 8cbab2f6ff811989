#include "heddle/nn/layers.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {

Linear::Linear(int64_t in, int64_t out, const LinearOptions& o) : Module("Linear") {
  if (in < 0 || out < 0) throw ValueError(fmt::format("[Linear] sizes must not be negative: in {}, out {}", in, out));
  weight = heddle::zeros(parameter_shape("Linear", {out, in}), DType::f32, o.device);
  init::kaiming_uniform(weight, std::sqrt(5.0), init::Fan::in, o.generator);
  weight = add_parameter("weight", weight);
  if (!o.bias) return;
  bias = heddle::zeros(parameter_shape("Linear", {out}), DType::f32, o.device);
  const double bound = in > 0 ? 1 / std::sqrt(static_cast<double>(in)) : 0;
  init::uniform(bias, -bound, bound, o.generator);
  bias = add_parameter("bias", bias);
}

Linear::Linear(const Tensor& shared, const Tensor& shift) : Module("Linear") {
  if (shared.rank() != 2 || (shift.defined() && shift.shape() != Shape{shared.dim(0)})) {
    throw ShapeError(fmt::format("[Linear] the weight is {} and the bias {}; expected (out, in) and (out)",
                                 shared.shape().str(), shift.defined() ? shift.shape().str() : "undefined"));
  }
  weight = add_parameter("weight", shared);
  if (shift.defined()) bias = add_parameter("bias", shift);
}

Tensor Linear::forward(const Tensor& x) {
  if (x.rank() == 0 || x.dim(-1) != weight.dim(1)) {
    throw ShapeError(fmt::format("[Linear] input {} does not end in {}, the layer's input size (weight {})",
                                 x.shape().str(), weight.dim(1), weight.shape().str()));
  }
  return linear(x, weight, bias);
}

Dropout::Dropout(double p, const DropoutOptions& o) : Module("Dropout"), p_(p), generator_(o.generator) {
  if (!(p >= 0 && p < 1)) throw ValueError(fmt::format("[Dropout] p is {}; it must be in [0, 1)", p));
}

Tensor Dropout::forward(const Tensor& x) { return dropout(x, p_, training(), generator_); }

Flatten::Flatten(int start) : Module("Flatten"), start_(start) {}

Tensor Flatten::forward(const Tensor& x) {
  if (start_ < 0 || start_ > x.rank()) {
    throw ShapeError(fmt::format("[Flatten] start axis {} is out of range for {}", start_, x.shape().str()));
  }
  Shape flat;
  int64_t rest = 1;
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (axis < start_)
      flat.push_back(x.dim(axis));
    else
      rest *= x.dim(axis);
  }
  flat.push_back(rest);
  return reshape(x, flat);
}

#define HEDDLE_ACTIVATION(Class, f)  \
  Class::Class() : Module(#Class) {} \
  Tensor Class::forward(const Tensor& x) { return heddle::f(x); }
HEDDLE_ACTIVATION(ReLU, relu)
HEDDLE_ACTIVATION(GELU, gelu)
HEDDLE_ACTIVATION(SiLU, silu)
HEDDLE_ACTIVATION(Tanh, tanh)
HEDDLE_ACTIVATION(Sigmoid, sigmoid)
HEDDLE_ACTIVATION(Softplus, softplus)
#undef HEDDLE_ACTIVATION

Softmax::Softmax(int axis) : Module("Softmax"), axis_(axis) {}
Tensor Softmax::forward(const Tensor& x) { return softmax(x, axis_); }

}  // namespace heddle::nn
