// OpenClDevice: the device contract on an OpenCL 1.2+ driver.
//
// Purpose: one in-order command queue. A recording is a prepared list: every dispatch owns a cl_kernel whose arguments
// are set once, so that a submit is one clEnqueueNDRangeKernel per dispatch and one flush. With Caps::queues above 1,
// independent commands of a recording run on further in-order queues between a marker and another one on the main queue
// (core/device/branches.h). Uploads of batches have a queue of their own (write_beside). Invariants: the queues are in
// order, so commands need no barriers and released objects live until the commands that use them have finished (the API
// retains them). The sources of writes are copied to staging memory that is kept until the write's event has completed;
// what is in flight is bounded (max_in_flight, max_staged_bytes). Thread safety: none (see core/contract/device.h).
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>

#include "heddle/backend_opencl/caps.h"
#include "heddle/backend_opencl/program.h"
#include "heddle/core/base/fifo.h"
#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/contract/host_memory.h"
#include "heddle/core/contract/loading_device.h"
#include "heddle/core/contract/slices.h"
#include "heddle/core/device/branches.h"
#include "heddle/core/device/in_flight.h"
#include "heddle/core/device/validate.h"

namespace heddle::opencl {

class OpenClDevice final : public LoadingDevice, public DriverPrograms, public ConstantMemory, public HostMemory {
 public:
  explicit OpenClDevice(const Found& found);
  ~OpenClDevice() override;

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId buffer) override;
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override;
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries) override;
  void release(KernelId kernel) override;
  RecordingId record(std::span<const Command> commands, bool timed) override;
  void release(RecordingId recording) override;
  Ticket submit(RecordingId recording) override;
  void wait(Ticket ticket, std::vector<double>* seconds) override;
  std::vector<CommandTime> command_times(Ticket ticket) override;
  bool done(Ticket ticket) override;
  std::unique_ptr<Waiter> waiter(Ticket ticket) override;
  Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  void write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket after) override;
  BufferId alloc_host(uint64_t bytes) override;
  std::vector<uint8_t> program_of(KernelId kernel) override;
  BufferId adopt_constant(const void* memory, uint64_t bytes) override;
  bool shares_memory() override;
  void* host_address(BufferId buffer) override;
  uint64_t adopted_unit(HostUse use) const override;
  BufferId adopt(void* memory, uint64_t bytes, HostUse use) override;

 private:
  struct Buffer {
    cl_mem memory = nullptr;
    uint64_t bytes = 0;
  };
  struct Kernel {
    cl_program program = nullptr;
    cl_kernel kernel = nullptr;
    KernelSignature signature;
    // Whether each buffer is followed by its offset in bytes, as in printed kernels. One that a user wrote
    // (core/dialect/kernel_text.h) has buffers and constants alone, and its buffers begin at 0.
    bool takes_offsets = true;
  };
  struct PreparedDispatch {
    cl_kernel kernel;  // its own, arguments set
    size_t global[3];
    size_t local[3];
    double seconds;  // a guess
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
    std::vector<BufferId> buffers;  // all that it touches
    uint64_t checked_at = 0;        // value of frees_ when they were last known to be alive
    bool timed = false;
    bool kernels_held = false;  // loaded_kernels.h
    std::string text;           // its last commands, for errors
    Branches branches;          // with one queue: the list as it is
  };
  struct InFlight {
    uint64_t ticket;
    cl_event done;                   // of the last command
    std::vector<cl_event> commands;  // of all others, when timed
    bool timed;
    bool begun;  // at least one command was enqueued
  };
  struct Staging {
    Staging(OpenClDevice& device, uint64_t bytes);
    ~Staging();
    Staging(const Staging&) = delete;
    Staging& operator=(const Staging&) = delete;
    cl_mem pinned = nullptr;
    std::unique_ptr<char[]> pageable;
    char* memory = nullptr;
    uint64_t capacity = 0;
    cl_event done = nullptr;
  };

  void check_alive() const;
  // Throws what a failed call means; `waiting`: it reports on work that was enqueued earlier.
  void expect(cl_int status, const char* call, bool waiting = false);
  [[noreturn]] void lost(cl_int status, const char* call);
  HandleLookup lookup() const;
  Buffer& buffer(BufferId id, const char* place);
  KernelId add(const KernelSignature& signature, cl_program program);
  Prepared prepare(const Dispatch& d);
  Prepared prepare(const Copy& c);
  Prepared prepare(const Fill& f);
  BufferId create(uint64_t bytes, cl_mem_flags flags);
  void ask_for_large_pages(cl_mem memory, uint64_t bytes);
  cl_command_queue make_queue();
  cl_event upload(cl_command_queue queue, cl_mem target, uint64_t offset, const void* source, uint64_t bytes,
                  cl_event after);
  void join_uploads();
  void enqueue(const Prepared& command, cl_command_queue queue, const std::vector<cl_event>& after, cl_event* event);
  void enqueue_all(const Recording& recording, InFlight& entry, bool hold);
  void enqueue_branches(const Recording& recording, InFlight& entry);
  void enable_profiling();
  std::unique_ptr<Staging> take_staging(uint64_t bytes);
  void reclaim_staging();
  // What in_flight_ asks.
  friend class InFlightList<OpenClDevice, InFlight>;
  friend class EventWaiter<OpenClDevice, cl_event>;
  bool finished(cl_event event);
  void let_go(InFlight& entry);
  void block(cl_event event);
  void keep(cl_event event);
  void release(cl_event event);
  bool over(cl_event event) const noexcept;
  void block_quietly(cl_event event) const noexcept;
  [[noreturn]] void give_up(double limit);
  void destroy(Recording& recording);
  std::vector<CommandTime> times_of(const InFlight& entry);

  Caps caps_;
  std::string id_;
  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_command_queue copy_queue_ = nullptr;      // of write_beside(), made when it is first called
  std::vector<cl_command_queue> side_queues_;  // of recordings with branches
  std::vector<cl_event> uploads_;              // on the copy queue, of which the main one does not know
  bool pinned_staging_ = false;
  bool profiling_ = false;
  bool unloads_kernels_ = false;  // Quirk::unloads_kernels
  bool asks_group_size_ = true;   // not with Quirk::group_size_wrong
  bool orders_times_ = false;     // Quirk::times_out_of_order
  std::optional<bool> shares_memory_;
  std::unique_ptr<ProgramBuilder> builder_;
  std::unordered_map<uint64_t, Buffer> buffers_;
  std::unordered_map<uint64_t, Kernel> kernels_;
  std::unordered_map<uint64_t, Recording> recordings_;
  InFlightList<OpenClDevice, InFlight> in_flight_{*this};
  cl_ulong ended_ = 0;                     // the last time stamp given, where times are put in order
  cl_ulong epoch_ = 0;                     // of the device's clock: the first time stamp seen
  Fifo<std::unique_ptr<Staging>> staged_;  // in queue order
  std::vector<std::unique_ptr<Staging>> free_staging_;
  uint64_t staged_bytes_ = 0;
  uint64_t next_id_ = 0;
  uint64_t frees_ = 1;
  double slice_seconds_ = slice_seconds(caps_.device_class);
  bool given_up_ = false;  // its work may never end: nothing it uses can be given back
  std::string last_submitted_;
  std::string dead_;  // why the device is lost; empty while it works
};

}  // namespace heddle::opencl
