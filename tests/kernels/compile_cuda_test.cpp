// Every body compiles to PTX for the capabilities it asks for, and what is picked on a large GPU spills nothing; no
// device is needed, only NVRTC.
#ifdef HEDDLE_TEST_CUDA
#include <gtest/gtest.h>

#include "heddle/backend_cuda/nvrtc.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/tiles/conv_tiles.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/kernels/body_variants.h"
#include "tests/kernels/hopper.h"
#include "tests/support/coverage.h"

namespace heddle {
namespace {

// What is picked on a large NVIDIA GPU: convolutions, then products, large, medium and small.
std::vector<BodyVariant> conv_defaults() {
  std::vector<BodyVariant> all;
  for (const auto kind : {ConvProblem::Kind::forward, ConvProblem::Kind::input_grad, ConvProblem::Kind::weight_grad}) {
    for (const int64_t kernel : {1, 3}) {
      for (const int64_t channels : {32, 512}) {
        ConvProblem p;
        p.kind = kind;
        p.N = 64;
        p.CG = p.OG = channels;
        p.in = p.out = {1, 56, 56};
        p.kernel = {1, kernel, kernel};
        p.pad = {0, kernel / 2, kernel / 2};
        p.x_w1 = p.g_w1 = true;
        const bool weights = kind == ConvProblem::Kind::weight_grad;
        BodyVariant v{weights ? "conv_weight_grad" : "conv", {}};
        v.options.tunables = weights ? pick_conv_weight_grad(hopper(), p) : pick_conv(hopper(), p);
        all.push_back(v);
      }
    }
  }
  return all;
}

std::vector<BodyVariant> matmul_defaults() {
  const Caps caps = hopper();
  std::vector<BodyVariant> all;
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    for (const int64_t size : {8192, 1024, 100}) {
      for (const bool tf32 : {false, true}) {
        if (tf32 && t != DType::f32) continue;
        MatmulProblem p{size, size, size, 1, false, true, false, true};
        p.a = p.b = p.a_value = p.b_value = t;
        p.a_wide = p.b_wide = 16 / static_cast<int64_t>(size_of(t));
        p.tf32 = tf32;
        const DType sums = t == DType::i8 ? DType::i32 : DType::f32;
        BodyVariant v{"matmul", {}};
        v.options.types = {{"TA", t}, {"TB", t}, {"TC", sums}, {"ACC", sums}};
        v.options.tunables = pick_matmul(caps, p);
        all.push_back(v);
      }
    }
  }
  return all;
}

// The capabilities that a text is compiled for: the oldest alone where it asks for none, since it is the same to NVRTC
// then; else one in turn, in the full coverage each.
std::vector<int> capabilities_of(const std::string& text, size_t turn) {
  if (text.find("__CUDA_ARCH") == std::string::npos) return {75};
  const std::vector<int> all{75, 80, 90};
  return tests::coverage_from_environment() == checks::Coverage::full ? all : std::vector<int>{all[turn % all.size()]};
}

TEST(CompileBodies, CudaToPtx) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  size_t turn = 0;
  for (const auto& v : body_variants(4)) {
    SCOPED_TRACE(v.label());
    const std::string text = print(v.source(), Target::cuda);
    for (const int sm : capabilities_of(text, turn++)) {
      const std::string ptx = cuda::compile_ptx(text, v.body, sm);
      EXPECT_NE(ptx.find(".entry heddle_kernel"), std::string::npos);
      EXPECT_NE(ptx.find(".target sm_" + std::to_string(sm)), std::string::npos);
    }
  }
}

// The defaults of pick_matmul for a GPU of that capability, and the other bodies' schedules for GPUs, keep their values
// in registers.
TEST(CompileBodies, NoSpillsOnHopper) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  std::vector<BodyVariant> all;
  for (const auto& v : body_variants(4)) {
    const auto schedule = v.options.tunables.find("SCHEDULE");
    // Shared tiles where a body has them, and a result per lane.
    const bool attention = v.body.starts_with("attention"), conv = v.body.starts_with("conv");
    const int64_t first = attention ? 1 : 0, last = attention || conv ? 1 : 0;
    const bool for_cpus = schedule != v.options.tunables.end() && (schedule->second < first || schedule->second > last);
    if (v.body != "matmul" && !for_cpus) all.push_back(v);
  }
  const auto defaults = matmul_defaults();
  all.insert(all.end(), defaults.begin(), defaults.end());
  const auto convolutions = conv_defaults();
  all.insert(all.end(), convolutions.begin(), convolutions.end());
  for (const auto& v : all) {
    SCOPED_TRACE(v.label());
    const cuda::KernelResources r = cuda::kernel_resources(print(v.source(), Target::cuda), v.body, 90);
    EXPECT_EQ(r.spill_stores, 0);
    EXPECT_EQ(r.spill_loads, 0);
    EXPECT_EQ(r.stack_bytes, 0);
    EXPECT_LE(r.registers, 255);
  }
}

// Matrix units from sm_80 on: every type, both layouts, copies and hooks.
TEST(CompileBodies, MatrixUnitsOfCuda) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  for (const auto& v : unit_variants(32)) {
    SCOPED_TRACE(v.label());
    const std::string text = print(v.source(), Target::cuda);
    for (const int sm : {80, 90}) {
      const std::string ptx = cuda::compile_ptx(text, v.body, sm);
      EXPECT_NE(ptx.find("mma.sync.aligned"), std::string::npos);
      EXPECT_NE(ptx.find("ldmatrix.sync.aligned"), std::string::npos);
      const cuda::KernelResources r = cuda::kernel_resources(text, v.body, sm);
      EXPECT_EQ(r.spill_stores + r.spill_loads + r.stack_bytes, 0) << sm;
    }
  }
}

}  // namespace
}  // namespace heddle
#endif
