// NVRTC on a machine without a GPU: printed kernels become PTX, mistakes become CompileErrors with the log.
#ifdef HEDDLE_HAS_CUDA

#include "heddle/backend_cuda/nvrtc.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"
#include "heddle/core/dialect/printer.h"

namespace heddle {
namespace {

KernelSource add_source() {
  KernelSource source;
  source.name = "add";
  source.buffers = {
      {"a", DType::f32, Access::read}, {"b", DType::bf16, Access::read}, {"y", DType::f16, Access::write}};
  source.constants = {{"n", ConstParam::Type::u32}, {"scale", ConstParam::Type::f32}};
  source.shared = {{"tile", "float", 64}};
  source.group = {64, 1, 1};
  source.body =
      "uint i = GROUP_ID(0) * 64u + LOCAL_ID(0);\n"
      "tile[LOCAL_ID(0)] = i < n ? LOAD(a, i) : 0.0f;\n"
      "BARRIER();\n"
      "if (i < n) { STORE(y, i, scale * tile[LOCAL_ID(0)] + LOAD(b, i)); }\n";
  return source;
}

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    std::string absent;
    if (!cuda::have_nvrtc(&absent)) GTEST_SKIP() << absent;
  }
};

TEST_F(Nvrtc, CompilesAPrintedKernelToPtx) {
  std::string text = print(add_source(), Target::cuda);
  for (int sm : {75, 80, 90}) {
    std::string ptx = cuda::compile_ptx(text, "add", sm);
    EXPECT_NE(ptx.find(".visible .entry heddle_kernel("), std::string::npos) << ptx.substr(0, 400);
    EXPECT_NE(ptx.find(".target sm_" + std::to_string(sm)), std::string::npos) << ptx.substr(0, 400);
    EXPECT_EQ(ptx.find('\0'), std::string::npos);
    // Three pointers, then two constants: what CudaDevice passes.
    size_t parameters = 0;
    for (size_t at = ptx.find("heddle_kernel_param_"); at < ptx.find(')');
         at = ptx.find("heddle_kernel_param_", at + 1))
      ++parameters;
    EXPECT_EQ(parameters, 5u);
  }
}

TEST_F(Nvrtc, MakesMachineCodeWhereItKnowsTheDevice) {
  std::string text = print(add_source(), Target::cuda);
  std::string code = cuda::compile_module(text, "add", 90);
  EXPECT_EQ(code.substr(1, 3), "ELF");
  // A device newer than this NVRTC gets PTX, which its driver translates.
  std::string newer = cuda::compile_module(text, "add", 999);
  EXPECT_NE(newer.find(".entry heddle_kernel"), std::string::npos);
  try {
    cuda::compile_module(text, "add", 10);
    FAIL() << "sm_10 accepted";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("sm_10"), std::string::npos) << error.what();
  }
}

TEST_F(Nvrtc, ErrorsCarryTheLog) {
  KernelSource source = add_source();
  source.body = "STORE(y, 0u, no_such_name);\n";
  try {
    cuda::compile_ptx(print(source, Target::cuda), "broken", 80);
    FAIL() << "compiled";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("broken"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("no_such_name"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "what() is one line";
    EXPECT_NE(error.log().find("no_such_name"), std::string::npos) << error.log();
  }
  EXPECT_THROW(cuda::compile_ptx("", "x", 12345), CompileError) << "an unknown architecture";
}

TEST_F(Nvrtc, SaysItsVersion) {
  std::string version = cuda::nvrtc_version();
  EXPECT_NE(version.find('.'), std::string::npos);
  EXPECT_GE(std::stoi(version), 11);
}

}  // namespace
}  // namespace heddle

#endif
