#include "heddle/train/elastic.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <optional>
#include <vector>

#include "heddle/core/base/seconds_since.h"
#include "heddle/distributed/errors.h"
#include "heddle/train/buddy_copies.h"

namespace heddle::train {
namespace {

using Clock = std::chrono::steady_clock;

// Not a rank that made another call, or that does not answer.
bool is_loss(const distributed::CommunicationError& error) {
  return dynamic_cast<const distributed::MismatchError*>(&error) == nullptr &&
         dynamic_cast<const distributed::CommunicationTimeout*>(&error) == nullptr;
}

// The ranks that are left, by the numbers that they had at first, and what they go on from.
void agree(Replicas& replicas, int me, std::vector<int>& ranks, Survival& survival, Clock::time_point noticed) {
  constexpr int64_t nothing = -1;
  Remains& mine = survival.mine;
  const std::vector<int64_t> all = replicas.gather({me, mine.state ? mine.state->step : nothing, mine.told});
  std::vector<int> left, lost;
  int64_t best = nothing, told = 0;
  for (size_t i = 0; i < all.size(); i += 3) {
    left.push_back(static_cast<int>(all[i]));
    best = std::max(best, all[i + 1]);
    told = std::max(told, all[i + 2]);
  }
  std::ranges::set_difference(ranks, left, std::back_inserter(lost));
  if (best != nothing)
    mine.state = most_advanced(replicas, mine.state.value_or(SurvivorState{.step = nothing}));
  else
    mine.state = joined_copies(replicas, mine.copies);
  mine.copies.clear();  // not before: another rank may have been lost meanwhile
  ranks = left;
  survival.lost = {.ranks = lost, .left = replicas.size(), .told = told, .seconds = seconds_since(noticed)};
}

// Nobody leaves before the first rank's files are written: until then another one may have to write them. Who waits
// longer than a rank may for another leaves it to its work.
void leave_together(Replicas& replicas) {
  try {
    replicas.wait(replicas.all().barrier());
  } catch (const distributed::CommunicationTimeout&) {
  } catch (const distributed::CommunicationError&) {
    if (!replicas.leads()) throw;
  }
}

}  // namespace

int train_with_survivors(distributed::World& world, const std::string& mesh, const TrainOnce& once) {
  const int me = world.rank();
  std::vector<int> ranks(static_cast<size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Survival survival;
  Clock::time_point noticed;
  while (true) {
    try {
      Replicas replicas(world, survival.lost ? "" : mesh);
      if (survival.lost) agree(replicas, me, ranks, survival, noticed);
      const int code = once(replicas, survival);
      leave_together(replicas);
      return code;
    } catch (const distributed::CommunicationError& error) {
      if (!is_loss(error)) throw;
    }
    noticed = Clock::now();
    world.renew();
    survival.lost.emplace();
  }
}

}  // namespace heddle::train
