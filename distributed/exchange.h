// Exchange: what one rank does in a collective, as messages and host work with an order.
//
// Purpose: an algorithm (schedules.h) writes down its tasks and what each waits for; running them is the same for all.
// Invariants: a task waits only for tasks that were added before it. Messages to one rank on one lane are sent in the
// order in which they were added, and so are receives from one rank: the two ends add theirs in one order. Thread
// safety: plain value.
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

namespace heddle::distributed {

struct Task {
  enum class Kind { send, receive, work };
  Kind kind = Kind::work;
  int peer = 0;  // rank in the world
  int lane = 0;  // 0 or 1
  std::span<std::byte> bytes;
  std::function<void()> work;
  std::vector<size_t> then;  // tasks that wait for this one
  size_t waits = 0;          // for how many it waits
};

class Exchange {
 public:
  using Place = size_t;
  static constexpr Place none = static_cast<Place>(-1);  // of a task that waits for nothing

  Place send(int peer, int lane, std::span<std::byte> bytes, std::initializer_list<Place> after = {}) {
    return add({.kind = Task::Kind::send, .peer = peer, .lane = lane, .bytes = bytes}, after);
  }
  Place receive(int peer, int lane, std::span<std::byte> bytes, std::initializer_list<Place> after = {}) {
    return add({.kind = Task::Kind::receive, .peer = peer, .lane = lane, .bytes = bytes}, after);
  }
  Place work(std::function<void()> f, std::initializer_list<Place> after = {}) {
    return add({.kind = Task::Kind::work, .work = std::move(f)}, after);
  }
  // `task` waits for one more.
  void wait(Place task, Place before) {
    if (before == none) return;
    tasks_[before].then.push_back(task);
    ++tasks_[task].waits;
  }

  std::vector<Task>& tasks() { return tasks_; }
  const std::vector<Task>& tasks() const { return tasks_; }

 private:
  Place add(Task task, std::initializer_list<Place> after) {
    tasks_.push_back(std::move(task));
    for (const Place before : after) wait(tasks_.size() - 1, before);
    return tasks_.size() - 1;
  }

  std::vector<Task> tasks_;
};

}  // namespace heddle::distributed
