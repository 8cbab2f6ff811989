// DeviceContext: an opened device with everything core keeps beside it: allocator, compiled kernels, and what the rooms
// above keep.
//
// Purpose: tensors live on a DeviceContext; device("vulkan:0") gives it. Invariants: one context per device id and
// process (it is kept until exit), so kernels and steps are compiled once. Thread safety: the public functions lock;
// the Device below is only ever called with the lock held.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/contract/device.h"
#include "core/device/allocator.h"
#include "core/device/event.h"
#include "core/device/registry.h"

namespace heddle {

// A range of device memory that tensors share. Freed (returned to the allocator) with its last owner.
class Storage {
 public:
  Storage(class DeviceContext& device, Allocation allocation) : device_(device), allocation_(allocation) {}
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  DeviceContext& device() const { return device_; }
  // The bytes asked for; the binding's size is that, rounded up to 4.
  uint64_t bytes() const { return allocation_.bytes; }
  Binding binding() const { return {allocation_.buffer, allocation_.offset, (allocation_.bytes + 3) / 4 * 4}; }
  // Counts writes after the first, by the host or in place; a reader that remembers an older version must not use the
  // contents. Under the device's lock.
  uint64_t version = 0;
  // The latest submission that touches it. None: no submission since the host wrote it, and that write may still be
  // queued. Under the device's lock.
  Ticket last_use = Ticket::none;

 private:
  DeviceContext& device_;
  Allocation allocation_;
};
using StoragePtr = std::shared_ptr<Storage>;

// What happened on a device since it was opened.
struct DeviceCounters {
  uint64_t kernels = 0;  // dispatches submitted
  uint64_t submissions = 0;
  uint64_t kernels_compiled = 0;
  uint64_t steps_compiled = 0;  // plans made
  uint64_t step_hits = 0;       // plans found again
  uint64_t recordings = 0;
  uint64_t region_breaks = 0;     // evaluations because a value was looked at (or too much was pending)
  uint64_t compiled_replays = 0;  // calls of compiled functions that recorded nothing
  uint64_t host_evaluations =
      0;  // operations that core computed on the host: all on the reference device, none on one with kernels
  uint64_t bytes_read = 0;  // from the device to the host
};

// What the rooms above keep for a device (core/run/compiled_graph.h): compiled graphs and their memory. All of it is
// called under the device's lock.
class DeviceCache {
 public:
  virtual ~DeviceCache() = default;
  // Gives back the memory that it holds: the device has none left.
  virtual void clear() = 0;
  // Bytes of the arenas that it holds.
  virtual uint64_t arena_bytes() const = 0;
  // "; computes model.cpp:17": the user's lines behind the kernels that an error's text names, or "".
  virtual std::string lines_note(std::string_view text) const = 0;
};

class DeviceContext {
 public:
  DeviceContext(std::unique_ptr<Device> device, DeviceInfo info);
  ~DeviceContext();

  const DeviceInfo& info() const { return info_; }
  const std::string& id() const { return info_.id; }
  const Caps& caps() const { return info_.caps; }

  // New storage of at least `bytes` bytes (zero is allowed and gives a minimal one).
  StoragePtr allocate(uint64_t bytes);
  // Storages that lie side by side, in as few stretches as bindings allow, so that one kernel can reach many of them
  // through one binding (core/lower/horizontal.h). Each is freed by itself. One that is large gets memory of its own.
  std::vector<StoragePtr> allocate_adjacent(const std::vector<uint64_t>& bytes);
  // The same for the results of one graph, where it costs no memory: else one by one.
  std::vector<StoragePtr> allocate_results(const std::vector<uint64_t>& bytes);
  // Copies whole storages of equal size on the device, in queue order; returns when done.
  void copy(const std::vector<std::pair<StoragePtr, StoragePtr>>& from_to);
  void write(Storage& storage, uint64_t offset, const void* source, uint64_t bytes);
  // Storage that holds a batch: uploaded while earlier steps run, where the device can (Caps::uploads_beside). The last
  // few of a size are kept and used in turn, so a loop meets the same addresses again. bytes > 0.
  StoragePtr stage(const void* source, uint64_t bytes);
  void read(Storage& storage, uint64_t offset, void* target, uint64_t bytes);
  // Waits until everything submitted so far has finished.
  void synchronize();
  // Marks everything submitted so far.
  Event event() const;
  // Starts copying bytes of a storage, as they are in queue order, to host memory that is valid once the event is done.
  struct HostRead {
    Event event;
    std::shared_ptr<std::vector<uint8_t>> bytes;
  };
  HostRead read_later(Storage& storage, uint64_t offset, uint64_t bytes);
  // Whether the device was lost: everything on it throws DeviceLost, until reopen_device().
  bool lost() const;

  // Compiled kernel of that source; compiled once per process and device.
  KernelId kernel(const KernelSource& source);
  // The same of several, those that are new compiled together.
  std::vector<KernelId> kernels(const std::vector<const KernelSource*>& sources);

  // Bytes that a planned graph may hold on this device, see core/memory/memory_budget.h; 0: no limit.
  void set_memory_budget(uint64_t bytes);
  uint64_t memory_budget() const { return memory_budget_.load(std::memory_order_relaxed); }

  AllocatorStats memory() const;
  // Who holds the memory, as OutOfMemory says it.
  MemoryUse memory_use(uint64_t requested = 0) const;
  void reset_peak_memory();
  DeviceCounters counters() const;

  // For core/run and the kernel harness: the raw device under its lock.
  struct Locked {
    std::unique_lock<std::recursive_mutex> lock;
    Device& device;
    DeviceCounters& counters;
    CachingAllocator& allocator;
  };
  Locked lock();
  // Null until somebody keeps something; what is kept goes before the device. Under lock().
  DeviceCache* cache() const { return cache_.get(); }
  void keep(std::unique_ptr<DeviceCache> cache) { cache_ = std::move(cache); }
  void remember(Ticket ticket) { last_ticket_ = ticket; }

 private:
  friend class Storage;
  void release(const Allocation& allocation);
  // take(), and once more after caches gave back what they hold; throws OutOfMemory with what is in use.
  template <class F>
  auto with_memory(uint64_t requested, F&& take);
  void give_back_caches();
  void forget_finished_reads();

  DeviceInfo info_;
  mutable std::recursive_mutex mutex_;
  std::vector<HostRead> reads_;  // not known to be done: the device may still write their bytes. Outlives the device.
  std::unique_ptr<Device> device_;
  CachingAllocator allocator_;
  std::unordered_map<uint64_t, KernelId> kernels_;
  DeviceCounters counters_;
  std::unique_ptr<DeviceCache> cache_;
  std::vector<StoragePtr> staged_;  // of stage(); oldest use first
  std::atomic<uint64_t> memory_budget_{0};
  Ticket last_ticket_ = Ticket::none;
};

// The context of a device by id ("opencl:0", "vulkan"); opened on first use. Throws DeviceUnavailable.
DeviceContext& device(std::string_view id);
// Opens a lost device anew, under the same id; the new context takes the old one's place, also as default device.
// Tensors of the old context keep throwing DeviceLost. A device that works is returned as it is. Throws
// DeviceUnavailable where it does not come back.
DeviceContext& reopen_device(std::string_view id);
// The device new tensors go to: set_default_device, else HEDDLE_DEVICE, else Registry::best().
DeviceContext& default_device();
void set_default_device(std::string_view id);

}  // namespace heddle
