// World: the processes that were started together, as this one sees them.
//
// Purpose: every rank runs the same program; what they tell each other goes through groups of a world (group.h).
// Invariants: all ranks make their groups in the same order. Groups and tickets go before their world. A world that met
// a failure is broken and stays so, unless it survives (WorldOptions) and the failure was that a rank was lost. Errors:
// those of errors.h. Thread safety: any thread may use it; calls of one group
// come from one thread at a time, since their order counts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "heddle/distributed/group.h"
#include "heddle/distributed/mesh.h"
#include "heddle/distributed/transport.h"
#include "heddle/distributed/world_options.h"

namespace heddle::distributed {

class World {
 public:
  // A world of this process alone: no thread, no library.
  World();
  // `open` runs on the world's thread, as all calls of what it gives do. Errors: what `open` throws; ValueError for
  // options without sense.
  explicit World(std::function<std::unique_ptr<Transport>()> open, const WorldOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const;
  int size() const;
  // What carries its messages: "Open MPI v4.1.4", "threads"; "none" of a world of one.
  std::string transport() const;

  // Whether it goes on without ranks that are lost.
  bool survives() const { return survives_; }

  // By this rank, of calls that have ended, comparing them included.
  uint64_t bytes_sent() const;
  // That a call may be without progress (WorldOptions).
  double limit_seconds() const;
  // This rank fails: calls under way and to come do, and the world's end waits for nobody.
  void give_up();
  // Of a world that survives, behind a CommunicationError: it becomes that of the ranks that are left, in their order,
  // with groups of its own; calls of earlier groups fail. Each of these ranks calls it. CommunicationError where nobody
  // was lost, or a rank failed by itself.
  void renew();

  // All ranks, in their order.
  Group all();
  // This rank's part of a partition of the world; the same group for the same name and partition. Every rank calls
  // this. Errors: ValueError where a rank of the world is in none or several of the parts, and past 4,096 groups.
  Group group(const std::string& name, const Partition& partition);
  // The ranks that differ along these axes of a mesh alone. Errors: those of Mesh::groups().
  Group group(const Mesh& mesh, const std::vector<std::string>& axes);

 private:
  std::shared_ptr<CommunicationThread> thread_;  // none: a world of one
  WorldLife life_;
  bool survives_ = false;
  std::mutex mutex_;
  std::map<std::pair<std::string, Partition>, Group> groups_;
};

}  // namespace heddle::distributed
