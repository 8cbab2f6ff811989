// The registry as a program meets it: what is listed, how ids are read, how HEDDLE_DEVICE chooses.
// The order of preference and plug-ins are tested in tests/plugin, in a process of their own.
#include "heddle/core/device/registry.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/system/library.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/forced_caps.h"
#include "tests/support/expect_error.h"

namespace heddle {
namespace {

// Sets an environment variable for one scope.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    if (value) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  ~Environment() {
    if (had_) {
      setenv(name_, old_.c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

const DeviceInfo* find(const std::vector<DeviceInfo>& all, const std::string& id) {
  auto found = std::find_if(all.begin(), all.end(), [&](const DeviceInfo& info) { return info.id == id; });
  return found == all.end() ? nullptr : &*found;
}

TEST(Registry, ListsReferenceAndNullOnEveryMachine) {
  auto all = Registry::instance().devices();
  for (const char* id : {"reference:0", "null:0"}) {
    const DeviceInfo* info = find(all, id);
    ASSERT_TRUE(info) << id;
    EXPECT_TRUE(info->available) << id;
    EXPECT_TRUE(info->reason.empty()) << info->reason;
  }
}

TEST(Registry, IdsAreUniqueAndReasonsAreGiven) {
  std::set<std::string> seen;
  bool unavailable_seen = false;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    EXPECT_TRUE(seen.insert(info.id).second) << info.id << " twice";
    EXPECT_EQ(info.available, info.reason.empty()) << info.id << ": " << info.reason;
    if (!info.available) unavailable_seen = true;
    EXPECT_FALSE(info.available && unavailable_seen) << info.id << " stands behind an unavailable device";
    if (info.available) {
      EXPECT_EQ(info.id.rfind(info.backend + ":", 0), 0u) << info.id;
      EXPECT_FALSE(info.name.empty());
      EXPECT_FALSE(info.driver.empty());
    }
  }
}

TEST(Registry, EnumerationIsStable) {
  auto first = Registry::instance().devices(), second = Registry::instance().devices();
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].id, second[i].id);
    EXPECT_EQ(first[i].caps.driver_hash, second[i].caps.driver_hash);
  }
}

TEST(Registry, CudaSaysThatItsDriverIsMissing) {
  auto all = Registry::instance().devices();
  const DeviceInfo* cuda = find(all, "cuda:0");
  ASSERT_NE(cuda, nullptr);
#ifndef HEDDLE_HAS_CUDA
  EXPECT_EQ(cuda->reason.find("not part of this build"), 0u) << cuda->reason;
  GTEST_SKIP() << "built without the cuda backend";
#endif
  const std::string driver = os::names_of(os::Vendor::cuda).front().name;
  if (void* library = os::open_library(os::Vendor::cuda)) {
    os::close_library(library);
    GTEST_SKIP() << "this machine has " << driver;
  }
  EXPECT_FALSE(cuda->available);
  EXPECT_EQ(cuda->reason, driver + " not found");
  try {
    Registry::instance().open("cuda:0");
    FAIL() << "opened";
  } catch (const DeviceUnavailable& error) {
    EXPECT_NE(std::string(error.what()).find(driver + " not found"), std::string::npos) << error.what();
  }
}

TEST(Registry, UnknownIdsListWhatExists) {
  for (const char* id : {"", ":", ":0", "nonsense", "reference:", "reference:1", "reference:-1", "reference:0x",
                         "reference:99999999999"}) {
    try {
      Registry::instance().open(id);
      ADD_FAILURE() << "opened '" << id << "'";
    } catch (const DeviceUnavailable& error) {
      EXPECT_NE(std::string(error.what()).find("reference:0, null:0"), std::string::npos) << error.what();
    }
  }
}

TEST(Registry, OpensByBackendNameAlone) {
  DeviceInfo info;
  auto device = Registry::instance().open("reference", &info);
  EXPECT_EQ(info.id, "reference:0");
  EXPECT_EQ(info.caps.device_class, DeviceClass::reference);
  EXPECT_EQ(device->caps().target, Target::none);
}

TEST(Registry, EnvironmentChoosesTheDevice) {
  Environment chosen("HEDDLE_DEVICE", "null:0");
  EXPECT_EQ(Registry::instance().best(), "null:0");
  Environment wrong("HEDDLE_DEVICE", "abacus:3");
  EXPECT_EQ(Registry::instance().best(), "abacus:3") << "the name is judged when it is opened";
  EXPECT_THROW(Registry::instance().open(Registry::instance().best()), DeviceUnavailable);
}

TEST(Registry, BestIsTheFirstOfTheListAndNeverReferenceOrNull) {
  Environment none("HEDDLE_DEVICE", nullptr);
  auto all = Registry::instance().devices();
  bool any = all.front().available && all.front().backend != "reference" && all.front().backend != "null";
  if (!any) {
    EXPECT_THROW(Registry::instance().best(), DeviceUnavailable);
    GTEST_SKIP() << "no device with a driver on this machine";
  }
  EXPECT_EQ(Registry::instance().best(), all.front().id);
  Environment empty("HEDDLE_DEVICE", "");
  EXPECT_EQ(Registry::instance().best(), all.front().id) << "an empty variable chooses nothing";
}

TEST(Registry, RefusesANameThatIsTaken) {
  class Impostor final : public Backend {
   public:
    std::string_view name() const override { return "reference"; }
    std::vector<DeviceInfo> enumerate() override { return {}; }
    std::unique_ptr<Device> open(int) override { throw DeviceUnavailable("never"); }
  };
  EXPECT_THROW(Registry::instance().add(std::make_unique<Impostor>()), ValueError);
  EXPECT_THROW(Registry::instance().add(nullptr), ValueError);
}

TEST(ForcedCaps, LimitWhatABindingCovers) {
  Caps caps;
  caps.max_binding_bytes = 1 << 20;
  const auto forced = [&](const char* value) {
    const Environment variable("HEDDLE_MAX_BINDING", value);
    return forced_caps(caps).max_binding_bytes;
  };
  EXPECT_EQ(forced(nullptr), 1u << 20);
  EXPECT_EQ(forced(""), 1u << 20);
  EXPECT_EQ(forced("65536"), 65536u);
  EXPECT_EQ(forced("4194304"), 1u << 20);  // the device's own is smaller
  for (const char* bad : {"abc", "-1", "4095", "1e6", "65536 ", "99999999999999999999999"})
    tests::expect_error<ValueError>([&] { forced(bad); }, {"HEDDLE_MAX_BINDING", bad, "4096"});
}

TEST(ForcedCaps, SayWhatVectorRegistersHold) {
  const auto forced = [&](const char* value) {
    const Environment variable("HEDDLE_REGISTER_FLOATS", value);
    return forced_caps(Caps{}).register_floats;
  };
  EXPECT_EQ(forced(nullptr), 512u);
  EXPECT_EQ(forced("128"), 128u);
  EXPECT_EQ(forced("4096"), 512u);  // no schedule asks for more
  for (const char* bad : {"avx2", "63", "-128", "128 "})
    tests::expect_error<ValueError>([&] { forced(bad); }, {"HEDDLE_REGISTER_FLOATS", bad, "64"});
}

}  // namespace
}  // namespace heddle
