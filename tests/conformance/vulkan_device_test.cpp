// What is Vulkan's own: the GLSL compiler and its cache, device loss, out-of-memory, timed submissions, absent drivers.
#ifdef HEDDLE_HAS_VULKAN

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "heddle/backend_vulkan/fault_injection.h"
#include "heddle/backend_vulkan/glsl_compiler.h"
#include "heddle/backend_vulkan/validation.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

std::string glsl(const std::string& statement) {
  return "#version 450\nlayout(local_size_x = 8) in;\nlayout(std430, set = 0, binding = 0) buffer Block { uint x[]; "
         "};\n"
         "void main() { " +
         statement + " }\n";
}

// A folder of its own for the disk cache, and the variable put back afterwards.
class CacheFolder {
 public:
  CacheFolder()
      : path_(fs::temp_directory_path() /
              ("heddle-vulkan-test-" + std::to_string(getpid()) + "-" + std::to_string(count_++))) {
    if (const char* old = std::getenv("HEDDLE_CACHE_DIR")) old_ = old;
    fs::create_directories(path_);
    use(path_);
  }
  ~CacheFolder() {
    if (old_) {
      setenv("HEDDLE_CACHE_DIR", old_->c_str(), 1);
    } else {
      unsetenv("HEDDLE_CACHE_DIR");
    }
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  void use(const fs::path& path) const { setenv("HEDDLE_CACHE_DIR", path.c_str(), 1); }
  const fs::path& path() const { return path_; }

 private:
  static inline int count_ = 0;
  fs::path path_;
  std::optional<std::string> old_;
};

TEST(GlslCompiler, MakesSpirv13) {
  const auto words = compile_glsl(glsl("x[gl_GlobalInvocationID.x] = 7u;"), "seven");
  ASSERT_GT(words.size(), 5u);
  EXPECT_EQ(words[0], 0x07230203u);
  EXPECT_EQ(words[1], 0x00010300u);
  EXPECT_EQ(words, compile_glsl(glsl("x[gl_GlobalInvocationID.x] = 7u;"), "seven")) << "not a pure function";
}

TEST(GlslCompiler, ErrorNamesKernelAndCause) {
  try {
    compile_glsl(glsl("x[0] = missing_thing;"), "wrong");
    FAIL() << "compiled";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("wrong"), std::string::npos);
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "more than one line";
    EXPECT_NE(error.log().find("missing_thing"), std::string::npos) << error.log();
  }
}

TEST(GlslCompiler, WorksInManyThreads) {
  std::vector<std::thread> threads;
  std::vector<std::vector<uint32_t>> results(8);
  for (size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&results, t] {
      for (int i = 0; i < 3; ++i) results[t] = compile_glsl(glsl("x[0] = " + std::to_string(t % 2) + "u;"), "threaded");
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t t = 2; t < results.size(); ++t) EXPECT_EQ(results[t], results[t % 2]);
  EXPECT_NE(results[0], results[1]);
}

TEST(GlslCache, KeepsChecksAndReplaces) {
  const CacheFolder folder;
  const std::string text = glsl("x[1] = 123u;");
  bool cached = true;
  const auto words = compile_glsl_cached(text, "kept", &cached);
  EXPECT_FALSE(cached);
  EXPECT_EQ(compile_glsl_cached(text, "kept", &cached), words);
  EXPECT_TRUE(cached);

  const fs::path file = glsl_cache_file(text);
  ASSERT_TRUE(fs::exists(file));
  EXPECT_EQ(file.string().rfind(folder.path().string(), 0), 0u);
  std::string good;
  {
    std::ifstream in(file, std::ios::binary);
    good.assign(std::istreambuf_iterator<char>(in), {});
  }
  const auto spoil = [&](const std::string& contents) { std::ofstream(file, std::ios::binary) << contents; };
  std::string flipped = good;
  flipped[flipped.size() - 3] = static_cast<char>(flipped[flipped.size() - 3] ^ 1);
  std::string wrong_key = good;
  wrong_key[20] = static_cast<char>(wrong_key[20] ^ 1);
  for (const std::string& bad :
       {std::string(), std::string("not a cache file"), good.substr(0, good.size() - 4), flipped, wrong_key}) {
    spoil(bad);
    EXPECT_EQ(compile_glsl_cached(text, "kept", &cached), words);
    EXPECT_FALSE(cached) << "a damaged entry was used";
    EXPECT_EQ(compile_glsl_cached(text, "kept", &cached), words);
    EXPECT_TRUE(cached) << "the damaged entry was not replaced";
  }
  for (const auto& entry : fs::directory_iterator(file.parent_path())) {
    EXPECT_EQ(entry.path().string().find(".tmp"), std::string::npos) << "left behind: " << entry.path();
  }
}

TEST(GlslCache, UnwritableFolderIsNoError) {
  const CacheFolder folder;
  std::ofstream(folder.path() / "file") << "in the way";
  folder.use(folder.path() / "file" / "below");
  bool cached = true;
  EXPECT_FALSE(compile_glsl_cached(glsl("x[2] = 1u;"), "homeless", &cached).empty());
  EXPECT_FALSE(cached);
}

class VulkanDevice : public testing::Test {
 protected:
  void SetUp() override {
    for (const DeviceInfo& info : Registry::instance().devices()) {
      if (info.id != "vulkan:0") continue;
      if (!info.available) GTEST_SKIP() << "vulkan:0: " << info.reason;
      info_ = info;
      return;
    }
    GTEST_SKIP() << "no vulkan:0";
  }

  static std::unique_ptr<Device> open() { return Registry::instance().open("vulkan:0"); }

  static KernelSource fill_source(int value) {
    KernelSource source;
    source.name = "put";
    source.buffers = {{"x", DType::i32, Access::write}};
    source.group = {8, 1, 1};
    source.body = "  STORE(x, GROUP_ID(0) * 8u + LOCAL_ID(0), " + std::to_string(value) + ");\n";
    return source;
  }

  DeviceInfo info_;
};

TEST_F(VulkanDevice, InfoIsHonest) {
  EXPECT_EQ(info_.backend, "vulkan");
  EXPECT_FALSE(info_.name.empty());
  EXPECT_FALSE(info_.driver.empty());
  EXPECT_TRUE(info_.reason.empty());
  EXPECT_EQ(info_.caps.target, Target::glsl);
  EXPECT_FALSE(info_.caps.f64_math);
  const auto device = open();
  EXPECT_EQ(device->caps().driver_hash, info_.caps.driver_hash);
  EXPECT_EQ(device->caps().max_binding_bytes, info_.caps.max_binding_bytes);
}

TEST_F(VulkanDevice, PipelineCacheIsKeptPerDriver) {
  const CacheFolder folder;
  { open()->compile(fill_source(1)); }
  const fs::path pipelines = folder.path() / "vulkan-pipelines";
  ASSERT_TRUE(fs::exists(pipelines));
  ASSERT_EQ(std::distance(fs::directory_iterator(pipelines), {}), 1);
  const fs::path file = fs::directory_iterator(pipelines)->path();
  std::ofstream(file, std::ios::binary | std::ios::trunc) << "garbage";
  {
    const auto device = open();  // ignores the damaged file
    const BufferId x = device->alloc(32);
    const KernelId kernel = device->compile(fill_source(2));
    const std::vector<Command> commands{Dispatch{kernel, {1, 1, 1}, {{x, 0, 32}}, {}}};
    device->submit(device->record(commands, false));
    int32_t back[8];
    device->read(x, 0, back, 32);
    for (const int32_t v : back) EXPECT_EQ(v, 2);
  }
  EXPECT_GT(fs::file_size(file), 7u) << "the damaged file was not replaced";
}

TEST_F(VulkanDevice, LossIsNamedAndFinal) {
  auto device = open();
  const BufferId x = device->alloc(64);
  const KernelId kernel = device->compile(fill_source(3));
  const std::vector<Command> commands{Dispatch{kernel, {2, 1, 1}, {{x, 0, 64}}, {}}};
  const RecordingId work = device->record(commands, false);
  const Ticket good = device->submit(work);
  device->wait(good);
  ASSERT_TRUE(vulkan_lose_device_on_next_submit(*device));
  try {
    device->submit(work);
    FAIL() << "the loss went unnoticed";
  } catch (const DeviceLost& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("vkQueueSubmit"), std::string::npos) << text;
    EXPECT_NE(text.find("VK_ERROR_DEVICE_LOST (-4)"), std::string::npos) << text;
    EXPECT_NE(text.find("dispatch of put"), std::string::npos) << text;
  }
  int32_t value = 0;
  EXPECT_THROW(device->alloc(4), DeviceLost);
  EXPECT_THROW(device->write(x, 0, &value, 4), DeviceLost);
  EXPECT_THROW(device->read(x, 0, &value, 4), DeviceLost);
  EXPECT_THROW(device->compile(fill_source(4)), DeviceLost);
  EXPECT_THROW(device->record(commands, false), DeviceLost);
  EXPECT_THROW(device->submit(work), DeviceLost);
  EXPECT_THROW(device->wait(good), DeviceLost);
  EXPECT_NO_THROW(device->free(x));
  EXPECT_NO_THROW(device->free(x));
  EXPECT_NO_THROW(device->release(kernel));
  EXPECT_NO_THROW(device->release(work));
  device.reset();
  device = open();  // a fresh device works
  EXPECT_NE(device->alloc(4), BufferId::none);
}

TEST_F(VulkanDevice, TimesBelongToTheirTicket) {
  const auto device = open();
  constexpr uint64_t bytes = 8 << 20;
  const BufferId a = device->alloc(bytes), b = device->alloc(bytes);
  const std::vector<Command> commands{Fill{{a, 0, bytes}, 1}, Copy{{a, 0, bytes}, {b, 0, bytes}}, Fill{{b, 0, 4}, 2}};
  const RecordingId timed = device->record(commands, true);
  const Ticket first = device->submit(timed), second = device->submit(timed);
  std::vector<double> one, two, again;
  device->wait(second, &two);
  device->wait(first, &one);
  device->wait(first, &again);
  ASSERT_EQ(one.size(), 3u);
  ASSERT_EQ(two.size(), 3u);
  EXPECT_EQ(one, again);
  EXPECT_GT(one[1], 0.0);
  const Ticket third = device->submit(timed);
  device->release(timed);
  device->wait(third, &again);
  EXPECT_EQ(again.size(), 3u) << "the times got lost with the recording";
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_F(VulkanDevice, OutOfMemoryNamesWhatWasAskedFor) {
  if (info_.caps.device_class != DeviceClass::cpu)
    GTEST_SKIP() << "needs a device whose memory the process's limit bounds";
  const auto device = open();
  const BufferId held = device->alloc(4096);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  long pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  rlimit tight = old;
  tight.rlim_cur = static_cast<rlim_t>(pages) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + (128u << 20);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  std::string text;
  try {
    device->alloc(1u << 30);
  } catch (const OutOfMemory& error) {
    text = error.what();
  }
  setrlimit(RLIMIT_AS, &old);
  EXPECT_TRUE(text.find("vkAllocateMemory") != std::string::npos || text.find("vkMapMemory") != std::string::npos)
      << text;
  EXPECT_NE(text.find("1073741824 bytes asked for, 4096 of"), std::string::npos) << text;
  int32_t value = 5, back = 0;  // the device goes on
  device->write(held, 0, &value, 4);
  device->read(held, 0, &back, 4);
  EXPECT_EQ(back, 5);
}
#endif

// Kernels, copies and buffers carry names where the loader has VK_EXT_debug_utils (the validation layer brings it);
// every other test of this group records through them, and the layer finds nothing to say.
TEST_F(VulkanDevice, CommandsAndObjectsAreNamed) {
  if (!vulkan_validation_active()) GTEST_SKIP() << "the validation layer is not installed (vulkan-validationlayers)";
  EXPECT_TRUE(vulkan_labels_active());
}

TEST_F(VulkanDevice, ValidationLayerIsOnWhereInstalled) {
  if (!vulkan_validation_active()) GTEST_SKIP() << "the validation layer is not installed (vulkan-validationlayers)";
  EXPECT_TRUE(vulkan_validation_messages().empty());
}

// The rest runs this program again in an environment of its own: a test named ...Inner does nothing unless it is run
// so.
struct Run {
  int status = -1;
  std::string output;
};

Run run_self(const std::string& environment, const std::string& filter) {
  const std::string self = fs::read_symlink("/proc/self/exe").string();
  Run run;
  FILE* pipe = popen((environment + " '" + self + "' --gtest_filter='" + filter + "' 2>&1").c_str(), "r");
  if (!pipe) return run;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) run.output.append(buffer, count);
  run.status = pclose(pipe);
  return run;
}

// Passed, and ran at least one test.
void expect_passes(const Run& run) {
  EXPECT_EQ(run.status, 0) << run.output;
  EXPECT_NE(run.output.find("[  PASSED  ] "), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("[  PASSED  ] 0 tests"), std::string::npos) << run.output;
  EXPECT_EQ(run.output.find("[vulkan validation]"), std::string::npos) << run.output;
}

bool inner_run(const char* what) {
  const char* value = std::getenv("HEDDLE_TEST_INNER");
  return value && std::string(value) == what;
}

void expect_absent(const std::string& reason) {
  const auto devices = Registry::instance().devices();
  int seen = 0;
  for (const DeviceInfo& info : devices) {
    if (info.backend != "vulkan") continue;
    ++seen;
    EXPECT_EQ(info.id, "vulkan:0");
    EXPECT_FALSE(info.available);
    EXPECT_NE(info.reason.find(reason), std::string::npos) << info.reason;
  }
  EXPECT_EQ(seen, 1);
  try {
    Registry::instance().open("vulkan:0");
    ADD_FAILURE() << "opened";
  } catch (const DeviceUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
  }
}

TEST(VulkanAbsent, DriverInner) {
  if (!inner_run("driver")) return;
  expect_absent("found no driver");
}

TEST(VulkanAbsent, LoaderInner) {
  if (!inner_run("loader")) return;
  expect_absent("libvulkan.so.1 not found");
}

TEST(VulkanAbsent, Driver) {
  expect_passes(
      run_self("HEDDLE_TEST_INNER=driver VK_DRIVER_FILES=/nonexistent.json VK_ICD_FILENAMES=/nonexistent.json",
               "VulkanAbsent.DriverInner"));
}

TEST(VulkanAbsent, Loader) {
  const CacheFolder folder;
  std::ofstream(folder.path() / "libvulkan.so.1") << "";
  std::ofstream(folder.path() / "libvulkan.so") << "";
  expect_passes(
      run_self("HEDDLE_TEST_INNER=loader LD_LIBRARY_PATH=" + folder.path().string(), "VulkanAbsent.LoaderInner"));
}

// The barriers are complete: the contract's tests again, under synchronisation validation.
TEST_F(VulkanDevice, SynchronisationValidation) {
  if (!vulkan_validation_active()) GTEST_SKIP() << "the validation layer is not installed (vulkan-validationlayers)";
  expect_passes(run_self("HEDDLE_VULKAN_VALIDATION=sync", "*DeviceContract.*/vulkan*"));
}

TEST_F(VulkanDevice, ProcessEndsInner) {
  if (!inner_run("exit")) return;
  static std::unique_ptr<Device> kept;  // destroyed after the driver's own exit handlers
  kept = open();
  const BufferId x = kept->alloc(1 << 20);
  const std::vector<Command> commands{Fill{{x, 0, 1 << 20}, 1}};
  const RecordingId work = kept->record(commands, false);
  for (int i = 0; i < 50; ++i) kept->submit(work);
  kept->write(x, 0, &commands, 4);
}

TEST_F(VulkanDevice, ProcessEndsWithAnOpenDevice) {
  expect_passes(run_self("HEDDLE_TEST_INNER=exit", "VulkanDevice.ProcessEndsInner"));
}

}  // namespace
}  // namespace heddle

#endif
