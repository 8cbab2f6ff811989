#include "tests/ptx/launch.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace heddle::ptx {
namespace {

// Threads that wait for work, one less than the machine has cores; leaked, as blocks may run until the process ends.
class Pool {
 public:
  static Pool& instance() {
    static auto* const pool = new Pool();
    return *pool;
  }

  // Runs `work` on this thread and on the others, and waits for all.
  void run(const std::function<void()>& work) {
    {
      const std::lock_guard lock(mutex_);
      work_ = &work;
      running_ = threads_;
      ++round_;
    }
    start_.notify_all();
    work();
    std::unique_lock lock(mutex_);
    over_.wait(lock, [&] { return running_ == 0; });
  }

 private:
  Pool() : threads_(std::max(1u, std::thread::hardware_concurrency()) - 1) {
    for (unsigned i = 0; i < threads_; ++i) std::thread([this] { wait_for_work(); }).detach();
  }

  void wait_for_work() {
    for (uint64_t seen = 0;;) {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return round_ != seen; });
      seen = round_;
      const std::function<void()>* const work = work_;
      lock.unlock();
      (*work)();
      lock.lock();
      if (--running_ == 0) over_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable start_, over_;
  const std::function<void()>* work_ = nullptr;
  const unsigned threads_;
  unsigned running_ = 0;
  uint64_t round_ = 0;
};

// Blocks of a launch, handed out one by one.
class Grid {
 public:
  Grid(const Program& program, const LaunchShape& shape, const std::byte* parameters, GlobalMemory& memory)
      : program_(program), shape_(shape), parameters_(parameters), memory_(memory), number_(memory.begin_launch()) {}

  void work() {
    const uint64_t count = blocks();
    // Its registers are kept for the next launch. Never destroyed: what is pending when a process ends runs after the
    // values of its thread are gone.
    static thread_local Block& block = *new Block;
    bool begun = false;
    for (uint64_t i = next_++; i < count && !failed_; i = next_++) {
      if (!begun) block.begin(program_, shape_, parameters_, memory_, number_);
      begun = true;
      try {
        block.run(static_cast<uint32_t>(i % shape_.grid[0]), static_cast<uint32_t>(i / shape_.grid[0] % shape_.grid[1]),
                  static_cast<uint32_t>(i / shape_.grid[0] / shape_.grid[1]));
      } catch (const Fault& fault) {
        const std::lock_guard lock(mutex_);
        if (!fault_ || i < fault_at_) fault_ = fault;
        fault_at_ = std::min(fault_at_, i);
        failed_ = true;
      }
    }
  }

  uint64_t blocks() const { return uint64_t{shape_.grid[0]} * shape_.grid[1] * shape_.grid[2]; }
  const std::optional<Fault>& fault() const { return fault_; }

 private:
  const Program& program_;
  const LaunchShape& shape_;
  const std::byte* parameters_;
  const GlobalMemory& memory_;
  const uint32_t number_;
  std::atomic<uint64_t> next_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  std::optional<Fault> fault_;
  uint64_t fault_at_ = ~uint64_t{0};
};

}  // namespace

void launch(const Program& program, const LaunchShape& shape, const std::byte* parameters, GlobalMemory& memory) {
  const uint64_t lanes = uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  if (lanes == 0 || lanes > 1024) throw Fault(FaultKind::other, "[ptx] a block has 1 to 1024 lanes");
  if (program.max_lanes && lanes > program.max_lanes)
    throw Fault(FaultKind::other,
                "[ptx] the kernel's blocks have at most " + std::to_string(program.max_lanes) + " lanes");
  if (uint64_t{shape.grid[0]} * shape.grid[1] * shape.grid[2] > AccessRecord::most_blocks)
    throw Fault(FaultKind::other, "[ptx] more than " + std::to_string(AccessRecord::most_blocks) + " blocks");
  Grid grid(program, shape, parameters, memory);
  if (grid.blocks() == 1)
    grid.work();
  else
    Pool::instance().run([&] { grid.work(); });
  if (grid.fault()) throw *grid.fault();
}

}  // namespace heddle::ptx
