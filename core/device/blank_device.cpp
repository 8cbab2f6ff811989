#include "heddle/core/device/blank_device.h"

#include <array>
#include <cstring>
#include <utility>

#include "heddle/core/device/adopted.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/validate.h"

namespace heddle {
namespace {

constexpr const char* blank_backend = "blank";

// Asked with a page that is there.
bool adopts_constants(DeviceContext& device) {
  alignas(4096) static const std::array<uint8_t, 4096> page{};
  return adopt_constant(device, page.data(), page.size()) != nullptr;
}

}  // namespace

BlankDevice::BlankDevice(Caps caps, bool adopts) : caps_(std::move(caps)), adopts_(adopts) {}

BufferId BlankDevice::alloc(uint64_t bytes) {
  check_allocation(bytes, caps_);
  return BufferId{++next_id_};
}

void BlankDevice::read(BufferId, uint64_t, void* target, uint64_t bytes) {
  if (bytes > 0) std::memset(target, 0, bytes);
}

void BlankDevice::wait(Ticket, std::vector<double>* seconds) {
  if (seconds != nullptr) seconds->clear();
}

BufferId BlankDevice::adopt_constant(const void*, uint64_t bytes) {
  if (!adopts_ || bytes == 0 || bytes > caps_.max_allocation_bytes) return BufferId::none;
  adopted_ += bytes;
  return BufferId{++next_id_};
}

std::unique_ptr<DeviceContext> blank_context(DeviceContext& device) {
  DeviceInfo info = device.info();
  info.backend = blank_backend;
  return std::make_unique<DeviceContext>(std::make_unique<BlankDevice>(device.caps(), adopts_constants(device)), info);
}

bool is_blank(const DeviceContext& context) { return context.info().backend == blank_backend; }

uint64_t adopted_bytes(DeviceContext& blank) {
  const DeviceContext::Locked locked = blank.lock();
  return dynamic_cast<BlankDevice&>(locked.device).adopted();
}

}  // namespace heddle
