// FaultyDevice: any device, with one fault at a chosen call.
//
// Purpose: what only broken hardware does, at every place where it can happen. The backend "faulty" opens it over
// another device by name, so that whole programs run on it: register_faulty("opencl:0"), then device("faulty:0").
// Invariants: without a plan, every call is passed on. A fault is thrown instead of the call, which then has not
// happened; after Kind::lost and Kind::timeout every call but free and release throws DeviceLost, as the contract says.
// Thread safety: none (see core/contract/device.h); the plan is read under the device's lock, and is changed only while
// nothing runs.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/context.h"

namespace heddle::test {

enum class Call : uint8_t { alloc, compile, record, submit, wait, read, write };
inline constexpr Call all_calls[] = {Call::alloc, Call::compile, Call::record, Call::submit,
                                     Call::wait,  Call::read,    Call::write};
const char* name_of(Call call);

// What the fault is: the error that this call throws on a device that goes on working, or the end of the device.
enum class Fault : uint8_t { error, lost, timeout };

struct FaultPlan {
  Call call = Call::alloc;
  uint64_t at = 0;  // fails the at-th such call from now on, counted from 1; 0: none
  Fault fault = Fault::error;
};

// The plan and the counters of all faulty devices of this process.
struct Faults {
  FaultPlan plan;
  uint64_t seen[7] = {};  // by Call, since reset()
  bool dead = false;
  std::string commands;          // kernels of the latest submission, for the text of the fault
  int compile_milliseconds = 0;  // that each compilation takes longer
  uint64_t& count(Call call) { return seen[static_cast<size_t>(call)]; }
  void reset(const FaultPlan& next = {}) { *this = Faults{.plan = next}; }
};
Faults& faults();

class FaultyDevice : public Device {
 public:
  explicit FaultyDevice(std::unique_ptr<Device> inner) : inner_(std::move(inner)) {}

  const Caps& caps() const override { return inner_->caps(); }
  BufferId alloc(uint64_t bytes) override;
  void free(BufferId buffer) override { inner_->free(buffer); }
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override;
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  KernelId compile(const KernelSource& source) override;
  std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries) override;
  void release(KernelId kernel) override { inner_->release(kernel); }
  RecordingId record(std::span<const Command> commands, bool timed) override;
  void release(RecordingId recording) override {
    commands_.erase(recording);
    inner_->release(recording);
  }
  Ticket submit(RecordingId recording) override;
  void wait(Ticket ticket, std::vector<double>* seconds) override;
  std::vector<CommandTime> command_times(Ticket ticket) override;
  bool done(Ticket ticket) override;
  std::unique_ptr<Waiter> waiter(Ticket ticket) override;
  Ticket read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  Ticket read_in_place(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override;
  void write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket after) override;
  BufferId alloc_host(uint64_t bytes) override;

 private:
  std::unique_ptr<Device> inner_;
  std::map<KernelId, std::string> names_;
  std::map<RecordingId, std::string> commands_;
};

// Makes "faulty:0" the device `inner_id` with faults. Once per process; later calls with the same id do nothing.
void register_faulty(const std::string& inner_id);

}  // namespace heddle::test
