// The same kernel in the languages of the devices, at sizes around those of a group; and mistakes planted into it, one
// at a time: what the harness finds on a device, and the executor of PTX.
#include <heddle/checks/kernel_test.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

using namespace heddle;

// What no file of a kernel says, but for a .hk: its parameters and lanes.
KernelText load(const std::string& file) {
  KernelText kernel = KernelText::load(file);
  kernel.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
  kernel.constants = {{"N", ConstParam::Type::u32}};
  kernel.group = {64, 1, 1};
  return kernel;
}

size_t groups(size_t n) { return (n + 63) / 64; }

// x = 0, 1, 2, ...
KernelRun arguments(size_t n) {
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<double>(i);
  KernelRun r;
  r.arrays = {{"x", KernelArray::of(DType::f32, x)}, {"y", KernelArray::zeros(DType::f32, groups(n))}};
  r.constants = {{"N", static_cast<double>(n)}};
  r.groups = {static_cast<uint32_t>(groups(n)), 1, 1};
  return r;
}

std::vector<double> expected(size_t n) {
  std::vector<double> y(groups(n));
  for (size_t i = 0; i < n; ++i) y[i / 64] += static_cast<double>(i);
  return y;
}

// ---- every language ----

class SumsEverywhere : public KernelTest {
 protected:
  void check(const std::string& file) {
    const KernelText kernel = load(file);
    if (!takes(kernel)) GTEST_SKIP() << GetParam() << " does not take " << name_of(kernel.language);
    for (const size_t n : {1, 63, 64, 65, 1000}) {
      EXPECT_EQ(run(kernel, arguments(n)).arrays.at("y").values(), expected(n)) << n << " elements";
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

// Arrays that end before what the launch touches are refused, by the `bounds` lines of the file.
TEST_P(SumsEverywhere, ArraysMustFit) {
  KernelRun r = arguments(65);
  r.arrays["y"] = KernelArray::zeros(DType::f32, 1);
  EXPECT_THROW(run(KernelFile::load(KERNEL_DIR "/sums.hk"), {}, r), ValueError);
}

// ---- planted mistakes ----

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
      run(kernel, {}, arguments(100));
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
