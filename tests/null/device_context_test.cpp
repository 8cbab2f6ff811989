// DeviceContext: storage that goes back to the allocator, kernels compiled once, contexts that are shared.
#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/device/storage.h"

namespace heddle {
namespace {

KernelSource fill_source(const std::string& value) {
  KernelSource source;
  source.name = "set";
  source.buffers = {{"y", DType::f32, Access::write}};
  source.group = {1, 1, 1};
  source.body = "STORE(y, GROUP_ID(0), " + value + ");\n";
  return source;
}

std::unique_ptr<DeviceContext> null_context() {
  DeviceInfo info;
  info.id = "null:0";
  return std::make_unique<DeviceContext>(std::make_unique<NullDevice>(), info);
}

TEST(DeviceContext, StorageGoesBackWithItsLastOwner) {
  auto context = null_context();
  StoragePtr first = context->allocate(1000), second = first;
  EXPECT_EQ(first->bytes(), 1000u);
  EXPECT_EQ(first->binding().size, 1000u);
  EXPECT_EQ(context->memory().live_bytes, 1024u);
  first.reset();
  EXPECT_EQ(context->memory().live_bytes, 1024u);
  second.reset();
  EXPECT_EQ(context->memory().live_bytes, 0u);
  EXPECT_EQ(context->memory().peak_bytes, 1024u);
  context->reset_peak_memory();
  EXPECT_EQ(context->memory().peak_bytes, 0u);
}

TEST(DeviceContext, StorageOfNoBytesHasAValidBinding) {
  auto context = null_context();
  StoragePtr empty = context->allocate(0), odd = context->allocate(7);
  EXPECT_EQ(empty->binding().size, 4u);
  EXPECT_EQ(odd->binding().size, 8u);
  EXPECT_FALSE(empty->binding() == odd->binding());
}

TEST(DeviceContext, AccessesStayInsideTheStorage) {
  auto context = null_context();
  StoragePtr storage = context->allocate(6);
  char bytes[64] = {};
  EXPECT_NO_THROW(context->write(*storage, 2, bytes, 4));
  EXPECT_NO_THROW(context->write(*storage, 0, bytes, 0));
  EXPECT_THROW(context->write(*storage, 4, bytes, 8), DeviceError) << "would reach the neighbour";
  EXPECT_THROW(context->read(*storage, 9, bytes, 1), DeviceError);
}

TEST(DeviceContext, CompilesAKernelOnce) {
  auto context = null_context();
  KernelId one = context->kernel(fill_source("1.0f")), two = context->kernel(fill_source("2.0f"));
  EXPECT_NE(one, two);
  EXPECT_EQ(context->kernel(fill_source("1.0f")), one);
  EXPECT_EQ(context->counters().kernels_compiled, 2u);
}

TEST(DeviceContext, LockGivesTheRawDevice) {
  auto context = null_context();
  StoragePtr storage = context->allocate(4);
  KernelId kernel = context->kernel(fill_source("1.0f"));
  {
    DeviceContext::Locked locked = context->lock();
    RecordingId recording =
        locked.device.record(std::vector<Command>{Dispatch{kernel, {1, 1, 1}, {storage->binding()}, {}}}, false);
    context->remember(locked.device.submit(recording));
    locked.counters.submissions += 1;
    StoragePtr inside = context->allocate(16);  // the lock is recursive
  }
  EXPECT_NO_THROW(context->synchronize());
  EXPECT_EQ(context->counters().submissions, 1u);
}

TEST(DeviceContext, IsSafeFromManyThreads) {
  auto context = null_context();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&context, t] {
      std::vector<StoragePtr> held;
      for (int i = 0; i < 300; ++i) {
        held.push_back(context->allocate(static_cast<uint64_t>(1 + (i * 37 + t * 101) % 5000)));
        context->kernel(fill_source(std::to_string(i % 5) + ".0f"));
        if (i % 3 == 0) held.erase(held.begin());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(context->memory().live_bytes, 0u);
  EXPECT_EQ(context->counters().kernels_compiled, 5u);
  context->lock().allocator.verify();
}

TEST(Contexts, OnePerDeviceAndProcess) {
  DeviceContext& a = device("reference");
  EXPECT_EQ(&a, &device("reference:0"));
  EXPECT_EQ(a.id(), "reference:0");
  EXPECT_NE(&a, &device("null:0"));
  EXPECT_EQ(device("null").caps().device_class, DeviceClass::null);
}

TEST(Contexts, UnknownNamesListWhatExists) {
  for (const char* id : {"nonsense", "null:1", "null:x", "null:-1", "", ":", "null:0:0"}) {
    try {
      device(id);
      ADD_FAILURE() << "opened '" << id << "'";
    } catch (const DeviceUnavailable& error) {
      EXPECT_NE(std::string(error.what()).find("reference:0"), std::string::npos) << error.what();
    }
  }
}

TEST(Contexts, ReferenceStorageKeepsData) {
  DeviceContext& reference = device("reference:0");
  StoragePtr storage = reference.allocate(12);
  const float values[3] = {1.5f, -2.0f, 3.25f};
  reference.write(*storage, 0, values, sizeof values);
  float back[2] = {};
  reference.read(*storage, 4, back, sizeof back);
  EXPECT_EQ(back[0], -2.0f);
  EXPECT_EQ(back[1], 3.25f);
  reference.synchronize();
}

}  // namespace
}  // namespace heddle
