// Group::State: what the copies of a group share. Thread safety: its numbers are counted under the lock.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "heddle/distributed/communication_thread.h"
#include "heddle/distributed/group.h"
#include "heddle/distributed/schedules.h"

namespace heddle::distributed {

struct Group::State {
  std::string name;
  Members members;
  int number = 0;                               // the same on all ranks
  uint64_t hash = 0;                            // of the name and the ranks
  uint64_t generation = 0;                      // of the world
  std::shared_ptr<CommunicationThread> thread;  // none: a world of one

  std::mutex mutex;
  uint64_t calls = 0;
  std::map<std::pair<int, int>, uint64_t> messages;  // by sender and receiver

  Ticket submit(Call call, const Buffers& buffers);
  Ticket submit_pair(Call call, const Buffers& buffers, int from, int to);
  Ticket hand_over(Call call, const Buffers& buffers, Members who);
};

}  // namespace heddle::distributed
