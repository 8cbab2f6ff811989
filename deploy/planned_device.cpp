#include "heddle/deploy/planned_device.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/validate.h"

namespace heddle {
namespace {

class PlannedDevice final : public Device {
 public:
  PlannedDevice(std::string id, const Caps& caps) : id_(std::move(id)), caps_(caps) {}

  const Caps& caps() const override { return caps_; }

  BufferId alloc(uint64_t bytes) override {
    check_allocation(bytes, caps_);
    buffers_[++next_].resize(bytes);
    return BufferId{next_};
  }
  void free(BufferId buffer) override { buffers_.erase(static_cast<uint64_t>(buffer)); }
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override {
    if (bytes > 0) std::memcpy(at(buffer, offset, bytes), source, bytes);
  }
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override {
    if (bytes > 0) std::memcpy(target, at(buffer, offset, bytes), bytes);
  }

  KernelId compile(const KernelSource& source) override {
    check_kernel(source, caps_);
    return KernelId{++next_};
  }
  void release(KernelId) override {}
  RecordingId record(std::span<const Command>, bool) override { return runs_nothing<RecordingId>(); }
  void release(RecordingId) override {}
  Ticket submit(RecordingId) override { return runs_nothing<Ticket>(); }
  void wait(Ticket, std::vector<double>* seconds) override {
    if (seconds != nullptr) seconds->clear();
  }

 private:
  uint8_t* at(BufferId buffer, uint64_t offset, uint64_t bytes) {
    const auto found = buffers_.find(static_cast<uint64_t>(buffer));
    if (found == buffers_.end() || offset > found->second.size() || bytes > found->second.size() - offset)
      throw DeviceError(fmt::format("[{}] bytes outside of a buffer", id_));
    return found->second.data() + offset;
  }
  template <class T>
  [[noreturn]] T runs_nothing() const {
    throw ValueError(
        fmt::format("[compile] the model looks at values, which {} has none of: it is planned for, not run", id_));
  }

  std::string id_;
  Caps caps_;
  std::unordered_map<uint64_t, std::vector<uint8_t>> buffers_;
  uint64_t next_ = 0;
};

}  // namespace

DeviceContext& planned_device(DeviceInfo info) {
  info.available = true;
  auto device = std::make_unique<PlannedDevice>(info.id, info.caps);
  return *std::make_unique<DeviceContext>(std::move(device), std::move(info)).release();
}

bool only_plans(DeviceContext& device) {
  const auto locked = device.lock();
  return dynamic_cast<PlannedDevice*>(&locked.device) != nullptr;
}

}  // namespace heddle
