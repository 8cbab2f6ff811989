// Normalisations against plain double loops, on every device; layers' parameters and running statistics.
#include "heddle/nn/norm.h"

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "tests/nn/support.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

Values numbers(size_t count, double shift) {
  Values x(count);
  for (size_t i = 0; i < count; ++i) x[i] = std::fmod(shift + static_cast<double>(i) * 0.6180339887, 1.0) * 3 - 1;
  return x;
}

// (x - mean) / sqrt(var + eps) of the elements that `at` lists.
void normalize(Values& x, const std::vector<size_t>& at, double eps) {
  double mean = 0, var = 0;
  for (size_t i : at) mean += x[i] / static_cast<double>(at.size());
  for (size_t i : at) var += (x[i] - mean) * (x[i] - mean) / static_cast<double>(at.size());
  for (size_t i : at) x[i] = (x[i] - mean) / std::sqrt(var + eps);
}

void expect_close(const Tensor& got, const Values& want, const char* what) {
  const std::vector<double> values = got.to_doubles();
  ASSERT_EQ(values.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(values[i], want[i], 3e-5) << what << " " << i;
}

TEST(Norms, AgreeWithPlainLoops) {
  for (const std::string& id : test::value_devices()) {
    DeviceContext& d = device(id);
    SCOPED_TRACE(id);
    // (N 2, C 4, L 5)
    const Values x = numbers(40, 0.1), w = numbers(5, 0.3), b = numbers(5, 0.7), cw = numbers(4, 0.2),
                 cb = numbers(4, 0.4);
    const Tensor t = f32(x, {2, 4, 5}, d), tw = f32(w, {5}, d), tb = f32(b, {5}, d), tcw = f32(cw, {4}, d),
                 tcb = f32(cb, {4}, d);
    Values layer = x, rms = x, group = x, instance = x, batch = x;
    for (size_t r = 0; r < 8; ++r) {
      std::vector<size_t> at;
      double square = 0;
      for (size_t i = 0; i < 5; ++i) at.push_back(r * 5 + i), square += x[r * 5 + i] * x[r * 5 + i] / 5;
      normalize(layer, at, 1e-5);
      normalize(instance, at, 1e-5);
      for (size_t i = 0; i < 5; ++i) {
        layer[r * 5 + i] = layer[r * 5 + i] * w[i] + b[i];
        rms[r * 5 + i] = x[r * 5 + i] / std::sqrt(square + 1e-6) * w[i];
      }
    }
    for (size_t g = 0; g < 4; ++g) {
      std::vector<size_t> at;
      for (size_t i = 0; i < 10; ++i) at.push_back(g * 10 + i);
      normalize(group, at, 1e-5);
      std::vector<size_t> channel;
      for (size_t n = 0; n < 2; ++n) {
        for (size_t i = 0; i < 5; ++i) channel.push_back((n * 4 + g) * 5 + i);
      }
      normalize(batch, channel, 1e-5);
    }
    for (size_t i = 0; i < 40; ++i) {
      group[i] = group[i] * cw[i / 5 % 4] + cb[i / 5 % 4];
      batch[i] = batch[i] * cw[i / 5 % 4] + cb[i / 5 % 4];
    }
    expect_close(layer_norm(t, {5}, tw, tb), layer, "layer_norm");
    expect_close(rms_norm(t, tw), rms, "rms_norm");
    expect_close(group_norm(t, 2, tcw, tcb), group, "group_norm");
    expect_close(instance_norm(t), instance, "instance_norm");
    expect_close(batch_norm(t, {}, {}, tcw, tcb), batch, "batch_norm");
  }
}

TEST(Norms, BatchNormKeepsRunningStatistics) {
  nn::BatchNorm layer(2, {.device = reference()});
  const Tensor x = f32({1, 2, 3, 4, 5, 9}, {3, 2}, reference());  // channel 0: 1 3 5, channel 1: 2 4 9
  layer(x);
  expect_close(layer.running_mean, {0.3, 0.5}, "running mean");
  expect_close(layer.running_var, {0.9 + 0.1 * 4, 0.9 + 0.1 * 13}, "running variance");
  layer.eval();
  const Tensor y = layer(x);
  expect_close(layer.running_mean, {0.3, 0.5}, "running mean after eval");
  EXPECT_NEAR(y.to_doubles()[0], (1 - 0.3) / std::sqrt(1.3 + 1e-5), 1e-5);
  EXPECT_EQ(layer.named_buffers().size(), 2u);
}

TEST(Norms, GradientOfALayerSumsToZeroOverARow) {
  nn::LayerNorm layer(6, {.device = reference()});
  Tensor x = f32(numbers(18, 0.5), {3, 6});
  x.set_requires_grad();
  const Tensor y = layer(x);
  const std::vector<Tensor> g = grad(sum(square(y) * y), {x, layer.weight, layer.bias});
  expect_close(sum(g[0], {1}), {0, 0, 0}, "gradient");  // adding a constant to a row changes nothing
  EXPECT_EQ(g[1].shape(), (Shape{6}));
  EXPECT_EQ(g[2].shape(), (Shape{6}));
}

TEST(Norms, BadInput) {
  const Tensor x = f32(numbers(12, 0), {3, 4});
  expect_error<ShapeError>([&] { layer_norm(x, {3}); }, {"[layer_norm]", "(3, 4)", "(3)"});
  expect_error<ShapeError>([&] { layer_norm(x, {4}, x); }, {"[layer_norm]", "weight", "(4)"});
  expect_error<ValueError>([&] { group_norm(x, 3); }, {"[group_norm]", "4 channels"});
  expect_error<ValueError>([&] { batch_norm(x, {}, {}, {}, {}, false); }, {"[batch_norm]", "running_mean"});
  expect_error<ValueError>([&] { rms_norm(x, {}, -1); }, {"[rms_norm]", "eps"});
}

}  // namespace
}  // namespace heddle::tests
