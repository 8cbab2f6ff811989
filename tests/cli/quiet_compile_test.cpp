// A kernel that is compiled for the first time prints nothing, even where a driver's compiler has something to say:
// PoCL's "1 warning generated.".
#include "heddle/core/device/registry.h"
#include "tests/cli/command_test.h"

namespace heddle {
namespace {

using QuietCompile = test::CommandTest;

TEST_F(QuietCompile, OfAKernelWithWarnings) {
  const std::string file =
      write("assigned.hk", R"(// Warnings of clang: an assignment as a condition, a comparison of a value with itself.
/*
doc     dst[i] = 7
out     dst i32
const   uint COUNT
group   1
grid    linear COUNT
*/
KERNEL
int x = 3;
if (x = 7) STORE(dst, GROUP_LINEAR, x);
if (x == x) STORE(dst, GROUP_LINEAR, 7);
)");
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (!info.available || info.backend != "opencl") continue;
    test::RunOptions options;
    options.environment = {
        {"HEDDLE_CACHE_DIR", folder / "heddle"}, {"POCL_CACHE_DIR", folder / "pocl"}, {"HEDDLE_QUIET", "1"}};
    const test::Finished run = test::run_heddle(
        {"kernel", file, "--const", "COUNT=5", "--repeat", "1", "--device", info.id, "--json"}, options);
    EXPECT_EQ(run.exit_code, 0) << info.id << ": signal " << run.signal;
    EXPECT_EQ(run.err, "") << info.id;
    EXPECT_EQ(nlohmann::json::parse(run.out, nullptr, false)["outputs"][0]["sum"], 35) << run.out;
  }
}

}  // namespace
}  // namespace heddle
