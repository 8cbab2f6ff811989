#include "heddle/core/device/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
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
#include "heddle/core/device/ending.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/device/storage.h"

namespace heddle {

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

  DeviceContext& self;
  std::recursive_mutex mutex;
  std::vector<HostRead> reads;  // not known to be done: the device may still write their bytes. Outlives the device.
  std::unique_ptr<Device> device;
  CachingAllocator allocator;
  std::unordered_map<uint64_t, KernelId> kernels;
  DeviceCounters counters;
  std::unique_ptr<DeviceCache> cache;
  std::vector<StoragePtr> staged;  // of stage(); oldest use first
  std::atomic<uint64_t> memory_budget{0};
  Ticket last_ticket = Ticket::none;
};

Storage::~Storage() { device_.state_->release(allocation_); }

DeviceContext::DeviceContext(std::unique_ptr<Device> device, DeviceInfo info)
    : info_(std::move(info)), state_(std::make_unique<State>(*this, std::move(device))) {
  info_.caps = state_->device->caps();
}

DeviceContext::~DeviceContext() {
  state_->staged.clear();
  state_->cache.reset();  // steps hold recordings and storages of this device
  for (const auto& [hash, kernel] : state_->kernels) state_->device->release(kernel);
}

// Compiled graphs keep an arena and tables; what was freed may wait for the queue. All of it is there for the taking
// before anybody fails.
void DeviceContext::State::give_back_caches() {
  if (last_ticket != Ticket::none) device->wait(last_ticket);
  if (cache) cache->clear();
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

// Waits; the error of a lost device names the lines of the program whose kernels were its last commands.
template <class F>
auto waiting(const DeviceCache* cache, const std::string& id, const F& wait) {
  std::optional<CompileNotice> notice;
  if (cold.exchange(false)) notice.emplace(id, 0);
  return with_note(wait, [&](std::string_view text) { return cache ? cache->lines_note(text) : std::string(); });
}

}  // namespace

MemoryUse DeviceContext::memory_use(uint64_t requested) const {
  const ending::Guard guard(state_->mutex);
  const AllocatorStats stats = state_->allocator.stats();
  return {requested, stats.live_bytes, state_->cache ? state_->cache->arena_bytes() : 0,
          stats.reserved_bytes - stats.live_bytes, caps().memory_bytes};
}

StoragePtr DeviceContext::allocate(uint64_t bytes) {
  const ending::Guard guard(state_->mutex);
  return std::make_shared<Storage>(
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
    for (size_t i = 0; i < parts.size(); ++i) storages[stretch[i]] = std::make_shared<Storage>(*this, parts[i]);
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
    to->version++;
  }
  if (commands.empty()) return;
  const ending::Guard guard(state_->mutex);
  const RecordingId recording = state_->device->record(commands, false);
  state_->device->wait(state_->device->submit(recording));
  state_->device->release(recording);
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
  const ending::Guard guard(state_->mutex);
  Binding source = storage.binding();
  state_->counters.bytes_read += bytes;
  waiting(state_->cache.get(), id(),
          [&] { state_->device->read(source.buffer, source.offset + offset, target, bytes); });
}

void DeviceContext::synchronize() {
  const HostSpan span("wait");
  const ending::Guard guard(state_->mutex);
  if (state_->last_ticket != Ticket::none)
    waiting(state_->cache.get(), id(), [&] { state_->device->wait(state_->last_ticket); });
}

Event DeviceContext::event() const {
  const ending::Guard guard(state_->mutex);
  return state_->last_ticket == Ticket::none ? Event() : Event(const_cast<DeviceContext&>(*this), state_->last_ticket);
}

void DeviceContext::State::forget_finished_reads() {
  std::erase_if(reads, [this](const HostRead& read) { return device->done(read.event.ticket()); });
}

DeviceContext::HostRead DeviceContext::read_later(Storage& storage, uint64_t offset, uint64_t bytes) {
  check_inside("read", storage, offset, bytes);
  HostRead read;
  read.bytes = std::make_shared<std::vector<uint8_t>>(bytes);
  if (bytes == 0) return read;
  const ending::Guard guard(state_->mutex);
  state_->forget_finished_reads();
  state_->reads.reserve(state_->reads.size() + 1);  // once the device knows the address, nothing may throw
  const Binding source = storage.binding();
  state_->counters.bytes_read += bytes;
  const Ticket ticket = waiting(state_->cache.get(), id(), [&] {
    return state_->device->read_later(source.buffer, source.offset + offset, read.bytes->data(), bytes);
  });
  if (ticket == Ticket::none) return read;
  read.event = Event(*this, ticket);
  storage.last_use = ticket;
  state_->reads.push_back(read);
  state_->last_ticket = ticket;
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

namespace {
void drain();
void while_idle(const std::function<void()>& done);
}  // namespace

KernelId DeviceContext::kernel(const KernelSource& source) { return kernels({&source}).front(); }

std::vector<KernelId> DeviceContext::kernels(const std::vector<const KernelSource*>& sources) {
  const HostSpan span("compile");
  const ending::Guard guard(state_->mutex);
  std::vector<uint64_t> hashes, fresh_hashes;
  std::vector<const KernelSource*> fresh;
  for (const KernelSource* source : sources) {
    const uint64_t hash = source->hash();
    hashes.push_back(hash);
    if (state_->kernels.contains(hash) ||
        std::find(fresh_hashes.begin(), fresh_hashes.end(), hash) != fresh_hashes.end())
      continue;
    fresh.push_back(source);
    fresh_hashes.push_back(hash);
  }
  if (!fresh.empty()) {
    constexpr size_t together = 16;  // a notice says how far it is
    ending::register_thread(drain, while_idle);
    CompileNotice notice(id(), fresh.size());
    cold = true;
    for (size_t at = 0; at < fresh.size(); at += together) {
      const auto part = std::span<const KernelSource* const>(fresh).subspan(at, std::min(together, fresh.size() - at));
      const std::vector<KernelId> compiled = part.size() == 1 ? std::vector<KernelId>{state_->device->compile(*part[0])}
                                                              : state_->device->compile_all(part);
      for (size_t i = 0; i < part.size(); ++i) state_->kernels.emplace(fresh_hashes[at + i], compiled[i]);
      state_->counters.kernels_compiled += compiled.size();
      notice.done(compiled.size());
    }
  }
  std::vector<KernelId> ids;
  for (uint64_t hash : hashes) ids.push_back(state_->kernels.at(hash));
  return ids;
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

DeviceCache* DeviceContext::cache() const { return state_->cache.get(); }

void DeviceContext::keep(std::unique_ptr<DeviceCache> cache) { state_->cache = std::move(cache); }

void DeviceContext::remember(Ticket ticket) { state_->last_ticket = ticket; }

DeviceContext::Locked DeviceContext::lock() {
  return {ending::Guard(state_->mutex).release(), *state_->device, state_->counters, state_->allocator};
}

namespace {

// Contexts are leaked on purpose: tensors in static objects may outlive any order of destruction that could be chosen,
// and several drivers crash when they are shut down from a static destructor. What they hold goes with the process.
struct Contexts {
  std::mutex mutex;
  std::map<std::string, DeviceContext*, std::less<>> by_id;
  std::atomic<DeviceContext*> chosen{nullptr};
};

Contexts& contexts() {
  static Contexts* const all = new Contexts();
  return *all;
}

std::vector<DeviceContext*> open_contexts() {
  Contexts& all = contexts();
  std::lock_guard lock(all.mutex);
  std::vector<DeviceContext*> open;
  for (const auto& [id, context] : all.by_id) open.push_back(context);
  return open;
}

// Lets everything that was submitted finish (core/device/ending.h); also runs at exit, before the drivers' own
// handlers, which were registered when they were loaded.
void drain() {
  for (DeviceContext* context : open_contexts()) {
    try {
      context->synchronize();
    } catch (...) {  // a lost device has nothing left to finish
    }
  }
}

// Calls done() while no thread is inside a device: no thread enters a second one from within a first.
void while_idle(const std::function<void()>& done) {
  std::vector<DeviceContext::Locked> locks;
  for (DeviceContext* context : open_contexts()) locks.push_back(context->lock());
  done();
}

std::string canonical(std::string_view id) {
  return id.find(':') == std::string_view::npos ? std::string(id) + ":0" : std::string(id);
}

}  // namespace

DeviceContext& device(std::string_view id) {
  Contexts& all = contexts();
  std::lock_guard guard(all.mutex);
  if (auto found = all.by_id.find(canonical(id)); found != all.by_id.end()) return *found->second;
  DeviceInfo info;
  std::unique_ptr<Device> opened = Registry::instance().open(id, &info);
  auto same = all.by_id.find(info.id);  // another spelling of an id that is open already, e.g. "opencl:00"
  if (same != all.by_id.end()) return *same->second;
  static const bool drained = std::atexit(drain) == 0;
  static_cast<void>(drained);
  ending::register_thread(drain, while_idle);
  auto* context = new DeviceContext(std::move(opened), info);
  all.by_id.emplace(info.id, context);
  return *context;
}

DeviceContext& reopen_device(std::string_view id) {
  DeviceContext& old = device(id);
  if (!old.lost()) return old;
  Contexts& all = contexts();
  std::lock_guard guard(all.mutex);
  DeviceInfo info;
  std::unique_ptr<Device> opened = Registry::instance().open(old.id(), &info);
  auto* context = new DeviceContext(std::move(opened), info);
  all.by_id[info.id] = context;  // the old one stays in memory: its tensors refer to it
  DeviceContext* expected = &old;
  all.chosen.compare_exchange_strong(expected, context);
  return *context;
}

DeviceContext& default_device() {
  Contexts& all = contexts();
  if (DeviceContext* known = all.chosen.load(std::memory_order_acquire)) return *known;
  DeviceContext& best = device(Registry::instance().best());
  DeviceContext* expected = nullptr;  // set_default_device of another thread wins
  all.chosen.compare_exchange_strong(expected, &best);
  return *all.chosen.load(std::memory_order_acquire);
}

void set_default_device(std::string_view id) {
  contexts().chosen.store(&device(id), std::memory_order_release);
  trace::host_state_changed();
}

}  // namespace heddle
