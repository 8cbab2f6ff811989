// Calls of the host's functions in the queue of OpenClDevice: native kernels, which drivers on the host's processor
// run.
#include <memory>
#include <utility>

#include "heddle/backend_opencl/opencl_device.h"

namespace heddle::opencl {
namespace {

using Call = Callable<void()>;

// `words`: a copy of the pointer to the call.
void CL_CALLBACK make(void* words) {
  const std::unique_ptr<Call> call(*static_cast<Call**>(words));
  (*call)();
}

}  // namespace

bool OpenClDevice::takes_calls() const {
  cl_device_exec_capabilities can = 0;
  const cl_int status = cl().GetDeviceInfo(device_, CL_DEVICE_EXECUTION_CAPABILITIES, sizeof can, &can, nullptr);
  return status == CL_SUCCESS && (can & CL_EXEC_NATIVE_KERNEL) != 0 && caps_.async && dead_.empty();
}

Ticket OpenClDevice::enqueue_call(Callable<void()> call) {
  check_alive();
  in_flight_.make_room();
  join_uploads();
  auto held = std::make_unique<Call>(std::move(call));
  Call* words = held.get();
  InFlight entry{};
  expect(cl().EnqueueNativeKernel(queue_, make, &words, sizeof words, 0, nullptr, nullptr, 0, nullptr, &entry.done),
         "clEnqueueNativeKernel");
  (void)held.release();  // the call's own
  const Ticket ticket = in_flight_.add(std::move(entry));
  expect(cl().Flush(queue_), "clFlush");
  return ticket;
}

}  // namespace heddle::opencl
