// Builders of norm.inc.
#include <algorithm>

#include "heddle/core/functions/nn/norms.h"
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// A value for each channel, to be used with x (N, C, ...).
Tensor by_channel(const Tensor& v, const Tensor& x) {
  Shape shape{1, v.numel()};
  for (int i = 2; i < x.rank(); ++i) shape.push_back(1);
  return heddle::reshape(v, shape);
}

std::vector<int> from_axis(int axis, int rank) {
  std::vector<int> axes;
  for (int i = axis; i < rank; ++i) axes.push_back(i);
  return axes;
}

// The statistics of the batch, and the running ones moved towards them.
void trained_batch_norm(Call& c) {
  const Tensor x = c.tensor(0), mean = c.tensor(3), var = c.tensor(4);
  std::vector<int> axes{0};
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  const double momentum = c.real("momentum", 0.9), epsilon = c.real("epsilon", 1e-5);
  const Tensor here = heddle::mean(x, axes), spread = heddle::var(x, axes, false, 0);
  const Tensor scaled = (x - by_channel(here, x)) * by_channel(heddle::rsqrt(spread + epsilon) * c.tensor(1), x);
  c.out(heddle::cast(scaled + by_channel(c.tensor(2), x), x.dtype()), c.type(0));
  c.out(heddle::cast(mean * momentum + here * (1 - momentum), mean.dtype()), c.type(3));
  c.out(heddle::cast(var * momentum + spread * (1 - momentum), var.dtype()), c.type(4));
}

}  // namespace

void batch_norm(Call& c) {
  if (c.integer("training_mode", 0) != 0) return trained_batch_norm(c);
  if (c.opset() < 14 && c.outputs() > 1)
    c.unsupported("outputs beside the first are of training, which older opsets do not describe");
  const Tensor x = c.tensor(0);
  c.out(heddle::batch_norm(x, c.tensor(3), c.tensor(4), c.tensor(1), c.tensor(2), false, 0.1, c.real("epsilon", 1e-5)),
        c.type(0));
}

void instance_norm(Call& c) {
  c.out(heddle::instance_norm(c.tensor(0), c.tensor(1), c.tensor(2), c.real("epsilon", 1e-5)), c.type(0));
}

// Until opset 20 scale and bias belong to groups, then to channels.
void group_norm(Call& c) {
  const Tensor x = c.tensor(0);
  const int64_t groups = c.integer("num_groups");
  Tensor scale = c.tensor(1), bias = c.tensor(2);
  if (c.opset() < 21 && groups > 0 && scale.numel() == groups) {
    scale = repeat_interleave(scale, x.dim(1) / groups);
    bias = repeat_interleave(bias, x.dim(1) / groups);
  }
  c.out(heddle::group_norm(x, groups, scale, bias, c.real("epsilon", 1e-5)), c.type(0));
}

void layer_norm(Call& c) {
  const Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", -1), x.rank());
  const double epsilon = c.real("epsilon", 1e-5);
  Shape shape;
  for (int i = axis; i < x.rank(); ++i) shape.push_back(x.dim(i));
  const Tensor scale = broadcast_to(c.tensor(1), shape),
               bias = c.given(2) ? broadcast_to(c.tensor(2), shape) : Tensor();
  c.out(heddle::layer_norm(x, shape, scale, bias, epsilon), c.type(0));
  if (c.outputs() < 2) return;
  const Tensor wide = heddle::is_half(x.dtype()) ? heddle::cast(x, DType::f32) : x;
  const VarMean moments = var_mean(wide, from_axis(axis, x.rank()), true, 0);
  c.out(moments.mean);
  c.out(heddle::rsqrt(moments.var + epsilon));
}

void rms_norm(Call& c) {
  const Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", -1), x.rank());
  const Tensor wide = heddle::is_half(x.dtype()) ? heddle::cast(x, DType::f32) : x;
  const Tensor mean = heddle::mean(square(wide), from_axis(axis, x.rank()), true);
  c.out(heddle::cast(wide * heddle::rsqrt(mean + c.real("epsilon", 1e-5)), x.dtype()) * c.tensor(1), c.type(0));
}

// Windows of an even size reach further to the one side here than Heddle's do: the channels are turned around.
void lrn(Call& c) {
  const Tensor x = c.tensor(0);
  const int64_t size = c.integer("size");
  const double alpha = c.real("alpha", 1e-4), beta = c.real("beta", 0.75), bias = c.real("bias", 1);
  if (size % 2 != 0) return c.out(local_response_norm(x, size, alpha, beta, bias), c.type(0));
  c.out(flip(local_response_norm(flip(x, {1}), size, alpha, beta, bias), {1}), c.type(0));
}

void lp_norm(Call& c) {
  const Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", -1), x.rank());
  const Tensor size = norm(x, static_cast<double>(c.integer("p", 2)), {axis}, true);
  c.out(heddle::where(heddle::eq(size, 0.0), zeros_like(x), x / size), c.type(0));
}

void mean_variance_norm(Call& c) {
  const Tensor x = c.tensor(0);
  std::vector<int> axes{0, 2, 3};
  if (c.has("axes")) axes = as_ints(c.integers("axes"));
  for (int& axis : axes) axis = c.axis(axis, x.rank());
  const VarMean moments = var_mean(x, axes, true, 0);
  c.out((x - moments.mean) / (heddle::sqrt(moments.var) + 1e-9), c.type(0));
}

void dropout(Call& c) {
  const Tensor x = c.tensor(0);
  const bool training = c.given(2) && c.whole(2) != 0;
  const double ratio = c.given(1) ? c.numbers(1).at(0) : c.real("ratio", 0.5);
  const Type mask = c.opset() < 10 ? c.type(0) : Type::boolean;
  if (!training || ratio == 0) {
    c.out(x, c.type(0));
    if (c.wanted(1)) c.out(ones(x.shape(), storage(mask), &c.device()), mask);
    return;
  }
  if (ratio < 0 || ratio >= 1) c.fail("ratio must be in [0, 1)");
  const Tensor kept = bernoulli(x.shape(), 1 - ratio, &c.device());
  c.out(heddle::cast(x * heddle::cast(kept, x.dtype()) * (1 / (1 - ratio)), x.dtype()), c.type(0));
  if (c.wanted(1)) c.out(heddle::cast(kept, storage(mask)), mask);
}

}  // namespace heddle::onnx::build
