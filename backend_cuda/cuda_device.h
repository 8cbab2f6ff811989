// CudaDevice: the device contract on the CUDA driver API; kernels are PTX or cubins (compiler.cpp).
//
// Purpose: one stream in the device's primary context. A recording is captured into a CUDA graph, so that a submit is
// one cuGraphLaunch; a timed recording, or one that the driver refuses to capture, is a prepared list of launches.
// Independent commands are captured on further streams (core/device/branches.h), so that the graph has branches;
// uploads of batches have a stream of their own (write_beside). Invariants: the stream is in order, so commands need no
// barriers. The sources of writes are copied to page-locked memory that is kept until the write has finished; what is
// in flight is bounded (max_in_flight, max_staged_bytes). Memory and modules are given back only after the stream has
// drained. Thread safety: none (see core/contract/device.h); calls may come from different threads, one after the
// other.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/backend_cuda/caps.h"
#include "heddle/core/base/fifo.h"
#include "heddle/core/contract/loading_device.h"
#include "heddle/core/device/branches.h"
#include "heddle/core/device/in_flight.h"
#include "heddle/core/device/validate.h"

namespace heddle::cuda {

class CudaDevice final : public LoadingDevice {
 public:
  explicit CudaDevice(const Found& found);
  ~CudaDevice() override;

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

 private:
  struct Buffer {
    CUdeviceptr memory = 0;
    uint64_t bytes = 0;
    bool host = false;  // page-locked host memory, at the same address for both sides
  };
  struct Kernel {
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    unsigned shared = 0;  // bytes of dynamic shared memory
    KernelSignature signature;
  };
  struct PreparedDispatch {
    CUfunction function = nullptr;
    std::string name;  // for NVTX
    unsigned groups[3] = {1, 1, 1};
    unsigned lanes[3] = {1, 1, 1};
    unsigned shared = 0;
    std::vector<CUdeviceptr> pointers;  // first byte of each binding
    std::vector<uint32_t> constants;
    std::vector<void*> arguments;  // addresses of the elements of the two above
  };
  struct PreparedCopy {
    CUdeviceptr src, dst;
    size_t bytes;
    bool host;  // one side is host memory
  };
  struct PreparedFill {
    CUdeviceptr dst;
    size_t words;
    uint32_t pattern;
  };
  using Prepared = std::variant<PreparedDispatch, PreparedCopy, PreparedFill>;
  struct Recording {
    std::vector<Prepared> commands;  // not resized once made: arguments point into its elements
    Branches branches;
    CUgraphExec graph = nullptr;  // null: the list is launched
    std::vector<BufferId> buffers;
    uint64_t checked_at = 0;  // value of frees_ when all buffers were last known to be alive
    bool timed = false;
    std::string text;  // its last commands, for errors
  };
  struct Staging {
    void* memory = nullptr;
    uint64_t capacity = 0;
    CUevent done = nullptr;
  };
  struct InFlight {
    uint64_t ticket = 0;
    CUevent done = nullptr;
    std::vector<CUevent> marks;  // before each command and after the last, when timed
    Staging read;                // page-locked memory of a read_later(), to be copied to `target` when done
    void* target = nullptr;
    uint64_t bytes = 0;
  };

  void check_alive() const;
  void activate();
  // Throws what a failed call means.
  void expect(CUresult result, const char* call);
  [[noreturn]] void lost(CUresult result, const char* call);
  void drain();
  HandleLookup lookup() const;
  Buffer& buffer(BufferId id, const char* place);
  KernelId load(const KernelBinary& binary);
  void make_ready(Kernel& kernel);
  void add(Recording& recording, const Command& command);
  PreparedDispatch prepare(const Dispatch& d);
  void capture(Recording& recording);
  CUresult capture_branches(const Recording& recording, const char*& call);
  CUresult launch(const Prepared& command, CUstream stream, const char*& call);
  CUstream make_stream();
  void upload(CUstream stream, CUdeviceptr target, const void* source, uint64_t bytes, Staging slot);
  // Gives memory back once nothing uses it.
  void release(const Buffer& buffer);
  void launch_list(const Recording& recording, InFlight& entry);
  CUevent take_event();
  bool finished(CUevent event);
  bool take_staging(uint64_t bytes, Staging& slot);
  void reclaim_staging();
  // What in_flight_ asks.
  friend class InFlightList<CudaDevice, InFlight>;
  friend class EventWaiter<CudaDevice, CUevent>;
  void let_go(InFlight& entry);
  void block(CUevent event);
  void keep(CUevent event);
  void release(CUevent event);
  bool over(CUevent event) const noexcept;
  void block_quietly(CUevent event) const noexcept;
  [[noreturn]] void give_up(double limit);
  std::vector<CommandTime> times_of(const InFlight& entry);
  void destroy(Recording& recording);

  Caps caps_;
  std::string id_;
  CUdevice device_;
  CUcontext context_ = nullptr;
  CUstream stream_ = nullptr;
  CUstream copy_stream_ = nullptr;      // of write_beside(), made when it is first called
  std::vector<CUstream> side_streams_;  // of captures with branches
  std::unordered_map<uint64_t, Buffer> buffers_;
  std::unordered_map<uint64_t, Kernel> kernels_;
  std::unordered_map<uint64_t, Recording> recordings_;
  InFlightList<CudaDevice, InFlight> in_flight_{*this};
  CUevent epoch_ = nullptr;  // before the first timed command; later times count from it
  Fifo<Staging> staged_;     // in stream order
  std::vector<Staging> free_staging_;
  std::vector<CUevent> free_events_;
  KeptEvents<CUevent> kept_events_;  // by waiters
  uint64_t staged_bytes_ = 0;
  uint64_t next_id_ = 0;
  uint64_t frees_ = 1;
  bool given_up_ = false;  // its work may never end: nothing it uses can be given back
  std::string last_submitted_;
  std::string dead_;  // why the device is lost; empty while it works
};

}  // namespace heddle::cuda
