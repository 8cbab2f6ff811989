// BuddyCopies: what a rank alone has of a run, kept in its own memory and in that of the next rank (--buddy-every).
//
// Purpose: under ZeRO's stages 1 and 2 a rank that is lost takes the states of its elements with it. Every few updates
// each rank copies them to the host, with its elements of the parameters and of their average, and sends the copy to
// the next one, while the device computes the next update: unless a rank is lost at once with the one behind it the
// others go on from there instead of from the last checkpoint. Invariants: the last two copies are kept, since a loss
// may leave the last one on some ranks alone; who has done an update behind a copy knows that all ranks have that one,
// provided that each settles before it sends what that update needs.
// Errors: those of distributed/errors.h. Thread safety: none.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "heddle/distributed/ticket.h"
#include "heddle/nn/optimizer.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/replicas.h"
#include "heddle/train/survivor_state.h"

namespace heddle::train {

class BuddyCopies {
 public:
  // Elements [begin, end) that this rank owns, by the name that a checkpoint has for the tensor, if it has it; of a
  // tensor of which it owns none, or that does not change, nothing.
  struct Cut {
    int64_t begin = 0, end = 0;
  };
  using Cuts = std::map<std::string, Cut>;

  explicit BuddyCopies(Replicas& replicas) : replicas_(replicas) {}

  // Behind update `step`: copies, and begins to send. `checkpoint`: what all ranks have, of which tensors that `cuts`
  // names are cut and the rest are kept here alone. Waits for the device, and until the rank before has come as far.
  void keep(int64_t step, const Checkpoint& checkpoint, const Cuts& cuts,
            const std::vector<Optimizers::ShardState>& states);
  // Until the last copy has come and gone.
  void settle();
  // All that is kept, the youngest first; behind a failure of the world too. There is nothing afterwards.
  std::vector<BuddyCopy> take();

 private:
  int rank_before() const { return (replicas_.rank() + replicas_.size() - 1) % replicas_.size(); }

  struct UnderWay {
    distributed::Ticket sent, received;
  };

  Replicas& replicas_;
  int64_t made_ = 0;
  std::array<std::optional<BuddyCopy>, 2> kept_;  // the younger one first
  std::optional<UnderWay> under_way_;             // of the younger one; it goes first, and waits
};

// All ranks that are left: the youngest copy that all parts are there of, whole. Nothing where some are gone with their
// ranks.
std::optional<SurvivorState> joined_copies(Replicas& replicas, const std::vector<BuddyCopy>& mine);

}  // namespace heddle::train
