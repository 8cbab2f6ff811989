// Mistakes planted into the kernel, one at a time: what the harness finds on a device, and the executor of PTX.
#include <heddle/checks/kernel_test.h>

#include <fstream>
#include <iterator>

#include "sums_case.h"

namespace {

using namespace heddle;

class Planted : public KernelTest {
 protected:
  // sums.hk with one stretch of its text replaced.
  static KernelFile with(const std::string& text, const std::string& instead) {
    std::ifstream in(KERNEL_DIR "/sums.hk");
    std::string all{std::istreambuf_iterator<char>(in), {}};
    const size_t at = all.find(text);
    EXPECT_NE(at, std::string::npos) << text;
    return KernelFile::parse(all.replace(at, text.size(), instead), "sums.hk");
  }
  std::string error(const KernelFile& kernel) {
    try {
      run(kernel, {}, sums_case::of(100));
    } catch (const DeviceError& e) {
      return e.what();
    }
    return "none";
  }
};
HEDDLE_ON_DEVICES(Planted);

TEST_P(Planted, WriteBehindTheEnd) {
  const std::string found = error(with("STORE(y, GROUP_ID(0)", "STORE(y, GROUP_ID(0) + 1u"));
  EXPECT_NE(found.find(on_executor() ? "out of bounds" : "wrote 1 bytes behind the end of 'y'"), std::string::npos)
      << found;
}

// What follows may go unnoticed on a device: values depend on what lies behind, and on which lane is first.
TEST_P(Planted, ReadBehindTheEnd) {
  if (!on_executor()) GTEST_SKIP() << "only the executor sees reads";
  const std::string found = error(with("at < N ? LOAD(x, at) : 0.0f", "LOAD(x, at)"));
  EXPECT_NE(found.find("out of bounds"), std::string::npos) << found;
  EXPECT_NE(found.find("sums.hk"), std::string::npos) << found;
}

TEST_P(Planted, MissingBarrier) {
  if (!on_executor()) GTEST_SKIP() << "only the executor sees races";
  const std::string found = error(with("BARRIER();", ""));
  EXPECT_NE(found.find("race"), std::string::npos) << found;
}

TEST_P(Planted, BarrierThatNotAllLanesReach) {
  if (!on_executor()) GTEST_SKIP() << "a device may hang";
  const std::string found = error(with("BARRIER();", "if (lane < 40u) { BARRIER(); }"));
  EXPECT_NE(found.find("barrier"), std::string::npos) << found;
}

TEST_P(Planted, SharedMemoryThatNobodyWrote) {
  if (!on_executor()) GTEST_SKIP() << "only the executor sees what nobody wrote";
  const std::string found = error(with("part[lane] = at", "if (lane != 5u) part[lane] = at"));
  EXPECT_NE(found.find("nobody wrote"), std::string::npos) << found;
}

}  // namespace
