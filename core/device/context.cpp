#include "heddle/core/device/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <span>

#include "heddle/core/base/across_runs.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/host_epoch.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/base/with_note.h"
#include "heddle/core/device/context_memory.h"
#include "heddle/core/device/device_cache.h"
#include "heddle/core/device/ending.h"
#include "heddle/core/device/forced_caps.h"
#include "heddle/core/device/kernel_table.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/recent.h"
#include "heddle/core/device/storage.h"

namespace heddle {
// All of it but the id is under the lock.
struct DeviceContext::State {
  State(DeviceContext& owner, std::unique_ptr<Device> opened)
      : self(owner), device(std::move(opened)), memory(self, self.id(), mutex, *device, recent) {}
  void forget_finished_reads();
  DeviceCache* graphs() const { return memory.cache(Kept::graphs); }
  template <class Kernel, class F>
  std::vector<KernelId> found_or_made(const std::vector<const Kernel*>& wanted, F&& make);

  DeviceContext& self;
  std::recursive_mutex mutex;
  std::vector<HostRead> reads;  // not known to be done: the device may still write their bytes. Outlives the device.
  std::unique_ptr<Device> device;
  RecentSubmissions recent;
  ContextMemory memory;
  KernelTable kernels;
  DeviceCounters counters;
  std::atomic<uint64_t> memory_budget{0};
};

DeviceContext::DeviceContext(std::unique_ptr<Device> device, DeviceInfo info)
    : info_(std::move(info)), state_(std::make_unique<State>(*this, std::move(device))) {
  info_.caps = forced_caps(state_->device->caps());
}

DeviceContext::~DeviceContext() {
  state_->memory.forget_all();
  state_->kernels.release_all(*state_->device);
}

namespace {

// Asks the device; the error of a lost one names the lines of the program whose kernels were its last commands.
template <class F>
auto asking(const DeviceCache* cache, const F& ask) {
  return with_note(ask, [&](std::string_view text) { return cache ? cache->lines_note(text) : std::string(); });
}

}  // namespace

MemoryUse DeviceContext::memory_use(uint64_t requested) const {
  const ending::Guard guard(state_->mutex);
  return state_->memory.use(requested);
}

StoragePtr DeviceContext::allocate(uint64_t bytes) {
  const ending::Guard guard(state_->mutex);
  return state_->memory.allocate(bytes);
}

std::vector<StoragePtr> DeviceContext::allocate_adjacent(const std::vector<uint64_t>& bytes) {
  const ending::Guard guard(state_->mutex);
  return state_->memory.allocate_adjacent(bytes);
}

std::vector<StoragePtr> DeviceContext::allocate_results(const std::vector<uint64_t>& bytes) {
  const ending::Guard guard(state_->mutex);
  return state_->memory.allocate_results(bytes);
}

StoragePtr DeviceContext::stage(const void* source, uint64_t bytes) {
  const ending::Guard guard(state_->mutex);
  return state_->memory.stage(source, bytes);
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
      const WhileWaiting waiting(id());
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
  const WhileWaiting waiting(id());
  std::unique_ptr<Waiter> waiter;
  {
    const ending::Guard guard(state_->mutex);
    waiter = asking(state_->graphs(), [&] { return state_->device->waiter(ticket); });
  }
  if (!waiter) return;  // over already
  {
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
  std::vector<uint64_t> hashes;
  for (const Kernel* kernel : wanted) hashes.push_back(kernel->hash());
  return kernels.find_or_make(self.id(), hashes, [&](std::span<const size_t> which) {
    std::vector<const Kernel*> part;
    for (const size_t i : which) part.push_back(wanted[i]);
    return make(std::span<const Kernel* const>(part));
  });
}

namespace {

// Counts the kernels that an earlier process compiled, and marks the others.
void note_kernels(std::span<const KernelSource* const> made, uint64_t driver) {
  const DiskCache marks("compiled", driver);
  for (const KernelSource* kernel : made) {
    const std::string identity = fmt::format("{:016x}", kernel->hash());
    if (marks.load(identity))
      across_runs::count_known_kernel();
    else
      marks.store(identity, "1", 1, kernel->name);
  }
}

}  // namespace

std::vector<KernelId> DeviceContext::kernels(const std::vector<const KernelSource*>& sources) {
  return state_->found_or_made(sources, [this](std::span<const KernelSource* const> part) {
    std::vector<KernelId> made =
        part.size() == 1 ? std::vector<KernelId>{state_->device->compile(*part[0])} : state_->device->compile_all(part);
    state_->counters.kernels_compiled += made.size();
    if (across_runs::on()) note_kernels(part, caps().driver_hash);
    return made;
  });
}

std::vector<KernelId> DeviceContext::load(const std::vector<const KernelBinary*>& binaries) {
  return state_->found_or_made(
      binaries, [this](std::span<const KernelBinary* const> part) { return state_->device->load_all(part); });
}

AllocatorStats DeviceContext::memory() const {
  const ending::Guard guard(state_->mutex);
  return state_->memory.allocator().stats();
}

void DeviceContext::reset_peak_memory() {
  const ending::Guard guard(state_->mutex);
  state_->memory.allocator().reset_peak();
}

DeviceCounters DeviceContext::counters() const {
  const ending::Guard guard(state_->mutex);
  return state_->counters;
}

DeviceCache* DeviceContext::cache(Kept what) const { return state_->memory.cache(what); }

void DeviceContext::keep(Kept what, std::unique_ptr<DeviceCache> cache) { state_->memory.keep(what, std::move(cache)); }

void DeviceContext::remember(Ticket ticket) { state_->recent.add(ticket); }

Ticket DeviceContext::too_far_ahead() const {
  const Ticket oldest = state_->recent.oldest();
  return oldest == Ticket::none || state_->device->done(oldest) ? Ticket::none : state_->recent.middle();
}

DeviceContext::Locked DeviceContext::lock() {
  return {ending::Guard(state_->mutex).release(), *state_->device, state_->counters, state_->memory.allocator()};
}

}  // namespace heddle
