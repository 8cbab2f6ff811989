// A program that ends while a device still compiles or computes ends cleanly.
#include <gtest/gtest.h>

#include "heddle/core/device/registry.h"
#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

class PendingAtExit : public testing::TestWithParam<const char*> {};

TEST_P(PendingAtExit, EndsCleanly) {
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (!info.available || info.caps.target == Target::none || info.backend == "null") continue;  // without a driver
    const test::TemporaryFolder caches;
    test::RunOptions options;
    options.environment = {{"HEDDLE_CACHE_DIR", caches / "heddle"},
                           {"POCL_CACHE_DIR", caches / "pocl"},
                           {"MESA_SHADER_CACHE_DIR", caches / "mesa"},
                           {"HEDDLE_QUIET", "1"},
                           {"HEDDLE_PROBE_SECONDS", "0"}};
    options.limit = std::chrono::seconds(60);
    const test::Finished run = test::run_program({HEDDLE_PENDING_AT_EXIT, info.id, GetParam()}, options);
    EXPECT_EQ(run.exit_code, 0) << info.id << ": signal " << run.signal << "\n" << run.err;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, PendingAtExit,
                         testing::Values("return", "static", "exit", "read", "unread", "thread", "threads", "profiler",
                                         "profiling"),
                         [](const auto& way) { return std::string(way.param); });

}  // namespace
}  // namespace heddle
