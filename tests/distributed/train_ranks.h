// Trainings by ranks that are threads of one process, and by one process alone, on a task of milliseconds.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/device/registry.h"
#include "heddle/train/run_folder.h"
#include "heddle/train/trainer.h"
#include "tests/distributed/rank_threads.h"
#include "tests/train/small_task.h"

namespace heddle::train {

// Trainings on a device that the parameter names.
class TrainsOnRanks : public testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::string> on(size_t ranks) { return std::vector<std::string>(ranks, GetParam()); }
};

struct Losses final : Callback {
  void on_steps(Trainer&, std::span<const StepRecord> records) override {
    for (const StepRecord& record : records) all.push_back(record.loss);
  }
  void on_batch_start(Trainer& trainer) override {
    if (before) before(trainer);
  }
  std::vector<double> all;
  std::function<void(Trainer&)> before;
};

struct Ran {
  std::vector<double> losses;
  std::string weights;
  Outcome outcome = Outcome::finished;
  uint64_t bytes = 0;  // sent
};

using Before = std::function<void(Trainer& trainer, int rank)>;

struct RunsOfRanks {
  Before before = {};
  std::vector<double> evaluations = {};  // what the task says instead of its own
  int64_t width = 16;                    // of the small task
  std::string folder = {};               // of the run; empty: none
  bool resume = false;
  std::string mesh = {};                                                  // of the ranks; empty: all along dp
  std::function<std::unique_ptr<Task>(DeviceContext& device)> make = {};  // another task
  std::function<void(const Trainer& trainer, Replicas* ranks)> after = {};
};

inline std::unique_ptr<Task> task_of(const RunsOfRanks& how, DeviceContext& device) {
  if (how.make) return how.make(device);
  auto small = std::make_unique<SmallTask>(1, 0, device, how.width);
  small->next_losses = how.evaluations;
  return small;
}

inline Ran train_one(Task& task, const Config& config, DeviceContext& device, Replicas* ranks, const RunsOfRanks& how) {
  const bool leads = ranks == nullptr || ranks->leads();
  std::optional<RunFolder> folder;
  Trainer trainer(task, config, device, ranks);
  if (!how.folder.empty() && leads) trainer.write_to(folder.emplace(how.folder, how.resume));
  const std::vector<std::string> remarks = how.resume ? trainer.resume(how.folder) : std::vector<std::string>();
  EXPECT_EQ(remarks, std::vector<std::string>());
  const auto losses = std::make_shared<Losses>();
  if (how.before) losses->before = [&](Trainer& t) { how.before(t, ranks == nullptr ? 0 : ranks->rank()); };
  trainer.add(losses);
  const Outcome outcome = trainer.run();
  if (how.after) how.after(trainer, ranks);
  return {losses->all, trainer.weights_sha256(), outcome, ranks == nullptr ? 0 : ranks->bytes_sent()};
}

// Models are made one after the other: the generator is the process's. Without dropout nobody draws from it later.
inline std::vector<Ran> train_ranks(const Config& config, const std::vector<std::string>& devices,
                                    const RunsOfRanks& how = {}) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (const std::string& id : devices) tasks.push_back(task_of(how, device(id)));
  std::vector<Ran> ran(devices.size());
  distributed::test::all_ranks(static_cast<int>(devices.size()), [&](distributed::World& world) {
    const auto me = static_cast<size_t>(world.rank());
    Replicas ranks(world, how.mesh);
    ran[me] = train_one(*tasks[me], config, device(devices[me]), &ranks, how);
  });
  return ran;
}

inline Ran train_alone(const Config& config, const std::string& id, const RunsOfRanks& how = {}) {
  return train_one(*task_of(how, device(id)), config, device(id), nullptr, how);
}

inline Config small_config() {
  Config c;
  c.training.batch = 8;
  c.training.steps = 12;
  c.training.ema = 0.9;
  c.training.clip_norm = 0.5;
  c.optimizer.name = "adamw";
  c.log.eval_every = 6;
  return c;
}

inline void expect_near(const std::vector<double>& found, const std::vector<double>& expected, double relative) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i] / expected[i], 1, relative) << "step " << i + 1;
}

}  // namespace heddle::train
