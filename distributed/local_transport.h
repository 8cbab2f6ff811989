// LocalWorld: transports between threads of this process, for tests and for simulated worlds.
//
// Invariants: a message is copied when it is sent, so a sender never waits. Thread safety: each transport has one
// thread; different ones may be used at once. They may outlive the LocalWorld.
#pragma once

#include <memory>

#include "heddle/distributed/transport.h"

namespace heddle::distributed {

class LocalWorld {
 public:
  // ValueError for less than one rank.
  explicit LocalWorld(int ranks);
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  // Once for each rank.
  std::unique_ptr<Transport> transport(int rank) const;
  // As if the process of that rank, of those at first, had been killed: its calls fail, those of others that wait for
  // it, and no others.
  void lose(int rank) const;

 private:
  struct Mail;
  class Endpoint;
  std::shared_ptr<Mail> mail_;
};

}  // namespace heddle::distributed
