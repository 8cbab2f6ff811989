#include "core/device/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/base/host_epoch.h"
#include "core/base/host_span.h"
#include "core/base/integers.h"
#include "core/base/with_note.h"
#include "core/device/compile_notice.h"
#include "core/device/ending.h"

namespace heddle {

Storage::~Storage() { device_.release(allocation_); }

DeviceContext::DeviceContext(std::unique_ptr<Device> device, DeviceInfo info)
    : info_(std::move(info)), device_(std::move(device)), allocator_(*device_) {
  info_.caps = device_->caps();
}

DeviceContext::~DeviceContext() {
  staged_.clear();
  cache_.reset();  // steps hold recordings and storages of this device
  for (const auto& [hash, kernel] : kernels_) device_->release(kernel);
}

// Compiled graphs keep an arena and tables; what was freed may wait for the queue. All of it is there for the taking
// before anybody fails.
void DeviceContext::give_back_caches() {
  if (last_ticket_ != Ticket::none) device_->wait(last_ticket_);
  if (cache_) cache_->clear();
  staged_.clear();
  allocator_.trim();
}

template <class F>
auto DeviceContext::with_memory(uint64_t requested, F&& take) {
  try {
    return take();
  } catch (const OutOfMemory&) {
    give_back_caches();
  }
  try {
    return take();
  } catch (const OutOfMemory& error) {
    const MemoryUse held = memory_use(requested);
    throw OutOfMemory(fmt::format("{} [{}: {} bytes requested, {} live (of them {} in arenas of steps), {} cached{}; "
                                  "caches were given back before]",
                                  error.what(), id(), held.requested, held.live, held.arena, held.cached,
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
  const ending::Guard guard(mutex_);
  const AllocatorStats stats = allocator_.stats();
  return {requested, stats.live_bytes, cache_ ? cache_->arena_bytes() : 0, stats.reserved_bytes - stats.live_bytes,
          caps().memory_bytes};
}

StoragePtr DeviceContext::allocate(uint64_t bytes) {
  const ending::Guard guard(mutex_);
  return std::make_shared<Storage>(
      *this, with_memory(bytes, [&] { return allocator_.allocate(std::max<uint64_t>(bytes, 1)); }));
}

std::vector<StoragePtr> DeviceContext::allocate_adjacent(const std::vector<uint64_t>& bytes) {
  constexpr uint64_t large = 16 << 20, longest_stretch = 128 << 20;
  const uint64_t limit = std::min({longest_stretch, caps().max_binding_bytes, caps().max_allocation_bytes});
  const uint64_t step = std::max<uint64_t>(256, caps().buffer_alignment);
  const ending::Guard guard(mutex_);
  std::vector<StoragePtr> storages(bytes.size());
  std::vector<size_t> stretch;
  uint64_t length = 0;
  const auto close = [&] {
    std::vector<uint64_t> sizes;
    for (size_t i : stretch) sizes.push_back(bytes[i]);
    const std::vector<Allocation> parts = with_memory(length, [&] { return allocator_.allocate_adjacent(sizes); });
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
  const ending::Guard guard(mutex_);
  if (bytes.size() >= many && allocator_.adjacency_is_free(std::accumulate(bytes.begin(), bytes.end(), uint64_t{0})))
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
  const ending::Guard guard(mutex_);
  const RecordingId recording = device_->record(commands, false);
  device_->wait(device_->submit(recording));
  device_->release(recording);
}

void DeviceContext::release(const Allocation& allocation) {
  const ending::Guard guard(mutex_);
  allocator_.release(allocation);
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
  const ending::Guard guard(mutex_);
  Binding target = storage.binding();
  device_->write(target.buffer, target.offset + offset, source, bytes);
  storage.last_use = Ticket::none;
  storage.version++;
}

StoragePtr DeviceContext::stage(const void* source, uint64_t bytes) {
  constexpr ptrdiff_t kept_of_a_size = 3;
  constexpr size_t kept_in_all = 24;
  constexpr uint64_t kept_bytes = 256 << 20;
  const ending::Guard guard(mutex_);
  const auto same = [&](const StoragePtr& s) { return s->bytes() == bytes; };
  const auto done = [&](const StoragePtr& s) { return s->last_use == Ticket::none || device_->done(s->last_use); };
  const auto at =
      std::find_if(staged_.begin(), staged_.end(), [&](const StoragePtr& s) { return same(s) && s.use_count() == 1; });
  StoragePtr storage;
  if (at != staged_.end() && (done(*at) || std::count_if(staged_.begin(), staged_.end(), same) >= kept_of_a_size)) {
    storage = std::move(*at);
    staged_.erase(at);
  } else {
    storage = allocate(bytes);
    uint64_t kept = 0;
    for (const StoragePtr& s : staged_) kept += s->bytes();
    for (; !staged_.empty() && (staged_.size() >= kept_in_all || kept + bytes > kept_bytes);
         staged_.erase(staged_.begin()))
      kept -= staged_.front()->bytes();
  }
  const Binding target = storage->binding();
  if (storage->last_use ==
      Ticket::none) {  // a write to the memory's last owner, or of a batch that nobody used, may still be queued
    device_->write(target.buffer, target.offset, source, bytes);
  } else {
    device_->write_beside(target.buffer, target.offset, source, bytes, std::exchange(storage->last_use, Ticket::none));
  }
  staged_.push_back(storage);
  return storage;
}

void DeviceContext::set_memory_budget(uint64_t bytes) {
  memory_budget_.store(bytes, std::memory_order_relaxed);
  trace::host_state_changed();
}

void DeviceContext::read(Storage& storage, uint64_t offset, void* target, uint64_t bytes) {
  check_inside("read", storage, offset, bytes);
  if (bytes == 0) return;
  const HostSpan span("wait");
  const ending::Guard guard(mutex_);
  Binding source = storage.binding();
  counters_.bytes_read += bytes;
  waiting(cache_.get(), id(), [&] { device_->read(source.buffer, source.offset + offset, target, bytes); });
}

void DeviceContext::synchronize() {
  const HostSpan span("wait");
  const ending::Guard guard(mutex_);
  if (last_ticket_ != Ticket::none) waiting(cache_.get(), id(), [&] { device_->wait(last_ticket_); });
}

Event DeviceContext::event() const {
  const ending::Guard guard(mutex_);
  return last_ticket_ == Ticket::none ? Event() : Event(const_cast<DeviceContext&>(*this), last_ticket_);
}

void DeviceContext::forget_finished_reads() {
  std::erase_if(reads_, [this](const HostRead& read) { return device_->done(read.event.ticket()); });
}

DeviceContext::HostRead DeviceContext::read_later(Storage& storage, uint64_t offset, uint64_t bytes) {
  check_inside("read", storage, offset, bytes);
  HostRead read;
  read.bytes = std::make_shared<std::vector<uint8_t>>(bytes);
  if (bytes == 0) return read;
  const ending::Guard guard(mutex_);
  forget_finished_reads();
  reads_.reserve(reads_.size() + 1);  // once the device knows the address, nothing may throw
  const Binding source = storage.binding();
  counters_.bytes_read += bytes;
  const Ticket ticket = waiting(cache_.get(), id(), [&] {
    return device_->read_later(source.buffer, source.offset + offset, read.bytes->data(), bytes);
  });
  if (ticket == Ticket::none) return read;
  read.event = Event(*this, ticket);
  storage.last_use = ticket;
  reads_.push_back(read);
  last_ticket_ = ticket;
  return read;
}

bool DeviceContext::lost() const {
  const ending::Guard guard(mutex_);
  try {
    device_->free(device_->alloc(caps().buffer_alignment));
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
  const ending::Guard guard(mutex_);
  std::vector<uint64_t> hashes, fresh_hashes;
  std::vector<const KernelSource*> fresh;
  for (const KernelSource* source : sources) {
    const uint64_t hash = source->hash();
    hashes.push_back(hash);
    if (kernels_.contains(hash) || std::find(fresh_hashes.begin(), fresh_hashes.end(), hash) != fresh_hashes.end())
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
      const std::vector<KernelId> compiled =
          part.size() == 1 ? std::vector<KernelId>{device_->compile(*part[0])} : device_->compile_all(part);
      for (size_t i = 0; i < part.size(); ++i) kernels_.emplace(fresh_hashes[at + i], compiled[i]);
      counters_.kernels_compiled += compiled.size();
      notice.done(compiled.size());
    }
  }
  std::vector<KernelId> ids;
  for (uint64_t hash : hashes) ids.push_back(kernels_.at(hash));
  return ids;
}

AllocatorStats DeviceContext::memory() const {
  const ending::Guard guard(mutex_);
  return allocator_.stats();
}

void DeviceContext::reset_peak_memory() {
  const ending::Guard guard(mutex_);
  allocator_.reset_peak();
}

DeviceCounters DeviceContext::counters() const {
  const ending::Guard guard(mutex_);
  return counters_;
}

DeviceContext::Locked DeviceContext::lock() {
  return {ending::Guard(mutex_).release(), *device_, counters_, allocator_};
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
