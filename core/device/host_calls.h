// Calls of the host's functions in a device's queue (HostCalls). Thread safety: as DeviceContext.
#pragma once

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"

namespace heddle {

// Whether the device makes calls between its commands. Not where HEDDLE_TIMEOUT limits what its commands take: a call
// may wait for longer.
bool takes_host_calls(DeviceContext& context);

// Enqueues a call as HostCalls::enqueue_call() does, after waiting where the host is too far ahead; the event is done
// when it has returned. The device takes host calls.
Event enqueue_host_call(DeviceContext& context, Callable<void()> call);

}  // namespace heddle
