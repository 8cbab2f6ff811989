// A driver that dies or hangs is said, and the other backends go on.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "heddle/core/base/seconds_since.h"
#include "tests/cli/subprocess.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using test::contains;

class FatalDriver : public testing::Test {
 protected:
  FatalDriver() {
    write(folder / "vendors/fatal.icd", HEDDLE_FATAL_DRIVER "\n");
    write(folder / "fatal.json", R"({"file_format_version": "1.0.0", "ICD": {"library_path": ")" HEDDLE_FATAL_DRIVER
                                 R"(", "api_version": "1.1.0"}})");
  }
  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    test::write_bytes(path, {text.begin(), text.end()});
  }

  // Reasons by device; "" for one that is available.
  std::map<std::string, std::string> devices(std::map<std::string, std::string> environment) {
    environment["HEDDLE_CACHE_DIR"] = folder / "cache";
    test::RunOptions options;
    options.environment = std::move(environment);
    options.limit = std::chrono::seconds(60);
    const test::Finished run = test::run_heddle({"devices", "--json"}, options);
    EXPECT_EQ(run.exit_code, 0) << "signal " << run.signal << "\n" << run.err;
    std::map<std::string, std::string> reasons;
    for (const Json& row : Json::parse(run.out))
      reasons[row["id"]] = row["available"].get<bool>() ? "" : row["reason"].get<std::string>();
    return reasons;
  }

  const test::TemporaryFolder folder;
  const std::string died = "the driver died with SIGABRT: \"Not enough memory to run on this device\"";
};

TEST_F(FatalDriver, OfOpenClLeavesTheOthers) {
  const auto before = devices({});
  for (int run = 0; run < 2; ++run) {  // a failure is not remembered as a success
    auto now = devices({{"OCL_ICD_VENDORS", folder / "vendors"}});
    EXPECT_EQ(now["opencl:0"], died);
    EXPECT_EQ(now["reference:0"], "");
    if (before.contains("vulkan:0")) {
      EXPECT_EQ(now["vulkan:0"], before.at("vulkan:0"));
    }
  }
}

TEST_F(FatalDriver, OfVulkanLeavesTheOthers) {
  const auto before = devices({});
  auto now = devices({{"VK_ICD_FILENAMES", folder / "fatal.json"}, {"VK_DRIVER_FILES", folder / "fatal.json"}});
  EXPECT_EQ(now["vulkan:0"], died);
  EXPECT_EQ(now["reference:0"], "");
  if (before.contains("opencl:0")) {
    EXPECT_EQ(now["opencl:0"], before.at("opencl:0"));
  }
}

TEST_F(FatalDriver, ThatHangsIsGivenUp) {
  const auto start = std::chrono::steady_clock::now();
  auto now =
      devices({{"OCL_ICD_VENDORS", folder / "vendors"}, {"FATAL_DRIVER_HANGS", "1"}, {"HEDDLE_PROBE_SECONDS", "0.5"}});
  EXPECT_TRUE(contains(now["opencl:0"], "the driver did not answer within 0.5 s: \"Not enough memory"))
      << now["opencl:0"];
  EXPECT_LT(seconds_since(start), 30);
}

#ifdef HEDDLE_PORTABILITY_DRIVER
// A driver that its manifest calls a portability driver is found, and its device made as such drivers ask for.
TEST(PortabilityDriver, IsADevice) {
  std::string wrapped;  // the library of a driver of this machine
  for (const char* folder : {"/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"}) {
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(folder, none)) {
      if (entry.path().filename().string().starts_with("lvp_icd"))
        wrapped = Json::parse(std::ifstream(entry.path()))["ICD"]["library_path"];
    }
  }
  if (wrapped.empty()) GTEST_SKIP() << "lavapipe is not installed (mesa-vulkan-drivers)";
  const test::TemporaryFolder folder;
  const std::string manifest = folder / "portability.json";
  std::ofstream(manifest) << Json{
      {"file_format_version", "1.0.1"},
      {"ICD",
       {{"library_path", HEDDLE_PORTABILITY_DRIVER}, {"api_version", "1.3.0"}, {"is_portability_driver", true}}}};
  test::RunOptions options;
  options.environment = {{"HEDDLE_CACHE_DIR", folder / "cache"},
                         {"VK_ICD_FILENAMES", manifest},
                         {"VK_DRIVER_FILES", manifest},
                         {"PORTABILITY_DRIVER", wrapped}};
  const test::Finished run = test::run_heddle({"bench", "copy", "--cases", "64", "--device", "vulkan:0"}, options);
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
}
#endif

// A program that names the device gets a typed error and exit code 2, not a signal.
TEST_F(FatalDriver, NamedIsAnError) {
  test::RunOptions options;
  options.environment = {{"HEDDLE_CACHE_DIR", folder / "cache"}, {"OCL_ICD_VENDORS", folder / "vendors"}};
  const test::Finished run = test::run_heddle({"bench", "copy", "--cases", "64", "--device", "opencl:0"}, options);
  EXPECT_EQ(run.exit_code, 2) << "signal " << run.signal;
  EXPECT_TRUE(contains(run.err, died)) << run.err;
}

}  // namespace
}  // namespace heddle
