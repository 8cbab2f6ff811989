// What is particular to the opencl backend: its disk cache of program binaries, its bounded queue, its reports.
// The contract itself is checked by device_contract_test.cpp.
#ifdef HEDDLE_HAS_OPENCL

#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "heddle/backend_opencl/declarations.h"
#include "heddle/backend_opencl/loaded_kernels.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/threads.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/contract/handles.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

KernelSource twice_source(const std::string& salt) {
  KernelSource source;
  source.name = "twice";
  source.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
  source.constants = {{"n", ConstParam::Type::u32}};
  source.group = {16, 1, 1};
  source.body =
      "uint i = GROUP_ID(0) * 16u + LOCAL_ID(0);\nif (i < n) { STORE(y, i, 2.0f * LOAD(x, i) + " + salt + "); }\n";
  return source;
}

// The file of a small library that every program has loaded.
std::string some_library() {
  std::string path;
  const auto each = [](dl_phdr_info* info, size_t, void* result) {
    const std::string_view name = info->dlpi_name;
    if (name.find("/libz.so") == std::string_view::npos) return 0;
    *static_cast<std::string*>(result) = name;
    return 1;
  };
  ::dl_iterate_phdr(each, &path);
  return path;
}

bool is_loaded(const std::string& path) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle) ::dlclose(handle);
  return handle != nullptr;
}

// The processors that each thread of this process may run on, as Linux lists them: "0-7", "3".
std::vector<std::string> processors_of_threads() {
  std::vector<std::string> lists;
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    std::ifstream file(thread.path() / "status");
    for (std::string line; std::getline(file, line);) {
      constexpr std::string_view name = "Cpus_allowed_list:\t";
      if (line.starts_with(name)) lists.push_back(line.substr(name.size()));
    }
  }
  return lists;
}

// As PoCL does from release 4 on: it closes one kernel's object to open another's.
TEST(LoadedKernels, StayLoadedWhenTheDriverClosesThem) {
  ASSERT_FALSE(some_library().empty());
  const fs::path folder = fs::temp_directory_path() / fmt::format("heddle-loaded-{}", ::getpid());
  std::map<char, std::string> paths;
  std::map<char, void*> handles;
  opencl::hold_loaded_kernels();  // whatever was unloaded before
  for (const char name : {'a', 'b', 'c'}) {
    fs::create_directories(folder / std::string(1, name));
    paths[name] = (folder / std::string(1, name) / (name == 'c' ? "other.so" : "heddle_kernel.so")).string();
    fs::copy_file(some_library(), paths[name], fs::copy_options::overwrite_existing);
    handles[name] = ::dlopen(paths[name].c_str(), RTLD_NOW);
    ASSERT_NE(handles[name], nullptr) << ::dlerror();
  }
  EXPECT_FALSE(opencl::kernels_were_unloaded());
  ::dlclose(handles['b']);
  EXPECT_TRUE(opencl::kernels_were_unloaded());
  opencl::hold_loaded_kernels();
  ::dlclose(handles['a']);
  ::dlclose(handles['c']);
  EXPECT_TRUE(is_loaded(paths['a']));
  EXPECT_FALSE(is_loaded(paths['c'])) << "not a kernel";
  fs::remove_all(folder);
}

class OpenCl : public testing::Test {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : Registry::instance().devices()) {
      if (info.id == "opencl:0") info_ = info;
    }
    if (!info_.available) GTEST_SKIP() << "opencl:0: " << info_.reason;
  }

  // Opens opencl:0, compiles the kernel and runs it on 0, 1, ..., 19.
  static std::vector<float> run(const KernelSource& source) {
    auto device = Registry::instance().open("opencl:0");
    KernelId kernel = device->compile(source);
    BufferId x = device->alloc(80), y = device->alloc(80);
    std::vector<float> values(20), result(20);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    device->write(x, 0, values.data(), 80);
    std::vector<Command> commands{Dispatch{kernel, {2, 1, 1}, {{x, 0, 80}, {y, 0, 80}}, {20}}};
    device->submit(device->record(commands, false));
    device->read(y, 0, result.data(), 80);
    return result;
  }

  DeviceInfo info_;
};

// What shaders/prelude.pocl does not declare still compiles, and in f64 nothing falls to a function of f32 without a
// word.
TEST_F(OpenCl, WorkersOfPoclKeepToAProcessorEach) {
  if (info_.driver.find("Portable Computing Language") == std::string::npos) GTEST_SKIP() << "not PoCL";
  if (info_.caps.compute_units < 2) GTEST_SKIP() << "no workers, or one";
  if (const auto bound = os::variable("POCL_AFFINITY"); !os::may_use_all_processors() || bound != "1")
    GTEST_SKIP() << "POCL_AFFINITY is "
                 << bound.value_or("not set, as where its number of workers is or another program's are bound");
  const auto device = Registry::instance().open("opencl:0");
  const std::vector<std::string> lists = processors_of_threads();
  for (int64_t worker = 0; worker < info_.caps.compute_units; ++worker)
    EXPECT_NE(std::find(lists.begin(), lists.end(), std::to_string(worker)), lists.end()) << worker;
}

TEST_F(OpenCl, FunctionsThatTheDialectLacksCompile) {
  const size_t before = opencl_builds_with_whole_header();
  KernelSource source = twice_source("3.0f * cospi(1.0f)");
  EXPECT_FLOAT_EQ(run(source)[19], 35.0f);
  EXPECT_EQ(opencl_builds_with_whole_header() - before,
            info_.driver.starts_with("Portable Computing Language") ? 1 : 0);
  source.body = "STORE(y, 0u, CAST(float, (sqrt(F64(2.0)) - F64(1.4142135623730951)) * F64(1e16)));\n";
  if (info_.caps.f64_math) {
    EXPECT_LT(std::abs(run(source)[0]), 3.0f);
  }
}

TEST_F(OpenCl, BinariesOnDiskAreUsedAndDamagedOnesAreNot) {
  std::map<std::string, std::string> old;
  for (const char* name : {"HEDDLE_CACHE_DIR", "HEDDLE_OPENCL_BINARIES"}) {
    if (const char* value = std::getenv(name)) old[name] = value;
  }
  fs::path folder = fs::temp_directory_path() / fmt::format("heddle_opencl_test_{}", ::getpid());
  fs::remove_all(folder);
  setenv("HEDDLE_CACHE_DIR", folder.c_str(), 1);
  setenv("HEDDLE_OPENCL_BINARIES", "1", 1);
  KernelSource source = twice_source("0.5f");
  std::vector<float> expected(20);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] = 2.0f * static_cast<float>(i) + 0.5f;

  EXPECT_EQ(run(source), expected);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder / "opencl")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(run(source), expected) << "from the binary";
  auto written = fs::last_write_time(files[0]);
  EXPECT_EQ(run(source), expected);
  EXPECT_EQ(fs::last_write_time(files[0]), written) << "a binary that is used is not stored again";

  fs::resize_file(files[0], fs::file_size(files[0]) / 2);
  EXPECT_EQ(run(source), expected) << "a truncated file is rebuilt from the source";
  EXPECT_GT(fs::last_write_time(files[0]), written);

  for (const char* name : {"HEDDLE_CACHE_DIR", "HEDDLE_OPENCL_BINARIES"}) {
    if (old.contains(name)) {
      setenv(name, old[name].c_str(), 1);
    } else {
      unsetenv(name);
    }
  }
  fs::remove_all(folder);
}

TEST_F(OpenCl, TheHostMayRunFarAhead) {
  auto device = Registry::instance().open("opencl:0");
  KernelId kernel = device->compile(twice_source("1.0f"));
  BufferId x = device->alloc(80), y = device->alloc(80);
  std::vector<Command> commands{Dispatch{kernel, {2, 1, 1}, {{x, 0, 80}, {y, 0, 80}}, {20}},
                                Copy{{y, 0, 80}, {x, 0, 80}}};
  RecordingId recording = device->record(commands, false);
  // Each round doubles and adds one, from a written start: 500 submissions wait at most, in bounded memory.
  for (int round = 0; round < 50; ++round) {
    std::vector<float> zeros(20, 0.0f);
    device->write(x, 0, zeros.data(), 80);
    std::fill(zeros.begin(), zeros.end(), -1.0f);
    for (int i = 0; i < 10; ++i) device->submit(recording);
  }
  float result = 0;
  device->read(x, 19 * 4, &result, 4);
  EXPECT_EQ(result, 1023.0f);
}

TEST_F(OpenCl, EarlierTimesAreStillThereAfterALaterWait) {
  auto device = Registry::instance().open("opencl:0");
  KernelId kernel = device->compile(twice_source("1.0f"));
  BufferId x = device->alloc(80), y = device->alloc(80);
  std::vector<Command> commands{Fill{{x, 0, 80}, 0u}, Dispatch{kernel, {2, 1, 1}, {{x, 0, 80}, {y, 0, 80}}, {20}}};
  RecordingId timed = device->record(commands, true), plain = device->record(commands, false);
  Ticket first = device->submit(timed);
  Ticket second = device->submit(plain);
  std::vector<double> seconds{1.0};
  device->wait(second, &seconds);
  EXPECT_TRUE(seconds.empty()) << "not timed";
  device->wait(first, &seconds);
  ASSERT_EQ(seconds.size(), 2u);
  for (double s : seconds) EXPECT_GE(s, 0.0);
}

TEST_F(OpenCl, RefusesARecordingWhoseBufferIsGone) {
  auto device = Registry::instance().open("opencl:0");
  BufferId x = device->alloc(64), y = device->alloc(64);
  RecordingId recording = device->record(std::vector<Command>{Fill{{x, 0, 64}, 1u}}, false);
  device->submit(recording);
  device->free(y);
  EXPECT_NO_THROW(device->submit(recording)) << "another buffer went";
  device->free(x);
  EXPECT_THROW(device->submit(recording), DeviceError);
}

TEST_F(OpenCl, CapsAreHonest) {
  EXPECT_EQ(info_.caps.target, Target::opencl);
  EXPECT_GT(info_.caps.memory_bytes, 0u);
  if (info_.driver.starts_with("Portable Computing Language")) {
    EXPECT_EQ(info_.caps.device_class, DeviceClass::cpu);
    EXPECT_EQ(info_.caps.subgroup_size, 1u);
    EXPECT_TRUE(info_.caps.unified_memory);
    EXPECT_TRUE(info_.caps.f64);
  }
}

}  // namespace
}  // namespace heddle

#endif
