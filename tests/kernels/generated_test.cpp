// A broad sample of the kernels that core generates compiles for every target, without a device: one case of every op
// of the table, random programs, and a training step, under both machine models.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "checks/op_cases.h"
#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/lower/lower.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/schedule/schedule.h"
#include "heddle/core/simplify/simplifier.h"
#include "heddle/nn/nn.h"
#include "tests/support/coverage.h"
#include "tests/support/random_graph.h"
#ifdef HEDDLE_HAS_OPENCL
#include "heddle/backend_opencl/declarations.h"
#endif
#ifdef HEDDLE_TEST_VULKAN
#include "heddle/backend_vulkan/glsl_compiler.h"
#endif
#ifdef HEDDLE_TEST_CUDA
#include "heddle/backend_cuda/nvrtc.h"
#endif

namespace heddle {
namespace {

// Caps of a GPU with everything, so that nothing is refused.
Caps gpu_caps() {
  Caps caps = device("null:0").caps();
  caps.device_class = DeviceClass::discrete_gpu;
  caps.max_bindings = 16;
  caps.max_group_lanes = 1024;
  caps.f64 = caps.f64_math = caps.i64 = true;
  return caps;
}

// Kernels of everything this thread holds pending, new ones only.
void collect(std::vector<KernelSource>& sources, std::set<uint64_t>& seen, bool loop_lanes) {
  const std::vector<NodePtr> roots = held_pending();
  const ScheduledGraph scheduled = schedule(simplify(import_graph(capture(roots))), {16});
  for (LoweredKernel& kernel : lower(scheduled, gpu_caps(), {loop_lanes})) {
    if (seen.insert(kernel.source.hash()).second) sources.push_back(std::move(kernel.source));
  }
}

void record_training_step(DeviceContext& dev, std::vector<KernelSource>& sources, std::set<uint64_t>& seen,
                          bool loop_lanes) {
  nn::Sequential model{nn::Linear(12, 8), nn::ReLU(), nn::Linear(8, 4)};
  model.to(dev);
  nn::Adam optimizer(model.parameters(), 1e-3);
  const Tensor x = Tensor::from_vector(std::vector<float>(60, 0.5f), {5, 12}, &dev);
  const Tensor y = Tensor::from_vector(std::vector<int32_t>(5, 1), {5}, &dev);
  const Tensor loss = cross_entropy(model(x), y);
  backward(loss);
  optimizer.update();
  collect(sources, seen, loop_lanes);
}

// Updates of many tensors, and the norm of their gradients, in one launch each.
void record_fused_optimizers(DeviceContext& dev, std::vector<KernelSource>& sources, std::set<uint64_t>& seen,
                             bool loop_lanes) {
  for (const DType dtype : {DType::f32, DType::bf16}) {
    std::vector<Tensor> parameters;
    for (int i = 0; i < 20; ++i) {
      Tensor p = zeros({10 + i, 7}, dtype, &dev).set_requires_grad();
      p.set_grad(ones({10 + i, 7}, dtype, &dev).detach());
      eval({p.grad()});
      parameters.push_back(p);
    }
    nn::AdamW adamw(parameters, 1e-3);
    adamw.set_clip_norm(1.0);
    adamw.update();
    nn::Lion lion(parameters, 1e-3);
    lion.update();
    collect(sources, seen, loop_lanes);
  }
}

std::vector<KernelSource> sample(bool loop_lanes) {
  std::vector<KernelSource> sources;
  std::set<uint64_t> seen;
  DeviceContext& dev = device("null:0");
  std::set<std::string> done;
  for (const checks::OpCase& c : checks::op_cases(tests::coverage_from_environment())) {
    // Cases differ by shape, layout and dtype; the first two of each op are a fair sample of the text.
    if (done.contains(c.op + "2")) continue;
    done.insert(done.contains(c.op) ? c.op + "2" : c.op);
    const std::vector<Tensor> leaves = checks::make_inputs(c, dev, 1);
    const Tensor result = c.run(dev, leaves);
    collect(sources, seen, loop_lanes);
  }
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const test::RandomProgram program = test::random_program(dev, seed, 20);
    collect(sources, seen, loop_lanes);
  }
  record_training_step(dev, sources, seen, loop_lanes);
  record_fused_optimizers(dev, sources, seen, loop_lanes);
  return sources;
}

TEST(GeneratedKernels, SampleIsBroad) {
  EXPECT_GT(sample(false).size(), 80u);
  EXPECT_GT(sample(true).size(), 80u);
  const std::vector<KernelSource> sources = sample(false);
  EXPECT_GE(
      std::count_if(sources.begin(), sources.end(), [](const KernelSource& s) { return s.name.ends_with("_many"); }),
      4);
}

#ifdef HEDDLE_TEST_VULKAN
TEST(GeneratedKernels, Glsl) {
  for (const KernelSource& source : sample(false)) {
    // Vulkan has no f64 functions beyond arithmetic; such kernels are refused before they are printed.
    bool wide = false;
    for (const BufferParam& b : source.buffers) wide = wide || b.dtype == DType::f64;
    if (wide) continue;
    SCOPED_TRACE(source.name + "\n" + source.body);
    EXPECT_NO_THROW(EXPECT_GT(compile_glsl(print(source, Target::glsl), source.name).size(), 5u));
  }
}
#endif

#ifdef HEDDLE_TEST_CUDA
TEST(GeneratedKernels, Cuda) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  const std::vector<KernelSource> sources = sample(false);
  for (size_t i = 0; i < sources.size(); ++i) {
    SCOPED_TRACE(sources[i].name + "\n" + sources[i].body);
    // Each on one architecture in turn: the text is the same, only NVRTC's target differs.
    const int sm = std::array{75, 80, 90}[i % 3];
    EXPECT_NO_THROW(
        EXPECT_NE(cuda::compile_ptx(print(sources[i], Target::cuda), sources[i].name, sm).find(".entry heddle_kernel"),
                  std::string::npos));
    if (sm != 90 || sources[i].name.starts_with("body_")) continue;  // bodies: compile_test.cpp
    const cuda::KernelResources r = cuda::kernel_resources(print(sources[i], Target::cuda), sources[i].name, sm);
    EXPECT_EQ(r.spill_stores + r.spill_loads, 0) << "bytes spilled";
  }
}
#endif

TEST(GeneratedKernels, OpenCl) {
  DeviceContext* context = nullptr;
  try {
    context = &device("opencl:0");
  } catch (const DeviceUnavailable& e) {
    GTEST_SKIP() << e.what();
  }
  auto locked = context->lock();
  const std::vector<KernelSource> sources =
      sample(false);  // the GPU's text; the CPU driver's is what the conformance tests run
  for (size_t i = 0; i < sources.size(); i += 4) {
    SCOPED_TRACE(sources[i].name + "\n" + sources[i].body);
    EXPECT_NO_THROW(locked.device.release(locked.device.compile(sources[i])));
  }
#ifdef HEDDLE_HAS_OPENCL
  EXPECT_EQ(opencl_builds_with_whole_header(), 0) << "shaders/prelude.pocl lacks a function";
#endif
}

}  // namespace
}  // namespace heddle
