// Host time: what a thousand small operations cost the thread that writes them, recorded anew and replayed.
//
// The graph: two hundred chains of five operations over tensors of different lengths, no two chains of the same
// operations: nothing fuses across chains and no two kernels have one text, so it stays two hundred kernels (checked).
#include <chrono>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

constexpr int chains = 200, length = 5;
constexpr double operations = chains * length;

Tensor operation(int which, const Tensor& x, const Tensor& y) {
  switch (which) {
    case 0:
      return x + y;
    case 1:
      return x - y;
    case 2:
      return x * y;
    case 3:
      return maximum(x, y);
    default:
      return minimum(x, y);
  }
}

std::vector<Tensor> record(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> results;
  results.reserve(inputs.size());
  for (int c = 0; c < chains; ++c) {
    const Tensor& x = inputs[static_cast<size_t>(c)];
    Tensor t = x;
    for (int k = 0, code = c; k < length; ++k, code /= 5) t = operation(code % 5, t, x);
    results.push_back(t);
  }
  return results;
}

std::vector<Tensor> inputs(DeviceContext& device) {
  std::vector<Tensor> all;
  for (int c = 0; c < chains; ++c) all.push_back(random_tensor({64 + c}, DType::f32, static_cast<uint32_t>(c), device));
  return all;
}

// Seconds of each call, after a warm-up that plans and compiles.
template <class Call>
std::vector<double> times(DeviceContext& device, int repetitions, const Call& call) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int i = -20; i < 10 * repetitions; ++i) {
    const auto start = Clock::now();
    call();
    const auto end = Clock::now();
    device.synchronize();  // host time only: nothing queues up
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(end - start).count());
  }
  return seconds;
}

// The graph's kernels, counted where it runs once: a graph that is repeated may launch several as one chain
// (core/run/chains.h), which is no fusion.
void check_kernels(DeviceContext& device, const std::vector<Tensor>& x) {
  const uint64_t before = device.counters().kernels;
  const std::vector<Tensor> y = record(x);
  eval_pending();
  const uint64_t kernels = device.counters().kernels - before;
  if (kernels < chains)
    throw DeviceError("[bench] the graph of the host-time cases fused to " + std::to_string(kernels) +
                      " kernels; it is made for " + std::to_string(chains));
}

}  // namespace

// One operation of the plain loop: recorded, captured, found in the step cache, submitted, and freed.
std::vector<double> record_per_op(DeviceContext& device, int repetitions) {
  const std::vector<Tensor> x = inputs(device);
  check_kernels(device, x);
  std::vector<Tensor> y;
  std::vector<double> seconds = times(device, repetitions, [&] {
    y = record(x);
    eval_pending();
  });
  for (double& s : seconds) s /= operations;
  return seconds;
}

// The whole step through compile(); calls that run the function for comparison are among the samples.
std::vector<double> replay_per_step(DeviceContext& device, int repetitions) {
  const std::vector<Tensor> x = inputs(device);
  check_kernels(device, x);
  const auto step = compile([](const std::vector<Tensor>& given) { return record(given); });
  std::vector<Tensor> y;
  for (int i = 0; i < 3; ++i) y = step(x);
  if (step.stats().replayed == 0)
    throw DeviceError("[bench] the step of the host-time cases is not replayed: " + step.stats().refusal);
  return times(device, repetitions, [&] { y = step(x); });
}

}  // namespace heddle::bench
