// Nothing waits until somebody looks: submissions, events, reads that are under way while the host goes on; and
// recordings cut into slices.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/future.h"
#include "heddle/core/graph/node.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

class Async : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }
  // Something that keeps the device busy for a tenth of a second at least, and gives 7.
  Tensor long_work() {
    const bool executed = std::getenv("HEDDLE_TEST_PTX") != nullptr;  // by the executor of PTX, a thousand times slower
    const bool gpu = !executed && dev().caps().device_class != DeviceClass::cpu;
    const int64_t n = executed ? 256 : gpu ? 2048 : 512;
    const Tensor eye =
        where(arange(0, n, 1, DType::i32, &dev()) == reshape(arange(0, n, 1, DType::i32, &dev()), {n, 1}),
              full({n, n}, 1.0, DType::f32, &dev()), full({n, n}, 0.0, DType::f32, &dev()));
    Tensor m = eye;
    eval({m});
    const int times = executed ? 2 : gpu || dev().caps().target == Target::opencl ? 160 : 40;
    for (int i = 0; i < times; ++i) m = matmul(m, eye);
    return sum(m) * (7.0 / static_cast<double>(n));
  }
  bool runs_behind() { return dev().caps().async; }
};

TEST_P(Async, EvaluationReturnsBeforeTheWorkIsDone) {
  EXPECT_EQ(long_work().item(), 7.0);  // compiles
  const Tensor result = long_work();
  dev().synchronize();
  eval({result});
  const Event event = dev().event();
  EXPECT_FALSE(runs_behind() && event.done());
  event.wait();
  EXPECT_TRUE(event.done());
  EXPECT_EQ(result.item(), 7.0);
  EXPECT_TRUE(Event().done());
}

TEST_P(Async, AReadUnderWayHoldsNobodyUp) {
  EXPECT_EQ(long_work().item(), 7.0);
  const auto record = [&] {
    const Tensor y = Tensor::from_vector(std::vector<float>{1, 2}, {2}, &dev()) * 3.0;
    eval({y});
    return y;
  };
  record();  // compiles, which may take longer than the work
  const ValueFuture future = read_async(long_work());
  EXPECT_FALSE(runs_behind() && future.ready());
  std::thread waiter([&] { future.wait(); });
  const Tensor y = record();  // recording, allocating and submitting go on while the other thread waits
  EXPECT_FALSE(runs_behind() && future.ready());
  waiter.join();
  EXPECT_TRUE(future.ready());
  EXPECT_EQ(future.item(), 7.0);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{3, 6}));
}

TEST_P(Async, AFutureHoldsTheValueAsOfTheCall) {
  Tensor w = Tensor::from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3}, &dev());
  std::vector<ValueFuture> futures;
  for (int i = 0; i < 20; ++i) {
    w.assign(w + 1.0);
    eval({w});
    futures.push_back(read_async(transpose(w)));  // a view
  }
  for (int i = 0; i < 20; ++i) {
    const float b = static_cast<float>(i + 1);
    EXPECT_EQ(futures[static_cast<size_t>(i)].to_vector<float>(),
              (std::vector<float>{1 + b, 4 + b, 2 + b, 5 + b, 3 + b, 6 + b}))
        << i;
  }
  EXPECT_EQ(read_async(sum(w)).item(), 6 * 20 + 21.0);
  EXPECT_EQ(read_async(Tensor::host_scalar(2.5f, &dev())).item(), 2.5);
  EXPECT_TRUE(read_async(zeros({0, 4}, DType::f32, &dev())).bytes().empty());
  EXPECT_THROW(read_async(w).item(), ShapeError);
  EXPECT_THROW(ValueFuture().item(), ValueError);
}

// The upload of a batch may overtake submissions, but no write that is queued to the same memory: by its last owner, by
// the host, or of a batch that nobody used.
TEST_P(Async, ABatchIsNotOverwrittenByWritesQueuedBefore) {
  Tensor zero = full({256, 256}, 0.0, DType::f32, &dev());
  const auto keep_busy = [&] { eval({zero = matmul(zero, zero)}); };
  for (int32_t round = 0; round < 40; ++round) {
    const int64_t n = 8 + round;  // memory that no batch had before
    const std::vector<int32_t> stale(static_cast<size_t>(n), -1), values(static_cast<size_t>(n), round),
        sums(static_cast<size_t>(n), round + 1);
    const auto make = [&](const std::vector<int32_t>& from) { return Tensor::from_batch<int32_t>(from, {n}, &dev()); };
    keep_busy();
    Tensor::from_vector(stale, {n}, &dev());
    Tensor batch = make(values);
    ASSERT_EQ((batch + 1).to_vector<int32_t>(), sums) << "freed, round " << round;
    keep_busy();
    dev().write(*batch.node()->storage, 0, stale.data(), stale.size() * sizeof(int32_t));
    batch = Tensor();
    ASSERT_EQ((make(values) + 1).to_vector<int32_t>(), sums) << "written, round " << round;
    keep_busy();
    make(stale);
    ASSERT_EQ((make(values) + 1).to_vector<int32_t>(), sums) << "unused, round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Async, testing::ValuesIn(test::kernel_devices()), [](const auto& tested) {
  std::string name = tested.param;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
});

class Slices : public testing::TestWithParam<std::string> {};

TEST_P(Slices, ARecordingInManySubmissionsComputesTheSame) {
  setenv("HEDDLE_SLICE_MS", "10", 1);
  const auto made = Registry::instance().open(GetParam());
  unsetenv("HEDDLE_SLICE_MS");
  KernelSource source;
  source.name = "next";
  source.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}};
  source.constants = {{"n", ConstParam::Type::u32}};
  source.group = {16, 1, 1};
  source.body = "uint i = GROUP_ID(0) * 16u + LOCAL_ID(0);\nif (i < n) { STORE(y, i, 2.0f * LOAD(x, i) + 1.0f); }\n";
  const KernelId kernel = made->compile(source);
  const BufferId a = made->alloc(256), b = made->alloc(256);
  std::vector<Command> commands{Fill{{a, 0, 256}, 0u}};
  for (int i = 0; i < 6; ++i) {
    const BufferId from = i % 2 ? b : a, to = i % 2 ? a : b;
    commands.emplace_back(
        Dispatch{kernel, {4, 1, 1}, {{from, 0, 256}, {to, 0, 256}}, {64}, 0.006});  // two do not fit one slice
  }
  for (const bool timed : {false, true}) {
    const RecordingId recording = made->record(commands, timed);
    for (int run = 0; run < 3; ++run) {
      std::vector<double> seconds;
      made->wait(made->submit(recording), &seconds);
      EXPECT_EQ(seconds.size(), timed && made->caps().times ? commands.size() : 0u);
      std::vector<float> values(64);
      made->read(a, 0, values.data(), 256);
      for (float v : values) ASSERT_EQ(v, 63.0f);
    }
    made->release(recording);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Slices, testing::ValuesIn(test::kernel_devices()), [](const auto& tested) {
  std::string name = tested.param;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace heddle
