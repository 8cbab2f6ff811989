// train/tensorboard.h: what a run leaves for TensorBoard, and that leaving it changes nothing.
#include "heddle/train/tensorboard.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

#include "heddle/core/device/context.h"
#include "heddle/train/trainer.h"
#include "tests/support/devices.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/small_task.h"
#include "tests/train/tensorboard_reader.h"

namespace heddle::train {
namespace {

using Json = nlohmann::json;

constexpr double rate = 0.25;

// Plain gradient descent: the step of a weight is -rate times its gradient.
Config plain(int64_t histograms_every) {
  Config c;
  c.training.batch = 8;
  c.training.accumulate = 2;
  c.training.epochs = 2;
  c.optimizer.name = "sgd";
  c.optimizer.momentum = 0;
  c.optimizer.lr = rate;
  c.schedule.name = "constant";
  c.log.histograms_every = histograms_every;
  return c;
}

// Compares the gradients that were kept with the steps of the weights.
class StepWatcher final : public Callback {
 public:
  void on_batch_start(Trainer& t) override { before_ = t.task().model().parameters().front().to_doubles(); }
  void on_batch_end(Trainer& t) override {
    if (t.step() % t.config().log.histograms_every != 0) return;
    const std::vector<double> after = t.task().model().parameters().front().to_doubles(),
                              gradient = t.gradients().front().to_doubles();
    for (size_t i = 0; i < after.size(); ++i)
      EXPECT_NEAR((before_[i] - after[i]) / rate, gradient[i], 1e-5) << "update " << t.step();
    ++compared;
  }
  int compared = 0;

 private:
  std::vector<double> before_;
};

struct Watched {
  std::vector<double> weights;
  int compared = 0;
};

Watched watched_run(const Config& config, DeviceContext& device, const std::string& folder) {
  SmallTask task(1, 0.3, device);
  Trainer trainer(task, config, device);
  RunFolder files(folder, false);
  trainer.write_to(files);
  const auto watcher = std::make_shared<StepWatcher>();
  if (config.log.histograms_every > 0) trainer.add(watcher);
  trainer.run();
  return {task.model().parameters().front().to_doubles(), watcher->compared};
}

TEST(Tensorboard, GradientsAreThoseOfTheUpdateAndTheRunIsTheSame) {
  for (const std::string& id : test::value_devices()) {
    const test::TemporaryFolder folder;
    const Watched without = watched_run(plain(0), device(id), folder / "without"),
                  with = watched_run(plain(5), device(id), folder / "with");
    EXPECT_EQ(with.weights, without.weights) << id;
    EXPECT_EQ(with.compared, 2) << id;
  }
}

TEST(Tensorboard, ShowsTheRun) {
  if (!test::has_tensorboard())
    GTEST_SKIP() << "no tensorboard package for " << test::python() << " (HEDDLE_TEST_PYTHON names another)";
  const test::TemporaryFolder folder;
  watched_run(plain(4), device("reference:0"), folder / "run");
  const Json found = test::read_events(folder / "run/events");
  std::set<std::string> scalars, histograms;
  for (const auto& [tag, values] : found["scalars"].items()) scalars.insert(tag);
  for (const auto& [tag, values] : found["histograms"].items()) histograms.insert(tag);
  EXPECT_EQ(scalars, (std::set<std::string>{"train/loss", "train/lr", "train/samples_per_second", "validation/loss"}));
  EXPECT_EQ(histograms, (std::set<std::string>{"weights/0/weight", "weights/0/bias", "weights/3/weight",
                                               "weights/3/bias", "gradients/0/weight", "gradients/0/bias",
                                               "gradients/3/weight", "gradients/3/bias"}));
  EXPECT_EQ(found["scalars"]["train/loss"].size(), 12u);
  EXPECT_EQ(found["histograms"]["weights/0/weight"].size(), 3u);
  EXPECT_EQ(found["histograms"]["weights/0/weight"][0][3], 80);  // elements
  EXPECT_TRUE(test::contains(found["texts"]["config"][0][2][0].get<std::string>(), "accumulate = 2"));
  std::set<std::string> vertices;
  for (const Json& vertex : found["graph"]) vertices.insert(vertex[0]);
  for (const char* name : {"0/weight", "0/bias", "3/weight", "3/bias"}) EXPECT_TRUE(vertices.contains(name)) << name;
}

}  // namespace
}  // namespace heddle::train
