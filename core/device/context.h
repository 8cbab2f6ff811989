// DeviceContext: an opened device with everything core keeps beside it: allocator, compiled kernels, and what the rooms
// above keep.
//
// Purpose: tensors live on a DeviceContext; device("vulkan:0") gives it. Invariants: one context per device id and
// process (it is kept until exit), so kernels and steps are compiled once. Thread safety: the public functions lock;
// the Device below is only ever called with the lock held. Who waits for the device blocks without the lock, so others
// record, submit, allocate and look meanwhile; a thread that holds lock() while it calls one of these does not let go.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/owned.h"
#include "heddle/core/contract/device_info.h"
#include "heddle/core/contract/handles.h"
#include "heddle/core/device/allocator_stats.h"
#include "heddle/core/device/device_counters.h"
#include "heddle/core/device/event.h"

namespace heddle {

class Device;
class DeviceCache;    // core/device/device_cache.h
class Storage;        // core/device/storage.h
struct LockedDevice;  // core/device/locked_device.h
struct KernelBinary;  // core/contract/kernel_binary.h
struct KernelSource;  // core/contract/kernel_source.h
using StoragePtr = std::shared_ptr<Storage>;

// What a DeviceCache is kept for; later ones go first.
enum class Kept : uint8_t { launches, graphs };

class DeviceContext final : public Submissions {
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
  // Waits. Where another thread updates the storage in place meanwhile, an element is the one before or after that.
  void read(Storage& storage, uint64_t offset, void* target, uint64_t bytes);
  // Waits until everything submitted so far has finished.
  void synchronize();
  // Waits until that submission has finished; `seconds` as in Device::wait(). Throws DeviceLost, DeviceTimeout.
  void wait(Ticket ticket) override { wait(ticket, nullptr); }
  void wait(Ticket ticket, std::vector<double>* seconds);
  // Whether that submission has finished; does not wait. Throws DeviceLost.
  bool done(Ticket ticket) const override;
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
  // The same of kernels that are compiled.
  std::vector<KernelId> load(const std::vector<const KernelBinary*>& binaries);

  // Bytes that a planned graph may hold on this device, see core/memory/memory_budget.h; 0: no limit.
  void set_memory_budget(uint64_t bytes);
  uint64_t memory_budget() const;

  AllocatorStats memory() const;
  // Who holds the memory, as OutOfMemory says it.
  MemoryUse memory_use(uint64_t requested = 0) const;
  void reset_peak_memory();
  DeviceCounters counters() const;

  // ---- for core/run and the kernel harness: core/device/locked_device.h
  // The raw device under its lock.
  using Locked = LockedDevice;
  Locked lock();
  // Null until somebody keeps something; what is kept goes before the device. Under lock().
  DeviceCache* cache(Kept what) const;
  void keep(Kept what, std::unique_ptr<DeviceCache> cache);
  void remember(Ticket ticket);
  // What must have finished before more is submitted, so that the host is not too far ahead; none: nothing. Without
  // this the device waits in submit(), under the lock. Under lock().
  Ticket too_far_ahead() const;

 private:
  struct OwnedStorage;
  struct State;
  HostRead begin_read(Storage& storage, uint64_t offset, uint64_t bytes, bool in_place);
  void read_part(Storage& storage, uint64_t offset, void* target, uint64_t bytes);
  Ticket last_ticket() const;
  void block(Ticket ticket);
  void collect(Ticket ticket, std::vector<double>* seconds);

  DeviceInfo info_;
  Owned<State> state_;
};

// ---- the open devices of the process (core/device/open_contexts.cpp)
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
