// What limits a run, as train/trainer.h measures it: workers, the loop itself, the device.
#include <cstdio>

#include "tests/train/host.h"
#include "tests/train/slow_device.h"
#include "tests/train/small_task.h"
#include "tests/train/training.h"

namespace heddle::train {
namespace {

constexpr int steps_timed = 16;

// Updates of 8 examples that take so long each, by sleeping.
RunReport timed(DeviceContext& device, int64_t workers, int64_t prefetch, std::chrono::microseconds example_time) {
  Config c;
  c.training.batch = 8;
  c.training.steps = steps_timed;
  c.data.workers = workers;
  c.data.prefetch = prefetch;
  SmallTask task(1, 0, device);
  task.example_time = example_time;
  Trainer trainer(task, c, device);
  trainer.run(false);
  return trainer.report();
}

// Workers overlap what takes 5 ms each. The bound leaves room for a busy machine; docs/benchmarks.md has a quiet one's
// figures.
TEST(TrainerLoop, WorkersHideSlowSamples) {
  const RunReport none = timed(host(), 0, 1, std::chrono::milliseconds(5)),
                  four = timed(host(), 4, 8, std::chrono::milliseconds(5));
  const double gain = none.training_seconds / four.training_seconds;
  RecordProperty("gain", std::to_string(gain));
  std::printf("4 workers: %.2f times as fast\n", gain);
  EXPECT_GT(gain, 2);
}

TEST_P(Training, ADeviceThatWaitsForDataIdles) {
  timed(device(), 0, 1, {});  // compiles: some drivers do so when a kernel first runs
  const Throughput t = timed(device(), 0, 1, std::chrono::milliseconds(5)).throughput;
  EXPECT_GT(t.idle_share(), 0.5);
  EXPECT_GT(t.starved, 0.7 * t.idle);
  EXPECT_GT(t.fetch, steps_timed * 8 * 0.005);
  EXPECT_STREQ(t.bottleneck(), "fetch");
}

// A worker takes a tenth of a step for a batch: the loop runs ahead and spends its time waiting for data, while the
// device has enough to do. Steps are long, so that a busy machine has 12 ms in each for what the loop itself does.
TEST(TrainerLoop, ALoopThatWaitsBesideABusyDeviceIsNoIdleDevice) {
  const std::unique_ptr<DeviceContext> slow = SlowDevice::open(std::chrono::milliseconds(120));
  const Throughput t = timed(*slow, 1, 4, std::chrono::microseconds(1500)).throughput;
  EXPECT_LT(t.idle_share(), 0.1);
  EXPECT_GT(t.compute, steps_timed * 0.12 - 1e-4);  // as exact as idle times are (train/throughput.h)
  EXPECT_STREQ(t.bottleneck(), "compute");
}

// Each batch takes 32 ms, each submission 10.
TEST(TrainerLoop, ComputeIsWhatTheDeviceHadToDo) {
  const std::unique_ptr<DeviceContext> slow = SlowDevice::open(std::chrono::milliseconds(10));
  for (const int64_t workers : {0, 1}) {
    const uint64_t before = slow->counters().submissions;
    const Throughput t = timed(*slow, workers, 4, std::chrono::milliseconds(4)).throughput;
    const double busy = 0.01 * static_cast<double>(slow->counters().submissions - before);
    EXPECT_NEAR(t.compute, busy, 0.3 * busy) << workers;
    EXPECT_GT(t.idle, steps_timed * 0.032 - 1.3 * busy) << workers;
    EXPECT_STREQ(t.bottleneck(), "fetch");
  }
}

TEST(Throughput, NamesWhatLimits) {
  EXPECT_STREQ(Throughput{}.bottleneck(), "compute");
  EXPECT_STREQ((Throughput{.fetch = 100, .compute = 10, .idle = 1, .starved = 1}).bottleneck(),
               "compute");  // workers are busy, the device is not kept waiting
  EXPECT_STREQ((Throughput{.fetch = 1, .preprocess = 2, .compute = 1, .idle = 1, .starved = 0.9}).bottleneck(),
               "preprocess");
  EXPECT_STREQ((Throughput{.fetch = 1, .copy = 2, .compute = 1, .idle = 1, .starved = 0.9}).bottleneck(), "copy");
  EXPECT_STREQ((Throughput{.fetch = 5, .compute = 1, .idle = 1, .starved = 0.1}).bottleneck(), "host");
}

}  // namespace
}  // namespace heddle::train
