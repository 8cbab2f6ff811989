#include "heddle/core/run/replay.h"

#include "heddle/core/device/locked_device.h"

namespace heddle {
namespace {

Replay*& current() {
  thread_local Replay* instance = nullptr;
  return instance;
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

void Replay::note(const std::shared_ptr<KeptRecording>& recording, std::vector<StoragePtr> memory) {
  current()->parts_.push_back({recording, std::move(memory)});
}

bool Replay::capturing() { return current() != nullptr; }

void Replay::run() const {
  for (const Part& part : parts_) {
    DeviceContext& device = part.recording->device();
    auto locked = device.lock();
    const Ticket ticket = locked.device.submit(part.recording->id());
    device.remember(ticket);
    for (const StoragePtr& storage : part.memory) storage->last_use = ticket;
    locked.counters.kernels += part.recording->kernels();
    locked.counters.submissions++;
    for (const StoragePtr& storage : part.memory) storage->version++;  // any of it may have been updated in place
  }
}

size_t Replay::kernels() const {
  size_t count = 0;
  for (const Part& part : parts_) count += part.recording->kernels();
  return count;
}

}  // namespace heddle
