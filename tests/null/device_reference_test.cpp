// The reference device: host memory that behaves like a device's, and no kernels.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/reference_device.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

TEST(ReferenceDevice, KeepsBytes) {
  ReferenceDevice device;
  BufferId a = device.alloc(1001), b = device.alloc(1);
  std::vector<uint8_t> bytes(1001);
  std::iota(bytes.begin(), bytes.end(), uint8_t{3});
  device.write(a, 0, bytes.data(), bytes.size());
  device.write(a, 500, "hello", 5);
  std::memcpy(bytes.data() + 500, "hello", 5);
  std::vector<uint8_t> back(1001);
  device.read(a, 0, back.data(), back.size());
  EXPECT_EQ(back, bytes);
  EXPECT_EQ(std::memcmp(device.host_pointer(a), bytes.data(), bytes.size()), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(device.host_pointer(a)) % 256, 0u);
  EXPECT_NE(device.host_pointer(a), device.host_pointer(b));
}

TEST(ReferenceDevice, ChecksItsArguments) {
  ReferenceDevice device;
  BufferId a = device.alloc(16);
  char bytes[32] = {};
  EXPECT_THROW(device.write(a, 1, bytes, 16), DeviceError);
  EXPECT_THROW(device.read(a, 17, bytes, 0), DeviceError);
  EXPECT_NO_THROW(device.read(a, 16, bytes, 0));
  EXPECT_THROW(device.alloc(0), DeviceError);
  EXPECT_THROW(device.alloc(~uint64_t{0}), LimitError);
  device.free(a);
  EXPECT_THROW(device.host_pointer(a), DeviceError);
  EXPECT_THROW(device.read(a, 0, bytes, 1), DeviceError);
  EXPECT_NO_THROW(device.wait(Ticket::none, nullptr));
}

TEST(ReferenceDevice, SaysWhyItTakesNoKernels) {
  auto device = Registry::instance().open("reference:0");
  EXPECT_EQ(device->caps().target, Target::none);
  KernelSource source;
  source.name = "anything";
  try {
    device->compile(source);
    FAIL();
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("op table"), std::string::npos) << error.what();
  }
  EXPECT_THROW(device->record({}, false), DeviceError);
  EXPECT_THROW(device->submit(RecordingId{1}), DeviceError);
}

}  // namespace
}  // namespace heddle
