// The table of drivers' quirks: whose rows are whose, and that every row names a test or command that is there.
#include "heddle/core/contract/quirks.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <tuple>

namespace heddle {
namespace {

namespace fs = std::filesystem;

DeviceInfo device_of(const char* backend, const char* driver, const char* name) {
  DeviceInfo info;
  info.backend = backend;
  info.driver = driver;
  info.name = name;
  return info;
}

bool has(const char* backend, const char* driver, const char* name, Quirk quirk) {
  return Quirks(device_of(backend, driver, name)).has(quirk);
}

TEST(QuirkTable, DecidesTheMachineOfCpuDrivers) {
  EXPECT_TRUE(has("opencl", "Portable Computing Language 3.1+debian", "pthread-skylake", Quirk::lanes_are_loops));
  EXPECT_TRUE(has("opencl", "Intel(R) OpenCL 2026.22.10.0.01_160000", "AMD EPYC", Quirk::lanes_are_loops));
  EXPECT_TRUE(has("opencl", "rusticl 22.3.6", "llvmpipe (LLVM 15.0.6, 256 bits)", Quirk::lanes_are_vectors));
  EXPECT_FALSE(has("opencl", "rusticl 25.0.7", "AMD Radeon RX 6800 (radeonsi)", Quirk::lanes_are_vectors));
  EXPECT_FALSE(has("opencl", "Intel(R) OpenCL Graphics 23.5", "Intel(R) Arc(TM)", Quirk::lanes_are_loops));
  EXPECT_FALSE(has("vulkan", "Portable Computing Language 3.1", "", Quirk::lanes_are_loops)) << "another backend";
}

TEST(QuirkTable, RefusesADriverThatComputesWrong) {
  EXPECT_TRUE(has("opencl", "rusticl 22.3.6", "llvmpipe (LLVM 15.0.6, 256 bits)", Quirk::computes_wrong));
  EXPECT_FALSE(has("opencl", "rusticl 22.3.6", "AMD Radeon RX 6800 (radeonsi)", Quirk::computes_wrong));
  EXPECT_FALSE(has("vulkan", "llvmpipe Mesa 22.3.6 (LLVM 15.0.6)", "llvmpipe", Quirk::computes_wrong));
}

TEST(QuirkTable, PoclsOwnThreadRunsAtOnceUnderBothNames) {
  EXPECT_TRUE(has("opencl", "Portable Computing Language 3.1+debian", "basic-AMD EPYC", Quirk::runs_at_once));
  EXPECT_TRUE(has("opencl", "Portable Computing Language 6.0+debian", "cpu-minimal-skylake-avx512-AMD EPYC",
                  Quirk::runs_at_once));
  EXPECT_FALSE(
      has("opencl", "Portable Computing Language 6.0+debian", "cpu-skylake-avx512-AMD EPYC", Quirk::runs_at_once));
}

TEST(QuirkTable, VersionsAreAHalfOpenRange) {
  const auto sinks = [](const char* driver) { return has("opencl", driver, "cpu", Quirk::sinks_instructions); };
  EXPECT_FALSE(sinks("Portable Computing Language 5.9"));
  EXPECT_TRUE(sinks("Portable Computing Language 6.0+debian"));
  EXPECT_TRUE(sinks("Portable Computing Language 6.1.2"));
  EXPECT_FALSE(sinks("Portable Computing Language 7.0"));
  EXPECT_FALSE(sinks("Portable Computing Language 60.0"));
  EXPECT_TRUE(has("opencl", "Portable Computing Language 10.1", "cpu", Quirk::unloads_kernels)) << "by numbers";
  EXPECT_FALSE(has("opencl", "Portable Computing Language 3.1+debian", "cpu", Quirk::unloads_kernels));
}

TEST(QuirkTable, VersionOfADriver) {
  EXPECT_EQ(version_after("rusticl 22.3.6", "rusticl"), (DriverVersion{22, 3, 6}));
  EXPECT_EQ(version_after("llvmpipe Mesa 25.0.7-2 (LLVM 19.1.7)", "llvmpipe Mesa"), (DriverVersion{25, 0, 7}));
  EXPECT_EQ(version_after("Portable Computing Language 3.1+debian", "Portable Computing Language"),
            (DriverVersion{3, 1, 0}));
  EXPECT_EQ(version_after("rusticl", "rusticl"), DriverVersion{});
  EXPECT_EQ(version_after("rusticl 99999999999999999999", "rusticl")[1], 0) << "too long a number ends the version";
  EXPECT_EQ(version_after("other 1.2", "rusticl"), DriverVersion{});
}

TEST(QuirkTable, TextOfVersions) {
  QuirkRow row{};
  EXPECT_EQ(versions_text(row), "all");
  row.from = {6};
  EXPECT_EQ(versions_text(row), "from 6");
  row.below = {7, 0, 1};
  EXPECT_EQ(versions_text(row), "from 6, before 7.0.1");
  row.from = {};
  EXPECT_EQ(versions_text(row), "before 7.0.1");
}

// "Suite.Name" with TEST, TEST_F or TEST_P of that suite and name somewhere in tests/.
bool test_exists(const std::string& name) {
  const size_t dot = name.find('.');
  const std::string wanted = "(" + name.substr(0, dot) + ", " + name.substr(dot + 1) + ")";
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(fs::path(HEDDLE_SOURCE_DIR) / "tests")) {
    if (file.path().extension() != ".cpp") continue;
    std::ifstream in(file.path());
    if (std::string(std::istreambuf_iterator<char>(in), {}).find(wanted) != std::string::npos) return true;
  }
  return false;
}

TEST(QuirkTable, RowsAreWholeAndTheirTestsAreThere) {
  std::set<std::tuple<std::string_view, std::string_view, std::string_view, std::string_view>> seen;
  for (const QuirkRow& row : quirk_table()) {
    EXPECT_TRUE(seen.emplace(row.name, row.backend, row.driver, row.device).second) << row.name << " of " << row.driver;
    for (const std::string_view text : {row.name, row.driver, row.what, row.act, row.test}) EXPECT_FALSE(text.empty());
    if (row.below != DriverVersion{}) {
      EXPECT_LT(row.from, row.below) << row.name;
    }
    if (!row.test.starts_with("heddle ")) {
      EXPECT_TRUE(test_exists(std::string(row.test))) << row.name << ": " << row.test;
    }
  }
}

}  // namespace
}  // namespace heddle
