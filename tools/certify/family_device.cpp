#include "tools/certify/family_device.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/device/validate.h"

namespace heddle::tools::certify {
namespace {

// Null devices take the binaries of their target; ours hold a signature only.
Caps inner_caps(Caps caps) {
  caps.target = Target::opencl;
  return caps;
}

class FamilyDevice final : public Device {
 public:
  explicit FamilyDevice(const Caps& caps) : caps_(caps), null_(inner_caps(caps)) {
    // Bodies that write parts of a buffer leave bytes that nobody wrote, and the data of a case is not there.
    null_.check_unwritten = false;
  }

  std::vector<KernelSource> take() { return std::exchange(kernels_, {}); }

  const Caps& caps() const override { return caps_; }
  KernelId compile(const KernelSource& source) override {
    check_kernel(source, caps_);
    KernelBinary binary;
    binary.signature = signature_of(source);
    binary.kind = KernelBinary::Kind::opencl_c;
    binary.bytes = {' '};
    const KernelBinary* const binaries[] = {&binary};
    kernels_.push_back(source);
    return null_.load_all(binaries).front();
  }
  BufferId alloc(uint64_t bytes) override { return null_.alloc(bytes); }
  void free(BufferId buffer) override { null_.free(buffer); }
  void write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) override {
    null_.write(buffer, offset, source, bytes);
  }
  void read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) override {
    null_.read(buffer, offset, target, bytes);
  }
  void release(KernelId kernel) override { null_.release(kernel); }
  RecordingId record(std::span<const Command> commands, bool timed) override { return null_.record(commands, timed); }
  void release(RecordingId recording) override { null_.release(recording); }
  Ticket submit(RecordingId recording) override { return null_.submit(recording); }
  void wait(Ticket ticket, std::vector<double>* seconds) override { null_.wait(ticket, seconds); }

 private:
  Caps caps_;
  NullDevice null_;
  std::vector<KernelSource> kernels_;
};

constexpr const char* backend_name = "family";

class FamilyBackend final : public Backend {
 public:
  std::string_view name() const override { return backend_name; }
  std::vector<DeviceInfo> enumerate() override {
    std::vector<DeviceInfo> infos;
    for (size_t i = 0; i < 2 * gpu_families().size(); ++i) {
      const GpuFamily& family = gpu_families()[i / 2];
      DeviceInfo info;
      info.id = fmt::format("{}:{}", backend_name, i);
      info.backend = backend_name;
      info.name = fmt::format("{} ({})", family.arch, family.card);
      info.driver = "heddle";
      info.available = true;
      info.caps = family.caps;
      infos.push_back(std::move(info));
    }
    return infos;
  }
  std::unique_ptr<Device> open(int index) override {
    const auto at = static_cast<size_t>(index) / 2;
    if (index < 0 || at >= gpu_families().size())
      throw DeviceUnavailable(
          fmt::format("[{}] no device {}; there are {}", backend_name, index, 2 * gpu_families().size()));
    return std::make_unique<FamilyDevice>(gpu_families()[at].caps);
  }
};

}  // namespace

DeviceContext& open_family(const GpuFamily& family, Subjects of) {
  static const bool registered = [] {
    Registry::instance().add(std::make_unique<FamilyBackend>());
    return true;
  }();
  static_cast<void>(registered);
  const size_t index = 2 * static_cast<size_t>(&family - gpu_families().data()) + static_cast<size_t>(of);
  DeviceContext& context = device(fmt::format("{}:{}", backend_name, index));
  set_default_device(context.id());
  return context;
}

std::vector<KernelSource> take_kernels(DeviceContext& device) {
  auto locked = device.lock();
  return dynamic_cast<FamilyDevice&>(locked.device).take();
}

}  // namespace heddle::tools::certify
