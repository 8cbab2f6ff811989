// What the null device refuses, and with which words; the same rules (core/device/validate.h) guard the real devices.
#include <gtest/gtest.h>

#include <random>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

KernelSource add_source() {
  KernelSource source;
  source.name = "add";
  source.buffers = {{"a", DType::f32, Access::read}, {"b", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
  source.constants = {{"n", ConstParam::Type::u32}};
  source.group = {64, 1, 1};
  source.body = "uint i = GROUP_ID(0) * 64u + LOCAL_ID(0);\nif (i < n) { STORE(y, i, LOAD(a, i) + LOAD(b, i)); }\n";
  return source;
}

class NullDeviceRules : public testing::Test {
 protected:
  void SetUp() override {
    buffer = device.alloc(4096);
    other = device.alloc(4096);
    kernel = device.compile(add_source());
    std::vector<char> bytes(4096, 1);
    device.write(buffer, 0, bytes.data(), bytes.size());
  }

  Dispatch good() const {
    return {kernel, {1, 1, 1}, {{buffer, 0, 256}, {buffer, 256, 256}, {buffer, 512, 256}}, {64}};
  }

  // record() must throw E whose text contains every part.
  template <class E>
  void refuses(const Command& command, std::vector<std::string> parts) {
    try {
      device.record(std::vector<Command>{command}, false);
    } catch (const E& error) {
      for (const std::string& part : parts) {
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
      }
      return;
    }
    ADD_FAILURE() << "accepted";
  }

  NullDevice device;
  BufferId buffer{}, other{};
  KernelId kernel{};
};

TEST_F(NullDeviceRules, AcceptsAGoodDispatchAndKeepsIt) {
  std::vector<Command> commands{good(), Copy{{buffer, 0, 8}, {buffer, 8, 8}}, Fill{{other, 4, 8}, 7u}};
  RecordingId recording = device.record(commands, true);
  EXPECT_EQ(device.commands(recording).size(), 3u);
  EXPECT_EQ(std::get<Dispatch>(device.commands(recording)[0]).groups[0], 1u);
  Ticket ticket = device.submit(recording);
  std::vector<double> seconds;
  device.wait(ticket, &seconds);
  EXPECT_EQ(seconds.size(), 3u);
  EXPECT_EQ(device.submissions(), std::vector<RecordingId>{recording});
  EXPECT_NE(device.printed(kernel).find("heddle_kernel"), std::string::npos);
}

TEST_F(NullDeviceRules, RefusesDeadHandles) {
  Dispatch d = good();
  d.bindings[1].buffer = BufferId{12345};
  refuses<DeviceError>(d, {"command 0", "add", "binding 'b'", "12345", "not alive"});
  d = good();
  d.kernel = KernelId{777};
  refuses<DeviceError>(d, {"777", "not alive"});
  device.free(other);
  refuses<DeviceError>(Fill{{other, 0, 4}, 0u}, {"fill", "not alive"});
  EXPECT_THROW(device.free(other), DeviceError) << "freed twice";
  EXPECT_THROW(device.write(other, 0, "x", 1), DeviceError);
  EXPECT_THROW(device.submit(RecordingId{5}), DeviceError);
  EXPECT_THROW(device.wait(Ticket{1}, nullptr), DeviceError);
}

TEST_F(NullDeviceRules, RefusesRangesOutsideTheBuffer) {
  Dispatch d = good();
  d.bindings[2] = {buffer, 3840, 257};
  refuses<DeviceError>(d, {"binding 'y'", "3840", "257", "4096"});
  d.bindings[2] = {buffer, 512, 0};
  refuses<DeviceError>(d, {"size is 0"});
  d.bindings[2] = {buffer, ~uint64_t{0} - 255, 512};  // offset + size wraps around
  refuses<DeviceError>(d, {"do not fit"});
  refuses<DeviceError>(Copy{{buffer, 4092, 8}, {other, 0, 8}}, {"copy", "source"});
  refuses<DeviceError>(Copy{{buffer, 0, 8}, {other, 4092, 8}}, {"copy", "target"});
  refuses<DeviceError>(Fill{{other, 4096, 4}, 0u}, {"fill", "do not fit"});
  char bytes[8] = {};
  EXPECT_THROW(device.write(buffer, 4090, bytes, 8), DeviceError);
  EXPECT_THROW(device.read(buffer, ~uint64_t{0}, bytes, 2), DeviceError);
  EXPECT_NO_THROW(device.write(buffer, 4096, bytes, 0)) << "nothing at the end is nothing";
}

TEST_F(NullDeviceRules, RefusesUnalignedOffsets) {
  Dispatch d = good();
  d.bindings[0].offset = 128;
  refuses<DeviceError>(d, {"binding 'a'", "128", "buffer_alignment = 256"});
  refuses<DeviceError>(Copy{{buffer, 2, 8}, {other, 0, 8}}, {"multiples of 4"});
  refuses<DeviceError>(Copy{{buffer, 0, 6}, {other, 0, 6}}, {"multiples of 4"});
  refuses<DeviceError>(Fill{{other, 2, 4}, 0u}, {"multiples of 4"});
  refuses<DeviceError>(Fill{{other, 0, 6}, 0u}, {"multiples of 4"});
  EXPECT_NO_THROW(device.record(
      std::vector<Command>{Copy{{buffer, 3, 1}, {other, 5, 1}}, Copy{{buffer, 1, 2}, {other, 7, 2}}}, false))
      << "one element of 1 or 2 bytes may lie anywhere";
}

TEST_F(NullDeviceRules, RefusesWrongNumbersOfBindingsAndConstants) {
  Dispatch d = good();
  d.bindings.pop_back();
  refuses<DeviceError>(d, {"2 bindings", "3 buffers"});
  d = good();
  d.constants.push_back(1);
  refuses<DeviceError>(d, {"2 constants", "declares 1"});
}

TEST_F(NullDeviceRules, RefusesGroupsOverTheLimits) {
  Dispatch d = good();
  d.groups[1] = 0;
  refuses<DeviceError>(d, {"groups[1] is 0"});
  d.groups[1] = 65536;
  refuses<LimitError>(d, {"65536", "max_groups = 65535"});
}

TEST_F(NullDeviceRules, RefusesBindingsOverTheLimit) {
  BufferId big = device.alloc((uint64_t{1} << 27) + 1024);
  Dispatch d = good();
  d.bindings[0] = {big, 0, (uint64_t{1} << 27) + 4};
  refuses<LimitError>(d, {"binding 'a'", "max_binding_bytes"});
}

TEST_F(NullDeviceRules, RefusesOverlapWhereOneIsWritten) {
  Dispatch d = good();
  d.bindings[2] = {buffer, 256, 256};  // y over b
  refuses<DeviceError>(d, {"'b' and 'y' overlap", "may_alias"});
  d.bindings[2] = {buffer, 512, 256};
  d.bindings[1] = d.bindings[0];  // two reads of the same bytes
  EXPECT_NO_THROW(device.record(std::vector<Command>{d}, false));
  KernelSource in_place = add_source();
  in_place.buffers[2].may_alias = true;
  d.kernel = device.compile(in_place);
  d.bindings[2] = d.bindings[0];
  EXPECT_NO_THROW(device.record(std::vector<Command>{d}, false)) << "declared may_alias";
  refuses<DeviceError>(Copy{{buffer, 0, 16}, {buffer, 12, 16}}, {"overlap"});
  refuses<DeviceError>(Copy{{buffer, 0, 16}, {buffer, 32, 12}}, {"16 bytes", "12"});
}

TEST_F(NullDeviceRules, NamesTheCommandThatIsWrong) {
  std::vector<Command> commands{good(), Fill{{other, 0, 4}, 1u}, Fill{{other, 1, 4}, 1u}};
  try {
    device.record(commands, false);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("command 2 (fill)"), std::string::npos) << error.what();
  }
}

TEST_F(NullDeviceRules, RefusesReadsOfBytesThatNobodyWrote) {
  Dispatch d = good();
  d.bindings[0] = {other, 0, 256};
  RecordingId recording = device.record(std::vector<Command>{d}, false);
  try {
    device.submit(recording);
    FAIL() << "accepted";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("nobody wrote byte 0"), std::string::npos) << error.what();
  }
  std::vector<Command> with_fill{Fill{{other, 0, 252}, 0u}, d};
  recording = device.record(with_fill, false);
  EXPECT_THROW(device.submit(recording), DeviceError) << "the last word is missing";
  std::vector<Command> complete{Fill{{other, 0, 252}, 0u}, Copy{{buffer, 0, 4}, {other, 252, 4}}, d};
  EXPECT_NO_THROW(device.submit(device.record(complete, false)));
  EXPECT_TRUE(device.was_written({other, 0, 256}));
  EXPECT_FALSE(device.was_written({other, 0, 260}));
  device.check_unwritten = false;
  d.bindings[0] = {other, 1024, 256};
  EXPECT_NO_THROW(device.submit(device.record(std::vector<Command>{d}, false)));
}

TEST_F(NullDeviceRules, OutputsCountAsWrittenForLaterCommands) {
  Dispatch first = good(), second = good();
  first.bindings[2] = {other, 0, 256};
  second.bindings[0] = {other, 0, 256};
  RecordingId backwards = device.record(std::vector<Command>{second, first}, false);
  EXPECT_THROW(device.submit(backwards), DeviceError);
  RecordingId forwards = device.record(std::vector<Command>{first, second}, false);
  EXPECT_NO_THROW(device.submit(forwards));
}

TEST_F(NullDeviceRules, RefusesToRunAfterABufferWasFreed) {
  RecordingId recording = device.record(std::vector<Command>{Fill{{other, 0, 4}, 1u}}, false);
  device.free(other);
  EXPECT_THROW(device.submit(recording), DeviceError);
}

TEST_F(NullDeviceRules, ReadsGiveZeros) {
  std::vector<char> bytes(100, 'x');
  device.read(buffer, 10, bytes.data(), bytes.size());
  EXPECT_EQ(bytes, std::vector<char>(100, 0));
}

TEST_F(NullDeviceRules, RefusesImpossibleAllocations) {
  EXPECT_THROW(device.alloc(0), DeviceError);
  EXPECT_THROW(device.alloc(device.caps().max_allocation_bytes + 1), LimitError);
  for (int i = 0; i < 3; ++i) device.alloc(uint64_t{1} << 30);
  EXPECT_THROW(device.alloc(uint64_t{1} << 30), OutOfMemory);
}

// ---- kernels ----

template <class E>
void refuses_kernel(const KernelSource& source, const std::string& part) {
  NullDevice device;
  try {
    device.compile(source);
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
    return;
  }
  ADD_FAILURE() << "accepted: " << part;
}

TEST(NullDeviceKernels, RefusesWhatNoDeviceTakes) {
  KernelSource source = add_source();
  source.name = "add-two";
  refuses_kernel<DeviceError>(source, "no identifier");
  source = add_source();
  source.buffers[1].name = "a";
  refuses_kernel<DeviceError>(source, "declared twice");
  source = add_source();
  source.constants[0].name = "y";
  refuses_kernel<DeviceError>(source, "declared twice");
  source = add_source();
  source.group = {64, 0, 1};
  refuses_kernel<DeviceError>(source, "group[1] is 0");
  source = add_source();
  source.shared = {{"tile", "float", 0}};
  refuses_kernel<DeviceError>(source, "no elements");
}

TEST(NullDeviceKernels, RefusesWhatIsOverTheLimits) {
  KernelSource source = add_source();
  source.group = {257, 1, 1};
  refuses_kernel<LimitError>(source, "max_group = 256");
  source.group = {32, 16, 1};
  refuses_kernel<LimitError>(source, "max_group_lanes = 256");
  source = add_source();
  source.shared = {{"tile", "float", 8193}};
  refuses_kernel<LimitError>(source, "shared_bytes = 32768");
  source = add_source();
  for (int i = 0; i < 6; ++i) source.buffers.push_back({"extra" + std::to_string(i), DType::f32, Access::read});
  refuses_kernel<LimitError>(source, "max_bindings = 8");
  source = add_source();
  for (int i = 0; i < 32; ++i) source.constants.push_back({"c" + std::to_string(i), ConstParam::Type::f32});
  refuses_kernel<LimitError>(source, "128 bytes");
}

// ---- the set of written bytes, against a plain array of flags ----

TEST(ByteSet, AgreesWithFlags) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    ByteSet set;
    std::vector<bool> flags(200, false);
    for (int step = 0; step < 40; ++step) {
      uint64_t begin = random() % 200, end = begin + random() % (201 - begin);
      set.add(begin, end);
      for (uint64_t i = begin; i < end; ++i) flags[i] = true;
      uint64_t from = random() % 200, to = from + random() % (201 - from), missing = from;
      while (missing < to && flags[missing]) ++missing;
      ASSERT_EQ(set.first_missing(from, to), missing) << "[" << from << ", " << to << ")";
      ASSERT_EQ(set.covers(from, to), missing == to);
    }
  }
}

TEST(NullBackend, IsListedAndOpens) {
  DeviceInfo info;
  auto device = Registry::instance().open("null", &info);
  EXPECT_EQ(info.id, "null:0");
  EXPECT_EQ(device->caps().device_class, DeviceClass::null);
  EXPECT_THROW(Registry::instance().open("null:1"), DeviceUnavailable);
}

}  // namespace
}  // namespace heddle
