#include "heddle/deploy/c_device.h"

#include <cstring>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/contract/device.h"
#include "heddle/core/device/validate.h"

namespace heddle {
namespace {

Caps c_caps() {
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::c;
  caps.known_machine = Machine::cpu_loops;
  caps.shared_bytes = 65536;
  caps.max_group_lanes = 1024;
  caps.max_group[0] = caps.max_group[1] = caps.max_group[2] = 1024;
  caps.max_groups[0] = caps.max_groups[1] = caps.max_groups[2] = 0x7fffffff;
  caps.max_bindings = 64;
  caps.buffer_alignment = 64;
  caps.max_binding_bytes = caps.max_allocation_bytes = uint64_t{1} << 40;
  caps.unified_memory = true;
  caps.f64 = caps.f64_math = caps.i64 = true;
  caps.driver_hash = hash_string("heddle c 1");
  return caps;
}

class CDevice final : public Device {
 public:
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
      throw DeviceError("[c:0] bytes outside of a buffer");
    return found->second.data() + offset;
  }
  template <class T>
  [[noreturn]] static T runs_nothing() {
    throw ValueError("[compile] a model that is written as C cannot be looked at while it is: it looks at values");
  }

  Caps caps_ = c_caps();
  std::unordered_map<uint64_t, std::vector<uint8_t>> buffers_;
  uint64_t next_ = 0;
};

std::unique_ptr<DeviceContext> make_context() {
  DeviceInfo info;
  info.id = "c:0";
  info.backend = "c";
  info.name = "C99";
  info.driver = "none";
  info.available = true;
  info.caps = c_caps();
  return std::make_unique<DeviceContext>(std::make_unique<CDevice>(), std::move(info));
}

}  // namespace

// Tensors may live until the end of the process, as those of the registry's devices do.
DeviceContext& c_device() {
  static DeviceContext* const context = make_context().release();
  return *context;
}

}  // namespace heddle
