// A third party's backend, complete: built outside libheddle as heddle_backend_toy.so, found on HEDDLE_BACKEND_PATH.
//
// Purpose: shows what a backend has to do, and tests the path. Its "GPU" is host memory; its compiler knows one kernel,
// by name: toy_scale, y[i] = k * x[i] over n elements. Thread safety: as the contract (core/contract/device.h).
#include <bit>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/device/validate.h"

namespace {

using namespace heddle;

Caps toy_caps() {
  Caps caps;
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::opencl;
  caps.memory_bytes = 1 << 30;
  caps.driver_hash = 42;
  return caps;
}

class ToyDevice final : public Device {
 public:
  const Caps& caps() const override { return caps_; }

  BufferId alloc(uint64_t bytes) override {
    check_allocation(bytes, caps_);
    buffers_[++next_id_] = {std::vector<char>(bytes), bytes};
    return BufferId{next_id_};
  }
  void free(BufferId buffer) override { buffers_.erase(static_cast<uint64_t>(buffer)); }

  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override {
    check_access("write", bytes_of(buffer), offset, bytes);
    if (bytes) std::memcpy(at(buffer, offset), source, bytes);
  }
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override {
    check_access("read", bytes_of(buffer), offset, bytes);
    if (bytes) std::memcpy(target, at(buffer, offset), bytes);
  }

  KernelId compile(const KernelSource& source) override {
    check_kernel(source, caps_);
    if (source.name != "toy_scale")
      throw CompileError("[compile] toy:0 knows only toy_scale, not " + source.name, "no log");
    kernels_[++next_id_] = signature_of(source);
    return KernelId{next_id_};
  }
  void release(KernelId kernel) override { kernels_.erase(static_cast<uint64_t>(kernel)); }

  RecordingId record(std::span<const Command> commands, bool) override {
    check_commands(commands, caps_, lookup());
    recordings_[++next_id_] = {commands.begin(), commands.end()};
    return RecordingId{next_id_};
  }
  void release(RecordingId recording) override { recordings_.erase(static_cast<uint64_t>(recording)); }

  Ticket submit(RecordingId recording) override {
    for (const Command& command : recordings_.at(static_cast<uint64_t>(recording))) {
      std::visit([this](const auto& c) { run(c); }, command);
    }
    return Ticket{++next_id_};
  }
  void wait(Ticket, std::vector<double>* seconds) override {
    if (seconds) seconds->clear();
  }

 private:
  struct Buffer {
    std::vector<char> memory;
    uint64_t bytes = 0;
  };

  const uint64_t* bytes_of(BufferId id) const {
    auto found = buffers_.find(static_cast<uint64_t>(id));
    return found == buffers_.end() ? nullptr : &found->second.bytes;
  }
  HandleLookup lookup() const {
    return {[this](BufferId id) { return bytes_of(id); },
            [this](KernelId id) {
              auto found = kernels_.find(static_cast<uint64_t>(id));
              return found == kernels_.end() ? nullptr : &found->second;
            }};
  }
  char* at(BufferId id, uint64_t offset) { return buffers_.at(static_cast<uint64_t>(id)).memory.data() + offset; }

  void run(const Copy& c) { std::memcpy(at(c.dst.buffer, c.dst.offset), at(c.src.buffer, c.src.offset), c.src.size); }
  void run(const Fill& f) {
    for (uint64_t i = 0; i < f.dst.size; i += 4) std::memcpy(at(f.dst.buffer, f.dst.offset + i), &f.pattern, 4);
  }
  void run(const Dispatch& d) {
    auto* x = reinterpret_cast<const float*>(at(d.bindings[0].buffer, d.bindings[0].offset));
    auto* y = reinterpret_cast<float*>(at(d.bindings[1].buffer, d.bindings[1].offset));
    float k = std::bit_cast<float>(d.constants[1]);
    for (uint32_t i = 0; i < d.constants[0]; ++i) y[i] = k * x[i];
  }

  Caps caps_ = toy_caps();
  std::map<uint64_t, Buffer> buffers_;
  std::map<uint64_t, KernelSignature> kernels_;
  std::map<uint64_t, std::vector<Command>> recordings_;
  uint64_t next_id_ = 0;
};

class ToyBackend final : public Backend {
 public:
  std::string_view name() const override { return "toy"; }
  std::vector<DeviceInfo> enumerate() override {
    DeviceInfo info;
    info.id = "toy:0";
    info.backend = "toy";
    info.name = "a toy in host memory";
    info.driver = "toy 1.0";
    info.available = true;
    info.caps = toy_caps();
    return {info};
  }
  std::unique_ptr<Device> open(int) override { return std::make_unique<ToyDevice>(); }
};

}  // namespace

extern "C" int heddle_backend_abi() { return heddle::backend_abi_version; }
extern "C" void heddle_register_backend(heddle::Registry& registry) { registry.add(std::make_unique<ToyBackend>()); }
