// Every body, in every schedule and with many types, compiles for every target; no device is needed for GLSL and CUDA.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"
#include "core/device/context.h"
#include "core/kernel/kernel_file.h"
#include "core/kernel/printer.h"
#ifdef HEDDLE_TEST_VULKAN
#include "backend_vulkan/glsl_compiler.h"
#endif
#ifdef HEDDLE_TEST_CUDA
#include "backend_cuda/nvrtc.h"
#endif

namespace heddle {
namespace {

struct Variant {
  std::string body;
  KernelFile::Options options;
  std::string label() const {
    std::string text = body;
    for (const auto& [name, value] : options.tunables) text += " " + name + "=" + std::to_string(value);
    for (const auto& [name, dtype] : options.types) text += " " + name + "=" + std::string(name_of(dtype));
    return text + (options.hooks.empty() ? "" : " with hooks");
  }
};

using Types = std::map<std::string, DType, std::less<>>;

void add_matmul(std::vector<Variant>& all, int64_t vw) {
  const Types f32, half = {{"TA", DType::f16}, {"TB", DType::bf16}, {"TC", DType::f16}};
  const Bindings unit = {{"A_K1", 1}, {"B_N1", 1}}, dots = {{"A_K1", 1}, {"B_K1", 1}}, none;
  const auto add = [&](Bindings tunables, const Bindings& strides, const Types& types, bool hooks) {
    for (const auto& [name, value] : strides) tunables[name] = value;
    Variant v{"matmul", {}};
    v.options.tunables = tunables;
    v.options.types = types;
    if (hooks) {
      v.options.hooks = {
          {"PROLOGUE_A", "max(x, 0.0f)"}, {"PROLOGUE_B", "exp(x)"}, {"EPILOGUE", "STORE(y, n, tanh(x) + LOAD(y, n))"}};
      v.options.extra_buffers = {{"y", DType::f32, Access::read_write}};
      v.options.dropped_buffers = {"dst"};
    }
    all.push_back(v);
  };
  const Bindings schedules[] = {{{"SCHEDULE", 0}},
                                {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 8}, {"RM", 2}, {"RN", 4}},
                                {{"SCHEDULE", 2}, {"VW", vw}, {"MR", 4}, {"NV", 2}},
                                {{"SCHEDULE", 3}, {"VW", vw}, {"MR", 4}, {"NV", 2}, {"MB", 2}, {"NB", 2}, {"KC", 64}}};
  for (const auto& s : schedules) {
    add(s, unit, f32, false);
    add(s, none, half, true);
  }
  const Bindings dot = {{"SCHEDULE", 4}, {"VW", vw}, {"MR", 2}, {"NR", 2}};
  add(dot, dots, f32, false);
  add(dot, dots, half, true);
  for (const DType t : {DType::f64, DType::i32, DType::i64})
    add(schedules[0], none, {{"TA", t}, {"TB", t}, {"TC", t}, {"ACC", t}}, false);
}

void add_rows(std::vector<Variant>& all) {
  for (const DType t : {DType::f32, DType::bf16, DType::i32, DType::i64, DType::f64}) {
    const Types types = {{"T", t}}, scanned = {{"T", t}, {"TC", arith(t)}}, indexed = {{"T", t}, {"I", t == DType::i64 ? t : DType::i32}};
    for (const int64_t schedule : {0, 1}) {
      all.push_back({"sort_blocks", {types, {{"SCHEDULE", schedule}, {"DESCENDING", schedule}}, {}, {}, {}, {}}});
      all.push_back({"sort_merge", {types, {{"LANES", schedule ? 1 : 64}, {"DESCENDING", schedule}}, {}, {}, {}, {}}});
      all.push_back({"scan", {scanned, {{"SCHEDULE", schedule}, {"CARRY", 1}, {"EXCLUSIVE", schedule}, {"REVERSE", schedule}}, {}, {}, {}, {}}});
      all.push_back({"segment_add", {indexed, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
  }
  all.push_back({"scan", {{}, {{"SCHEDULE", 2}, {"CARRY", 1}}, {{"INIT", "1"}, {"COMBINE", "(p) * (q)"}}, {}, {}, {}}});
}

std::vector<Variant> variants(int64_t vw) {
  std::vector<Variant> all;
  add_matmul(all, vw);
  add_rows(all);
  for (const int64_t schedule : {0, 1}) {
    for (const DType t : {DType::f32, DType::f16})
      all.push_back({"reduce", {{{"T", t}, {"TO", t}}, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    for (const DType t : {DType::f32, DType::bf16, DType::f64, DType::i64}) {
      all.push_back({"scatter_add",
                     {{{"T", t}, {"I", t == DType::i64 ? t : DType::i32}}, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
    for (const DType t : {DType::f32, DType::f16, DType::u8, DType::boolean, DType::i64, DType::f64}) {
      all.push_back({"copy", {{{"T", t}, {"TO", t}}, {{"LANES", schedule == 0 ? 64 : 1}}, {}, {}, {}, {}}});
    }
  }
  return all;
}

KernelSource source_of(const Variant& v) { return KernelFile::builtin(v.body).instantiate(v.options); }

TEST(CompileBodies, NoBodyIsForgotten) {
  const auto all = variants(4);
  for (const auto& name : KernelFile::builtin_names()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const Variant& v) { return v.body == name; })) << name;
  }
}

#ifdef HEDDLE_TEST_VULKAN
TEST(CompileBodies, GlslToValidSpirv) {
  const bool validator = std::system("command -v spirv-val > /dev/null 2>&1") == 0;
  const auto path =
      std::filesystem::temp_directory_path() / ("heddle_compile_test_" + std::to_string(::getpid()) + ".spv");
  for (const auto& v : variants(4)) {
    SCOPED_TRACE(v.label());
    const auto words = compile_glsl(print(source_of(v), Target::glsl), v.body);
    ASSERT_GT(words.size(), 5u);
    EXPECT_EQ(words[0], 0x07230203u);
    if (!validator) continue;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
    EXPECT_EQ(std::system(("spirv-val --target-env vulkan1.1 " + path.string()).c_str()), 0);
  }
  std::filesystem::remove(path);
  if (!validator) GTEST_SKIP() << "compiled, but spirv-val (package spirv-tools) is not installed";
}
#endif

#ifdef HEDDLE_TEST_CUDA
TEST(CompileBodies, CudaToPtx) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  for (const auto& v : variants(4)) {
    SCOPED_TRACE(v.label());
    const std::string text = print(source_of(v), Target::cuda);
    for (const int sm : {75, 80, 90}) {
      const std::string ptx = cuda::compile_ptx(text, v.body, sm);
      EXPECT_NE(ptx.find(".entry heddle_kernel"), std::string::npos);
      EXPECT_NE(ptx.find(".target sm_" + std::to_string(sm)), std::string::npos);
    }
  }
}
#endif

TEST(CompileBodies, OpenCl) {
  DeviceContext* context = nullptr;
  try {
    context = &device("opencl:0");
  } catch (const DeviceUnavailable& e) {
    GTEST_SKIP() << e.what();
  }
  auto locked = context->lock();
  for (const auto& v : variants(8)) {
    SCOPED_TRACE(v.label());
    EXPECT_NO_THROW(locked.device.release(locked.device.compile(source_of(v))));
  }
}

}  // namespace
}  // namespace heddle
