// SlowDevice: a null device on which each submission takes a given time, by the clock: how busy it is does not depend
// on how busy the machine is.
#pragma once

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"

namespace heddle::train {

class SlowDevice final : public Device {
 public:
  using Clock = std::chrono::steady_clock;
  explicit SlowDevice(Clock::duration each) : each_(each), caps_(NullDevice::null_caps()) { caps_.async = true; }

  static std::unique_ptr<DeviceContext> open(Clock::duration each) {
    auto device = std::make_unique<SlowDevice>(each);
    const Caps caps = device->caps();
    return std::make_unique<DeviceContext>(
        std::move(device), DeviceInfo{.id = "null:0", .backend = "null", .available = true, .caps = caps});
  }

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override { return inner_.alloc(bytes); }
  void free(BufferId buffer) override { inner_.free(buffer); }
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override {
    inner_.write(buffer, offset, source, bytes);
  }
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override {
    std::this_thread::sleep_until(end_);
    inner_.read(buffer, offset, target, bytes);
  }
  KernelId compile(const KernelSource& source) override { return inner_.compile(source); }
  void release(KernelId kernel) override { inner_.release(kernel); }
  RecordingId record(std::span<const Command> commands, bool timed) override { return inner_.record(commands, timed); }
  void release(RecordingId recording) override { inner_.release(recording); }
  Ticket submit(RecordingId recording) override {
    const Ticket ticket = inner_.submit(recording);
    end_ = std::max(end_, Clock::now()) + each_;
    ends_[ticket] = end_;
    return ticket;
  }
  void wait(Ticket ticket, std::vector<double>* seconds) override {
    std::this_thread::sleep_until(ends_.at(ticket));
    inner_.wait(ticket, seconds);
  }
  bool done(Ticket ticket) override { return Clock::now() >= ends_.at(ticket); }

 private:
  NullDevice inner_;
  Clock::duration each_;
  Caps caps_;
  Clock::time_point end_ = Clock::now();
  std::map<Ticket, Clock::time_point> ends_;
};

}  // namespace heddle::train
