#include "heddle/nn/norm.h"

#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {

LayerNorm::LayerNorm(const Shape& shape, const LayerNormOptions& o) : Module("LayerNorm"), shape_(shape), eps_(o.eps) {
  if (!o.affine) return;
  parameter_shape("LayerNorm", shape.dims());
  weight = add_parameter("weight", heddle::ones(shape, DType::f32, o.device));
  if (o.bias) bias = add_parameter("bias", heddle::zeros(shape, DType::f32, o.device));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, shape_, weight, bias, eps_); }

RMSNorm::RMSNorm(int64_t size, const RMSNormOptions& o) : Module("RMSNorm"), eps_(o.eps) {
  weight = add_parameter("weight", heddle::ones(parameter_shape("RMSNorm", {size}), DType::f32, o.device));
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, weight, eps_); }

GroupNorm::GroupNorm(int64_t groups, int64_t channels, const GroupNormOptions& o)
    : Module("GroupNorm"), groups_(groups), eps_(o.eps) {
  if (!o.affine) return;
  weight = add_parameter("weight", heddle::ones(parameter_shape("GroupNorm", {channels}), DType::f32, o.device));
  bias = add_parameter("bias", heddle::zeros(parameter_shape("GroupNorm", {channels}), DType::f32, o.device));
}

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, groups_, weight, bias, eps_); }

BatchNorm::BatchNorm(int64_t channels, const BatchNormOptions& o)
    : Module("BatchNorm"), eps_(o.eps), momentum_(o.momentum) {
  const Shape shape = parameter_shape("BatchNorm", {channels});
  if (o.affine) {
    weight = add_parameter("weight", heddle::ones(shape, DType::f32, o.device));
    bias = add_parameter("bias", heddle::zeros(shape, DType::f32, o.device));
  }
  running_mean = add_buffer("running_mean", heddle::zeros(shape, DType::f32, o.device));
  running_var = add_buffer("running_var", heddle::ones(shape, DType::f32, o.device));
}

Tensor BatchNorm::forward(const Tensor& x) {
  return batch_norm(x, running_mean, running_var, weight, bias, training(), momentum_, eps_);
}

}  // namespace heddle::nn
