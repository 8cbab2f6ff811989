// What a device with a queue of its own keeps of its submissions: tickets, order, times, and waiting with a limit.
//
// Purpose: the OpenCL and CUDA backends differ in what an event is, not in how they count. Invariants: tickets grow by one from 1; entries leave in order.
// Thread safety: none; used by one device.
#pragma once

#include <algorithm>
#include <chrono>
#include <deque>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/device/validate.h"

namespace heddle {

[[noreturn]] void throw_unknown_ticket(const char* place, const std::string& device, Ticket ticket);
[[noreturn]] void throw_freed_buffer(const std::string& device, BufferId buffer);

// Entry has a field `ticket`.
template <class Entry>
class InFlightList {
 public:
  static constexpr size_t most = 64;  // submissions the host may run ahead

  Ticket add(Entry entry) {
    entry.ticket = ++last_;
    entries_.push_back(std::move(entry));
    return Ticket{last_};
  }
  uint64_t last() const { return last_; }
  std::deque<Entry>& entries() { return entries_; }

  void check_known(Ticket ticket, const char* place, const std::string& device) const {
    if (static_cast<uint64_t>(ticket) > last_) throw_unknown_ticket(place, device, ticket);
  }
  // Null when it has been retired.
  Entry* find(Ticket ticket) {
    const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.ticket == static_cast<uint64_t>(ticket); });
    return at == entries_.end() ? nullptr : &*at;
  }

  // Lets go of all up to `ticket`, which have finished: retire(entry), then out of the list.
  template <class Retire>
  void retire(uint64_t ticket, const Retire& retire) {
    while (!entries_.empty() && entries_.front().ticket <= ticket) {
      Entry entry = std::move(entries_.front());
      entries_.pop_front();
      retire(entry);
    }
  }
  // The same for those that have finished; true when none up to `ticket` is left.
  template <class Finished, class Retire>
  bool retire_finished(uint64_t ticket, const Finished& finished, const Retire& retire_one) {
    while (!entries_.empty() && entries_.front().ticket <= ticket && finished(entries_.front())) retire(entries_.front().ticket, retire_one);
    return entries_.empty() || entries_.front().ticket > ticket;
  }

  // Times of finished timed submissions: the newest few.
  void keep_times(uint64_t ticket, std::vector<double> seconds) {
    times_.emplace_back(ticket, std::move(seconds));
    if (times_.size() > most) times_.pop_front();
  }
  void give_times(Ticket ticket, std::vector<double>& seconds) const {
    for (const auto& [timed, values] : times_) {
      if (timed == static_cast<uint64_t>(ticket)) seconds = values;
    }
  }

 private:
  std::deque<Entry> entries_;
  std::deque<std::pair<uint64_t, std::vector<double>>> times_;
  uint64_t last_ = 0;
};

// Looks from time to time whether done(); false when running() has not changed for `limit` seconds: whatever finishes meanwhile is progress.
template <class Done, class Running>
bool wait_with_limit(double limit, const Done& done, const Running& running) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point progress = Clock::now();
  size_t before = running();
  for (auto pause = std::chrono::microseconds(1); !done(); pause = std::min(2 * pause, std::chrono::microseconds(500))) {
    if (const size_t now = running(); now != before) {
      before = now;
      progress = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - progress).count() > limit) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

// "it finished nothing for 2 s (HEDDLE_TIMEOUT); last commands: ...".
std::string timeout_text(double limit, const std::string& last_commands);

// Handles of a device that keeps its buffers (with .bytes) and kernels (with .signature) in maps by number.
template <class Buffers, class Kernels>
HandleLookup lookup_in(const Buffers& buffers, const Kernels& kernels) {
  return {[&buffers](BufferId id) {
            const auto found = buffers.find(static_cast<uint64_t>(id));
            return found == buffers.end() ? nullptr : &found->second.bytes;
          },
          [&kernels](KernelId id) {
            const auto found = kernels.find(static_cast<uint64_t>(id));
            return found == kernels.end() ? nullptr : &found->second.signature;
          }};
}

// Recordings hold plain addresses: after a free(), one that used the buffer must not run again. `frees`: number of buffers freed so far.
template <class Recording, class Buffers>
void check_recorded_buffers(Recording& recording, const Buffers& buffers, uint64_t frees, const std::string& device) {
  if (recording.checked_at == frees) return;
  for (BufferId id : recording.buffers) {
    if (!buffers.contains(static_cast<uint64_t>(id))) throw_freed_buffer(device, id);
  }
  recording.checked_at = frees;
}

}  // namespace heddle
