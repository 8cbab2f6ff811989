// The same kernel in the languages of the devices, at sizes around those of a group.
#include <heddle/checks/kernel_test.h>

#include "sums_case.h"

namespace {

class SumsEverywhere : public heddle::KernelTest {
 protected:
  void check(const std::string& file) {
    const heddle::KernelText kernel = sums_case::load(file);
    if (!takes(kernel)) GTEST_SKIP() << GetParam() << " does not take " << heddle::name_of(kernel.language);
    for (const size_t n : {1, 63, 64, 65, 1000}) {
      EXPECT_EQ(run(kernel, sums_case::of(n)).arrays.at("y").values(), sums_case::expected(n)) << n << " elements";
    }
  }
};
HEDDLE_ON_DEVICES(SumsEverywhere);

TEST_P(SumsEverywhere, Glsl) { check(KERNEL_DIR "/sums.comp"); }
TEST_P(SumsEverywhere, OpenClC) { check(KERNEL_DIR "/sums.cl"); }
TEST_P(SumsEverywhere, Cuda) { check(KERNEL_DIR "/sums.cu"); }
#ifdef SPIRV_FILE
TEST_P(SumsEverywhere, Spirv) { check(SPIRV_FILE); }
#endif

// A second array of another length is no matter of the kernel's author: the harness checks what a file declares.
TEST_P(SumsEverywhere, ArraysMustFit) {
  heddle::KernelRun r = sums_case::of(65);
  r.arrays["y"] = heddle::KernelArray::zeros(heddle::DType::f32, 1);
  EXPECT_THROW(run(heddle::KernelFile::load(KERNEL_DIR "/sums.hk"), {}, r), heddle::ValueError);
}

}  // namespace
