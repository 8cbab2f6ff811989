// Every body, in every schedule and with many types, compiles for every target; no device is needed for GLSL and CUDA.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/tiles/conv_tiles.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/kernels/hopper.h"
#ifdef HEDDLE_HAS_OPENCL
#include "heddle/backend_opencl/declarations.h"
#endif
#ifdef HEDDLE_TEST_VULKAN
#include "heddle/backend_vulkan/glsl_compiler.h"
#include "heddle/backend_vulkan/int64_words.h"
#endif
#ifdef HEDDLE_TEST_CUDA
#include "heddle/backend_cuda/nvrtc.h"
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

using TypesByName = std::map<std::string, DType, std::less<>>;

void add_matmul(std::vector<Variant>& all, int64_t vw) {
  const TypesByName f32, half = {{"TA", DType::f16}, {"TB", DType::bf16}, {"TC", DType::f16}};
  const Bindings unit = {{"A_K1", 1}, {"B_N1", 1}}, dots = {{"A_K1", 1}, {"B_K1", 1}}, none;
  const auto add = [&](Bindings tunables, const Bindings& strides, const TypesByName& types, bool hooks) {
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
  const TypesByName brains = {{"TA", DType::bf16}, {"TB", DType::bf16}, {"TC", DType::bf16}};
  for (const Bindings& lies : {unit, dots})
    add({{"SCHEDULE", 8}, {"MB", 2}, {"NB", 2}, {"KC", 64}}, lies, brains, lies == dots);
  const Bindings dot = {{"SCHEDULE", 4}, {"VW", vw}, {"MR", 2}, {"NR", 2}};
  add(dot, dots, f32, false);
  add(dot, dots, half, true);
  const Bindings tiles = {{"SCHEDULE", 1}, {"TM", 64}, {"TN", 64},      {"TK", 32}, {"RM", 4},
                          {"RN", 4},       {"RUN", 4}, {"PREFETCH", 1}, {"BAND", 8}};
  Bindings wide = tiles, bytes = tiles;
  wide["A_WIDE"] = wide["B_WIDE"] = 4;
  add(wide, unit, f32, true);
  Bindings quads = {{"SCHEDULE", 2}, {"VW", 4}, {"MR", 8}, {"NV", 2}, {"A_WIDE", 4}, {"B_WIDE", 4}};
  add(quads, unit, f32, false);
  add(quads, dots, f32, true);
  bytes["INT8"] = 1;
  bytes["A_WIDE"] = 16;
  add(bytes, unit, {{"TA", DType::i8}, {"TB", DType::i8}, {"TC", DType::i32}, {"ACC", DType::i32}}, false);
  for (const DType t : {DType::f64, DType::i32, DType::i64})
    add(schedules[0], none, {{"TA", t}, {"TB", t}, {"TC", t}, {"ACC", t}}, false);
}

void add_conv(std::vector<Variant>& all, int64_t vw) {
  const TypesByName half = {{"TX", DType::f16}, {"TW", DType::bf16}, {"TY", DType::f16}};
  for (const int64_t schedule : {0, 1, 2, 3, 4, 5, 6}) {
    Bindings forward = {{"SCHEDULE", schedule}, {"KH", 3}, {"KW", 3}, {"SW", 2}, {"DH", 2}};
    if (schedule == 5) forward["SW"] = forward["DH"] = 1;
    if (schedule == 6) {
      forward["KH"] = forward["KW"] = 1;
      forward["C_ALL"] = 20;
    }
    if (schedule == 2 || schedule >= 5) forward["VW"] = vw;
    Bindings gradient = forward, weights = forward;
    gradient["MODE"] = gradient["LAST"] = 1;
    if (schedule == 4) weights["VW"] = vw;
    if (schedule == 5) weights["NB"] = 4;
    for (const Bindings& t : {forward, gradient}) all.push_back({"conv", {half, t, {}, {}, {}, {}}});
    if (schedule < 6) all.push_back({"conv_weight_grad", {half, weights, {}, {}, {}, {}}});
  }
}

void add_attention(std::vector<Variant>& all, int64_t vw) {
  const TypesByName f32, half = {{"T", DType::f16}, {"TO", DType::f16}, {"TB", DType::bf16}};
  const Bindings every = {{"CAUSAL", 1}, {"BIAS", 1}, {"MASK", 1}, {"LENGTHS", 1}, {"DROPOUT", 1}};
  const auto add = [&](const char* body, Bindings tunables, const TypesByName& types) {
    if (types.empty()) {
      tunables["CAUSAL"] = 1;
    } else {
      tunables.insert(every.begin(), every.end());
    }
    Variant v{body, {}};
    v.options.tunables = tunables;
    v.options.types = types;
    if (types.empty()) v.options.dropped_buffers = {"bias", "mask", "lengths", "key"};
    all.push_back(v);
  };
  const Bindings tiles = {{"SCHEDULE", 1}, {"QB", 32}, {"KB", 16}, {"RM", 4}, {"RN", 2}};
  const Bindings vectors = {{"SCHEDULE", 2}, {"VW", vw}, {"NV", 2}, {"MR", 4}, {"KB", 16}, {"LANES", 1}};
  for (const TypesByName& types : {f32, half}) {
    for (const Bindings& s : {Bindings{{"SCHEDULE", 0}}, tiles, vectors, Bindings{{"SCHEDULE", 3}, {"VW", vw}}})
      add("attention", s, types);
    for (int64_t which = 0; which < 3; ++which) {
      for (Bindings s : {Bindings{{"SCHEDULE", 0}}, tiles, vectors}) {
        s["WHICH"] = which;
        if (which == 2) {
          s["REDUCE_B"] = types.empty();
          s["REDUCE_M"] = types.empty() && s["SCHEDULE"] != 1;
        }
        add("attention_backward", s, types);
      }
    }
  }
}

void add_rows(std::vector<Variant>& all) {
  for (const DType t : {DType::f32, DType::bf16, DType::i32, DType::i64, DType::f64}) {
    const TypesByName types = {{"T", t}}, scanned = {{"T", t}, {"TC", arith(t)}},
                      indexed = {{"T", t}, {"I", t == DType::i64 ? t : DType::i32}};
    for (const int64_t schedule : {0, 1}) {
      all.push_back({"sort_blocks", {types, {{"SCHEDULE", schedule}, {"DESCENDING", schedule}}, {}, {}, {}, {}}});
      all.push_back({"sort_merge", {types, {{"LANES", schedule ? 1 : 64}, {"DESCENDING", schedule}}, {}, {}, {}, {}}});
      all.push_back({"scan",
                     {scanned,
                      {{"SCHEDULE", schedule}, {"CARRY", 1}, {"EXCLUSIVE", schedule}, {"REVERSE", schedule}},
                      {},
                      {},
                      {},
                      {}}});
      all.push_back({"segment_add", {indexed, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
  }
  all.push_back({"scan", {{}, {{"SCHEDULE", 2}, {"CARRY", 1}}, {{"INIT", "1"}, {"COMBINE", "(p) * (q)"}}, {}, {}, {}}});
}

// The schedules of one lane have vectors of 16, which only OpenCL has: tests/conformance/fft_lines_test.cpp runs them.
void add_fft(std::vector<Variant>& all) {
  for (const int64_t n : {256, 4096})
    all.push_back({"fft", {{}, {{"N", n}, {"REAL_IN", n == 256}, {"REAL_OUT", n == 4096}}, {}, {}, {}, {}}});
  for (const Bindings& facts : {Bindings{{"CAP", 240}, {"LANES", 15}, {"SHARED_LINES", 4}, {"HALF", 1}},
                                Bindings{{"CAP", 240}, {"LANES", 15}, {"HALF", 2}, {"BACK", 1}},
                                Bindings{{"CAP", 154}, {"LANES", 10}, {"COLUMNS_IN", 1}, {"AFTER", 2}},
                                Bindings{{"CAP", 441}, {"LANES", 28}, {"REAL_IN", 1}, {"REAL_OUT", 1}, {"BEFORE", 1}}})
    all.push_back({"fft_lines", {{}, facts, {}, {}, {}, {}}});
}

void add_linalg(std::vector<Variant>& all) {
  for (const DType t : {DType::f32, DType::f64}) {
    for (const char* body : {"tridiagonal_sweeps", "bidiagonal_sweeps"})
      all.push_back({body, {{{"T", t}}, {}, {}, {}, {}, {}}});
    for (const int64_t schedule : {0, 1}) {
      const TypesByName types = {{"T", t}};
      for (int64_t form = 0; form < 8; ++form) {
        if (form % 3 == schedule || form == 7)
          all.push_back(
              {"triangular",
               {types,
                {{"SCHEDULE", schedule}, {"UPPER", form & 1}, {"TRANSPOSED", form >> 1 & 1}, {"UNIT", form >> 2}},
                {},
                {},
                {},
                {}}});
      }
      all.push_back({"rotate_rows", {types, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
      all.push_back({"blocks", {types, {{"SCHEDULE", schedule}, {"RIGHT", schedule + 1}}, {}, {}, {}, {}}});
      if (t == DType::f64 && schedule == 0) continue;  // shared arrays hold 32 bits
      all.push_back({"jacobi", {types, {{"SCHEDULE", schedule}, {"SYMMETRIC", t == DType::f32}}, {}, {}, {}, {}}});
      for (const char* body : {"cholesky", "lu", "qr", "tridiagonal", "bidiagonal"})
        all.push_back({body, {types, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
  }
}

std::vector<Variant> variants(int64_t vw) {
  std::vector<Variant> all;
  add_matmul(all, vw);
  add_conv(all, vw);
  add_attention(all, vw);
  add_rows(all);
  add_linalg(all);
  add_fft(all);
  for (const int64_t type : {2, 3, 8, 12, 14, 1000}) {
    all.push_back({"unpack_blocks", {{}, {{"BLOCKS", type}}, {}, {}, {}, {}}});
    for (const int64_t schedule : {0, 1})
      all.push_back(
          {"packed_matmul", {{}, {{"BLOCKS", type}, {"SCHEDULE", schedule}, {"MR", 2}, {"NR", 4}}, {}, {}, {}, {}}});
    const Bindings panels{{"BLOCKS", type}, {"SCHEDULE", 2}, {"MR", 2}, {"MB", 2}, {"NR", 32}, {"KS", 2}, {"VW", vw}};
    all.push_back({"packed_matmul", {{}, panels, {}, {}, {}, {}}});
    for (const int64_t schedule : {0, 1})
      all.push_back(
          {"packed_matmul_grad",
           {{}, {{"BLOCKS", type}, {"SCHEDULE", schedule}, {"MR", 2}, {"MB", 2}, {"NS", 2}}, {}, {}, {}, {}}});
  }
  for (const int64_t schedule : {0, 1}) {
    for (const DType t : {DType::f32, DType::f16})
      all.push_back({"reduce", {{{"T", t}, {"TO", t}}, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    for (const DType t : {DType::f32, DType::bf16, DType::f64, DType::i64}) {
      all.push_back({"scatter_add",
                     {{{"T", t}, {"I", t == DType::i64 ? t : DType::i32}}, {{"SCHEDULE", schedule}}, {}, {}, {}, {}}});
    }
    for (const DType t : {DType::f32, DType::f16, DType::u8, DType::boolean, DType::i64, DType::f64}) {
      all.push_back(
          {"copy_rows", {{{"T", t}, {"K", t == DType::i64 ? t : DType::i32}}, {{"WHOLE", schedule}}, {}, {}, {}, {}}});
      all.push_back({"copy", {{{"T", t}, {"TO", t}}, {{"LANES", schedule == 0 ? 64 : 1}}, {}, {}, {}, {}}});
    }
  }
  return all;
}

// Schedule 5 for each type, as it is laid out row by row and column by column.
std::vector<Variant> unit_variants(int64_t lanes) {
  std::vector<Variant> all;
  const DType types[] = {DType::f16, DType::bf16, DType::f32, DType::i8};
  for (int64_t element = 0; element < 4; ++element) {
    for (const bool transposed : {false, true}) {
      const DType t = types[element];
      const DType sums = element == 3 ? DType::i32 : DType::f32;
      const int64_t wide = 16 / static_cast<int64_t>(size_of(t));
      Variant v{"matmul", {}};
      v.options.types = {{"TA", t}, {"TB", t}, {"TC", sums}, {"ACC", sums}};
      v.options.tunables = {{"SCHEDULE", 5},  {"ELEMENT", element}, {"UNIT_LANES", lanes},
                            {"TM", 64},       {"TN", 64},           {"TK", element == 3 ? 64 : 32},
                            {"WM", 32},       {"WN", 32},           {"STAGES", transposed ? 3 : 1},
                            {"A_WIDE", wide}, {"B_WIDE", wide},     {"BAND", 8}};
      for (const char* fact : transposed ? std::array{"A_M1", "B_K1"} : std::array{"A_K1", "B_N1"})
        v.options.tunables[fact] = 1;
      if (transposed && element != 3) v.options.hooks = {{"PROLOGUE_A", "max(x, 0.0f)"}};
      all.push_back(v);
    }
  }
  return all;
}

// What is picked on a large NVIDIA GPU: convolutions, then products, large, medium and small.
[[maybe_unused]] std::vector<Variant> conv_defaults() {  // without NVRTC nobody asks
  std::vector<Variant> all;
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
        Variant v{weights ? "conv_weight_grad" : "conv", {}};
        v.options.tunables = weights ? pick_conv_weight_grad(hopper(), p) : pick_conv(hopper(), p);
        all.push_back(v);
      }
    }
  }
  return all;
}

[[maybe_unused]] std::vector<Variant> matmul_defaults() {
  const Caps caps = hopper();
  std::vector<Variant> all;
  for (const DType t : {DType::f32, DType::f16, DType::bf16, DType::i8}) {
    for (const int64_t size : {8192, 1024, 100}) {
      for (const bool tf32 : {false, true}) {
        if (tf32 && t != DType::f32) continue;
        MatmulProblem p{size, size, size, 1, false, true, false, true};
        p.a = p.b = p.a_value = p.b_value = t;
        p.a_wide = p.b_wide = 16 / static_cast<int64_t>(size_of(t));
        p.tf32 = tf32;
        const DType sums = t == DType::i8 ? DType::i32 : DType::f32;
        Variant v{"matmul", {}};
        v.options.types = {{"TA", t}, {"TB", t}, {"TC", sums}, {"ACC", sums}};
        v.options.tunables = pick_matmul(caps, p);
        all.push_back(v);
      }
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
  const auto all = variants(4);
  for (size_t i = 0; i < 3 * all.size(); ++i) {
    const Variant& v = all[i / 3];
    SCOPED_TRACE(v.label());
    const PrintOptions options{.texel_loads = i % 3 > 0, .texel_images = i % 3 == 2};
    const auto words = compile_glsl(print(source_of(v), Target::glsl, options), v.body);
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
  for (const Variant& v : variants(4)) {
    sources.push_back(source_of(v));
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
    if (element == 0 || element == 3) sources.push_back(source_of(v));
  }
  Variant bytes{"matmul",
                {{{"TA", DType::i8}, {"TB", DType::i8}, {"TC", DType::i32}, {"ACC", DType::i32}},
                 {{"SCHEDULE", 1}, {"INT8", 1}},
                 {},
                 {},
                 {},
                 {}}};
  sources.push_back(source_of(bytes));
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

#ifdef HEDDLE_TEST_CUDA
// For each capability what asks for it, the rest for the oldest alone: a text that asks for none is the same to NVRTC.
TEST(CompileBodies, CudaToPtx) {
  std::string reason;
  if (!cuda::have_nvrtc(&reason)) GTEST_SKIP() << reason;
  for (const auto& v : variants(4)) {
    SCOPED_TRACE(v.label());
    const std::string text = print(source_of(v), Target::cuda);
    const bool asks = text.find("__CUDA_ARCH") != std::string::npos;
    for (const int sm : asks ? std::vector<int>{75, 80, 90} : std::vector<int>{75}) {
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
  std::vector<Variant> all;
  for (const auto& v : variants(4)) {
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
    const cuda::KernelResources r = cuda::kernel_resources(print(source_of(v), Target::cuda), v.body, 90);
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
    const std::string text = print(source_of(v), Target::cuda);
    for (const int sm : {80, 90}) {
      const std::string ptx = cuda::compile_ptx(text, v.body, sm);
      EXPECT_NE(ptx.find("mma.sync.aligned"), std::string::npos);
      EXPECT_NE(ptx.find("ldmatrix.sync.aligned"), std::string::npos);
      const cuda::KernelResources r = cuda::kernel_resources(text, v.body, sm);
      EXPECT_EQ(r.spill_stores + r.spill_loads + r.stack_bytes, 0) << sm;
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
#ifdef HEDDLE_HAS_OPENCL
  EXPECT_EQ(opencl_builds_with_whole_header(), 0) << "shaders/prelude.pocl lacks a function";
#endif
}

}  // namespace
}  // namespace heddle
