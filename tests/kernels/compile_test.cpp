// Every body, in every schedule and with many types, compiles to SPIR-V, with and without what a device may lack, and
// on OpenCL; no device is needed for SPIR-V.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/printer.h"
#include "tests/kernels/body_variants.h"
#ifdef HEDDLE_HAS_OPENCL
#include "heddle/backend_opencl/declarations.h"
#endif
#ifdef HEDDLE_TEST_VULKAN
#include "heddle/backend_vulkan/glsl_compiler.h"
#include "heddle/backend_vulkan/int64_words.h"
#endif

namespace heddle {
namespace {

TEST(CompileBodies, NoBodyIsForgotten) {
  const auto all = body_variants(4);
  for (const auto& name : KernelFile::builtin_names()) {
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const BodyVariant& v) { return v.body == name; })) << name;
  }
}

#ifdef HEDDLE_TEST_VULKAN
TEST(CompileBodies, GlslToValidSpirv) {
  const bool validator = std::system("command -v spirv-val > /dev/null 2>&1") == 0;
  const auto path =
      std::filesystem::temp_directory_path() / ("heddle_compile_test_" + std::to_string(::getpid()) + ".spv");
  const auto all = body_variants(4);
  for (size_t i = 0; i < 3 * all.size(); ++i) {
    const BodyVariant& v = all[i / 3];
    SCOPED_TRACE(v.label());
    const PrintOptions options{.texel_loads = i % 3 > 0, .texel_images = i % 3 == 2};
    const auto words = compile_glsl(print(v.source(), Target::glsl, options), v.body);
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

#ifdef HEDDLE_TEST_VULKAN
// What devices without narrow storage and 64-bit integers compile: it is valid, and declares none of them.
TEST(CompileBodies, GlslOfWordsNeedsNoNarrowOrWideIntegers) {
  const bool validator = std::system("command -v spirv-val > /dev/null 2>&1") == 0;
  const auto path =
      std::filesystem::temp_directory_path() / ("heddle_words_test_" + std::to_string(::getpid()) + ".spv");
  const PrintOptions options{.words8 = true, .words16 = true, .words64 = true};
  std::vector<KernelSource> sources;
  for (const BodyVariant& v : body_variants(4)) {
    sources.push_back(v.source());
    const auto& buffers = sources.back().buffers;
    const bool plain = std::all_of(buffers.begin(), buffers.end(), [](const BufferParam& b) {
      return b.dtype == DType::f32 || b.dtype == DType::i32 || b.dtype == DType::f64;
    });
    if (plain) sources.pop_back();
  }
  KernelSource wide;
  wide.name = "wide";
  wide.buffers = {{"x", DType::i64, Access::read_write}, {"y", DType::bf16, Access::read_write}};
  wide.body =
      "I64 a = LOAD(x, 0u); I64 b = WIDEN(3) - LOAD(x, 1u) * I64(-5);\n"
      "STORE(x, 0u, MOD(a, b) + IDIV(max(a, -b), b) + (a << 3) + (b >> CAST(int, a)) + CAST(I64, 1.5f) + abs(b));\n"
      "STORE(y, 0u, a <= b || a == b ? CAST(float, a) : LOAD(y, 1u));\n";
  sources.push_back(wide);
  ASSERT_GT(sources.size(), 5u);
  for (const KernelSource& source : sources) {
    SCOPED_TRACE(source.name);
    const auto words = int64_by_words(compile_glsl(print(source, Target::glsl, options), source.name), source.name);
    for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
      // Int64, Int16, StorageBuffer16BitAccess, Int8, StorageBuffer8BitAccess.
      if ((words[at] & 0xffffu) == 17) {
        EXPECT_EQ(std::set<uint32_t>({11, 22, 4433, 39, 4448}).count(words[at + 1]), 0u) << words[at + 1];
      }
    }
    if (!validator) continue;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
    EXPECT_EQ(std::system(("spirv-val --target-env vulkan1.1 " + path.string()).c_str()), 0);
  }
  std::filesystem::remove(path);
  wide.body = "STORE(x, 0u, LOAD(x, 0u) / LOAD(x, 1u));";
  const auto division = compile_glsl(print(wide, Target::glsl, options), "wide");
  try {
    int64_by_words(division, "wide");
    ADD_FAILURE() << "divided";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("write IDIV or IMOD"), std::string::npos) << error.what();
  }
  if (!validator) GTEST_SKIP() << "compiled, but spirv-val (package spirv-tools) is not installed";
}
#endif

#ifdef HEDDLE_TEST_VULKAN
// Cooperative matrices, shuffles and integer dot products, which no driver here has or accelerates.
TEST(CompileBodies, OptionalGlslToValidSpirv) {
  const bool validator = std::system("command -v spirv-val > /dev/null 2>&1") == 0;
  const auto path =
      std::filesystem::temp_directory_path() / ("heddle_units_test_" + std::to_string(::getpid()) + ".spv");
  PrintOptions options{
      .f16_arithmetic = true, .subgroup_shuffle = true, .int8_dot = true, .matrix = MatrixApi::glsl_nv};
  std::vector<KernelSource> sources;
  for (const auto& v : unit_variants(32)) {
    const int64_t element = v.options.tunables.at("ELEMENT");
    if (element == 0 || element == 3) sources.push_back(v.source());
  }
  BodyVariant bytes{"matmul",
                    {{{"TA", DType::i8}, {"TB", DType::i8}, {"TC", DType::i32}, {"ACC", DType::i32}},
                     {{"SCHEDULE", 1}, {"INT8", 1}},
                     {},
                     {},
                     {},
                     {}}};
  sources.push_back(bytes.source());
  KernelSource sums;
  sums.name = "sums";
  sums.buffers = {{"y", DType::f32, Access::read_write}};
  sums.shared = {{"scratch", "float", 128}};
  sums.group = {128, 1, 1};
  sums.body =
      "float x = LOAD(y, LOCAL_ID(0));\nGROUP_SUM(x, scratch)\nfloat z = x;\nGROUP_MAX(z, scratch)\nSTORE(y, "
      "LOCAL_ID(0), x + z);\n";
  sources.push_back(sums);
  for (const auto& source : sources) {
    const auto words = compile_glsl(print(source, Target::glsl, options), source.name);
    ASSERT_GT(words.size(), 5u);
    if (!validator) continue;
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(words.data()), static_cast<std::streamsize>(words.size() * 4));
    EXPECT_EQ(std::system(("spirv-val --target-env vulkan1.1 " + path.string()).c_str()), 0) << source.name;
  }
  std::filesystem::remove(path);
  if (!validator) GTEST_SKIP() << "compiled, but spirv-val (package spirv-tools) is not installed";
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
  for (const auto& v : body_variants(8)) {
    SCOPED_TRACE(v.label());
    EXPECT_NO_THROW(locked.device.release(locked.device.compile(v.source())));
  }
#ifdef HEDDLE_HAS_OPENCL
  EXPECT_EQ(opencl_builds_with_whole_header(), 0) << "shaders/prelude.pocl lacks a function";
#endif
}

}  // namespace
}  // namespace heddle
