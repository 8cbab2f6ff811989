#include "heddle/distributed/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <numeric>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/group_state.h"

namespace heddle::distributed {
namespace {

const WorldOptions& checked(const WorldOptions& options) {
  if (!(options.limit_seconds > 0))
    throw ValueError(fmt::format("[world] the limit is {} s; it must be above 0", options.limit_seconds));
  for (const size_t bytes : {options.piece_bytes, options.far_piece_bytes})
    if (bytes == 0 || bytes > Transport::largest_message)
      throw ValueError(fmt::format("[world] pieces of {} bytes; there may be 1 to 2^30", bytes));
  return options;
}

void check_partition(const std::string& name, const Partition& partition, int size) {
  std::vector<int> times(static_cast<size_t>(size));
  for (const std::vector<int>& part : partition) {
    for (const int rank : part) {
      if (rank < 0 || rank >= size)
        throw ValueError(fmt::format("[group] {}: there is no rank {} in a world of {}", name, rank, size));
      ++times[static_cast<size_t>(rank)];
    }
  }
  for (int rank = 0; rank < size; ++rank) {
    if (times[static_cast<size_t>(rank)] != 1)
      throw ValueError(fmt::format("[group] {}: rank {} stands in {} parts; each stands in one", name, rank,
                                   times[static_cast<size_t>(rank)]));
  }
}

constexpr size_t most_groups = 4096;  // which messages tell apart (running_call.cpp)

Members members_of(const Partition& partition, int rank) {
  for (const std::vector<int>& part : partition) {
    for (size_t place = 0; place < part.size(); ++place) {
      if (part[place] == rank) return {.ranks = part, .me = place};
    }
  }
  return {};
}

}  // namespace

World::World() = default;

World::World(std::function<std::unique_ptr<Transport>()> open, const WorldOptions& options)
    : thread_(std::make_shared<CommunicationThread>(std::move(open), checked(options))),
      life_(thread_->life()),
      survives_(options.survives) {}

World::~World() = default;

int World::rank() const { return life_.rank; }
int World::size() const { return life_.size; }
std::string World::transport() const { return thread_ ? thread_->name() : "none"; }

uint64_t World::bytes_sent() const { return thread_ ? thread_->bytes_sent() : 0; }
double World::limit_seconds() const { return thread_ ? thread_->limit_seconds() : WorldOptions{}.limit_seconds; }
void World::give_up() {
  if (thread_) thread_->give_up();
}

void World::renew() {
  if (!thread_) throw CommunicationError("[world] a world of one loses no rank");
  life_ = thread_->renewed(life_.generation);
  const std::lock_guard lock(mutex_);
  groups_.clear();
}

Group World::all() {
  std::vector<int> ranks(static_cast<size_t>(size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return group("all ranks", {ranks});
}

Group World::group(const std::string& name, const Partition& partition) {
  check_partition(name, partition, size());
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find({name, partition});
  if (found != groups_.end()) return found->second;
  if (groups_.size() == most_groups)
    throw ValueError(fmt::format("[group] {}: a world has at most {} groups", name, most_groups));
  auto state = std::make_shared<Group::State>();
  state->name = name;
  state->members = members_of(partition, rank());
  state->number = static_cast<int>(groups_.size());
  state->hash = hash_string(fmt::format("{} {}", name, fmt::join(state->members.ranks, " ")));
  state->generation = life_.generation;
  state->thread = thread_;
  return groups_.emplace(std::pair(name, partition), Group(std::move(state))).first->second;
}

Group World::group(const Mesh& mesh, const std::vector<std::string>& axes) {
  if (mesh.ranks() != size())
    throw ValueError(fmt::format("[mesh] {} needs {} ranks; the world has {}", mesh.str(), mesh.ranks(), size()));
  return group(fmt::format("{}", fmt::join(axes, ",")), mesh.groups(axes));
}

}  // namespace heddle::distributed
