// The harness itself: guard bytes, checks of the call, device time.
#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

class HarnessTest : public KernelTest {
 protected:
  static KernelSource source(const std::string& body) {
    KernelSource s;
    s.name = "k";
    s.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
    s.constants = {{"N", ConstParam::Type::u32}, {"shift", ConstParam::Type::i32}};
    s.body = body;
    return s;
  }
  static KernelRun arguments() {
    KernelRun r;
    r.arrays["x"] = KernelArray::of(DType::f32, {1, 2, 3});
    r.arrays["y"] = KernelArray::of(DType::f32, {7, 7, 7});
    r.constants = {{"N", 3}, {"shift", 0}};
    r.groups = {3, 1, 1};
    return r;
  }
  std::string error(const KernelSource& s, const KernelRun& r) {
    try {
      run(s, r);
    } catch (const Error& e) {
      return e.what();
    }
    return "none";
  }
  const std::string copy_ = "STORE(y, CAST(uint, CAST(int, GROUP_ID(0)) + shift), LOAD(x, GROUP_ID(0)));\n";
};

TEST_P(HarnessTest, RunsAndTimes) {
  KernelRun r = arguments();
  r.timed = 3;
  const KernelOutcome o = run(source(copy_), r);
  EXPECT_EQ(o.arrays.at("y").values(), (std::vector<double>{1, 2, 3}));
  EXPECT_GT(o.seconds, 0);
  EXPECT_LT(o.seconds, 1);
}

TEST_P(HarnessTest, TimedRunsLeaveNoTrace) {
  KernelSource s = source("STORE(y, GROUP_ID(0), LOAD(y, GROUP_ID(0)) + 1.0f);\n");
  s.buffers[1].access = Access::read_write;
  KernelRun r = arguments();
  r.timed = 4;
  EXPECT_EQ(run(s, r).arrays.at("y").values(), (std::vector<double>{8, 8, 8}));
}

TEST_P(HarnessTest, FindsWritesOutside) {
  KernelRun r = arguments();
  r.constants["shift"] = 1;
  EXPECT_EQ(error(source(copy_), r), "[kernel k] wrote 1 bytes behind the end of 'y'");
  // An odd number of bytes: the guard starts with the next byte, though bindings are whole words.
  KernelSource s = source("STORE(y, 3u, CAST(int, LOAD(x, 0u)));\n");
  s.buffers[1].dtype = DType::u8;
  r.arrays["y"] = KernelArray::zeros(DType::u8, 3);
  EXPECT_EQ(error(s, r), "[kernel k] wrote 1 bytes behind the end of 'y'");
}

TEST_P(HarnessTest, NothingToDo) {
  KernelRun r = arguments();
  r.groups = {0, 1, 1};
  EXPECT_EQ(run(source(copy_), r).arrays.at("y").values(), (std::vector<double>{7, 7, 7}));
}

TEST_P(HarnessTest, ChecksTheCall) {
  const KernelSource s = source(copy_);
  KernelRun r = arguments();
  r.arrays.erase("x");
  EXPECT_EQ(error(s, r), "[kernel k] buffer 'x' has no array");
  r = arguments();
  r.arrays["z"] = r.arrays["x"];
  EXPECT_EQ(error(s, r), "[kernel k] no buffer 'z'");
  r = arguments();
  r.arrays["x"].dtype = DType::i32;
  EXPECT_EQ(error(s, r), "[kernel k] buffer 'x' is f32, its array i32");
  r = arguments();
  r.constants.erase("N");
  EXPECT_EQ(error(s, r), "[kernel k] constant 'N' has no value");
  r = arguments();
  r.constants["M"] = 1;
  EXPECT_EQ(error(s, r), "[kernel k] no constant 'M'");
  r = arguments();
  r.constants["N"] = -1;
  EXPECT_EQ(error(s, r), "[kernel k] constant N = -1 is no uint");
  r.constants["N"] = 1.5;
  EXPECT_EQ(error(s, r), "[kernel k] constant N = 1.5 is no uint");
  r = arguments();
  r.groups.reset();
  EXPECT_EQ(error(s, r), "[kernel k] a kernel without a file needs its number of groups");
}

// Arrays that end before what a launch touches are refused, instead of read outside.
TEST_P(HarnessTest, ChecksTheBounds) {
  const KernelFile& file = KernelFile::builtin("reduce");
  KernelRun r;
  r.arrays["src"] = KernelArray::of(DType::f32, std::vector<double>(12, 1));
  r.arrays["dst"] = KernelArray::of(DType::f32, std::vector<double>(3, 7));
  r.constants = {{"R", 3}, {"C", 4}, {"OFFSET", 0}, {"SR", 4}, {"SC", 1}};
  EXPECT_EQ(run(file, {}, r).arrays.at("dst").values(), (std::vector<double>{4, 4, 4}));
  const auto refused = [&]() -> std::string {
    try {
      run(file, {}, r);
    } catch (const ValueError& e) {
      return e.what();
    }
    return "";
  };
  r.constants["OFFSET"] = 1;
  EXPECT_EQ(refused(),
            "[kernel reduce] these constants reach elements 1 to 12 of src, which has 12; give it more elements, or "
            "check sizes, offset and strides");
  r.constants["OFFSET"] = 0;
  r.constants["SR"] = -4;
  EXPECT_NE(refused().find("elements -8 to 3 of src"), std::string::npos);
  r.constants["C"] = 0;  // nothing is read
  EXPECT_EQ(run(file, {}, r).arrays.at("dst").values(), (std::vector<double>{0, 0, 0}));
}

// The compiler's message names the file of the body and the line in it.
TEST_P(HarnessTest, CompileErrorsNameTheLine) {
  KernelSource s = source("float v = 1.0f;\nv = no_such_thing;\n");
  s.origin = "shaders/broken.hk";
  s.first_line = 40;
  try {
    compile(s);
    FAIL() << "compiled";
  } catch (const CompileError& e) {
    EXPECT_NE(e.log().find("shaders/broken.hk:41"), std::string::npos) << e.log();
    EXPECT_NE(e.log().find("no_such_thing"), std::string::npos) << e.log();
  }
}

HEDDLE_ON_DEVICES(HarnessTest);

}  // namespace
}  // namespace heddle::test
