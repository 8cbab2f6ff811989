#include "heddle/core/device/reference_device.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/device/validate.h"

namespace heddle {
namespace {

constexpr uint64_t alignment = 256;

[[noreturn]] void no_kernels(const char* call) {
  throw DeviceError(
      fmt::format("[{}] reference:0 has no kernels: it evaluates the op table in double precision on the host; use "
                  "opencl, vulkan or cuda",
                  call));
}

class ReferenceBackend final : public Backend {
 public:
  std::string_view name() const override { return "reference"; }
  std::vector<DeviceInfo> enumerate() override {
    DeviceInfo info;
    info.id = "reference:0";
    info.backend = "reference";
    info.name = "op table on the host, double precision";
    info.driver = "heddle";
    info.available = true;
    info.caps = ReferenceDevice::reference_caps();
    return {info};
  }
  std::unique_ptr<Device> open(int index) override {
    if (index != 0) throw DeviceUnavailable(fmt::format("[reference] no device {}; there is 1", index));
    return std::make_unique<ReferenceDevice>();
  }
};

}  // namespace

Caps ReferenceDevice::reference_caps() {
  Caps caps;
  caps.device_class = DeviceClass::reference;
  caps.target = Target::none;
  caps.memory_bytes = os::memory_bytes();
  caps.max_allocation_bytes = caps.memory_bytes;
  caps.max_binding_bytes = caps.memory_bytes;
  caps.buffer_alignment = alignment;
  caps.unified_memory = true;
  caps.f64 = caps.f64_math = caps.i64 = true;
  caps.driver_hash = hash_string("heddle reference 1");
  return caps;
}

ReferenceDevice::ReferenceDevice() : caps_(reference_caps()) {}

ReferenceDevice::~ReferenceDevice() {
  for (auto& [id, buffer] : buffers_) {
    if (buffer.own) os::free_aligned(buffer.memory);
  }
}

BufferId ReferenceDevice::alloc(uint64_t bytes) {
  check_allocation(bytes, caps_);
  void* memory = os::allocate_aligned(alignment, bytes);
  if (!memory) throw OutOfMemory(fmt::format("[reference:0] no {} bytes of host memory", bytes));
  buffers_[++next_id_] = {memory, bytes, true};
  return BufferId{next_id_};
}

BufferId ReferenceDevice::adopt(void* memory, uint64_t bytes, HostUse) {
  buffers_[++next_id_] = {memory, bytes, false};
  return BufferId{next_id_};
}

void ReferenceDevice::free(BufferId buffer) {
  auto found = buffers_.find(static_cast<uint64_t>(buffer));
  if (found == buffers_.end()) return;
  if (found->second.own) os::free_aligned(found->second.memory);
  buffers_.erase(found);
}

void ReferenceDevice::write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) {
  auto found = buffers_.find(static_cast<uint64_t>(buffer));
  check_access("write", found == buffers_.end() ? nullptr : &found->second.bytes, offset, bytes);
  if (bytes) std::memcpy(static_cast<char*>(found->second.memory) + offset, source, bytes);
}

void ReferenceDevice::read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  auto found = buffers_.find(static_cast<uint64_t>(buffer));
  check_access("read", found == buffers_.end() ? nullptr : &found->second.bytes, offset, bytes);
  if (bytes) std::memcpy(target, static_cast<const char*>(found->second.memory) + offset, bytes);
}

KernelId ReferenceDevice::compile(const KernelSource&) { no_kernels("compile"); }
RecordingId ReferenceDevice::record(std::span<const Command>, bool) { no_kernels("record"); }
Ticket ReferenceDevice::submit(RecordingId) { no_kernels("submit"); }

void ReferenceDevice::wait(Ticket, std::vector<double>* seconds) {
  if (seconds) seconds->clear();
}

void* ReferenceDevice::host_pointer(BufferId buffer) {
  auto found = buffers_.find(static_cast<uint64_t>(buffer));
  if (found == buffers_.end()) {
    throw DeviceError(fmt::format("[host_pointer] the buffer handle {} is not alive", static_cast<uint64_t>(buffer)));
  }
  return found->second.memory;
}

std::unique_ptr<Backend> make_reference_backend() { return std::make_unique<ReferenceBackend>(); }

}  // namespace heddle
