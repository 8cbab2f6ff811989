// Trainings of char-gpt by ranks that have parts of its model: threads of one process, each with a task of its own.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/device/registry.h"
#include "heddle/core/functions/random/generator_scope.h"
#include "heddle/train/model_parallel/parted_task.h"
#include "heddle/train/recipe.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {

inline std::string text_of(int64_t letters, int64_t length) {
  std::string text;
  uint32_t state = 7;
  for (int64_t i = 0; i < length; ++i) {
    state = state * 1664525u + 1013904223u;
    text.push_back(static_cast<char>('a' + (state >> 24) * static_cast<uint32_t>(letters) / 256));
  }
  return text;
}

class RunsOfMeshes : public testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_ / "text.txt") << text_of(12, 3000);
    std::ofstream(folder_ / "odd.txt") << text_of(13, 3000);
  }

  Config config(int64_t steps = 10) const {
    Config c = recipe_config("char-gpt");
    c.data.path = folder_ / "text.txt";
    c.data.limit_test = 8;
    c.model["layers"] = Integer{4};
    c.model["heads"] = Integer{2};
    c.model["width"] = Integer{16};
    c.model["context"] = Integer{8};
    c.training.batch = 8;
    c.training.steps = steps;
    c.schedule.warmup = 2;
    c.log.eval_every = steps;
    c.log.sample_every = 1000;  // samples of 200 tokens take long
    c.run.device = device_;
    c.run.seed = 3;
    return c;
  }

  Config with_experts(int64_t experts) const {
    Config c = config();
    c.model["experts"] = Integer{experts};
    c.model["capacity_factor"] = Number{8};
    return c;
  }

  struct Run {
    std::string mesh = {};
    int ranks = 1;
    std::string folder = {};  // of the run
    bool resume = false;
    double limit = 120;  // seconds that a rank waits for another
  };

  std::vector<Ran> run(const Config& config, const Run& how) {
    std::vector<Ran> ran;
    const std::vector<std::string> errors = run_to_end(config, how, ran);
    for (size_t rank = 0; rank < errors.size(); ++rank) EXPECT_EQ(errors[rank], "") << how.mesh << ", rank " << rank;
    return ran;
  }

  // What each rank threw.
  std::vector<std::string> run_to_end(const Config& config, const Run& how, std::vector<Ran>& ran) {
    std::vector<std::unique_ptr<Task>> tasks;
    std::vector<Config> configs(static_cast<size_t>(how.ranks), config);
    for (Config& c : configs) tasks.push_back(make_task(c, device(device_)));
    ran.resize(tasks.size());
    RunsOfRanks options{.folder = how.folder, .resume = how.resume};
    return distributed::test::run_ranks(
        how.ranks,
        [&](distributed::World& world) {
          const auto me = static_cast<size_t>(world.rank());
          Generator chance{static_cast<uint64_t>(config.run.seed), 1000};
          const GeneratorScope own(chance);
          try {
            Replicas ranks(world, how.mesh);
            Replicas* const others = how.ranks > 1 || config.training.parts > 0 ? &ranks : nullptr;
            const std::unique_ptr<Task> task = in_parts(std::move(tasks[me]), configs[me], device(device_), others);
            ran[me] = train_one(*task, configs[me], device(device_), others, options);
          } catch (...) {
            world.give_up();  // does not wait for the others
            throw;
          }
        },
        {.world = {.limit_seconds = how.limit}});
  }

  void expect_as_alone(const Config& c, const Run& how, double relative = 1e-5) {
    Config one = c;
    one.training.microbatches = 0;
    one.training.sequence_parallel = false;
    const Ran alone = run(one, {}).front();
    const std::vector<Ran> ran = run(c, how);
    for (const Ran& rank : ran) {
      expect_near(rank.losses, alone.losses, relative);
      EXPECT_EQ(rank.weights, ran.front().weights) << how.mesh;
    }
  }

  // What a mesh of threads says.
  std::string refusal(const Config& c, const Run& how) {
    std::unique_ptr<Task> task;
    Config own = c;
    std::vector<std::unique_ptr<Task>> tasks;
    for (int i = 0; i < how.ranks; ++i) tasks.push_back(make_task(own, device(device_)));
    return distributed::test::run_ranks(how.ranks,
                                        [&](distributed::World& world) {
                                          Replicas ranks(world, how.mesh);
                                          (void)in_parts(std::move(tasks[static_cast<size_t>(world.rank())]), c,
                                                         device(device_), &ranks);
                                        })
        .front();
  }

  test::TemporaryFolder folder_;
  std::string device_ = "reference:0";
};

}  // namespace heddle::train
