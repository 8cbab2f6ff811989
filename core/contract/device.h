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
// Thread safety: none. core's DeviceContext serialises the calls to one device; different devices are independent.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "core/contract/kernel_source.h"

namespace heddle {

// What kind of machine runs the kernels; picks defaults of tunables.
enum class DeviceClass : uint8_t { cpu, integrated_gpu, discrete_gpu, reference, null };
std::string_view name_of(DeviceClass c);

// How a device takes kernels. `none`: it does not; core evaluates the op table instead (reference device).
enum class Target : uint8_t { none, glsl, opencl, cuda };
std::string_view name_of(Target t);

// How long a device may work without finishing anything before wait() gives it up (DeviceTimeout): HEDDLE_TIMEOUT in
// seconds; 0, the default: for ever.
double timeout_seconds();

// Facts about a device, read once when it is opened.
struct Caps {
  DeviceClass device_class = DeviceClass::cpu;
  Target target = Target::none;
  uint32_t vendor_id = 0;  // PCI vendor, 0 when unknown
  uint32_t compute_units = 1;
  uint32_t subgroup_size = 1;      // lanes that run in lock-step; 1 when the API does not say
  uint32_t shared_bytes = 16384;   // per group
  uint32_t max_group_lanes = 128;  // lanes of one group, product of the three sizes
  uint32_t max_group[3] = {128, 128, 64};
  uint32_t max_groups[3] = {65535, 65535, 65535};
  uint32_t max_bindings = 8;                   // storage buffers of one kernel
  uint32_t buffer_alignment = 256;             // bytes; offsets of bindings are multiples of it
  uint64_t max_binding_bytes = 1ull << 27;     // largest range one binding may cover
  uint64_t max_allocation_bytes = 1ull << 30;  // largest single buffer
  uint64_t memory_bytes = 0;                   // 0 when unknown
  uint64_t max_loop_iterations =
      UINT64_MAX;  // of all loops of one work item; llvmpipe ends loops in silence after 65535
  bool unified_memory = false;
  bool texel_loads = false;  // Vulkan: kernels read through texel buffers (llvmpipe, where loads from storage buffers
                             // are loops over the lanes)
  bool f16_arithmetic = false;  // storage of f16 and bf16 works everywhere
  bool f64 = false;             // f64 storage, + - * / and sqrt
  bool f64_math = false;        // exp, log, sin, ... in f64
  bool i64 = false;
  bool int8_dot = false;
  bool async = false;  // submit() returns before the work is done
  bool times = false;  // wait() of a timed recording gives device times
  uint32_t queues =
      1;  // over which a recording spreads commands that do not depend on each other; HEDDLE_QUEUES overrides
  bool uploads_beside = false;  // write_beside() copies while submissions run
  std::string matrix_units;     // e.g. "16x16x16 f16 f32"; empty when none
  uint64_t driver_hash = 0;     // changes with device, driver and its version: part of every disk-cache key
};

// What `heddle devices` shows of a device, present or absent.
struct DeviceInfo {
  std::string id;       // "opencl:0"
  std::string backend;  // "opencl"
  std::string name;     // "Intel(R) Xeon(R) Processor"
  std::string driver;   // "Portable Computing Language 3.1"
  bool available = false;
  std::string reason;  // why not, e.g. "libcuda.so.1 not found"; empty when available
  Caps caps;           // meaningful when available
};

// Handles are chosen by the device; 0 is never valid.
enum class BufferId : uint64_t { none = 0 };
enum class KernelId : uint64_t { none = 0 };
enum class RecordingId : uint64_t { none = 0 };
enum class Ticket : uint64_t { none = 0 };

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

  // Throws CompileError with the compiler's log.
  virtual KernelId compile(const KernelSource& source) = 0;
  virtual void release(KernelId kernel) = 0;
  // Several at once, in parallel where the driver gains by it; ids in the order of the sources. All or none: throws the
  // first failure. The default compiles one after the other.
  virtual std::vector<KernelId> compile_all(std::span<const KernelSource* const> sources);

  // Prepares a list of commands for repeated submission. With `timed`, wait() can report device times.
  virtual RecordingId record(std::span<const Command> commands, bool timed) = 0;
  virtual void release(RecordingId recording) = 0;

  // Enqueues a recording; returns at once.
  virtual Ticket submit(RecordingId recording) = 0;
  // Returns when that submission (and everything before it) has finished. If `seconds` is given and the recording was
  // timed, it receives one device time per command.
  virtual void wait(Ticket ticket, std::vector<double>* seconds = nullptr) = 0;

  // ---- optional: a device that works while the host does something else (Caps::async)
  // Whether that submission has finished; does not wait. The default, for devices whose submit() returns with the work
  // done: true.
  virtual bool done(Ticket ticket);
  // read() that does not wait: `target` holds the bytes once done() or wait() says so for the ticket, and must live
  // until then, also when the device is lost meanwhile. Ticket::none: they are there already (the default).
  virtual Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes);
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
