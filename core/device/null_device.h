// NullDevice: validates everything that core asks of a device, and runs nothing.
//
// Purpose: the planner and the scheduler are tested on it, on a machine without any driver. It prints every kernel (so
// the dialect is checked), applies the rules of core/device/validate.h, and follows which bytes were ever written, so
// that a command that reads memory nobody wrote is an error. Reads give zeros. Invariants: handles are never reused.
// Thread safety: none (see core/contract/device.h).
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/validate.h"

namespace heddle {

// Set of bytes, kept as disjoint, non-adjacent ranges [first, second).
class ByteSet {
 public:
  void add(uint64_t begin, uint64_t end);
  bool covers(uint64_t begin, uint64_t end) const;
  // First byte of [begin, end) that is not in the set; `end` when all are.
  uint64_t first_missing(uint64_t begin, uint64_t end) const;

 private:
  std::map<uint64_t, uint64_t> ranges_;
};

class NullDevice final : public Device {
 public:
  explicit NullDevice(Caps caps = null_caps());

  // Limits of a small GPU: 8 bindings, 256 lanes, 128 MiB bindings, alignment 256; everything a kernel may use is
  // there.
  static Caps null_caps();

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId buffer) override;
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override;
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  KernelId compile(const KernelSource& source) override;
  std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries) override;
  void release(KernelId kernel) override;
  RecordingId record(std::span<const Command> commands, bool timed) override;
  void release(RecordingId recording) override;
  Ticket submit(RecordingId recording) override;
  void wait(Ticket ticket, std::vector<double>* seconds) override;

  // ---- for tests ----
  // Off: submit() accepts commands that read bytes nobody wrote.
  bool check_unwritten = true;
  const std::vector<Command>& commands(RecordingId recording) const;
  const KernelSource& source(KernelId kernel) const;
  // The text that the printer made of it (OpenCL C). A kernel that was loaded has an empty source.
  const std::string& printed(KernelId kernel) const;
  uint64_t buffer_bytes(BufferId buffer) const;
  bool was_written(const Binding& range) const;
  // Every recording that was submitted, oldest first; released ones stay in the list.
  const std::vector<RecordingId>& submissions() const { return submissions_; }
  size_t live_buffers() const { return buffers_.size(); }
  size_t live_kernels() const { return kernels_.size(); }
  size_t live_recordings() const { return recordings_.size(); }
  uint64_t live_bytes() const;

 private:
  struct Buffer {
    uint64_t bytes = 0;
    ByteSet written;
  };
  struct Kernel {
    KernelSource source;
    KernelSignature signature;
    std::string printed;
  };
  struct Recording {
    std::vector<Command> commands;
    bool timed = false;
    std::vector<BufferId> buffers;
    int ran = 0;  // 1: once, 2: once with check_unwritten
  };

  HandleLookup lookup() const;
  const Buffer& live(BufferId id, const char* place) const;
  const Kernel& live(KernelId id) const;
  const Recording& live(RecordingId id, const char* place) const;
  void run(size_t index, const Command& command);
  void need(size_t index, const Command& command, const Binding& range, const std::string& what) const;
  void mark(const Binding& range);

  Caps caps_;
  std::unordered_map<uint64_t, Buffer> buffers_;
  std::unordered_map<uint64_t, Kernel> kernels_;
  std::unordered_map<uint64_t, Recording> recordings_;
  std::vector<RecordingId> submissions_;
  std::unordered_map<uint64_t, size_t> timed_;  // ticket -> number of commands
  uint64_t next_id_ = 0;
  uint64_t next_ticket_ = 0;
};

}  // namespace heddle
