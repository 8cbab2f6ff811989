// Third-party backends on HEDDLE_BACKEND_PATH, what broken ones say, and the order of preference among devices.
// A process of its own: the registry reads the environment once, and fake GPUs must not be chosen by other tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/device/storage.h"

namespace heddle {
namespace {

const DeviceInfo* find(const std::vector<DeviceInfo>& all, const std::string& id) {
  auto found = std::find_if(all.begin(), all.end(), [&](const DeviceInfo& info) { return info.id == id; });
  return found == all.end() ? nullptr : &*found;
}

KernelSource scale_source() {
  KernelSource source;
  source.name = "toy_scale";
  source.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
  source.constants = {{"n", ConstParam::Type::u32}, {"k", ConstParam::Type::f32}};
  source.body = "STORE(y, GROUP_ID(0), k * LOAD(x, GROUP_ID(0)));\n";
  return source;
}

TEST(Plugin, IsListed) {
  auto all = Registry::instance().devices();
  const DeviceInfo* toy = find(all, "toy:0");
  ASSERT_TRUE(toy);
  EXPECT_TRUE(toy->available) << toy->reason;
  EXPECT_EQ(toy->name, "a toy in host memory");
}

TEST(Plugin, RunsCommandsThroughItsContext) {
  DeviceContext& toy = device("toy");
  StoragePtr x = toy.allocate(12), y = toy.allocate(12);
  const float values[3] = {1, 2, -3};
  toy.write(*x, 0, values, sizeof values);
  KernelId kernel = toy.kernel(scale_source());
  {
    DeviceContext::Locked locked = toy.lock();
    std::vector<Command> commands{
        Fill{y->binding(), 0},
        Dispatch{kernel, {3, 1, 1}, {x->binding(), y->binding()}, {3, std::bit_cast<uint32_t>(2.5f)}}};
    toy.remember(locked.device.submit(locked.device.record(commands, false)));
  }
  float back[3] = {};
  toy.read(*y, 0, back, sizeof back);
  EXPECT_EQ(back[0], 2.5f);
  EXPECT_EQ(back[1], 5.0f);
  EXPECT_EQ(back[2], -7.5f);
}

TEST(Plugin, ErrorsCrossTheBoundaryWithTheirTypes) {
  DeviceContext& toy = device("toy:0");
  KernelSource other = scale_source();
  other.name = "something_else";
  other.body = "STORE(y, GROUP_ID(0), 0.0f);\n";  // the name alone makes no new kernel
  try {
    toy.kernel(other);
    FAIL();
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("something_else"), std::string::npos);
    EXPECT_EQ(error.log(), "no log");
  }
}

TEST(Plugin, BrokenOnesAreListedWithTheReason) {
  auto all = Registry::instance().devices();
  struct Case {
    const char* id;
    std::string reason;
  };
  const std::string other_abi =
      "ABI " + std::to_string(backend_abi_version + 1) + ", this library has " + std::to_string(backend_abi_version);
  for (const Case& c : {Case{"abi", other_abi}, Case{"entry", "does not export heddle_register_backend"},
                        Case{"throws", "no licence file"}, Case{"taken", "'reference' is registered already"},
                        Case{"garbage", "cannot be loaded"}, Case{"moody:0", "moody today"}}) {
    const DeviceInfo* info = find(all, c.id);
    ASSERT_TRUE(info) << c.id;
    EXPECT_FALSE(info->available) << c.id;
    EXPECT_NE(info->reason.find(c.reason), std::string::npos) << c.id << ": " << info->reason;
  }
  auto missing = std::find_if(all.begin(), all.end(), [](const DeviceInfo& i) { return i.name == "/no/such/folder"; });
  ASSERT_NE(missing, all.end());
  EXPECT_NE(missing->reason.find("cannot be read"), std::string::npos) << missing->reason;
}

TEST(Plugin, OpeningABrokenOneGivesItsReason) {
  try {
    Registry::instance().open("abi:0");
    FAIL();
  } catch (const DeviceUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find("this library has " + std::to_string(backend_abi_version)),
              std::string::npos)
        << error.what();
  }
}

TEST(Drivers, AbsentOnesSayWhy) {
  // main() pointed the loaders at empty folders.
  auto all = Registry::instance().devices();
  if (const DeviceInfo* opencl = find(all, "opencl:0")) {
    EXPECT_FALSE(opencl->available);
    EXPECT_NE(opencl->reason.find("libOpenCL.so.1"), std::string::npos) << opencl->reason;
  }
  if (const DeviceInfo* vulkan = find(all, "vulkan:0")) {
    EXPECT_FALSE(vulkan->available);
    EXPECT_FALSE(vulkan->reason.empty());
  }
}

// A backend with one device of each given class.
class FakeBackend final : public Backend {
 public:
  FakeBackend(std::string name, std::vector<DeviceClass> classes)
      : name_(std::move(name)), classes_(std::move(classes)) {}
  std::string_view name() const override { return name_; }
  std::vector<DeviceInfo> enumerate() override {
    std::vector<DeviceInfo> infos;
    for (DeviceClass c : classes_) {
      DeviceInfo info;
      info.id = name_ + ":" + std::to_string(infos.size());
      info.backend = name_;
      info.name = "fake";
      info.driver = "fake";
      info.available = true;
      info.caps.device_class = c;
      infos.push_back(info);
    }
    return infos;
  }
  std::unique_ptr<Device> open(int) override { return std::make_unique<NullDevice>(); }

 private:
  std::string name_;
  std::vector<DeviceClass> classes_;
};

// Runs last, because it fills the registry with fakes.
TEST(Preference, FollowsTheDocumentedOrder) {
  auto before = Registry::instance().devices();
  if (before.front().id != "toy:0") GTEST_SKIP() << "a real device is present: " << before.front().id;
  EXPECT_EQ(Registry::instance().best(), "toy:0") << "a plug-in's CPU is taken where there is nothing else";
  Registry::instance().add(
      std::make_unique<FakeBackend>("zeta", std::vector{DeviceClass::cpu, DeviceClass::integrated_gpu}));
  EXPECT_EQ(Registry::instance().best(), "zeta:1") << "an integrated GPU before any CPU";
  Registry::instance().add(
      std::make_unique<FakeBackend>("alpha", std::vector{DeviceClass::discrete_gpu, DeviceClass::null}));
  EXPECT_EQ(Registry::instance().best(), "alpha:0") << "a discrete GPU before an integrated one";
  std::vector<std::string> ids;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.available) ids.push_back(info.id);
  }
  EXPECT_EQ(ids,
            (std::vector<std::string>{"alpha:0", "zeta:1", "toy:0", "zeta:0", "reference:0", "null:0", "alpha:1"}));
  setenv("HEDDLE_DEVICE", "toy", 1);
  EXPECT_EQ(&default_device(), &device("toy:0"));
  set_default_device("null");
  EXPECT_EQ(default_device().id(), "null:0");
  EXPECT_THROW(set_default_device("unheard-of"), DeviceUnavailable);
  EXPECT_EQ(default_device().id(), "null:0");
}

}  // namespace
}  // namespace heddle

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  // Before anything asks the registry: no drivers, two folders of plug-ins and one that does not exist.
  fs::path empty = fs::temp_directory_path() / "heddle_no_drivers";
  fs::create_directories(empty);
  setenv("OCL_ICD_VENDORS", empty.c_str(), 1);
  setenv("VK_ICD_FILENAMES", "/no/such/driver.json", 1);
  setenv("VK_DRIVER_FILES", "/no/such/driver.json", 1);
  unsetenv("HEDDLE_DEVICE");
  std::ofstream(fs::path(HEDDLE_BROKEN_PLUGINS) / "heddle_backend_garbage.so") << "this is no library\n";
  std::string folders = std::string(HEDDLE_PLUGINS) + ":/no/such/folder::" + HEDDLE_BROKEN_PLUGINS;
  setenv("HEDDLE_BACKEND_PATH", folders.c_str(), 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
