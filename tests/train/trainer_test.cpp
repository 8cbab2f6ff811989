// train/trainer.h: losses, resuming, accumulation, callbacks, schedules, early stopping, on each device. What limits a
// run: throughput_test.cpp.
#include "heddle/train/trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <tuple>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/train/model_file.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/host.h"
#include "tests/train/small_task.h"
#include "tests/train/training.h"

namespace heddle::train {
namespace {

using test::contains;

// What a run said.
class Recorder final : public Callback {
 public:
  void on_train_start(Trainer&) override { said += 'S'; }
  void on_epoch_start(Trainer&) override { said += '('; }
  void on_batch_start(Trainer& trainer) override {
    said += '<';
    if (before) before(trainer);
  }
  void on_batch_end(Trainer&) override { said += '>'; }
  void on_steps(Trainer&, std::span<const StepRecord> records) override {
    steps.insert(steps.end(), records.begin(), records.end());
  }
  void on_evaluate(Trainer&, const Evaluation&) override { said += 'E'; }
  void on_checkpoint(Trainer&, const std::string&) override { said += 'C'; }
  void on_epoch_end(Trainer&) override { said += ')'; }
  void on_train_end(Trainer&, Outcome) override { said += 'T'; }

  std::vector<double> losses() const {
    std::vector<double> all;
    for (const StepRecord& step : steps) all.push_back(step.loss);
    return all;
  }

  std::string said;
  std::vector<StepRecord> steps;
  std::function<void(Trainer&)> before;
};

// Everything that has state.
Config config_with_everything() {
  Config c;
  c.training.batch = 8;
  c.training.epochs = 3;
  c.training.ema = 0.9;
  c.training.clip_norm = 0.5;
  c.training.clip_value = 0.2;
  c.optimizer.name = "adamw";
  c.optimizer.weight_decay = 0.1;
  c.schedule.warmup = 5;
  c.data.workers = 2;
  return c;
}

struct Ran {
  std::shared_ptr<Recorder> recorder = std::make_shared<Recorder>();
  Outcome outcome = Outcome::finished;
  std::vector<double> weights;
};

Ran run(const Config& config, DeviceContext& device, const std::string& folder = "", bool resume = false,
        const std::function<void(Trainer&)>& before = {}, double dropout = 0.2) {
  Ran ran;
  SmallTask task(static_cast<uint64_t>(config.run.seed), dropout, device);
  std::optional<RunFolder> files;
  Trainer trainer(task, config, device);
  if (!folder.empty()) trainer.write_to(files.emplace(folder, resume));
  ran.recorder->before = before;
  trainer.add(ran.recorder);
  if (resume) trainer.resume();
  ran.outcome = trainer.run();
  ran.weights = task.model().parameters().front().to_doubles();
  return ran;
}

TEST_P(Training, RepeatsBitForBitForAnyNumberOfWorkers) {
  const uint64_t replays = device().counters().compiled_replays;
  Config c = config_with_everything();
  const Ran one = run(c, device());
  c.data.workers = 0;
  const Ran two = run(c, device());
  EXPECT_EQ(one.recorder->losses(), two.recorder->losses());
  EXPECT_EQ(one.weights, two.weights);
  ASSERT_EQ(one.recorder->steps.size(), 36u);
  EXPECT_LT(one.recorder->steps.back().loss, one.recorder->steps.front().loss);
  if (GetParam() != "reference:0") {  // two runs of 36 updates, recorded anew after each evaluation
    EXPECT_GE(device().counters().compiled_replays - replays, 40u);
  }
}

TEST_P(Training, ResumesBitForBit) {
  const Config c = config_with_everything();
  const Ran whole = run(c, device());
  for (const int64_t cut : {1, 12, 17, 35}) {  // the first step, the end of an epoch, within one, the last but one
    const test::TemporaryFolder folder;
    const Ran first = run(c, device(), folder.path() + "/run", false, [&](Trainer& t) {
      if (t.step() + 1 == cut) t.interrupt();
    });
    EXPECT_EQ(first.outcome, Outcome::interrupted);
    const Ran rest = run(c, device(), folder.path() + "/run", true);
    std::vector<double> joined = first.recorder->losses();
    const std::vector<double> tail = rest.recorder->losses();
    joined.insert(joined.end(), tail.begin(), tail.end());
    EXPECT_EQ(joined, whole.recorder->losses()) << "cut at " << cut;
    EXPECT_EQ(rest.weights, whole.weights) << "cut at " << cut;
  }
}

TEST_P(Training, AccumulationIsTheLargeBatch) {
  Config large = config_with_everything();
  large.training.batch = 32;
  Config parts = large;
  parts.training.batch = 8;
  parts.training.accumulate = 4;
  const Ran a = run(large, device(), "", false, {}, 0),
            b = run(parts, device(), "", false, {}, 0);  // masks of dropout would differ
  ASSERT_EQ(a.recorder->steps.size(), 9u);
  ASSERT_EQ(b.recorder->steps.size(), 9u);
  for (size_t i = 0; i < 9; ++i) {
    // The loader draws by example: both see the same numbers.
    EXPECT_NEAR(a.recorder->steps[i].loss, b.recorder->steps[i].loss, 1e-5) << i;
    ASSERT_TRUE(a.recorder->steps[i].grad_norm && b.recorder->steps[i].grad_norm) << i;
    EXPECT_NEAR(*a.recorder->steps[i].grad_norm, *b.recorder->steps[i].grad_norm, 1e-5) << i;
  }
  for (size_t i = 0; i < a.weights.size(); ++i) EXPECT_NEAR(a.weights[i], b.weights[i], 1e-5) << i;
}

TEST_P(Training, MixedPrecisionFollowsF32) {
  Config c = config_with_everything();
  c.training.clip_value = 0;
  c.training.epochs = 1;
  const std::vector<double> full = run(c, device()).recorder->losses();
  // The largest difference is 4e-4 in bf16 and 7e-5 in f16 on every device; none would mean that nothing was rounded.
  for (const auto& [precision, least, most] : {std::tuple("bf16", 5e-5, 1e-3), std::tuple("f16", 1e-5, 2e-4)}) {
    c.training.precision = precision;
    const Ran low = run(c, device());
    double difference = 0;
    for (size_t i = 0; i < full.size(); ++i)
      difference = std::max(difference, std::abs(low.recorder->steps[i].loss - full[i]));
    EXPECT_LT(difference, most) << precision;
    EXPECT_GT(difference, least) << precision;
    EXPECT_EQ(low.recorder->steps.back().loss_scale.has_value(), std::string(precision) == "f16");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Training, testing::ValuesIn(test::value_devices()), tests::backend_test_name);

// ---- what does not depend on the device

// Their values are tests/nn's matter.
TEST(TrainerLoop, EveryOptimizerTrains) {
  const std::map<std::string, double> rates = {{"sgd", 0.1},   {"rmsprop", 1e-2},   {"adagrad", 0.1},
                                               {"adam", 1e-2}, {"adamw", 1e-2},     {"lion", 3e-3},
                                               {"lamb", 1e-2}, {"adafactor", 1e-2}, {"muon", 1e-2}};
  for (const auto& [name, rate] : rates) {
    Config c;
    c.training.batch = 32;
    c.training.steps = 8;
    c.optimizer.name = name;
    c.optimizer.lr = rate;
    const std::vector<double> losses = run(c, host(), "", false, {}, 0).recorder->losses();
    EXPECT_LT(losses.back(), losses.front()) << name;
  }
}

// One update of plain SGD with rate 1 moves the weights by the gradient: its length is the norm that is said, or the
// limit where it is above that.
TEST(TrainerLoop, NormsAreSaidForAnyLimit) {
  const auto move = [](double clip_norm) {
    Config c;
    c.training.batch = 32;
    c.training.steps = 1;
    c.training.clip_norm = clip_norm;
    c.optimizer.name = "sgd";
    c.optimizer.lr = 1;
    c.optimizer.momentum = 0;
    c.schedule.name = "constant";
    SmallTask task(1, 0, host());
    std::vector<std::vector<double>> first;
    for (const Tensor& p : task.model().parameters()) first.push_back(p.to_doubles());
    Trainer trainer(task, c, host());
    const auto recorder = std::make_shared<Recorder>();
    trainer.add(recorder);
    trainer.run();
    double squares = 0;
    for (size_t k = 0; k < first.size(); ++k) {
      const std::vector<double> last = task.model().parameters()[k].to_doubles();
      for (size_t i = 0; i < last.size(); ++i) squares += std::pow(last[i] - first[k][i], 2);
    }
    return std::pair(recorder->steps.at(0).grad_norm, std::sqrt(squares));
  };
  const auto [unsaid, length] = move(0);
  EXPECT_FALSE(unsaid.has_value());
  ASSERT_GT(length, 0.25);
  for (const double limit : {0.125, 1.0, 1e3}) {
    const auto [norm, moved] = move(limit);
    ASSERT_TRUE(norm.has_value()) << limit;
    EXPECT_NEAR(*norm, length, 1e-5) << limit;
    EXPECT_NEAR(moved, std::min(length, limit), 1e-5) << limit;
  }
}

TEST(TrainerLoop, CallbacksComeInOrder) {
  Config c;
  c.training.batch = 40;  // two steps an epoch
  c.training.epochs = 2;
  const test::TemporaryFolder folder;
  EXPECT_EQ(run(c, host(), folder.path() + "/run").recorder->said, "S(<><>EC)(<><>)ECT");
  c.log.eval_every = 1;
  c.checkpoint.every = 3;
  EXPECT_EQ(run(c, host(), folder.path() + "/other").recorder->said, "S(<>E<>E)(<>EC<>)ECT");
  EXPECT_EQ(run(c, host()).recorder->said, "S(<>E<>E)(<>E<>)ET");  // without a folder nothing is saved
}

TEST(TrainerLoop, ScheduleAndRatesAreSaid) {
  Config c;
  c.training.batch = 32;
  c.training.steps = 6;
  c.optimizer.lr = 0.5;
  c.schedule.name = "step";
  c.schedule.every = 2;
  c.schedule.gamma = 0.5;
  const Ran ran = run(c, host());
  std::vector<double> rates;
  for (const StepRecord& step : ran.recorder->steps) rates.push_back(step.lr);
  EXPECT_EQ(rates, (std::vector<double>{0.5, 0.5, 0.25, 0.25, 0.125, 0.125}));
  EXPECT_EQ(ran.recorder->steps.back().epoch, 2);
}

TEST(TrainerLoop, PlateauCutsTheRate) {
  Config c;
  c.training.batch = 32;
  c.training.steps = 5;
  c.log.eval_every = 1;
  c.optimizer.lr = 0.5;
  c.schedule.name = "plateau";
  c.schedule.patience = 1;
  SmallTask task(1, 0, host());
  task.next_losses = {1, 1, 1, 1, 1};
  Trainer trainer(task, c, host());
  const auto recorder = std::make_shared<Recorder>();
  trainer.add(recorder);
  trainer.run();
  std::vector<double> rates;
  for (const StepRecord& step : recorder->steps) rates.push_back(step.lr);
  EXPECT_EQ(rates, (std::vector<double>{0.5, 0.5, 0.5, 0.05, 0.05}));
}

// A scale that is too large overflows: updates are left out and counted, it is halved, and a resumed run knows it.
TEST(TrainerLoop, LossScaleIsSaidAndResumed) {
  Config c = config_with_everything();
  c.training.clip_value = 0;
  c.training.precision = "f16";
  c.training.loss_scale = 1e9;
  const Ran whole = run(c, host());
  EXPECT_GT(*whole.recorder->steps.back().skipped, 0);
  EXPECT_LT(*whole.recorder->steps.back().loss_scale, 1e9);
  const test::TemporaryFolder folder;
  run(c, host(), folder.path() + "/run", false, [](Trainer& t) {
    if (t.step() == 6) t.interrupt();
  });
  const Ran rest = run(c, host(), folder.path() + "/run", true);
  EXPECT_EQ(rest.weights, whole.weights);
  EXPECT_EQ(rest.recorder->steps.back().skipped, whole.recorder->steps.back().skipped);
  c.training.clip_value = 1;
  EXPECT_TRUE(contains(test::thrown_text<ValueError>([&] { run(c, host()); }), "f16 does not go with clip_value"));
}

TEST(TrainerLoop, EarlyStoppingEndsAndSurvivesResuming) {
  Config c;
  c.training.batch = 96;
  c.training.epochs = 50;
  c.training.early_stop = 3;
  const test::TemporaryFolder folder;
  const auto one = [&](bool resume, int64_t limit) {
    c.training.limit_steps = limit;
    SmallTask task(1, 0, host());
    task.next_losses = {5};
    if (!resume) task.next_losses = {4, 3};
    RunFolder files(folder.path() + "/run", resume);
    Trainer trainer(task, c, host());
    trainer.write_to(files);
    if (resume) trainer.resume();
    const Outcome outcome = trainer.run();
    return std::pair(outcome, trainer.step());
  };
  EXPECT_EQ(one(false, 2), std::pair(Outcome::finished, int64_t{2}));
  EXPECT_EQ(one(true, 0), std::pair(Outcome::stopped, int64_t{5}));  // three evaluations worse than 3
}

TEST(TrainerLoop, TheTestDataIsLookedAtOnceAtTheEnd) {
  DeviceContext& host = device("reference:0");
  struct Tests final : Callback {
    void on_test(Trainer& t, const Evaluation& e) override {
      ++calls;
      EXPECT_EQ(t.step(), t.last_step());
      EXPECT_EQ(e.examples, 7);
    }
    int calls = 0;
  };
  for (const bool has_test : {true, false}) {
    SmallTask task(1, 0, host);
    task.has_test = has_test;
    Config c = config_with_everything();
    Trainer trainer(task, c, host);
    const auto seen = std::make_shared<Tests>();
    trainer.add(seen);
    trainer.run();
    EXPECT_EQ(task.evaluations, 3);
    EXPECT_EQ(task.tests, 1);
    EXPECT_EQ(seen->calls, has_test ? 1 : 0);
    EXPECT_EQ(trainer.evaluation().split, "validation");
    EXPECT_EQ(trainer.tested().examples, has_test ? 7 : 0);
  }
}

// The time that is left would be foretold by it.
TEST(TrainerLoop, CompilingIsNoPartOfTheStepTime) {
  DeviceContext& host = device("reference:0");
  SmallTask task(1, 0, host);
  task.compiling_time = std::chrono::milliseconds(500);
  Config c = config_with_everything();
  c.training.epochs = 2;
  c.log.eval_every = 1000;
  Trainer trainer(task, c, host);
  trainer.run();
  EXPECT_LT(trainer.report().median_step_seconds, 0.04);
  EXPECT_GT(trainer.report().training_seconds, 0.5);
}

TEST(TrainerLoop, TheAverageIsEvaluatedAndSaved) {
  Config c = config_with_everything();
  c.training.ema = 0.999;
  const test::TemporaryFolder folder;
  const Ran ran = run(c, host(), folder.path() + "/run");
  const ModelFile file = read_model_file(folder.path() + "/run", host());
  EXPECT_EQ(file.metadata.at("classes"), "three");
  EXPECT_EQ(file.config.str(), c.str());
  EXPECT_NE(file.state.at("0.weight").to_doubles(), ran.weights);
}

TEST(TrainerLoop, ACheckpointMovesBetweenDevices) {
  if (test::kernel_devices().empty()) GTEST_SKIP() << "no device runs kernels here";
  Config c = config_with_everything();
  const Ran whole = run(c, host());
  const test::TemporaryFolder folder;
  c.training.limit_steps = 20;
  run(c, device(test::kernel_devices()[0]), folder.path() + "/run");
  c.training.limit_steps = 0;
  const Ran rest = run(c, host(), folder.path() + "/run", true);
  ASSERT_EQ(rest.recorder->steps.size(), 16u);
  for (size_t i = 0; i < 16; ++i)
    EXPECT_NEAR(rest.recorder->steps[i].loss, whole.recorder->steps[20 + i].loss, 1e-4) << i;
}

TEST(TrainerLoop, NumbersThatCannotBeMeantAreRefused) {
  const auto refused = [](const auto& change, const char* part) {
    Config c = config_with_everything();
    change(c);
    EXPECT_TRUE(contains(test::thrown_text<ValueError>([&] { run(c, host()); }), part));
  };
  refused([](Config& c) { c.data.workers = (int64_t{1} << 32) + 3; }, "[train] 4294967299 workers");
  refused([](Config& c) { c.training.batch = INT64_MIN; },
          "[train] an update cannot take 1 batches of -9223372036854775808");
  refused([](Config& c) { c.training.batch = c.training.accumulate = int64_t{1} << 32; },
          "[train] an update cannot take");
  refused([](Config& c) { c.training.epochs = INT64_MAX; },
          "[train] 9223372036854775807 epochs of 12 updates are too many");
}

TEST(TrainerLoop, ResumedRunsMustAgree) {
  Config c = config_with_everything();
  const test::TemporaryFolder folder;
  c.training.limit_steps = 2;
  run(c, host(), folder.path() + "/run");
  const auto refused = [&](const auto& change, const char* part) {
    Config other = c;
    change(other);
    EXPECT_TRUE(
        contains(test::thrown_text<ValueError>([&] { run(other, host(), folder.path() + "/run", true); }), part));
  };
  refused([](Config& o) { o.run.seed = 2; }, "seed 1, this run has 2");
  refused([](Config& o) { o.training.batch = 16; }, "batch 8, this run has 16");
  refused([](Config& o) { o.training.ema = 0; }, "ema 0.9, this run has 0");
  refused([](Config& o) { o.training.steps = 1; }, "is at step 2, this run ends at step 1");
}

}  // namespace
}  // namespace heddle::train
