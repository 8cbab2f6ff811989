// A task whose data is a stream: passes, workers, resuming, and what cannot be meant.
#include <gtest/gtest.h>

#include <atomic>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/layers.h"
#include "heddle/train/trainer.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using test::contains;
using test::thrown_text;

// So many points in each pass, other ones in each; counts what is read and what is passed over.
struct Points final : data::IterableDataset {
  explicit Points(int64_t n, int64_t fails = -1) : count(n), fails_at(fails) {}
  struct Stream final : data::SampleStream {
    Stream(const Points& from, uint64_t p) : points(from), pass(p) {}
    std::optional<data::Sample> next() override {
      if (at == points.fails_at) throw IoError("[points] the line is down");
      if (at >= points.count) return {};
      ++points.read;
      data::Random random(3, pass, static_cast<uint64_t>(at++));
      const float x = random.uniform(-1, 1);
      return data::Sample{data::Array::of(std::vector<float>{x, x * x, 1}, {3})};
    }
    void skip(int64_t n) override {
      at = std::min(points.count, at + n);
      points.skipped += n;
    }
    const Points& points;
    uint64_t pass;
    int64_t at = 0;
  };
  std::unique_ptr<data::SampleStream> open(uint64_t pass) const override {
    return std::make_unique<Stream>(*this, pass);
  }
  int64_t count, fails_at;
  mutable std::atomic<int64_t> read = 0, skipped = 0;
};

class StreamTask final : public Task {
 public:
  StreamTask(std::shared_ptr<const Points> points, DeviceContext& device) : model_(made(device)) {
    data_.name = "points";
    data_.stream = std::move(points);
    data_.transforms = {[](data::Sample sample, data::Random& random) {
      sample[0].as<float>()[0] += random.uniform(-0.1f, 0.1f);  // chance of the place in the pass
      return sample;
    }};
  }
  nn::Module& model() override { return model_; }
  const TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override { return mean(square(model_(batch.at(0)) - 0.5)); }
  Evaluation evaluate(int64_t) override { return {.split = "test", .loss = 1, .examples = 1}; }

 private:
  static nn::Linear made(DeviceContext& device) {
    manual_seed(1);
    return nn::Linear(3, 1, {.device = device});
  }
  nn::Linear model_;
  TrainingData data_;
};

class Streams : public testing::TestWithParam<std::string> {
 protected:
  struct Losses final : Callback {
    std::vector<double> all;
    int64_t stop_before = -1;
    void on_steps(Trainer&, std::span<const StepRecord> steps) override {
      for (const StepRecord& step : steps) all.push_back(step.loss);
    }
    void on_batch_start(Trainer& t) override {
      if (t.step() + 1 == stop_before) t.interrupt();
    }
  };
  static Config config(int64_t workers) {
    Config c;
    c.training.batch = 8;
    c.training.steps = 15;
    c.data.workers = workers;
    return c;
  }
  std::vector<double> losses(const Config& c, const std::shared_ptr<const Points>& points, const std::string& path = "",
                             bool resume = false, int64_t stop_before = -1) {
    StreamTask task(points, device(GetParam()));
    std::optional<RunFolder> files;
    Trainer trainer(task, c, device(GetParam()));
    if (!path.empty()) trainer.write_to(files.emplace(path, resume));
    const auto recorder = std::make_shared<Losses>();
    recorder->stop_before = stop_before;
    trainer.add(recorder);
    if (resume) trainer.resume();
    trainer.run();
    return recorder->all;
  }
};

// 37 examples are 4 full batches: 15 updates take the first three of the fourth pass.
TEST_P(Streams, PassesFollowEachOtherForAnyNumberOfWorkers) {
  const std::vector<double> expected = losses(config(0), std::make_shared<Points>(37));
  ASSERT_EQ(expected.size(), 15u);
  EXPECT_NE(expected[0], expected[4]);
  EXPECT_EQ(losses(config(1), std::make_shared<Points>(37)), expected);
  EXPECT_EQ(losses(config(3), std::make_shared<Points>(37)), expected);
}

TEST_P(Streams, ResumeBitForBit) {
  const std::vector<double> whole = losses(config(0), std::make_shared<Points>(37));
  // The first update, the first of a pass, within one, the last.
  for (const auto& [workers, cut] : std::vector<std::pair<int64_t, int64_t>>{{0, 1}, {2, 5}, {2, 7}, {0, 15}}) {
    const test::TemporaryFolder folder;
    std::vector<double> joined = losses(config(workers), std::make_shared<Points>(37), folder / "run", false, cut);
    const auto rest = std::make_shared<Points>(37);
    const std::vector<double> tail = losses(config(workers), rest, folder / "run", true);
    joined.insert(joined.end(), tail.begin(), tail.end());
    EXPECT_EQ(joined, whole) << "cut at " << cut << " with " << workers << " workers";
    EXPECT_LT(rest->skipped, 37) << "passes before the one under way are not opened";
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Streams, testing::ValuesIn(test::value_devices()), tests::device_test_name);

struct StreamMistakes : testing::Test {
  DeviceContext& host = device("reference:0");
  template <class Error>
  std::string refused(const std::shared_ptr<const Points>& points, int64_t workers, int64_t steps = 4) {
    StreamTask task(points, host);
    Config c;
    c.training.batch = 8;
    c.training.steps = steps;
    c.data.workers = workers;
    return thrown_text<Error>([&] { Trainer(task, c, host).run(false); });
  }
};

TEST_F(StreamMistakes, AreNamed) {
  EXPECT_TRUE(contains(refused<ValueError>(std::make_shared<Points>(37), 0, 0),
                       "points is a stream, whose length nobody knows: training.steps"));
  for (const int64_t workers : {0, 2}) {
    EXPECT_TRUE(
        contains(refused<ValueError>(std::make_shared<Points>(7), workers), "pass 0 over the stream gave no batch"));
    EXPECT_TRUE(contains(refused<IoError>(std::make_shared<Points>(37, 20), workers), "the line is down"));
  }
}

TEST_F(StreamMistakes, AnEndlessStreamIsReadOnlySoFarAhead) {
  const auto endless = std::make_shared<Points>(int64_t{1} << 40);
  StreamTask task(endless, host);
  Config c;
  c.training.batch = 8;
  c.training.steps = 3;
  c.data.workers = 2;
  c.data.prefetch = 2;
  Trainer(task, c, host).run(false);
  EXPECT_LE(
      endless->read,
      2 * 8 *
          (3 + 1 + 2 +
           2));  // opened twice; three updates, one ahead on the device, two batches ready, one in each worker's hands
}

}  // namespace
}  // namespace heddle::train
