// Kernels in the languages of the devices (core/dialect/kernel_text.h): values, guards, and what is refused. Each
// language at all sizes, and on the executor of PTX: examples/kernel_test, by the group `consumer`.
#include "heddle/core/dialect/kernel_text.h"

#include <fstream>

#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

class KernelTextTest : public KernelTest {
 protected:
  // y = 2 x + shift, three elements.
  static KernelText twice(KernelText::Language language) {
    KernelText k;
    k.language = language;
    k.name = "twice";
    k.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
    k.constants = {{"shift", ConstParam::Type::f32}, {"at", ConstParam::Type::i32}};
    if (language == KernelText::Language::glsl) {
      k.text = R"(#version 450
layout(local_size_x = 1) in;
layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform C { float shift; int at; };
void main() { y[int(gl_WorkGroupID.x) + at] = 2.0 * x[gl_WorkGroupID.x] + shift; }
)";
    } else if (language == KernelText::Language::opencl_c) {
      k.text = R"(__kernel void twice(__global const float* x, __global float* y, float shift, int at) {
  y[(int)get_group_id(0) + at] = 2.0f * x[get_group_id(0)] + shift;
}
)";
    } else {
      k.text = R"(extern "C" __global__ void twice(const float* x, float* y, float shift, int at) {
  y[(int)blockIdx.x + at] = 2.0f * x[blockIdx.x] + shift;
}
)";
    }
    return k;
  }
  KernelText own() const {
    return twice(on_opencl()                     ? KernelText::Language::opencl_c
                 : caps().target == Target::cuda ? KernelText::Language::cuda
                                                 : KernelText::Language::glsl);
  }
  static KernelRun arguments(int at) {
    KernelRun r;
    r.arrays["x"] = KernelArray::of(DType::f32, {1, 2, 3});
    r.arrays["y"] = KernelArray::of(DType::f32, {7, 7, 7});
    r.constants = {{"shift", 0.5}, {"at", at}};
    r.groups = {3, 1, 1};
    return r;
  }
  KernelOutcome run_text(const KernelText& k, const KernelRun& r) {
    return locked([&](Device& device) { return run_kernel(device, k, r); });
  }
  std::string error(const KernelText& k, const KernelRun& r) {
    try {
      run_text(k, r);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  }
};
HEDDLE_ON_DEVICES(KernelTextTest);

TEST_P(KernelTextTest, Values) {
  const std::vector<double> expected = {2.5, 4.5, 6.5};
  KernelRun r = arguments(0);
  EXPECT_EQ(run_text(own(), r).arrays.at("y").values(), expected);
  r.timed = 2;
  EXPECT_EQ(run_text(own(), r).arrays.at("y").values(), expected);
  r.guards = false;
  EXPECT_EQ(run_text(own(), r).arrays.at("y").values(), expected);
}

TEST_P(KernelTextTest, FindsWritesOutside) {
  EXPECT_EQ(error(own(), arguments(1)), "[kernel twice] wrote 1 bytes behind the end of 'y'");
  // OpenCL's buffers begin where the allocation does, and a shader's index of -1 lies far behind the end, where drivers
  // may drop it.
  if (caps().target == Target::cuda) {
    EXPECT_EQ(error(own(), arguments(-1)), "[kernel twice] wrote 1 bytes before the start of 'y'");
  }
}

TEST_P(KernelTextTest, CompileErrorsNameTheKernel) {
  KernelText k = own();
  const size_t at = k.text.find("2.0");
  k.text.replace(at, 3, "nothing");
  const std::string found = error(k, arguments(0));
  EXPECT_NE(found.find("compile"), std::string::npos) << found;
  EXPECT_NE(found.find("twice"), std::string::npos) << found;
  EXPECT_NE(found.find("nothing"), std::string::npos) << found;
}

TEST_P(KernelTextTest, OtherLanguagesAreRefused) {
  const KernelText other = twice(on_opencl() ? KernelText::Language::glsl : KernelText::Language::opencl_c);
  const std::string found = error(other, arguments(0));
  EXPECT_NE(found.find(on_opencl() ? "[kernel twice] it is GLSL, and this device takes kernels in "
                                   : "[kernel twice] it is OpenCL C, and this device takes kernels in "),
            std::string::npos)
      << found;
}

TEST_P(KernelTextTest, TheFunctionsNameIsChecked) {
  KernelText k = own();
  if (k.language == KernelText::Language::glsl) GTEST_SKIP() << "a shader's function is main";
  k.name = "not a name";
  EXPECT_NE(error(k, arguments(0)).find("the name must be that of its function"), std::string::npos);
  // A name that no function has is the compiler's, or the driver's, to refuse.
  k.name = "thrice";
  EXPECT_NE(error(k, arguments(0)), "none");
}

// The shader says how many lanes a group has; a description that differs would launch something else than was meant.
TEST_P(KernelTextTest, ShadersAreLookedInto) {
  KernelText k = own();
  if (k.language != KernelText::Language::glsl) GTEST_SKIP() << "not a shader";
  k.group = {4, 1, 1};
  EXPECT_EQ(error(k, arguments(0)), "[kernel twice] its group is 4x1x1, the shader's local size 1x1x1");

  KernelText spirv = twice(KernelText::Language::glsl);
  spirv.language = KernelText::Language::spirv;
  EXPECT_NE(error(spirv, arguments(0)).find("is not the SPIR-V that it says it is"), std::string::npos);
  // Header, OpCapability Kernel, OpCapability Addresses.
  const uint32_t opencl[] = {0x07230203, 0x00010000, 0, 1, 0, 2u << 16 | 17, 6, 2u << 16 | 17, 4};
  spirv.text.assign(reinterpret_cast<const char*>(opencl), sizeof opencl);
  EXPECT_NE(error(spirv, arguments(0)).find("this SPIR-V is OpenCL's"), std::string::npos);
  // An instruction that is longer than the module, and one of no length.
  for (const uint32_t word : {9u << 16 | 17, 0u}) {
    const uint32_t cut[] = {0x07230203, 0x00010000, 0, 1, 0, word};
    spirv.text.assign(reinterpret_cast<const char*>(cut), sizeof cut);
    EXPECT_NO_THROW(compile_text(spirv, caps()));
  }
}

TEST(KernelText, FilesSayTheirLanguage) {
  const std::string folder = testing::TempDir();
  const std::pair<const char*, KernelText::Language> files[] = {{"a.comp", KernelText::Language::glsl},
                                                                {"a.glsl", KernelText::Language::glsl},
                                                                {"a.spv", KernelText::Language::spirv},
                                                                {"a.cl", KernelText::Language::opencl_c},
                                                                {"a.cu", KernelText::Language::cuda}};
  for (const auto& [name, language] : files) {
    std::ofstream(folder + name) << "text of " << name;
    const KernelText k = KernelText::load(folder + name);
    EXPECT_EQ(k.language, language) << name;
    EXPECT_EQ(k.name, "a");
    EXPECT_EQ(k.text, std::string("text of ") + name);
  }
  EXPECT_THROW(KernelText::load(folder + "a.hk"), ValueError);
  EXPECT_THROW(KernelText::load(folder + "absent.cl"), IoError);
}

}  // namespace
}  // namespace heddle::test
