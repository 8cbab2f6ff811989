#include "tests/support/faulty_device.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"

namespace heddle::test {
namespace {

void alive(Call call) {
  if (faults().dead) throw DeviceLost(fmt::format("[faulty:0] {}: the device was lost", name_of(call)));
}

[[noreturn]] void throw_fault(Call call, Fault fault) {
  const std::string text = fmt::format("[faulty:0] {}: the fault that the test asked for{}{}", name_of(call),
                                       faults().commands.empty() ? "" : "; last commands:", faults().commands);
  if (fault == Fault::lost || fault == Fault::timeout) faults().dead = true;
  if (fault == Fault::lost) throw DeviceLost(text);
  if (fault == Fault::timeout) throw DeviceTimeout(text);
  if (call == Call::alloc) throw OutOfMemory(text);
  if (call == Call::compile) throw CompileError(text, "log");
  throw DeviceError(text);
}

// Counts the call, and throws if it is the one.
void pass(Call call) {
  alive(call);
  Faults& f = faults();
  if (++f.count(call) == f.plan.at && call == f.plan.call) throw_fault(call, f.plan.fault);
}

class FaultyBackend final : public Backend {
 public:
  explicit FaultyBackend(std::string inner) : inner_(std::move(inner)) {}
  std::string_view name() const override { return "faulty"; }
  const std::string& inner() const { return inner_; }

  std::vector<DeviceInfo> enumerate() override {
    DeviceInfo info;
    info.id = "faulty:0";
    info.backend = "faulty";
    info.name = "faults over " + inner_;
    info.available = true;
    info.caps.device_class = DeviceClass::null;  // never the best device
    return {info};
  }

  // A new device has no fault: that is what opening it again is for.
  std::unique_ptr<Device> open(int) override {
    faults().reset();
    return std::make_unique<FaultyDevice>(Registry::instance().open(inner_));
  }

 private:
  std::string inner_;
};

}  // namespace

const char* name_of(Call call) {
  constexpr const char* names[] = {"alloc", "compile", "record", "submit", "wait", "read", "write"};
  return names[static_cast<size_t>(call)];
}

Faults& faults() {
  static Faults instance;
  return instance;
}

BufferId FaultyDevice::alloc(uint64_t bytes) {
  pass(Call::alloc);
  return inner_->alloc(bytes);
}

void FaultyDevice::write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) {
  pass(Call::write);
  inner_->write(buffer, offset, source, bytes);
}

void FaultyDevice::read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  pass(Call::read);
  inner_->read(buffer, offset, target, bytes);
}

KernelId FaultyDevice::compile(const KernelSource& source) {
  pass(Call::compile);
  if (faults().compile_milliseconds > 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(faults().compile_milliseconds));
  const KernelId kernel = inner_->compile(source);
  names_[kernel] = source.name;
  return kernel;
}

std::vector<KernelId> FaultyDevice::load_all(std::span<const KernelBinary* const> binaries) {
  pass(Call::compile);
  const std::vector<KernelId> kernels = inner_->load_all(binaries);
  for (size_t i = 0; i < kernels.size(); ++i) names_[kernels[i]] = binaries[i]->signature.name;
  return kernels;
}

RecordingId FaultyDevice::record(std::span<const Command> commands, bool timed) {
  pass(Call::record);
  const RecordingId recording = inner_->record(commands, timed);
  std::string& text = commands_[recording];
  for (const Command& command : commands) {
    if (const auto* dispatch = std::get_if<Dispatch>(&command)) text += " " + names_[dispatch->kernel];
  }
  return recording;
}

Ticket FaultyDevice::submit(RecordingId recording) {
  faults().commands = commands_[recording];
  pass(Call::submit);
  return inner_->submit(recording);
}

void FaultyDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  pass(Call::wait);
  inner_->wait(ticket, seconds);
}

std::vector<CommandTime> FaultyDevice::command_times(Ticket ticket) { return inner_->command_times(ticket); }

bool FaultyDevice::done(Ticket ticket) {
  alive(Call::wait);
  return inner_->done(ticket);
}

std::unique_ptr<Waiter> FaultyDevice::waiter(Ticket ticket) {
  alive(Call::wait);
  return inner_->waiter(ticket);
}

Ticket FaultyDevice::read_in_place(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  pass(Call::read);
  return inner_->read_in_place(buffer, offset, target, bytes);
}

Ticket FaultyDevice::read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  pass(Call::read);
  return inner_->read_later(buffer, offset, target, bytes);
}

void FaultyDevice::write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket after) {
  pass(Call::write);
  inner_->write_beside(buffer, offset, source, bytes, after);
}

BufferId FaultyDevice::alloc_host(uint64_t bytes) {
  pass(Call::alloc);
  return inner_->alloc_host(bytes);
}

void register_faulty(const std::string& inner_id) {
  static std::string registered;
  if (registered == inner_id) return;
  Registry::instance().add(std::make_unique<FaultyBackend>(inner_id));
  registered = inner_id;
}

}  // namespace heddle::test
