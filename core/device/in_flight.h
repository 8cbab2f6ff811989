// What a device with a queue of its own keeps of its submissions: tickets, order, times, and waiting with a limit.
//
// Purpose: the OpenCL and CUDA backends differ in what an event is, not in how they count. Invariants: tickets grow by
// one from 1; entries leave in order. Thread safety: none; used by one device. What waiter() gives may block beside it.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/base/fifo.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/contract/slices.h"
#include "heddle/core/device/validate.h"

namespace heddle {

[[noreturn]] void throw_unknown_ticket(const char* place, const std::string& device, Ticket ticket);
[[noreturn]] void throw_freed_buffer(const std::string& device, BufferId buffer);

// Looks from time to time whether done(); false when running() has not changed for `limit` seconds: whatever finishes
// meanwhile is progress.
template <class Done, class Running>
bool wait_with_limit(double limit, const Done& done, const Running& running) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point progress = Clock::now();
  size_t before = running();
  for (auto pause = std::chrono::microseconds(1); !done();
       pause = std::min(2 * pause, std::chrono::microseconds(500))) {
    if (const size_t now = running(); now != before) {
      before = now;
      progress = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - progress).count() > limit) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

// Blocks until the last of some events is over. Of its owner it asks: keep(event), release(event) once for each keep,
// and, beside every other call, over(event), whether it has finished or failed, and block_quietly(event) until it is.
template <class Owner, class Event>
class EventWaiter final : public Waiter {
 public:
  // With a limit: `events` are all that come before the last, so that each that is over is progress; `stuck` is set
  // when there is none.
  EventWaiter(Owner& owner, std::vector<Event> events, double limit, std::atomic<bool>& stuck)
      : owner_(owner), events_(std::move(events)), limit_(limit), stuck_(stuck) {
    for (Event event : events_) owner_.keep(event);
  }
  ~EventWaiter() override {
    for (Event event : events_) owner_.release(event);
  }
  EventWaiter(const EventWaiter&) = delete;
  EventWaiter& operator=(const EventWaiter&) = delete;

  void block() noexcept override {
    if (limit_ <= 0) return owner_.block_quietly(events_.back());
    const auto running = [this] {
      return static_cast<size_t>(
          std::count_if(events_.begin(), events_.end(), [this](Event e) { return !owner_.over(e); }));
    };
    if (!wait_with_limit(
            limit_, [this] { return owner_.over(events_.back()); }, running))
      stuck_ = true;
  }

 private:
  Owner& owner_;
  std::vector<Event> events_;
  double limit_;
  std::atomic<bool>& stuck_;
};

// Events that several keep, of a pool: it gets one back when the last lets it go.
template <class Event>
class KeptEvents {
 public:
  void keep(Event event) { kept_.push_back(event); }
  // Whether nobody else keeps it.
  bool release(Event event) {
    const auto at = std::find(kept_.begin(), kept_.end(), event);
    if (at == kept_.end()) return true;
    kept_.erase(at);
    return false;
  }

 private:
  std::vector<Event> kept_;  // once for each owner but the first; nearly always empty
};

// Entry has fields `ticket` and `done`, an event. Of its owner the list asks: finished(event), let_go(entry) of one
// that has finished, block(event) until it has, and give_up(seconds), which throws, when nothing has finished for that
// long; and what an EventWaiter asks.
template <class Owner, class Entry>
class InFlightList {
 public:
  explicit InFlightList(Owner& owner) : owner_(owner) {}

  Ticket add(Entry entry) {
    entry.ticket = ++last_;
    entries_.push_back(std::move(entry));
    return Ticket{last_};
  }
  const Fifo<Entry>& entries() const { return entries_; }
  // Null when it has been let go.
  const Entry* find(Ticket ticket) const {
    const auto at = std::find_if(entries_.begin(), entries_.end(),
                                 [&](const Entry& e) { return e.ticket == static_cast<uint64_t>(ticket); });
    return at == entries_.end() ? nullptr : &*at;
  }

  // Makes room for one more: lets go of what has finished, and waits when the host is too far ahead.
  void make_room() {
    constexpr size_t most = 64;
    if (entries_.size() >= most) wait_for(entries_[most / 2].done);
    done(Ticket{last_}, "", "");
  }
  // The queue is in order: everything has finished.
  void let_go_of_all() { let_go(last_); }

  bool done(Ticket ticket, const char* place, const std::string& device) {
    check_known(ticket, place, device);
    while (!entries_.empty() && entries_.front().ticket <= static_cast<uint64_t>(ticket) &&
           owner_.finished(entries_.front().done))
      let_go(entries_.front().ticket);
    return entries_.empty() || entries_.front().ticket > static_cast<uint64_t>(ticket);
  }

  void wait(Ticket ticket, std::vector<double>* seconds, const std::string& device) {
    if (seconds) seconds->clear();
    if (ticket == Ticket::none) return;
    check_known(ticket, "wait", device);
    if (const Entry* entry = find(ticket)) {
      wait_for(entry->done);
      let_go(entry->ticket);
    }
    if (seconds) *seconds = durations(times(ticket));
  }

  // Null when it has been let go.
  std::unique_ptr<Waiter> waiter(Ticket ticket, const std::string& device) {
    check_known(ticket, "waiter", device);
    using Event = decltype(Entry::done);
    std::vector<Event> events;
    for (const Entry& entry : entries_) {
      if (entry.ticket > static_cast<uint64_t>(ticket)) break;
      if (limit_ > 0 || entry.ticket == static_cast<uint64_t>(ticket)) events.push_back(entry.done);
    }
    if (events.empty()) return nullptr;
    return std::make_unique<EventWaiter<Owner, Event>>(owner_, std::move(events), limit_, stuck_);
  }

  // With HEDDLE_TIMEOUT a look from time to time.
  template <class Event>
  void wait_for(Event event) {
    if (limit_ <= 0) return owner_.block(event);
    if (stuck_ && !owner_.finished(event)) owner_.give_up(limit_);
    const auto running = [this] {
      return static_cast<size_t>(
          std::count_if(entries_.begin(), entries_.end(), [this](const Entry& e) { return !owner_.finished(e.done); }));
    };
    if (!wait_with_limit(
            limit_, [&] { return owner_.finished(event); }, running))
      owner_.give_up(limit_);
  }
  bool limited() const { return limit_ > 0; }

  // Times of finished timed submissions: the newest few.
  void keep_times(uint64_t ticket, std::vector<CommandTime> times) {
    constexpr size_t most = 64;
    times_.emplace_back(ticket, std::move(times));
    if (times_.size() > most) times_.pop_front();
  }
  std::vector<CommandTime> times(Ticket ticket) const {
    const auto found = std::find_if(times_.begin(), times_.end(),
                                    [&](const auto& entry) { return entry.first == static_cast<uint64_t>(ticket); });
    return found == times_.end() ? std::vector<CommandTime>() : found->second;
  }

 private:
  void check_known(Ticket ticket, const char* place, const std::string& device) const {
    if (static_cast<uint64_t>(ticket) > last_) throw_unknown_ticket(place, device, ticket);
  }
  void let_go(uint64_t ticket) {
    while (!entries_.empty() && entries_.front().ticket <= ticket) {
      Entry entry = std::move(entries_.front());
      entries_.pop_front();
      owner_.let_go(entry);
    }
  }

  Owner& owner_;
  double limit_ = timeout_seconds();
  std::atomic<bool> stuck_ = false;  // a waiter saw no progress for so long
  Fifo<Entry> entries_;
  std::deque<std::pair<uint64_t, std::vector<CommandTime>>> times_;
  uint64_t last_ = 0;
};

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

// Recordings hold plain addresses: after a free(), one that used the buffer must not run again. `frees`: number of
// buffers freed so far.
template <class Recording, class Buffers>
void check_recorded_buffers(Recording& recording, const Buffers& buffers, uint64_t frees, const std::string& device) {
  if (recording.checked_at == frees) return;
  for (BufferId id : recording.buffers) {
    if (!buffers.contains(static_cast<uint64_t>(id))) throw_freed_buffer(device, id);
  }
  recording.checked_at = frees;
}

}  // namespace heddle
