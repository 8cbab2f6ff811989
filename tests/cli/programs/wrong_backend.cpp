// A backend whose only device, wrong:0, is that of HEDDLE_WRONG_DEVICE with a compiler that is wrong about tanh.
// HEDDLE_WRONG_HOW says what happens in its place: "sine" (another function is computed), "abort", "hang" or "refuse".
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/device/registry.h"
#include "tests/support/faulty_device.h"

namespace {

using namespace heddle;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

class WrongDevice final : public test::FaultyDevice {
 public:
  using FaultyDevice::FaultyDevice;
  KernelId compile(const KernelSource& source) override {
    constexpr std::string_view function = "tanh(";
    const size_t at = source.body.find(function);
    if (at == std::string::npos) return FaultyDevice::compile(source);
    const std::string_view how = variable("HEDDLE_WRONG_HOW");
    if (how == "abort") std::abort();
    if (how == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
    if (how == "refuse") throw CompileError("[compile] wrong:0: no hyperbolic functions today", "log");
    KernelSource other = source;
    other.body.replace(at, function.size(), "sin(");
    return FaultyDevice::compile(other);
  }
};

class WrongBackend final : public Backend {
 public:
  std::string_view name() const override { return "wrong"; }
  std::vector<DeviceInfo> enumerate() override {
    DeviceInfo info;
    info.id = "wrong:0";
    info.backend = "wrong";
    info.name = "a wrong device";
    info.driver = "wrong 1.0";
    info.available = true;
    info.caps.device_class = DeviceClass::null;  // never the best device
    return {info};
  }
  std::unique_ptr<Device> open(int) override {
    return std::make_unique<WrongDevice>(Registry::instance().open(std::string(variable("HEDDLE_WRONG_DEVICE"))));
  }
};

}  // namespace

extern "C" int heddle_backend_abi() { return heddle::backend_abi_version; }
extern "C" void heddle_register_backend(heddle::Registry& registry) { registry.add(std::make_unique<WrongBackend>()); }
