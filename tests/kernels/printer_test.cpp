// The printer: what stands in the text of each target, and what is refused.
#include "heddle/core/dialect/printer.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/prelude.h"

namespace heddle {
namespace {

const Target targets[] = {Target::glsl, Target::opencl, Target::cuda};

KernelSource sample() {
  KernelSource s;
  s.name = "sample";
  s.buffers = {
      {"x", DType::f32, Access::read}, {"h", DType::f16, Access::read_write, true}, {"out", DType::u8, Access::write}};
  s.constants = {{"N", ConstParam::Type::u32}, {"off", ConstParam::Type::i32}, {"scale", ConstParam::Type::f32}};
  s.shared = {{"tile", "float", 64}, {"nothing", "int", 0}};
  s.group = {32, 2, 1};
  s.defines = {{"TM", "64"}, {"HOOK(v, w)", "{\n  v = w; // first\n  w = v;\n}\n"}};
  s.body = "BARRIER();\nSTORE(h, 0u, LOAD(x, 0u));\n";
  s.origin = "shaders/sample.hk";
  s.first_line = 17;
  return s;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(PrinterTest, Glsl) {
  const std::string t = print(sample(), Target::glsl);
  EXPECT_EQ(t.substr(0, 13), "#version 450\n");
  EXPECT_TRUE(has(t, "layout(local_size_x = 32, local_size_y = 2, local_size_z = 1) in;"));
  EXPECT_TRUE(has(t, "layout(std430, set = 0, binding = 0) readonly restrict buffer HK_Block0 { float hk_x[]; };"))
      << t;
  EXPECT_TRUE(has(t, "layout(std430, set = 0, binding = 1) buffer HK_Block1 { uint16_t hk_h[]; };"));
  EXPECT_TRUE(has(t, "layout(push_constant) uniform HK_Constants {\n  uint N;\n  int off;\n  float scale;\n};"));
  EXPECT_TRUE(has(t, "shared float tile[64];"));
  EXPECT_FALSE(has(t, "nothing"));
  EXPECT_TRUE(has(t, "#line 17 \"shaders/sample.hk\"\nBARRIER();"));
}

TEST(PrinterTest, OpenCl) {
  const std::string t = print(sample(), Target::opencl);
  EXPECT_TRUE(has(t,
                  "__attribute__((reqd_work_group_size(32, 2, 1))) void heddle_kernel(\n    __global const float* "
                  "restrict hk_base_x,\n    ulong hk_offset_x,"
                  "\n    __global half* hk_base_h,\n    ulong hk_offset_h,"))
      << t;
  EXPECT_TRUE(has(t, "const uint N,\n    const int off,\n    const float scale)"));
  EXPECT_TRUE(has(t, "__local float tile[64] __attribute__((aligned(16)));"));
  EXPECT_TRUE(has(t, "#line 17 \"shaders/sample.hk\"\nBARRIER();"));
}

// Of all kernels only those whose lanes hold many values, and only in OpenCL C.
TEST(PrinterTest, SubgroupsOfManyValues) {
  KernelSource many = sample();
  many.defines.emplace_back(many_values_define, "1");
  KernelSource few = sample();
  few.defines.emplace_back(many_values_define, "0");
  const PrintOptions narrow{.subgroup_lanes = 16};
  const char* attribute = "intel_reqd_sub_group_size";
  EXPECT_TRUE(
      has(print(many, Target::opencl, narrow),
          "reqd_work_group_size(32, 2, 1))) __attribute__((intel_reqd_sub_group_size(16))) void heddle_kernel"));
  EXPECT_FALSE(has(print(few, Target::opencl, narrow), attribute));
  EXPECT_FALSE(has(print(sample(), Target::opencl, narrow), attribute));
  EXPECT_FALSE(has(print(many, Target::opencl), attribute));
  EXPECT_FALSE(has(print(many, Target::cuda, narrow), attribute));
}

// Intel's GPUs whose narrowest subgroup has 16 lanes; no CPU, and no other vendor's.
TEST(PrinterTest, SubgroupLanesOfADevice) {
  Caps caps;
  caps.target = Target::opencl;
  caps.device_class = DeviceClass::discrete_gpu;
  caps.vendor_id = 0x8086;
  caps.subgroup_size = 16;
  EXPECT_EQ(print_options(caps).subgroup_lanes, 16u);
  const auto changed = [&](auto&& change) {
    Caps other = caps;
    change(other);
    return print_options(other).subgroup_lanes;
  };
  EXPECT_EQ(changed([](Caps& c) { c.subgroup_size = 8; }), 0u);
  EXPECT_EQ(changed([](Caps& c) { c.vendor_id = 0x1002; }), 0u);
  EXPECT_EQ(changed([](Caps& c) { c.device_class = DeviceClass::cpu; }), 0u);
  EXPECT_EQ(changed([](Caps& c) { c.target = Target::glsl; }), 0u);
}

TEST(PrinterTest, Cuda) {
  const std::string t = print(sample(), Target::cuda);
  EXPECT_TRUE(has(
      t,
      "extern \"C\" __global__ void __launch_bounds__(64 HK_RESIDENT) heddle_kernel(\n    const float* __restrict__ "
      "hk_x,\n    unsigned short* hk_h,"))
      << t;
  EXPECT_TRUE(has(t, "__shared__ __align__(16) float tile[64];"));
  EXPECT_TRUE(has(t, "#line 17 \"shaders/sample.hk\"\nBARRIER();"));
  KernelSource two = sample();
  two.defines.emplace_back("RESIDENT", "2");
  EXPECT_TRUE(has(print(two, Target::cuda), "__launch_bounds__(64, 2) heddle_kernel("));
}

TEST(PrinterTest, IsAFunctionOfTheSource) {
  for (const Target target : targets) EXPECT_EQ(print(sample(), target), print(sample(), target));
}

// One logical line; line comments are gone, since they would swallow what follows.
TEST(PrinterTest, DefinesOfSeveralLines) {
  for (const Target target : targets) {
    EXPECT_TRUE(has(print(sample(), target), "#define HOOK(v, w) { \\\n  v = w;  \\\n  w = v; \\\n}\n"))
        << print(sample(), target);
  }
}

// A device without doubles compiles it for other types.
TEST(PrinterTest, WhatIsForKernelsOfF64IsNoUseOfIt) {
  KernelSource s = sample();
  s.body = "#ifdef T_f64\n#define LEAST F64(1.0e-280)\n#else\n#define LEAST 1.0e-26f\n#endif\nSTORE(h, 0u, LEAST);\n";
  for (const Target target : targets) {
    for (const bool wide : {false, true}) {
      KernelSource typed = s;
      typed.defines.emplace_back(wide ? "T_f64" : "T_f32", "1");
      EXPECT_EQ(has(print(typed, target), "#define HK_HAS_F64"), wide);
      typed.defines.emplace_back("ACC", "F64");
      EXPECT_TRUE(has(print(typed, target), "#define HK_HAS_F64"));
    }
  }
}

TEST(PrinterTest, TakesOnlyWhatIsUsed) {
  KernelSource s = sample();
  for (const Target target : targets) {
    const std::string t = print(s, target);
    for (const char* part :
         {"hk_exp", "hk_log", "hk_isnan", "#define HK_HAS_F64", "#define HK_HAS_I64", "hk_to_bf16", "MULHI"})
      EXPECT_FALSE(has(t, part)) << part;
  }
  s.body = "float v = tanh(LOAD(x, 0u));\nSTORE(h, 0u, v);\n";
  for (const Target target : {Target::glsl, Target::opencl}) {
    const std::string t = print(s, target);
    EXPECT_TRUE(has(t, "hk_tanh"));
    EXPECT_TRUE(has(t, "hk_expm1")) << "tanh stands on expm1";
    EXPECT_FALSE(has(t, "hk_erf"));
  }
  s.buffers.push_back({"d", DType::f64, Access::read});
  s.buffers.push_back({"l", DType::i64, Access::read});
  for (const Target target : targets) {
    const std::string t = print(s, target);
    EXPECT_TRUE(has(t, "#define HK_HAS_F64 1") && has(t, "#define HK_HAS_I64 1"));
  }
}

TEST(PrinterTest, WideLiteralsOfGlsl) {
  EXPECT_EQ(glsl_literals("F64(0.1) + F64(-1e-300) * F64(2) - F64(x) + I64(-5) + MYF64(0.1) + F64(.5)"),
            "F64(0.1lf) + F64(-1e-300lf) * F64(2.0lf) - F64(x) + I64(-5l) + MYF64(0.1) + F64(.5lf)");
  EXPECT_EQ(glsl_literals("F64("), "F64(");
  EXPECT_EQ(glsl_literals("F64(0.1"), "F64(0.1");
  EXPECT_EQ(glsl_literals("F64(1.0 + x)"), "F64(1.0 + x)");
  EXPECT_EQ(glsl_literals(""), "");
}

TEST(PrinterTest, Refuses) {
  EXPECT_THROW(print(sample(), Target::none), ValueError);
  KernelSource s = sample();
  s.constants.assign(33, {"c", ConstParam::Type::u32});
  EXPECT_THROW(print(s, Target::glsl), ValueError);
  for (const char* name : {"", "3x", "a b", "a__b", "gl_x", "x-y"}) {
    s = sample();
    s.buffers[0].name = name;
    EXPECT_THROW(print(s, Target::opencl), ValueError) << name;
    s = sample();
    s.constants[0].name = name;
    EXPECT_THROW(print(s, Target::opencl), ValueError) << name;
  }
  s = sample();
  s.shared[0].type = "double";
  EXPECT_THROW(print(s, Target::cuda), ValueError);
  s = sample();
  s.group[1] = 0;
  EXPECT_THROW(print(s, Target::cuda), ValueError);
}

// Whatever changes the code changes the hash; what only changes messages does not.
TEST(KernelSourceTest, Hash) {
  const uint64_t original = sample().hash();
  EXPECT_EQ(sample().hash(), original);
  const auto changed = [&](auto change) {
    KernelSource s = sample();
    change(s);
    return s.hash() != original;
  };
  using S = KernelSource;
  EXPECT_TRUE(changed([](S& s) { s.buffers[0].name = "y"; }));
  EXPECT_TRUE(changed([](S& s) { s.buffers[0].dtype = DType::f16; }));
  EXPECT_TRUE(changed([](S& s) { s.buffers[0].access = Access::read_write; }));
  EXPECT_TRUE(changed([](S& s) { s.buffers[0].may_alias = true; }));
  EXPECT_TRUE(changed([](S& s) { s.buffers.pop_back(); }));
  EXPECT_TRUE(changed([](S& s) { s.constants[0].name = "M"; }));
  EXPECT_TRUE(changed([](S& s) { s.constants[0].type = ConstParam::Type::i32; }));
  EXPECT_TRUE(changed([](S& s) { s.shared[0].count = 65; }));
  EXPECT_TRUE(changed([](S& s) { s.shared[0].type = "int"; }));
  EXPECT_TRUE(changed([](S& s) { s.group = {2, 32, 1}; }));
  EXPECT_TRUE(changed([](S& s) { s.defines[0].second = "65"; }));
  EXPECT_TRUE(changed([](S& s) { s.defines[0] = {"T", "M64"}; }));
  EXPECT_TRUE(changed([](S& s) { s.body += " "; }));
  EXPECT_TRUE(changed([](S& s) { s.helpers = "#define A"; }));
  EXPECT_FALSE(changed([](S& s) { s.name = "other"; }));
  EXPECT_FALSE(changed([](S& s) { s.origin = "elsewhere"; }));
  EXPECT_FALSE(changed([](S& s) { s.first_line = 99; }));
}

TEST(KernelSourceTest, PrintsItself) {
  const std::string t = sample().str();
  EXPECT_TRUE(has(t, "kernel sample"));
  EXPECT_TRUE(has(t, "inout f16 h (may alias)"));
  EXPECT_TRUE(has(t, "const float scale"));
  EXPECT_TRUE(has(t, "group 32 2 1"));
  EXPECT_TRUE(has(t, "shaders/sample.hk:17"));
}

}  // namespace
}  // namespace heddle
