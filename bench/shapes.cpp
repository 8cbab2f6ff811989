#include "bench/shapes.h"

#include <fmt/format.h>

#include <chrono>
#include <random>

#include "bench/training_step.h"
#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/nn.h"

namespace heddle::bench {
namespace {

constexpr int64_t vocabulary = 256;

void check(const ShapesRequest& r) {
  if (r.model != "gpt" && r.model != "gpt-forward")
    throw ValueError(fmt::format("[shapes] unknown model '{}'; expected gpt or gpt-forward", r.model));
  if (r.lengths < 1 || r.shortest < 1 || r.longest < r.shortest) {
    throw ValueError(fmt::format("[shapes] {} lengths from {} to {}: expected at least one, and none below 1",
                                 r.lengths, r.shortest, r.longest));
  }
  if (r.batch < 1 || r.layers < 1 || r.width < head_width || r.width % head_width != 0) {
    throw ValueError(fmt::format("[shapes] batch {}, {} layers, width {}: the width is a multiple of {}", r.batch,
                                 r.layers, r.width, head_width));
  }
}

Tensor random_tokens(std::mt19937& random, const Shape& shape, DeviceContext& device) {
  std::vector<int32_t> values(static_cast<size_t>(shape.numel()));
  for (int32_t& value : values) value = static_cast<int32_t>(random() % vocabulary);
  return Tensor::from_vector(values, shape, &device);
}

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

std::vector<ShapeStep> run_shapes(const ShapesRequest& r, DeviceContext& device,
                                  const std::function<void(const ShapeStep&)>& report) {
  check(r);
  manual_seed(1);
  nn::Gpt model({.vocabulary = vocabulary,
                 .context = r.longest,
                 .layers = r.layers,
                 .heads = r.width / head_width,
                 .width = r.width,
                 .dropout = 0},
                {.device = device});
  nn::AdamW optimizer(model.parameters(), 1e-3);
  std::mt19937 random(7);
  std::vector<ShapeStep> steps;
  for (int i = 1; i <= r.lengths; ++i) {
    ShapeStep step;
    step.number = i;
    step.length = r.shortest + static_cast<int64_t>(random() % static_cast<uint64_t>(r.longest - r.shortest + 1));
    const Tensor tokens = random_tokens(random, {r.batch, step.length}, device),
                 next = random_tokens(random, {r.batch * step.length}, device);
    const DeviceCounters before = device.counters();
    const auto start = std::chrono::steady_clock::now();
    Tensor result = cross_entropy(reshape(model(tokens), {-1, vocabulary}), next);
    if (r.model == "gpt") {
      backward(result);
      optimizer.update();
      optimizer.zero_grad();
    }
    eval({result});
    step.planning_seconds = since(start);
    device.synchronize();
    step.seconds = since(start);
    const DeviceCounters after = device.counters();
    step.compiled = after.kernels_compiled - before.kernels_compiled;
    step.planned = after.steps_compiled - before.steps_compiled;
    step.kernels = after.kernels - before.kernels;
    step.live_bytes = device.memory().live_bytes;
    if (device.caps().device_class != DeviceClass::null) step.loss = result.item();
    if (report) report(step);
    steps.push_back(step);
  }
  return steps;
}

}  // namespace heddle::bench
