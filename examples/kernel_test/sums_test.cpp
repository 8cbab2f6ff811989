#include <heddle/checks/kernel_test.h>

using namespace heddle;
class Sums : public KernelTest {};
HEDDLE_ON_DEVICES(Sums);

TEST_P(Sums, OfTwoGroups) {
  KernelRun r{.arrays = {{"x", KernelArray::of(DType::f32, std::vector<double>(100, 0.5))},
                         {"y", KernelArray::zeros(DType::f32, 2)}},
              .constants = {{"N", 100}}};
  const KernelOutcome o = run(KernelFile::load(KERNEL_DIR "/sums.hk"), {}, r);
  EXPECT_EQ(o.arrays.at("y").values(), (std::vector<double>{32, 18}));
}
