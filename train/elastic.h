// A rank that goes on when others are lost (`heddle train --elastic`).
//
// Purpose: each time a rank is lost the others make a smaller world (distributed/world.h), agree on the state that the
// most advanced of them has (train/survivor_state.h), or on the youngest one that they have together
// (train/buddy_copies.h), and train on from there with a trainer of their own. Errors: those of the training;
// CommunicationError where a rank failed by itself, which ends all. Thread safety: none.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "heddle/distributed/world.h"
#include "heddle/train/callback.h"
#include "heddle/train/replicas.h"
#include "heddle/train/survivor_state.h"

namespace heddle::train {

// Behind a loss, what it begins with; no state where it goes on from the last checkpoint.
struct Survival {
  Remains mine;
  std::optional<LostRanks> lost;  // none: nobody yet
};

// `once` runs one trainer to its end, or leaves what remains in `survival` when a rank is lost; gives the exit code.
using TrainOnce = std::function<int(Replicas& replicas, Survival& survival)>;
int train_with_survivors(distributed::World& world, const std::string& mesh, const TrainOnce& once);

}  // namespace heddle::train
