#include "heddle/core/run/replay.h"

#include "heddle/core/device/locked_device.h"

namespace heddle {
namespace {

Replay*& current() {
  thread_local Replay* instance = nullptr;
  return instance;
}

std::vector<uint64_t> versions_of(const std::vector<StoragePtr>& memory) {
  std::vector<uint64_t> versions;
  versions.reserve(memory.size());
  for (const StoragePtr& storage : memory) versions.push_back(storage->version);
  return versions;
}

}  // namespace

HostBlock::HostBlock(DeviceContext& device, uint64_t bytes)
    : device_(device), bytes_(bytes), buffer_(device.lock().device.alloc_host(bytes)) {}
HostBlock::~HostBlock() { device_.lock().device.free(buffer_); }

KeptRecording::~KeptRecording() { device_.lock().device.release(id_); }

Replay Replay::capture(const std::function<void()>& work) {
  Replay replay;
  struct Scope {
    Replay* before = current();
    ~Scope() { current() = before; }
  } scope;
  current() = &replay;
  work();
  return replay;
}

void Replay::note(const std::shared_ptr<KeptRecording>& recording, Memory memory, bool once) {
  std::vector<uint64_t> seen = once ? versions_of(memory.read) : std::vector<uint64_t>();
  current()->parts_->push_back({recording, std::move(memory), once, std::move(seen)});
}

bool Replay::capturing() { return current() != nullptr; }

void Replay::run() const {
  for (Part& part : *parts_) {
    DeviceContext& device = part.recording->device();
    auto locked = device.lock();
    if (part.once) {
      std::vector<uint64_t> now = versions_of(part.memory.read);
      if (now == part.seen) continue;
      part.seen = std::move(now);
    }
    const Ticket ticket = locked.device.submit(part.recording->id());
    device.remember(ticket);
    for (const StoragePtr& storage : part.memory.read) storage->last_use = ticket;
    for (const StoragePtr& storage : part.memory.written) {
      storage->last_use = ticket;
      storage->version++;
    }
    locked.counters.kernels += part.recording->kernels();
    locked.counters.submissions++;
  }
}

size_t Replay::kernels() const {
  size_t count = 0;
  for (const Part& part : *parts_) count += part.once ? 0 : part.recording->kernels();
  return count;
}

}  // namespace heddle
