// SurvivorState: what a run is in the memory of a rank when another one was lost, and which rank's goes on.
//
// Purpose: ranks that share batches alone all have the whole run: weights, the optimizer's states, its place in the
// data. One may be an update ahead of another, since the last sum of an update can reach one rank and not the other:
// the state of the most advanced one is everybody's, so that no update that any of them took is lost. Ranks that share
// states of optimizers have copies of their own part and of another one's (train/buddy_copies.h). Invariants: bytes lie
// on the host and belong to the state; all ranks have the same state afterwards. Errors: those of distributed/errors.h,
// and ValueError for runs whose ranks have more than batches and states in parts. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/train/callback.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"
#include "heddle/train/state_pieces.h"

namespace heddle::train {

struct SurvivorState {
  int64_t step = 0;                           // updates done
  std::map<std::string, HostTensor> tensors;  // as a checkpoint's, and so is the metadata
  Metadata metadata;
  std::vector<StepRecord> untold;  // of updates that no callback was told of yet
};

// What a rank that shares states has of the run as it was once.
struct BuddyCopy {
  int64_t number = 0;         // of the copies that all ranks made then, counted from the trainer's beginning
  int64_t step = 0;           // updates done
  int owner = 0, owners = 1;  // its place among those that own all elements together
  int64_t owner_before = -1;  // the place of the rank before it, whose part has come; -1: not yet
  SurvivorState rest = {};    // what all ranks have
  std::vector<uint8_t> own = {}, before = {};  // what it owns, and the rank before it, each as a safetensors file
};

// What a rank leaves of a run when another one was lost.
struct Remains {
  std::optional<SurvivorState> state = {};  // none where ranks share states, but for one that it has just gone on from
  std::vector<BuddyCopy> copies = {};       // the youngest first
  int64_t told = 0;                         // the last update that callbacks were told of
};

// Waits for the device.
SurvivorState on_host(const Checkpoint& checkpoint, int64_t step, std::vector<StepRecord> untold);
// Where states of optimizers stay on the host the checkpoint's point into the state.
Checkpoint to_device(const SurvivorState& state, DeviceContext& device, States states);

// All ranks that are left: the state of the one with the most updates, of the lowest rank among several.
SurvivorState most_advanced(Replicas& replicas, SurvivorState mine);

// Refuses what cannot go on without a rank.
void check_survivable(const Config& config, const Replicas& replicas);

}  // namespace heddle::train
