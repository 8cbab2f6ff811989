// ReferenceDevice: buffers in host memory and no kernels; core evaluates the op table on them in double precision.
//
// Purpose: the living definition of every op and the oracle of the tests. Invariants: a buffer's memory does not move
// while it is alive; compile, record and submit throw, because this device has no kernels. Thread safety: none (see
// device.h).
#pragma once

#include <memory>
#include <unordered_map>

#include "heddle/core/contract/device.h"
#include "heddle/core/contract/host_memory.h"

namespace heddle {

class ReferenceDevice final : public Device, public HostMemory {
 public:
  ReferenceDevice();
  ~ReferenceDevice() override;

  static Caps reference_caps();

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId buffer) override;
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override;
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  KernelId compile(const KernelSource& source) override;
  void release(KernelId) override {}
  RecordingId record(std::span<const Command> commands, bool timed) override;
  void release(RecordingId) override {}
  Ticket submit(RecordingId recording) override;
  void wait(Ticket ticket, std::vector<double>* seconds) override;

  void* host_address(BufferId buffer) override { return host_pointer(buffer); }
  bool shares_memory() override { return true; }
  uint64_t adopted_unit(HostUse) const override { return 1; }
  BufferId adopt(void* memory, uint64_t bytes, HostUse use) override;

  // The buffer's first byte, aligned to 256 unless it was adopted; for the interpreter. Throws DeviceError when it is
  // not alive.
  void* host_pointer(BufferId buffer);

 private:
  struct Buffer {
    void* memory = nullptr;
    uint64_t bytes = 0;
    bool own = true;
  };
  Caps caps_;
  std::unordered_map<uint64_t, Buffer> buffers_;
  uint64_t next_id_ = 0;
};

}  // namespace heddle
