#include "heddle/core/device/host_calls.h"

#include <optional>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/host_calls.h"
#include "heddle/core/contract/slices.h"
#include "heddle/core/device/locked_device.h"

namespace heddle {
namespace {

HostCalls* host_calls(Device& device) { return dynamic_cast<HostCalls*>(&device); }

}  // namespace

bool takes_host_calls(DeviceContext& context) {
  if (timeout_seconds() > 0) return false;
  const DeviceContext::Locked locked = context.lock();
  const HostCalls* const calls = host_calls(locked.device);
  return calls != nullptr && calls->takes_calls();
}

Event enqueue_host_call(DeviceContext& context, Callable<void()> call) {
  std::optional<DeviceContext::Locked> locked(context.lock());
  for (Ticket behind; (behind = context.too_far_ahead()) != Ticket::none;) {
    locked.reset();
    context.wait(behind);
    locked.emplace(context.lock());
  }
  HostCalls* const calls = host_calls(locked->device);
  if (calls == nullptr) throw DeviceError("[" + context.id() + "] its queue takes no calls of the host's functions");
  const Ticket ticket = calls->enqueue_call(std::move(call));
  context.remember(ticket);
  return {context, ticket};
}

}  // namespace heddle
