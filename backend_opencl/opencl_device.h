// OpenClDevice: the device contract on an OpenCL 1.2+ driver.
//
// Purpose: one in-order command queue. A recording is a prepared list: every dispatch owns a cl_kernel whose arguments are
// set once, so that a submit is one clEnqueueNDRangeKernel per dispatch and one flush.
// Invariants: the queue is in order, so commands need no barriers and released objects live until the commands that
// use them have finished (the API retains them). The sources of writes are copied to staging memory that is kept until the
// write's event has completed; what is in flight is bounded (max_in_flight, max_staged_bytes).
// Thread safety: none (see core/device/device.h).
#pragma once

#include <deque>
#include <memory>
#include <unordered_map>

#include "backend_opencl/caps.h"
#include "backend_opencl/program.h"
#include "core/device/device.h"
#include "core/device/validate.h"

namespace heddle::opencl {

class OpenClDevice final : public Device {
 public:
  explicit OpenClDevice(const Found& found);
  ~OpenClDevice() override;

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId buffer) override;
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override;
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  KernelId compile(const KernelSource& source) override;
  std::vector<KernelId> compile_all(std::span<const KernelSource* const> sources) override;
  void release(KernelId kernel) override;
  RecordingId record(std::span<const Command> commands, bool timed) override;
  void release(RecordingId recording) override;
  Ticket submit(RecordingId recording) override;
  void wait(Ticket ticket, std::vector<double>* seconds) override;
  std::vector<CommandTime> command_times(Ticket ticket) override;
  bool done(Ticket ticket) override;
  Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;

 private:
  struct Buffer {
    cl_mem memory = nullptr;
    uint64_t bytes = 0;
  };
  struct Kernel {
    cl_program program = nullptr;
    cl_kernel kernel = nullptr;
    KernelSignature signature;
  };
  struct PreparedDispatch {
    cl_kernel kernel;  // its own, arguments set
    size_t global[3];
    size_t local[3];
  };
  struct PreparedCopy {
    cl_mem src, dst;
    size_t src_offset, dst_offset, bytes;
  };
  struct PreparedFill {
    cl_mem dst;
    size_t offset, bytes;
    uint32_t pattern;
  };
  using Prepared = std::variant<PreparedDispatch, PreparedCopy, PreparedFill>;
  struct Recording {
    std::vector<Prepared> commands;
    std::vector<BufferId> buffers;   // all that it touches
    uint64_t checked_at = 0;         // value of frees_ when they were last known to be alive
    bool timed = false;
    std::string text;                // its last commands, for errors
  };
  struct InFlight {
    uint64_t ticket;
    cl_event done;                   // of the last command
    std::vector<cl_event> commands;  // of all others, when timed
    bool timed;
    bool begun;                      // at least one command was enqueued
  };
  struct Staging {
    std::unique_ptr<char[]> memory;
    uint64_t capacity = 0;
    cl_event done = nullptr;
  };

  void check_alive() const;
  // Throws what a failed call means; `waiting`: it reports on work that was enqueued earlier.
  void expect(cl_int status, const char* call, bool waiting = false);
  [[noreturn]] void lost(cl_int status, const char* call);
  HandleLookup lookup() const;
  Buffer& buffer(BufferId id, const char* place);
  KernelId add(const KernelSource& source, cl_program program);
  // clWaitForEvents, or with HEDDLE_TIMEOUT a look from time to time.
  void wait_for(cl_event event);
  Prepared prepare(const Dispatch& d);
  Prepared prepare(const Copy& c);
  Prepared prepare(const Fill& f);
  void enqueue(const Prepared& command, cl_event* event);
  void enqueue_all(const Recording& recording, InFlight& entry);
  void check_buffers(Recording& recording);
  void enable_profiling();
  std::unique_ptr<Staging> take_staging(uint64_t bytes);
  void reclaim_staging();
  void retire(uint64_t ticket);
  void retire_finished();
  bool finished(cl_event event);
  void destroy(Recording& recording);
  std::vector<CommandTime> times_of(const InFlight& entry);

  Caps caps_;
  std::string id_;
  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  bool profiling_ = false;
  std::unique_ptr<ProgramBuilder> builder_;
  std::unordered_map<uint64_t, Buffer> buffers_;
  std::unordered_map<uint64_t, Kernel> kernels_;
  std::unordered_map<uint64_t, Recording> recordings_;
  std::deque<InFlight> in_flight_;
  cl_ulong epoch_ = 0;  // of the device's clock: the first time stamp seen
  std::deque<std::pair<uint64_t, std::vector<CommandTime>>> times_;  // of finished timed submissions
  std::deque<std::unique_ptr<Staging>> staged_;                 // in queue order
  std::vector<std::unique_ptr<Staging>> free_staging_;
  uint64_t staged_bytes_ = 0;
  uint64_t next_id_ = 0;
  uint64_t next_ticket_ = 0;
  uint64_t frees_ = 1;
  double limit_ = timeout_seconds();
  bool given_up_ = false;  // its work may never end: nothing it uses can be given back
  std::string last_submitted_;
  std::string dead_;  // why the device is lost; empty while it works
};

}  // namespace heddle::opencl
