// Trainings by ranks that are threads, of which some are lost on the way.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/distributed/errors.h"
#include "heddle/train/elastic.h"
#include "tests/distributed/rank_threads.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {

using RankProgram = std::function<void(const distributed::LocalWorld& local, distributed::World& world)>;

// What each rank threw.
inline std::vector<std::string> survive(int ranks, const RankProgram& f) {
  return distributed::test::run_ranks(ranks, f, {.world = {.limit_seconds = 20, .survives = true}});
}

struct Lost {
  int rank = 0;
  int64_t step = 0;  // before that update, from 0
};

struct Survived {
  std::vector<double> losses;  // by update, as the first rank of the moment was told
  std::string weights;
  LostRanks lost;
  int64_t from = 0;  // the update behind which they went on
  int ranks = 0;
};

// Told of what the first rank is told.
struct Told final : Callback {
  explicit Told(Survived& survived) : to(survived) {}
  void on_steps(Trainer&, std::span<const StepRecord> records) override {
    for (const StepRecord& record : records) {
      to.losses.resize(std::max(to.losses.size(), static_cast<size_t>(record.step)));
      to.losses[static_cast<size_t>(record.step) - 1] = record.loss;
    }
  }
  void on_lost_ranks(Trainer& trainer, const LostRanks& ranks) override {
    to.lost = ranks;
    to.from = trainer.step();
  }
  Survived& to;
};

// Ranks are threads, of which those of `lost` go as if they had been killed; what the others left.
inline Survived train_and_lose(int ranks, const Config& config, const std::string& id, const std::vector<Lost>& lost,
                               const RunsOfRanks& how = {}, int64_t copies_every = default_copies_every) {
  std::vector<std::unique_ptr<Task>> tasks;
  for (int rank = 0; rank < ranks; ++rank) tasks.push_back(task_of(how, device(id)));
  Survived all;
  const auto errors = survive(ranks, [&](const distributed::LocalWorld& local, distributed::World& world) {
    const int me = world.rank();
    std::optional<RunFolder> files;
    bool begun = false, gone = false;
    const auto once = [&](Replicas& replicas, Survival& survival) {
      if (gone) throw ValueError("killed");
      Trainer trainer(*tasks[static_cast<size_t>(me)], config, device(id), &replicas);
      trainer.set_copies_every(copies_every);
      if (!how.folder.empty() && replicas.leads()) {
        if (!files) files.emplace(how.folder, begun);
        trainer.write_to(*files);
      }
      if (survival.lost) trainer.set_lost(*survival.lost);
      const bool has_state = survival.mine.state.has_value();
      if (has_state) trainer.go_on(*std::exchange(survival.mine.state, std::nullopt));
      if (survival.lost && !has_state) {
        EXPECT_EQ(trainer.resume(how.folder), std::vector<std::string>());
      }
      const auto looking = std::make_shared<Losses>();
      looking->before = [&](Trainer& t) {
        for (const Lost& one : lost)
          if (one.rank == me && one.step == t.step() && !gone) {
            gone = true;
            local.lose(me);
          }
      };
      trainer.add(looking);
      if (replicas.leads()) trainer.add(std::make_shared<Told>(all));
      begun = true;
      try {
        trainer.run();
      } catch (const distributed::CommunicationError&) {
        if (gone) throw ValueError("killed");
        survival.mine = trainer.remains();
        throw;
      }
      if (replicas.leads()) {
        all.weights = trainer.weights_sha256();
        all.ranks = replicas.size();
      }
      return 0;
    };
    train_with_survivors(world, "", once);
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const bool killed = std::ranges::any_of(lost, [&](const Lost& one) { return one.rank == rank; });
    EXPECT_EQ(errors[static_cast<size_t>(rank)], killed ? "killed" : "") << "rank " << rank;
  }
  return all;
}

// What a run on all ranks up to the loss, and a resumed one on fewer, gives.
inline Ran by_resuming(const Config& config, const std::string& id, size_t ranks, int64_t step, size_t left,
                       RunsOfRanks how = {}) {
  const heddle::test::TemporaryFolder folder;
  Config cut = config;
  cut.training.limit_steps = step;
  cut.checkpoint.every = 1;
  cut.checkpoint.use_best = false;
  how.folder = folder / "run";
  (void)train_ranks(cut, std::vector<std::string>(ranks, id), how);
  how.resume = true;
  return train_ranks(config, std::vector<std::string>(left, id), how).at(0);
}

}  // namespace heddle::train
