// Who waits for a device does not hold its lock: others record, submit, allocate and look meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/device/storage.h"

namespace heddle {
namespace {

using namespace std::chrono_literals;

// What a LateDevice has finished: the test says so.
struct Progress {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t finished = 0;
  bool lost = false;
  std::atomic<int> blocked{0};          // threads in block()
  std::atomic<int> waits_in_device{0};  // calls of wait() for what was not finished, under the lock

  void finish(uint64_t ticket) {
    const std::lock_guard guard(mutex);
    finished = ticket;
    changed.notify_all();
  }
  void lose() {
    const std::lock_guard guard(mutex);
    lost = true;
    changed.notify_all();
  }
  bool done(uint64_t ticket) {
    const std::lock_guard guard(mutex);
    if (lost) throw DeviceLost("[late] lost");
    return finished >= ticket;
  }
  void block(uint64_t ticket) {
    ++blocked;
    std::unique_lock guard(mutex);
    changed.wait(guard, [&] { return lost || finished >= ticket; });
    --blocked;
  }
};

class LateWaiter final : public Waiter {
 public:
  LateWaiter(Progress& progress, uint64_t ticket) : progress_(progress), ticket_(ticket) {}
  void block() noexcept override { progress_.block(ticket_); }

 private:
  Progress& progress_;
  uint64_t ticket_;
};

class LateDevice final : public Device {
 public:
  explicit LateDevice(Progress& progress) : progress_(progress) {}

  const Caps& caps() const override { return inner_.caps(); }
  BufferId alloc(uint64_t bytes) override { return inner_.alloc(bytes); }
  void free(BufferId buffer) override { inner_.free(buffer); }
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override {
    inner_.write(buffer, offset, source, bytes);
  }
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override {
    if (!progress_.done(last_)) wait(Ticket{last_}, nullptr);
    inner_.read(buffer, offset, target, bytes);
  }
  KernelId compile(const KernelSource& source) override { return inner_.compile(source); }
  void release(KernelId kernel) override { inner_.release(kernel); }
  RecordingId record(std::span<const Command> commands, bool timed) override { return inner_.record(commands, timed); }
  void release(RecordingId recording) override { inner_.release(recording); }
  Ticket submit(RecordingId recording) override {
    inner_.submit(recording);
    return Ticket{++last_};
  }
  void wait(Ticket ticket, std::vector<double>* seconds) override {
    if (seconds) seconds->clear();
    if (progress_.done(static_cast<uint64_t>(ticket))) return;
    ++progress_.waits_in_device;
    progress_.block(static_cast<uint64_t>(ticket));
    progress_.done(static_cast<uint64_t>(ticket));
  }
  bool done(Ticket ticket) override { return progress_.done(static_cast<uint64_t>(ticket)); }
  std::unique_ptr<Waiter> waiter(Ticket ticket) override {
    if (done(ticket)) return nullptr;
    return std::make_unique<LateWaiter>(progress_, static_cast<uint64_t>(ticket));
  }
  // Tickets of reads count on, too.
  Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override {
    inner_.read(buffer, offset, target, bytes);
    return Ticket{++last_};
  }

 private:
  NullDevice inner_;
  Progress& progress_;
  uint64_t last_ = 0;
};

class Waiting : public testing::Test {
 protected:
  ~Waiting() override { progress.finish(~uint64_t{0}); }

  // A copy of 256 bytes; gives its ticket.
  Ticket submit() {
    auto locked = context.lock();
    const std::vector<Command> commands{Copy{from->binding(), to->binding()}};
    const RecordingId recording = locked.device.record(commands, false);
    const Ticket ticket = locked.device.submit(recording);
    locked.device.release(recording);
    context.remember(ticket);
    return ticket;
  }

  // `wait` blocks until `finish`; meanwhile the device is everybody's.
  void expect_free_meanwhile(const std::function<void()>& wait, const std::function<void()>& finish) {
    auto waiting = std::async(std::launch::async, wait);
    while (progress.blocked == 0) std::this_thread::sleep_for(1ms);
    auto other = std::async(std::launch::async, [&] {
      const StoragePtr storage = context.allocate(100);
      const Event event = context.event();
      EXPECT_FALSE(event.done());
      return submit();
    });
    EXPECT_EQ(other.wait_for(10s), std::future_status::ready);
    EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
    finish();
    EXPECT_EQ(waiting.wait_for(10s), std::future_status::ready);
    EXPECT_EQ(progress.waits_in_device, 0);
    if (waiting.valid()) waiting.get();
  }
  void expect_free_meanwhile(const std::function<void()>& wait) {
    expect_free_meanwhile(wait, [this] { progress.finish(~uint64_t{0} >> 1); });
  }

  Progress progress;
  DeviceContext context{std::make_unique<LateDevice>(progress), DeviceInfo{.id = "late:0", .backend = "late"}};
  const std::vector<uint8_t> zeros = std::vector<uint8_t>(256);
  StoragePtr from = written(), to = written();

 private:
  StoragePtr written() {
    StoragePtr storage = context.allocate(zeros.size());
    context.write(*storage, 0, zeros.data(), zeros.size());
    return storage;
  }
};

TEST_F(Waiting, Synchronize) {
  submit();
  expect_free_meanwhile([&] { context.synchronize(); });
}

TEST_F(Waiting, OfAnEvent) {
  submit();
  const Event event = context.event();
  submit();
  expect_free_meanwhile([&] { event.wait(); }, [&] { progress.finish(1); });
  EXPECT_TRUE(event.done());
  EXPECT_FALSE(context.event().done());
}

TEST_F(Waiting, OfARead) {
  submit();
  expect_free_meanwhile([&] {
    std::vector<uint8_t> bytes(256, 1);
    context.read(*to, 0, bytes.data(), bytes.size());
    EXPECT_EQ(bytes, zeros);
  });
}

TEST_F(Waiting, OfALargeRead) {
  constexpr uint64_t size = (32 << 20) + 12;
  const StoragePtr large = context.allocate(size);
  submit();
  expect_free_meanwhile([&] {
    std::vector<uint8_t> bytes(size, 1);
    context.read(*large, 0, bytes.data(), bytes.size());
    EXPECT_EQ(bytes, std::vector<uint8_t>(size));
  });
}

TEST_F(Waiting, OfACopy) {
  submit();
  expect_free_meanwhile([&] { context.copy({{from, to}}); });
}

TEST_F(Waiting, OfALargeWrite) {
  const std::vector<uint8_t> bytes(20 << 20);
  const StoragePtr large = context.allocate(bytes.size());
  submit();
  expect_free_meanwhile([&] { context.write(*large, 0, bytes.data(), bytes.size()); });
}

TEST_F(Waiting, OfWhatIsLostThrows) {
  submit();
  expect_free_meanwhile([&] { EXPECT_THROW(context.synchronize(), DeviceLost); }, [&] { progress.lose(); });
  EXPECT_THROW(context.event().done(), DeviceLost);
}

// No more than so many submissions are ahead of the device; who makes the next one waits for half of them.
TEST_F(Waiting, WhoIsFarAheadIsTold) {
  std::vector<Ticket> tickets;
  const auto behind = [&] {
    const auto locked = context.lock();
    return context.too_far_ahead();
  };
  while (behind() == Ticket::none && tickets.size() < 1000) tickets.push_back(submit());
  EXPECT_EQ(tickets.size(), 48u);
  EXPECT_EQ(behind(), tickets[24]);
  progress.finish(static_cast<uint64_t>(behind()));
  EXPECT_EQ(behind(), Ticket::none);
}

}  // namespace
}  // namespace heddle
