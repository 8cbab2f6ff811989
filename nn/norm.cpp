#include "nn/norm.h"

#include "nn/sizes.h"

namespace heddle::nn {

LayerNorm::LayerNorm(const Shape& shape, double eps, bool affine, DeviceContext* device)
    : Module("LayerNorm"), shape_(shape), eps_(eps) {
  if (!affine) return;
  parameter_shape("LayerNorm", shape.dims());
  weight = add_parameter("weight", heddle::ones(shape, DType::f32, device));
  bias = add_parameter("bias", heddle::zeros(shape, DType::f32, device));
}

Tensor LayerNorm::forward(const Tensor& x) { return layer_norm(x, shape_, weight, bias, eps_); }

RMSNorm::RMSNorm(int64_t size, double eps, DeviceContext* device) : Module("RMSNorm"), eps_(eps) {
  weight = add_parameter("weight", heddle::ones(parameter_shape("RMSNorm", {size}), DType::f32, device));
}

Tensor RMSNorm::forward(const Tensor& x) { return rms_norm(x, weight, eps_); }

GroupNorm::GroupNorm(int64_t groups, int64_t channels, double eps, bool affine, DeviceContext* device)
    : Module("GroupNorm"), groups_(groups), eps_(eps) {
  if (!affine) return;
  weight = add_parameter("weight", heddle::ones(parameter_shape("GroupNorm", {channels}), DType::f32, device));
  bias = add_parameter("bias", heddle::zeros(parameter_shape("GroupNorm", {channels}), DType::f32, device));
}

Tensor GroupNorm::forward(const Tensor& x) { return group_norm(x, groups_, weight, bias, eps_); }

BatchNorm::BatchNorm(int64_t channels, double eps, double momentum, bool affine, DeviceContext* device)
    : Module("BatchNorm"), eps_(eps), momentum_(momentum) {
  const Shape shape = parameter_shape("BatchNorm", {channels});
  if (affine) {
    weight = add_parameter("weight", heddle::ones(shape, DType::f32, device));
    bias = add_parameter("bias", heddle::zeros(shape, DType::f32, device));
  }
  running_mean = add_buffer("running_mean", heddle::zeros(shape, DType::f32, device));
  running_var = add_buffer("running_var", heddle::ones(shape, DType::f32, device));
}

Tensor BatchNorm::forward(const Tensor& x) {
  return batch_norm(x, running_mean, running_var, weight, bias, training(), momentum_, eps_);
}

}  // namespace heddle::nn
