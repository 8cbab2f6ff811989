// Device: the contract between core and a backend. Eleven calls, and some with defaults; a backend is one class that
// implements them.
//
// Purpose: everything above this line is free of Vulkan, OpenCL and CUDA. A device never learns an op's name: it
// compiles KernelSources and runs commands on flat byte ranges of buffers.
// Invariants:
//   - A device has one queue. Writes, reads and submissions take effect in the order of the calls that made them;
//     a command sees everything that was enqueued before it. Inside one recording, commands take effect as if they
//     ran one after the other (a backend puts barriers where ranges overlap).
//   - Every failure is a typed exception (core/base/error.h) whose text carries the API's call, name and code.
//   - After DeviceLost or DeviceTimeout every call throws DeviceLost, except free and release, which then do nothing.
//   - free and release never throw: they run in destructors.
// Thread safety: none. core's DeviceContext serialises the calls to one device; different devices are independent. Only
// a Waiter is used beside them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "heddle/core/contract/device_info.h"
#include "heddle/core/contract/handles.h"
#include "heddle/core/contract/kernel_binary.h"
#include "heddle/core/contract/kernel_source.h"

namespace heddle {

// A byte range of a buffer. offset is a multiple of Caps::buffer_alignment; size > 0 and offset + size fits the buffer.
struct Binding {
  BufferId buffer = BufferId::none;
  uint64_t offset = 0;
  uint64_t size = 0;
  bool operator==(const Binding&) const = default;
};

// Runs groups[0] x groups[1] x groups[2] groups of a kernel. bindings and constants match the kernel's declaration in
// number and order; a constant is its 32 bits.
struct Dispatch {
  KernelId kernel = KernelId::none;
  uint32_t groups[3] = {1, 1, 1};
  std::vector<Binding> bindings;
  std::vector<uint32_t> constants;
  double seconds = 0;  // a rough guess of its time on a slow device of the class; where a watchdog ends long
                       // submissions, a recording is cut by it
};

// Copies src.size bytes; the ranges do not overlap; dst.size == src.size. Offsets and sizes are multiples of 4,
// or the whole copy lies in one element (sizes of 1 and 2 bytes are allowed at any offset).
struct Copy {
  Binding src;
  Binding dst;
};

// Fills dst with a repeated 32-bit pattern; offset and size are multiples of 4.
struct Fill {
  Binding dst;
  uint32_t pattern = 0;
};

using Command = std::variant<Dispatch, Copy, Fill>;

// When a command ran: seconds of a clock of the device's own, the same for all its submissions.
struct CommandTime {
  double start = 0;
  double end = 0;
};
// How long each ran.
std::vector<double> durations(std::span<const CommandTime> times);

// Blocks until a submission has finished while other threads use its device.
//
// Invariants: made and destroyed like any call to its device, that is, by one thread at a time; it keeps what it waits
// for, and does not outlive its device. Thread safety: block() may run beside every call to the device.
class Waiter {
 public:
  virtual ~Waiter() = default;
  // Returns when the submission has finished or failed, or when the device has finished nothing for HEDDLE_TIMEOUT
  // seconds: Device::wait() then says which, and does not wait.
  virtual void block() noexcept = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual const Caps& caps() const = 0;

  // A new buffer with undefined contents. bytes > 0. Throws OutOfMemory, or LimitError over max_allocation_bytes.
  virtual BufferId alloc(uint64_t bytes) = 0;
  // The buffer's memory may be reused once everything enqueued so far has finished.
  virtual void free(BufferId buffer) = 0;

  // Copies host bytes into the buffer, in queue order; `source` may be reused as soon as the call returns.
  virtual void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) = 0;
  // Waits for everything enqueued before and copies bytes to the host.
  virtual void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) = 0;

  // Throws CompileError with the compiler's log. Devices of the library: core/contract/loading_device.h.
  virtual KernelId compile(const KernelSource& source) = 0;
  virtual void release(KernelId kernel) = 0;
  // Several at once, in parallel where the driver gains by it; ids in the order of the sources. All or none: throws the
  // first failure. The default compiles one after the other.
  virtual std::vector<KernelId> compile_all(std::span<const KernelSource* const> sources);
  // Kernels that a compiler made for such a device (core/contract/kernel_compiler.h), in parallel where the driver
  // gains by it; ids in the order of the binaries, all or none. LimitError, or CompileError where the driver refuses
  // one. The default: DeviceError, the device takes sources only.
  virtual std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries);

  // Prepares a list of commands for repeated submission. With `timed`, wait() can report device times.
  virtual RecordingId record(std::span<const Command> commands, bool timed) = 0;
  virtual void release(RecordingId recording) = 0;

  // Enqueues a recording; returns at once.
  virtual Ticket submit(RecordingId recording) = 0;
  // Returns when that submission (and everything before it) has finished. If `seconds` is given and the recording was
  // timed, it receives one device time per command.
  virtual void wait(Ticket ticket, std::vector<double>* seconds = nullptr) = 0;

  // ---- optional: a device that works while the host does something else (Caps::async)
  // What blocks until that submission has finished. Null: it has (the default, as for done()).
  virtual std::unique_ptr<Waiter> waiter(Ticket ticket);
  // Whether that submission has finished; does not wait. The default, for devices whose submit() returns with the work
  // done: true.
  virtual bool done(Ticket ticket);
  // read() that does not wait: `target` holds the bytes once done() or wait() says so for the ticket, and must live
  // until then, also when the device is lost meanwhile. Ticket::none: they are there already (the default).
  virtual Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes);
  // read_later() of bytes that nothing writes until the ticket is done (the caller's promise), so that they may be
  // taken from where they are. The default: read_later().
  virtual Ticket read_in_place(BufferId buffer, uint64_t offset, void* target, uint64_t bytes);
  // write() into bytes that nothing enqueued after `after` touches (the caller's promise): it may overtake what was
  // submitted after that ticket. What is enqueued afterwards sees the bytes, as after write(). `source` may be reused
  // as soon as the call returns. The default: write().
  virtual void write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket after);
  // A buffer in page-locked host memory, for Copy commands only, in either direction; freed by free(). The default:
  // alloc(), for devices that have no memory of their own.
  virtual BufferId alloc_host(uint64_t bytes);

  // ---- optional: when the commands of a timed submission ran (Caps::times), one entry per command, once wait()
  // returned for it. Empty where the device cannot say (the default), for an untimed one, and for one that finished
  // many submissions ago.
  virtual std::vector<CommandTime> command_times(Ticket ticket);
};

// Caps::queues of a device that has so many: HEDDLE_QUEUES where it is set.
uint32_t wanted_queues(uint32_t own);

}  // namespace heddle
