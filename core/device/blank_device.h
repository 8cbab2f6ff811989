// BlankDevice: stands in a device's place to learn what a program needs there, and holds nothing.
//
//   const std::unique_ptr<DeviceContext> blank = blank_context(device);
//   ... a few steps on it are planned as for `device`, and nothing is computed ...
//   blank->memory().peak_bytes
//
// Purpose: what is planned for it is planned as for the device whose capabilities it has, and its allocator counts what
// that device would have to give; so the peak of a program is read off, before any memory is taken. Invariants: kernels
// are accepted without being compiled, commands are not looked at (core/device/null_device.h does that), reads give
// zeros, what is written or adopted is never read. Errors: LimitError as the device would throw it; memory has no end.
// Thread safety: as Device (core/contract/device.h); contexts as DeviceContext.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/device/context.h"

namespace heddle {

class BlankDevice final : public Device, public ConstantMemory {
 public:
  // `adopts`: memory of the host that nothing writes is taken as it lies, which then costs nothing.
  BlankDevice(Caps caps, bool adopts);

  const Caps& caps() const override { return caps_; }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId) override {}
  void write(BufferId, uint64_t, const void*, uint64_t) override {}
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  KernelId compile(const KernelSource&) override { return KernelId{++next_id_}; }
  void release(KernelId) override {}
  RecordingId record(std::span<const Command>, bool) override { return RecordingId{++next_id_}; }
  void release(RecordingId) override {}
  Ticket submit(RecordingId) override { return Ticket{++next_id_}; }
  void wait(Ticket, std::vector<double>* seconds) override;
  BufferId adopt_constant(const void* memory, uint64_t bytes) override;
  uint64_t adopted() const { return adopted_; }

 private:
  Caps caps_;
  bool adopts_;
  uint64_t next_id_ = 0, adopted_ = 0;
};

// A context of its own with the device's capabilities and its way with memory of the host.
std::unique_ptr<DeviceContext> blank_context(DeviceContext& device);
// Whether tensors on it have no values: then none need be read or computed for it.
bool is_blank(const DeviceContext& context);
// Of a blank one: what was adopted so far, in bytes.
uint64_t adopted_bytes(DeviceContext& blank);

}  // namespace heddle
