// Memory that runs short, and one device used by four threads: the allocator, the caches and the step cache under load.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/future.h"
#include "heddle/core/run/graph_cache.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

constexpr uint64_t megabyte = 1 << 20;

std::unique_ptr<DeviceContext> context_of(uint64_t bytes) {
  Caps caps = NullDevice::null_caps();
  caps.memory_bytes = bytes;
  DeviceInfo info;
  info.id = "null:small";
  return std::make_unique<DeviceContext>(std::make_unique<NullDevice>(caps), info);
}

// Leaves behind a compiled step whose arena holds at least 16 MB.
void run_step_with_arena(DeviceContext& d) {
  const int64_t n = 2048;
  const Tensor a = Tensor::from_vector(std::vector<float>(static_cast<size_t>(n * n)), {n, n}, &d);
  const Tensor result = sum(matmul(matmul(a, a), a));  // the temporaries' handles are gone when it is evaluated
  eval({result});
}

TEST(Pressure, CachesAreGivenBackBeforeAnybodyFails) {
  const auto d = context_of(100 * megabyte);
  run_step_with_arena(*d);
  const MemoryUse before = d->memory_use();
  EXPECT_GE(before.arena, 16 * megabyte);
  EXPECT_EQ(graph_cache(*d).size(), 1u);
  StoragePtr large;
  EXPECT_NO_THROW(large = d->allocate(90 * megabyte)) << "fits once the arena is gone";
  EXPECT_EQ(d->memory_use().arena, 0u);
  large.reset();
  EXPECT_NO_THROW(run_step_with_arena(*d)) << "planned again";
}

TEST(Pressure, OutOfMemorySaysWhoHoldsIt) {
  const auto d = context_of(100 * megabyte);
  const StoragePtr held = d->allocate(60 * megabyte);
  const StoragePtr small = d->allocate(1000);
  try {
    d->allocate(50 * megabyte);
    FAIL() << "no OutOfMemory";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.memory_use().requested, 50 * megabyte);
    EXPECT_EQ(error.memory_use().live, 60 * megabyte + 1024);
    EXPECT_EQ(error.memory_use().arena, 0u);
    EXPECT_EQ(error.memory_use().cached, d->memory().reserved_bytes - d->memory().live_bytes);
    EXPECT_EQ(error.memory_use().device, 100 * megabyte);
    for (const char* part : {"null:small", "smaller batch", "in arenas of steps", "cached", "given back"})
      EXPECT_TRUE(test::contains(error.what(), part));
  }
  EXPECT_NO_THROW(d->allocate(30 * megabyte));
}

TEST(Pressure, AnArenaThatDoesNotFitLeavesTheRestUsable) {
  const auto d = context_of(60 * megabyte);
  const Tensor a = Tensor::from_vector(std::vector<float>(2048 * 2048), {2048, 2048}, &*d);  // 16 MB
  {
    const Tensor x = matmul(a, a), y = matmul(x, a), z = matmul(a, x);  // 48 MB of results
    try {
      eval({x, y, z});
      ADD_FAILURE() << "no OutOfMemory";
    } catch (const OutOfMemory& error) {
      EXPECT_TRUE(test::contains(error.what(), "this step needs most while it computes pressure_test.cpp:"));
    }
    EXPECT_NO_THROW(eval({x})) << "one of them fits";
  }
  EXPECT_NO_THROW(eval({sum(a)}));
  EXPECT_LE(d->memory().live_bytes, 34 * megabyte);
}

TEST(Pressure, FourThreadsShareADevice) {
  DeviceContext& d = device("null:0");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&d, t] {
      for (int i = 0; i < 40; ++i) {
        const int64_t n = 8 + i % 5 + t % 2;  // some structures are shared between threads, some are not
        const Tensor x = Tensor::from_vector(std::vector<float>(static_cast<size_t>(n * n)), {n, n}, &d);
        Tensor w = Tensor::from_vector(std::vector<float>(static_cast<size_t>(n * n)), {n, n}, &d);
        const Tensor y = sum(tanh(matmul(x, w)) * 0.5, {1});
        w.assign(w + y.to(DType::f32) * 0.0);
        eval({y, w});
        const ValueFuture future = read_async(y);
        EXPECT_EQ(y.to_doubles().size(), static_cast<size_t>(n));
        EXPECT_EQ(future.bytes().size(), static_cast<size_t>(n) * 4);
        d.event().wait();
        EXPECT_GT(d.memory().live_bytes, 0u);
        static_cast<void>(d.memory_use());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(d.counters().step_hits, 0u);
}

TEST(Pressure, FourThreadsShareACache) {
  const test::TemporaryFolder folder;
  const char* before = std::getenv("HEDDLE_CACHE_DIR");
  const std::string kept = before ? before : "";
  setenv("HEDDLE_CACHE_DIR", folder.path().c_str(), 1);
  const DiskCache cache("kind", 1);
  before ? setenv("HEDDLE_CACHE_DIR", kept.c_str(), 1) : unsetenv("HEDDLE_CACHE_DIR");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&cache] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = fmt::format("payload {}", i % 10);
        cache.store(std::to_string(i % 10), text.data(), text.size());
        const auto found = cache.load(std::to_string(i % 10));
        ASSERT_TRUE(found);
        EXPECT_EQ(std::string(found->begin(), found->end()), text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace heddle
