// SurvivorState: what a run is in the memory of a rank when another one was lost, and which rank's goes on.
//
// Purpose: ranks that share batches alone all have the whole run: weights, the optimizer's states, its place in the
// data. One may be an update ahead of another, since the last sum of an update can reach one rank and not the other:
// the state of the most advanced one is everybody's, so that no update that any of them took is lost. Invariants: bytes
// lie on the host and belong to the state; all ranks have the same state afterwards. Errors: those of
// distributed/errors.h, and ValueError for runs whose ranks have more than batches in parts. Thread safety: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/train/callback.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

struct HostTensor {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<uint8_t> bytes;
};

struct SurvivorState {
  int64_t step = 0;                           // updates done
  std::map<std::string, HostTensor> tensors;  // as a checkpoint's, and so is the metadata
  Metadata metadata;
  std::vector<StepRecord> untold;  // of updates that no callback was told of yet
};

// Waits for the device.
SurvivorState on_host(const Checkpoint& checkpoint, int64_t step, std::vector<StepRecord> untold);
Checkpoint to_device(const SurvivorState& state, DeviceContext& device);

// All ranks that are left: the state of the one with the most updates, of the lowest rank among several.
SurvivorState most_advanced(Replicas& replicas, SurvivorState mine);

// Refuses what cannot go on without a rank.
void check_survivable(const Config& config, const Replicas& replicas);

}  // namespace heddle::train
