// The table of tuned values: text, merging, the nearest shape, and what a bad or foreign file does.
#include "heddle/core/tiles/tuning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/dialect/tunable_space.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

Caps cpu_caps(uint64_t hash) {
  Caps caps;
  caps.target = Target::opencl;
  caps.device_class = DeviceClass::cpu;
  caps.vendor_id = 0x8086;
  caps.driver_hash = hash;
  return caps;
}

DeviceInfo info_of(const Caps& caps) {
  DeviceInfo info;
  info.name = "Some \"CPU\"";
  info.driver = "PoCL 3.1";
  info.caps = caps;
  return info;
}

TuningEntry entry(std::vector<int64_t> sizes, Bindings tunables, std::string variant = "nn f32 f32") {
  return {{"matmul", std::move(variant), std::move(sizes)}, std::move(tunables), 1e-4, 2e-4};
}

// HEDDLE_TUNING points to a file of its own while alive.
class TuningFile {
 public:
  explicit TuningFile(const std::optional<std::string>& text) : path_(folder_.path() + "/tuning.json") {
    if (const char* before = std::getenv("HEDDLE_TUNING")) before_ = before;
    if (text) std::ofstream(path_) << *text;
    ::setenv("HEDDLE_TUNING", path_.c_str(), 1);
    reload_tuning();
  }
  ~TuningFile() {
    if (before_)
      ::setenv("HEDDLE_TUNING", before_->c_str(), 1);
    else
      ::unsetenv("HEDDLE_TUNING");
    reload_tuning();
  }
  const std::string& path() const { return path_; }

 private:
  test::TemporaryFolder folder_;
  std::string path_;
  std::optional<std::string> before_;
};

TEST(TuningTable, TextAndBack) {
  TuningTable table;
  TuningDevice& device = table.section(info_of(cpu_caps(0xdeadbeef12345678)));
  device.set(entry({1, 64, 32, 16}, {{"MR", 6}, {"NV", 1}}));
  device.set(entry({1, 1, 2, 3}, {}, "tn f16 f32"));
  const TuningTable read = TuningTable::parse(table.str(), "memory");
  ASSERT_EQ(read.devices.size(), 1u);
  EXPECT_TRUE(read.devices[0].same_identity(device));
  EXPECT_EQ(read.devices[0].name, "Some \"CPU\"");
  ASSERT_EQ(read.devices[0].entries.size(), 2u);
  EXPECT_EQ(read.devices[0].entries[0].key, device.entries[0].key);
  EXPECT_EQ(read.devices[0].entries[0].tunables, (Bindings{{"MR", 6}, {"NV", 1}}));
  EXPECT_EQ(read.devices[0].entries[0].default_seconds, 2e-4);
  EXPECT_TRUE(read.devices[0].entries[1].tunables.empty());
  EXPECT_EQ(TuningTable::parse(read.str(), "memory").str(), table.str());
}

TEST(TuningTable, BadTextIsRefusedWithTheReason) {
  const auto fails = [](const std::string& text, const std::string& part) {
    try {
      TuningTable::parse(text, "x.json");
      FAIL() << text;
    } catch (const IoError& error) {
      EXPECT_NE(std::string(error.what()).find("[tuning] x.json: "), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  fails("", "parse error");
  fails("{\"heddle_tuning\": 1, \"devices\": [", "parse error");
  fails("[]", "no tuning table");
  fails("{\"heddle_tuning\": 99, \"devices\": []}", "format 99");
  fails("{\"heddle_tuning\": 1}", "devices");
  const std::string head =
      R"({"heddle_tuning": 1, "devices": [{"driver_hash": "0x1", "target": "opencl", "class": "cpu", "entries": [)";
  fails(head + R"({"body": "matmul", "variant": "v", "sizes": [-1], "tunables": {}}]}]})", "size of -1");
  fails(head + R"({"body": "matmul", "variant": "v", "sizes": [1], "tunables": {"MR": "x"}}]}]})", "MR is no integer");
  fails(
      R"({"heddle_tuning": 1, "devices": [{"driver_hash": "zz", "target": "opencl", "class": "cpu", "entries": []}]})",
      "'zz'");
  fails(
      R"({"heddle_tuning": 1, "devices": [{"driver_hash": "0x1", "target": "abacus", "class": "cpu", "entries": []}]})",
      "unknown target 'abacus'");
  fails(std::string(200000, '['), "brackets are more than 100 deep");
  fails("{\"heddle_tuning\": " + std::string(200000, '[') + std::string(200000, ']') + ", \"devices\": []}",
        "brackets are more than 100 deep");
  EXPECT_THROW(TuningTable::load("/nonexistent/tuning.json"), IoError);
}

TEST(TuningTable, MergeKeepsBothAndTheLaterWins) {
  TuningTable a, b;
  a.section(info_of(cpu_caps(1))).set(entry({1, 8, 8, 8}, {{"MR", 1}}));
  a.section(info_of(cpu_caps(1))).set(entry({1, 9, 9, 9}, {{"MR", 2}}));
  b.section(info_of(cpu_caps(1))).set(entry({1, 8, 8, 8}, {{"MR", 3}}));
  b.section(info_of(cpu_caps(2))).set(entry({1, 8, 8, 8}, {{"MR", 4}}));
  a.merge(b);
  ASSERT_EQ(a.devices.size(), 2u);
  ASSERT_EQ(a.devices[0].entries.size(), 2u);
  EXPECT_EQ(a.devices[0].entries[0].tunables.at("MR"), 3);
  EXPECT_EQ(a.devices[0].entries[1].tunables.at("MR"), 2);
  EXPECT_EQ(a.devices[1].entries[0].tunables.at("MR"), 4);
}

TEST(TuningTable, NearestShapeOfTheSameVariant) {
  TuningDevice device;
  device.set(entry({1, 256, 256, 256}, {{"MR", 1}}));
  device.set(entry({1, 1024, 1024, 1024}, {{"MR", 2}}));
  device.set(entry({1, 300, 300, 300}, {{"MR", 3}}, "tn f32 f32"));
  const auto found = [&](std::vector<int64_t> sizes, const std::string& variant = "nn f32 f32") {
    const TuningEntry* e = device.nearest({"matmul", variant, std::move(sizes)});
    return e == nullptr ? 0 : e->tunables.at("MR");
  };
  EXPECT_EQ(found({1, 256, 256, 256}), 1);
  EXPECT_EQ(found({1, 310, 310, 310}), 1);
  EXPECT_EQ(found({1, 512, 512, 512}), 1);  // equally far from both: the first
  EXPECT_EQ(found({1, 600, 600, 600}), 2);
  EXPECT_EQ(found({1, 1001, 999, 1003}), 2);
  EXPECT_EQ(found({1, 1024, 1024, 100}), 0);  // one size is another class
  EXPECT_EQ(found({1, 4096, 4096, 4096}), 0);
  EXPECT_EQ(found({1, 300, 300, 300}, "tn f32 f32"), 3);
  EXPECT_EQ(found({1, 300, 300, 300}, "tt f32 f32"), 0);
  EXPECT_EQ(found({256, 256, 256}), 0);
}

TEST(Tuned, TheUsersFileOverlaysTheDefault) {
  const Caps caps = cpu_caps(7);
  MatmulProblem problem{256, 256, 256};
  problem.a_k1 = problem.b_n1 = true;
  const TuningFile none(std::nullopt);
  const Bindings before = pick_matmul(caps, problem);
  TuningTable table;
  table.section(info_of(caps)).set(entry({1, 256, 256, 256}, {{"SCHEDULE", 0}, {"VW", 1}, {"LX", 32}}));
  const TuningFile file(table.str());
  const Bindings after = pick_matmul(caps, problem);
  EXPECT_EQ(after.at("SCHEDULE"), 0);
  EXPECT_EQ(after.at("LX"), 32);
  EXPECT_EQ(after.at("A_K1"), 1);  // facts stay
  const TuningOff off;
  EXPECT_EQ(pick_matmul(caps, problem), before);
}

TEST(Tuned, ForeignDriverWarnsOnceAndChangesNothing) {
  TuningTable table;
  table.section(info_of(cpu_caps(8))).set(entry({1, 256, 256, 256}, {{"MR", 1}}));
  const TuningFile file(table.str());
  const TuningKey key{"matmul", "nn f32 f32", {1, 256, 256, 256}};
  testing::internal::CaptureStderr();
  EXPECT_EQ(tuned(cpu_caps(7), key, {{"MR", 6}}).at("MR"), 6);
  EXPECT_EQ(tuned(cpu_caps(7), key, {{"MR", 6}}).at("MR"), 6);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("measured with another driver (Some \"CPU\", PoCL 3.1)"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(tuned(cpu_caps(8), key, {{"MR", 6}}).at("MR"), 1);
  // Another kind of device has nothing to do with this file.
  Caps vulkan = cpu_caps(9);
  vulkan.target = Target::glsl;
  testing::internal::CaptureStderr();
  EXPECT_EQ(tuned(vulkan, key, {{"MR", 6}}).at("MR"), 6);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Tuned, CorruptFileIsOneLineAndIsLeftAlone) {
  const std::string text = "{\"heddle_tuning\": 1, \"dev";
  testing::internal::CaptureStderr();
  const TuningFile file(text);
  EXPECT_EQ(tuned(cpu_caps(7), {"matmul", "nn f32 f32", {1, 2, 3, 4}}, {{"MR", 6}}).at("MR"), 6);
  tuned(cpu_caps(7), {"matmul", "nn f32 f32", {1, 2, 3, 4}}, {{"MR", 6}});
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find(file.path()), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  std::ifstream in(file.path());
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), text);
}

TEST(Tuned, AnEntryThatTheBodyRefusesIsIgnored) {
  TuningTable table;
  TuningDevice& device = table.section(info_of(cpu_caps(7)));
  device.set(entry({1, 256, 256, 256}, {{"MR", 7}}));  // no choice
  device.set(entry({1, 16, 16, 16}, {{"NO_SUCH", 1}}));
  device.set(entry({1, 4096, 4096, 4096}, {{"SCHEDULE", 4}}));  // refused: not contiguous along k
  const TuningFile file(table.str());
  testing::internal::CaptureStderr();
  for (const int64_t n : {256, 16, 4096})
    EXPECT_EQ(tuned(cpu_caps(7), {"matmul", "nn f32 f32", {1, n, n, n}}, {{"MR", 6}}), (Bindings{{"MR", 6}}));
  EXPECT_NE(testing::internal::GetCapturedStderr().find("does not fit this version"), std::string::npos);
}

TEST(Tuned, ScopesForceRecordAndChangeTheState) {
  const TuningKey key{"matmul", "nn f32 f32", {1, 2, 3, 4}};
  const Caps caps = cpu_caps(7);
  const uint64_t plain = tuning_state();
  uint64_t forced_state = 0;
  {
    const ScopedTuning forced({"matmul", "", {}}, {{"MR", 3}});
    forced_state = tuning_state();
    EXPECT_NE(forced_state, plain);
    EXPECT_EQ(tuned(caps, key, {{"MR", 6}, {"NV", 2}}), (Bindings{{"MR", 3}, {"NV", 2}}));
    EXPECT_EQ(tuned(caps, {"reduce", "", {1}}, {{"MR", 6}}).at("MR"), 6);
    std::thread([&] { EXPECT_EQ(tuned(caps, key, {{"MR", 6}}).at("MR"), 6); }).join();
    const ScopedTuning other({"matmul", "tn f32 f32", {}}, {{"MR", 4}});
    EXPECT_EQ(tuned(caps, key, {{"MR", 6}}).at("MR"), 3);
  }
  EXPECT_EQ(tuning_state(), plain);
  {
    const ScopedTuning again({"matmul", "", {}}, {{"MR", 3}});
    EXPECT_EQ(tuning_state(), forced_state);  // the same plan is found again
  }
  TuningRecorder recorder;
  EXPECT_NE(tuning_state(), plain);
  tuned(caps, key, {{"MR", 6}});
  tuned(caps, key, {{"MR", 6}});
  ASSERT_EQ(recorder.uses().size(), 1u);
  EXPECT_EQ(recorder.uses()[0].key, key);
}

// What ships must fit the bodies that ship with it: after a change of a body's tunables, run `heddle tune` again or
// delete its entries.
TEST(Shipped, EveryEntryFitsItsBody) {
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name != "tuned.json") continue;
    const TuningTable table = TuningTable::parse(file.text, "tuned.json");
    for (const TuningDevice& device : table.devices) {
      for (const TuningEntry& e : device.entries) {
        ASSERT_TRUE(has_tunable_space(e.key.body)) << e.key.str();
        const TunableSpace space = tunable_space(e.key.body);
        for (const auto& [name, value] : e.tunables) {
          const auto t = std::find_if(space.tunables.begin(), space.tunables.end(),
                                      [&, n = name](const KernelTunable& x) { return x.name == n; });
          ASSERT_NE(t, space.tunables.end()) << e.key.str() << ": " << name;
          const auto [least, most] = std::minmax_element(t->choices.begin(), t->choices.end());
          const bool fits = space.generated ? value >= *least && value <= *most
                                            : std::count(t->choices.begin(), t->choices.end(), value) == 1;
          EXPECT_TRUE(fits) << e.key.str() << ": " << name << "=" << value;
        }
      }
    }
    return;
  }
  FAIL() << "tuned.json is not embedded";
}

TEST(TunableSpace, FactsAreNotSearchedAndRulesHold) {
  const TunableSpace space = tunable_space("matmul");
  for (const KernelTunable& t : space.tunables) EXPECT_NE(t.name, "A_K1");
  EXPECT_EQ(space.refusal("matmul", {{"SCHEDULE", 0}}), "");
  EXPECT_NE(space.refusal("matmul", {{"SCHEDULE", 4}}), "");
  EXPECT_NE(space.refusal("matmul", {{"MR", 7}}), "");
  EXPECT_THROW(tunable_space("juggling"), ValueError);
  const TunableSpace generated = tunable_space("elementwise");
  EXPECT_EQ(generated.refusal("elementwise", {{"CHUNK", 5000}}), "");
  EXPECT_NE(generated.refusal("elementwise", {{"CHUNK", 0}}), "");
  EXPECT_NE(generated.refusal("elementwise", {{"NO_SUCH", 1}}), "");
  EXPECT_TRUE(space.matters("matmul", "TM", {{"SCHEDULE", 1}}));
  EXPECT_FALSE(space.matters("matmul", "TM", {{"SCHEDULE", 0}}));
  EXPECT_TRUE(space.matters("matmul", "SCHEDULE", {{"SCHEDULE", 0}}));
}

}  // namespace
}  // namespace heddle
