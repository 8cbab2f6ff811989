#include "heddle/core/device/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_epoch.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/with_note.h"
#include "heddle/core/device/compile_notice.h"
#include "heddle/core/device/device_cache.h"
#include "heddle/core/device/ending.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/storage.h"

namespace heddle {
namespace {

// The latest submissions. Nothing here throws: the device has them already.
class Recent {
 public:
  static constexpr size_t most = 48;  // that may be ahead; devices wait at 64 or more
  void add(Ticket ticket) { tickets_[count_++ % most] = ticket; }
  Ticket last() const { return count_ == 0 ? Ticket::none : tickets_[(count_ - 1) % most]; }
  // The one before all others, and the one in the middle; none: there are not so many.
  Ticket oldest() const { return count_ < most ? Ticket::none : tickets_[count_ % most]; }
  Ticket middle() const { return count_ < most ? Ticket::none : tickets_[(count_ + most / 2) % most]; }

 private:
  std::array<Ticket, most> tickets_{};
  size_t count_ = 0;  // ever
};

}  // namespace

// All of it but the id is under the lock.
struct DeviceContext::State {
  State(DeviceContext& owner, std::unique_ptr<Device> opened)
      : self(owner), device(std::move(opened)), allocator(*device) {}
  void release(const Allocation& allocation);
  // take(), and once more after caches gave back what they hold; throws OutOfMemory with what is in use.
  template <class F>
  auto with_memory(uint64_t requested, F&& take);
  void give_back_caches();
  void forget_finished_reads();
  DeviceCache* graphs() const { return caches[static_cast<size_t>(Kept::graphs)].get(); }
  // The ids of kernels by their hashes; those that are new are made together.
  template <class Kernel, class F>
  std::vector<KernelId> found_or_made(const std::vector<const Kernel*>& wanted, F&& make);

  DeviceContext& self;
  std::recursive_mutex mutex;
  std::vector<HostRead> reads;  // not known to be done: the device may still write their bytes. Outlives the device.
  std::unique_ptr<Device> device;
  CachingAllocator allocator;
  std::unordered_map<uint64_t, KernelId> kernels;
  DeviceCounters counters;
  std::unique_ptr<DeviceCache> caches[2];  // by Kept
  std::vector<StoragePtr> staged;          // of stage(); oldest use first
  std::atomic<uint64_t> memory_budget{0};
  Recent recent;
};

// Its memory goes back with it.
struct DeviceContext::OwnedStorage final : Storage {
  OwnedStorage(DeviceContext& device, const Allocation& allocation) : Storage(device, allocation) {}
  ~OwnedStorage() { device().state_->release(allocation()); }
};

DeviceContext::DeviceContext(std::unique_ptr<Device> device, DeviceInfo info)
    : info_(std::move(info)), state_(std::make_unique<State>(*this, std::move(device))) {
  info_.caps = state_->device->caps();
}

DeviceContext::~DeviceContext() {
  state_->staged.clear();
  for (size_t what = std::size(state_->caches); what > 0; --what)
    state_->caches[what - 1].reset();  // graphs hold recordings and storages of this device
  for (const auto& [hash, kernel] : state_->kernels) state_->device->release(kernel);
}

// Compiled graphs keep an arena and tables; what was freed may wait for the queue. All of it is there for the taking
// before anybody fails. The one wait under the lock: memory that others took meanwhile would be missing again.
void DeviceContext::State::give_back_caches() {
  if (recent.last() != Ticket::none) device->wait(recent.last());
  for (size_t what = std::size(caches); what > 0; --what) {
    if (caches[what - 1]) caches[what - 1]->clear();
  }
  staged.clear();
  allocator.trim();
}

template <class F>
auto DeviceContext::State::with_memory(uint64_t requested, F&& take) {
  try {
    return take();
  } catch (const OutOfMemory&) {
    give_back_caches();
  }
  try {
    return take();
  } catch (const OutOfMemory& error) {
    const MemoryUse held = self.memory_use(requested);
    throw OutOfMemory(fmt::format("{} [{}: {} bytes requested, {} live (of them {} in arenas of steps), {} cached{}; "
                                  "caches were given back before]",
                                  error.what(), self.id(), held.requested, held.live, held.arena, held.cached,
                                  held.device ? fmt::format(", {} in all", held.device) : std::string()),
                      held);
  }
}

namespace {

// Kernels were compiled and nobody has waited for them since: some drivers (PoCL) do most of it behind the queue.
std::atomic<bool> cold{false};

// While somebody waits.
struct FirstWait {
  explicit FirstWait(const std::string& id) {
    if (cold.exchange(false)) notice.emplace(id, 0);
  }
  std::optional<CompileNotice> notice;
};

// Asks the device; the error of a lost one names the lines of the program whose kernels were its last commands.
template <class F>
auto asking(const DeviceCache* cache, const F& ask) {
  return with_note(ask, [&](std::string_view text) { return cache ? cache->lines_note(text) : std::string(); });
}

}  // namespace

MemoryUse DeviceContext::memory_use(uint64_t requested) const {
  const ending::Guard guard(state_->mutex);
  const AllocatorStats stats = state_->allocator.stats();
  uint64_t arena = 0;
  for (const auto& cache : state_->caches) arena += cache ? cache->arena_bytes() : 0;
  return {requested, stats.live_bytes, arena, stats.reserved_bytes - stats.live_bytes, caps().memory_bytes};
}

StoragePtr DeviceContext::allocate(uint64_t bytes) {
  const ending::Guard guard(state_->mutex);
  return std::make_shared<OwnedStorage>(
      *this, state_->with_memory(bytes, [&] { return state_->allocator.allocate(std::max<uint64_t>(bytes, 1)); }));
}

std::vector<StoragePtr> DeviceContext::allocate_adjacent(const std::vector<uint64_t>& bytes) {
  constexpr uint64_t large = 16 << 20, longest_stretch = 128 << 20;
  const uint64_t limit = std::min({longest_stretch, caps().max_binding_bytes, caps().max_allocation_bytes});
  const uint64_t step = std::max<uint64_t>(256, caps().buffer_alignment);
  const ending::Guard guard(state_->mutex);
  std::vector<StoragePtr> storages(bytes.size());
  std::vector<size_t> stretch;
  uint64_t length = 0;
  const auto close = [&] {
    std::vector<uint64_t> sizes;
    for (size_t i : stretch) sizes.push_back(bytes[i]);
    const std::vector<Allocation> parts =
        state_->with_memory(length, [&] { return state_->allocator.allocate_adjacent(sizes); });
    for (size_t i = 0; i < parts.size(); ++i) storages[stretch[i]] = std::make_shared<OwnedStorage>(*this, parts[i]);
    stretch.clear();
    length = 0;
  };
  for (size_t i = 0; i < bytes.size(); ++i) {
    const uint64_t reserved = round_up(std::max<uint64_t>(bytes[i], 1), step);
    if (reserved > std::min(large, limit)) {
      storages[i] = allocate(bytes[i]);
      continue;
    }
    if (length + reserved > limit) close();
    stretch.push_back(i);
    length += reserved;
  }
  close();
  return storages;
}

std::vector<StoragePtr> DeviceContext::allocate_results(const std::vector<uint64_t>& bytes) {
  constexpr size_t many = 16;  // gradients, not the few results somebody looks at
  const ending::Guard guard(state_->mutex);
  if (bytes.size() >= many &&
      state_->allocator.adjacency_is_free(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0})))
    return allocate_adjacent(bytes);
  std::vector<StoragePtr> storages;
  for (uint64_t b : bytes) storages.push_back(allocate(b));
  return storages;
}

void DeviceContext::copy(const std::vector<std::pair<StoragePtr, StoragePtr>>& from_to) {
  std::vector<Command> commands;
  for (const auto& [from, to] : from_to) {
    commands.emplace_back(Copy{from->binding(), to->binding()});
  }
  if (commands.empty()) return;
  Ticket ticket = Ticket::none;
  {
    const ending::Guard guard(state_->mutex);
    const RecordingId recording = state_->device->record(commands, false);
    try {
      ticket = state_->device->submit(recording);
    } catch (...) {
      state_->device->release(recording);
      throw;
    }
    state_->device->release(recording);
    remember(ticket);
    for (const auto& [from, to] : from_to) {
      from->last_use = to->last_use = ticket;
      to->version++;
    }
  }
  block(ticket);
  collect(ticket, nullptr);
}

void DeviceContext::State::release(const Allocation& allocation) {
  const ending::Guard guard(mutex);
  allocator.release(allocation);
}

namespace {

// The device only knows whole buffers: an access beyond the storage would reach its neighbour.
void check_inside(const char* place, const Storage& storage, uint64_t offset, uint64_t bytes) {
  uint64_t size = storage.binding().size;
  if (offset > size || bytes > size - offset) {
    throw DeviceError(
        fmt::format("[{}] bytes [{}, +{}) do not fit a storage of {} bytes", place, offset, bytes, storage.bytes()));
  }
}

}  // namespace

void DeviceContext::write(Storage& storage, uint64_t offset, const void* source, uint64_t bytes) {
  check_inside("write", storage, offset, bytes);
  if (bytes == 0) return;
  const HostSpan span("upload");
  constexpr uint64_t large = 16 << 20;  // devices make no copies of such: they wait
  if (bytes > large) wait(last_ticket());
  const ending::Guard guard(state_->mutex);
  Binding target = storage.binding();
  state_->device->write(target.buffer, target.offset + offset, source, bytes);
  storage.last_use = Ticket::none;
  storage.version++;
}

StoragePtr DeviceContext::stage(const void* source, uint64_t bytes) {
  constexpr ptrdiff_t kept_of_a_size = 3;
  constexpr size_t kept_in_all = 24;
  constexpr uint64_t kept_bytes = 256 << 20;
  const ending::Guard guard(state_->mutex);
  const auto same = [&](const StoragePtr& s) { return s->bytes() == bytes; };
  const auto done = [&](const StoragePtr& s) {
    return s->last_use == Ticket::none || state_->device->done(s->last_use);
  };
  const auto at = std::find_if(state_->staged.begin(), state_->staged.end(),
                               [&](const StoragePtr& s) { return same(s) && s.use_count() == 1; });
  StoragePtr storage;
  if (at != state_->staged.end() &&
      (done(*at) || std::count_if(state_->staged.begin(), state_->staged.end(), same) >= kept_of_a_size)) {
    storage = std::move(*at);
    state_->staged.erase(at);
  } else {
    storage = allocate(bytes);
    uint64_t kept = 0;
    for (const StoragePtr& s : state_->staged) kept += s->bytes();
    for (; !state_->staged.empty() && (state_->staged.size() >= kept_in_all || kept + bytes > kept_bytes);
         state_->staged.erase(state_->staged.begin()))
      kept -= state_->staged.front()->bytes();
  }
  const Binding target = storage->binding();
  if (storage->last_use ==
      Ticket::none) {  // a write to the memory's last owner, or of a batch that nobody used, may still be queued
    state_->device->write(target.buffer, target.offset, source, bytes);
  } else {
    state_->device->write_beside(target.buffer, target.offset, source, bytes,
                                 std::exchange(storage->last_use, Ticket::none));
  }
  state_->staged.push_back(storage);
  return storage;
}

uint64_t DeviceContext::memory_budget() const { return state_->memory_budget.load(std::memory_order_relaxed); }

void DeviceContext::set_memory_budget(uint64_t bytes) {
  state_->memory_budget.store(bytes, std::memory_order_relaxed);
  trace::host_state_changed();
}

void DeviceContext::read(Storage& storage, uint64_t offset, void* target, uint64_t bytes) {
  check_inside("read", storage, offset, bytes);
  if (bytes == 0) return;
  const HostSpan span("wait");
  constexpr uint64_t small = 64 << 10, part = 16 << 20;
  // Many bytes are best copied straight to where they belong, once the device has nothing else to do.
  if (bytes > small) wait(last_ticket());
  for (uint64_t at = 0; at < bytes; at += part)
    read_part(storage, offset + at, static_cast<uint8_t*>(target) + at, std::min(part, bytes - at));
}

// Nothing is submitted: read() only copies. Else what others submitted is not waited for under the lock, and the bytes
// go through memory that lives as long as the device may write to it, whatever becomes of it.
void DeviceContext::read_part(Storage& storage, uint64_t offset, void* target, uint64_t bytes) {
  HostRead read;
  {
    const ending::Guard guard(state_->mutex);
    const Ticket last = state_->recent.last();
    if (last == Ticket::none || asking(state_->graphs(), [&] { return state_->device->done(last); })) {
      const Binding source = storage.binding();
      const FirstWait first(id());
      state_->counters.bytes_read += bytes;
      return asking(state_->graphs(),
                    [&] { state_->device->read(source.buffer, source.offset + offset, target, bytes); });
    }
    read = begin_read(storage, offset, bytes, true);
  }
  wait(read.event.ticket());
  std::memcpy(target, read.bytes->data(), bytes);
}

void DeviceContext::synchronize() {
  const HostSpan span("wait");
  const Ticket last = last_ticket();
  block(last);
  collect(last, nullptr);
}

Ticket DeviceContext::last_ticket() const {
  const ending::Guard guard(state_->mutex);
  return state_->recent.last();
}

void DeviceContext::wait(Ticket ticket, std::vector<double>* seconds) {
  block(ticket);
  {
    const ending::Guard guard(state_->mutex);
    if (!seconds && (ticket == Ticket::none || asking(state_->graphs(), [&] { return state_->device->done(ticket); })))
      return;
  }
  collect(ticket, seconds);
}

bool DeviceContext::done(Ticket ticket) const {
  const ending::Guard guard(state_->mutex);
  return state_->device->done(ticket);
}

// Returns when the submission has finished or failed, or makes no progress: the device is to say which.
void DeviceContext::block(Ticket ticket) {
  if (ticket == Ticket::none) return;
  const FirstWait first(id());
  std::unique_ptr<Waiter> waiter;
  {
    const ending::Guard guard(state_->mutex);
    waiter = asking(state_->graphs(), [&] { return state_->device->waiter(ticket); });
  }
  if (waiter) {
    const ending::Blocking blocking;
    waiter->block();
  }
  const ending::Guard guard(state_->mutex);
  waiter.reset();
}

// After block(): what the device has to say of the submission; does not wait.
void DeviceContext::collect(Ticket ticket, std::vector<double>* seconds) {
  if (seconds) seconds->clear();
  if (ticket == Ticket::none) return;
  const ending::Guard guard(state_->mutex);
  asking(state_->graphs(), [&] { state_->device->wait(ticket, seconds); });
}

Event DeviceContext::event() const {
  const ending::Guard guard(state_->mutex);
  const Ticket last = state_->recent.last();
  return last == Ticket::none ? Event() : Event(const_cast<DeviceContext&>(*this), last);
}

void DeviceContext::State::forget_finished_reads() {
  std::erase_if(reads, [this](const HostRead& read) { return device->done(read.event.ticket()); });
}

DeviceContext::HostRead DeviceContext::read_later(Storage& storage, uint64_t offset, uint64_t bytes) {
  check_inside("read", storage, offset, bytes);
  return begin_read(storage, offset, bytes, false);
}

// `in_place`: Device::read_in_place().
DeviceContext::HostRead DeviceContext::begin_read(Storage& storage, uint64_t offset, uint64_t bytes, bool in_place) {
  HostRead read;
  read.bytes = std::make_shared<std::vector<uint8_t>>(bytes);
  if (bytes == 0) return read;
  const ending::Guard guard(state_->mutex);
  state_->forget_finished_reads();
  state_->reads.reserve(state_->reads.size() + 1);  // once the device knows the address, nothing may throw
  const Binding source = storage.binding();
  state_->counters.bytes_read += bytes;
  const uint64_t from = source.offset + offset;
  const Ticket ticket = asking(state_->graphs(), [&] {
    return in_place ? state_->device->read_in_place(source.buffer, from, read.bytes->data(), bytes)
                    : state_->device->read_later(source.buffer, from, read.bytes->data(), bytes);
  });
  if (ticket == Ticket::none) return read;
  read.event = Event(*this, ticket);
  storage.last_use = ticket;
  state_->reads.push_back(read);
  remember(ticket);
  return read;
}

bool DeviceContext::lost() const {
  const ending::Guard guard(state_->mutex);
  try {
    state_->device->free(state_->device->alloc(caps().buffer_alignment));
    return false;
  } catch (const DeviceLost&) {
    return true;
  } catch (const DeviceError&) {
    return false;
  }
}

KernelId DeviceContext::kernel(const KernelSource& source) { return kernels({&source}).front(); }

template <class Kernel, class F>
std::vector<KernelId> DeviceContext::State::found_or_made(const std::vector<const Kernel*>& wanted, F&& make) {
  const HostSpan span("compile");
  const ending::Guard guard(mutex);
  std::vector<uint64_t> hashes, fresh_hashes;
  std::vector<const Kernel*> fresh;
  for (const Kernel* kernel : wanted) {
    const uint64_t hash = kernel->hash();
    hashes.push_back(hash);
    if (kernels.contains(hash) || std::find(fresh_hashes.begin(), fresh_hashes.end(), hash) != fresh_hashes.end())
      continue;
    fresh.push_back(kernel);
    fresh_hashes.push_back(hash);
  }
  if (!fresh.empty()) {
    constexpr size_t together = 16;  // a notice says how far it is
    ending::register_thread();
    CompileNotice notice(self.id(), fresh.size());
    cold = true;
    for (size_t at = 0; at < fresh.size(); at += together) {
      const auto part = std::span<const Kernel* const>(fresh).subspan(at, std::min(together, fresh.size() - at));
      const std::vector<KernelId> made = make(part);
      for (size_t i = 0; i < part.size(); ++i) kernels.emplace(fresh_hashes[at + i], made[i]);
      notice.done(made.size());
    }
  }
  std::vector<KernelId> ids;
  for (const uint64_t hash : hashes) ids.push_back(kernels.at(hash));
  return ids;
}

std::vector<KernelId> DeviceContext::kernels(const std::vector<const KernelSource*>& sources) {
  return state_->found_or_made(sources, [this](std::span<const KernelSource* const> part) {
    std::vector<KernelId> made =
        part.size() == 1 ? std::vector<KernelId>{state_->device->compile(*part[0])} : state_->device->compile_all(part);
    state_->counters.kernels_compiled += made.size();
    return made;
  });
}

std::vector<KernelId> DeviceContext::load(const std::vector<const KernelBinary*>& binaries) {
  return state_->found_or_made(
      binaries, [this](std::span<const KernelBinary* const> part) { return state_->device->load_all(part); });
}

AllocatorStats DeviceContext::memory() const {
  const ending::Guard guard(state_->mutex);
  return state_->allocator.stats();
}

void DeviceContext::reset_peak_memory() {
  const ending::Guard guard(state_->mutex);
  state_->allocator.reset_peak();
}

DeviceCounters DeviceContext::counters() const {
  const ending::Guard guard(state_->mutex);
  return state_->counters;
}

DeviceCache* DeviceContext::cache(Kept what) const { return state_->caches[static_cast<size_t>(what)].get(); }

void DeviceContext::keep(Kept what, std::unique_ptr<DeviceCache> cache) {
  state_->caches[static_cast<size_t>(what)] = std::move(cache);
}

void DeviceContext::remember(Ticket ticket) { state_->recent.add(ticket); }

Ticket DeviceContext::too_far_ahead() const {
  const Ticket oldest = state_->recent.oldest();
  return oldest == Ticket::none || state_->device->done(oldest) ? Ticket::none : state_->recent.middle();
}

DeviceContext::Locked DeviceContext::lock() {
  return {ending::Guard(state_->mutex).release(), *state_->device, state_->counters, state_->allocator};
}

}  // namespace heddle
