#include "heddle/core/device/absent_backend.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/device.h"

namespace heddle {
namespace {

class AbsentBackend final : public Backend {
 public:
  AbsentBackend(std::string name, std::string reason) : name_(std::move(name)), reason_(std::move(reason)) {}
  std::string_view name() const override { return name_; }
  std::vector<DeviceInfo> enumerate() override {
    DeviceInfo info;
    info.id = name_ + ":0";
    info.backend = name_;
    info.reason = reason_;
    return {info};
  }
  std::unique_ptr<Device> open(int index) override {
    throw DeviceUnavailable(fmt::format("[{}:{}] {}", name_, index, reason_));
  }

 private:
  std::string name_, reason_;
};

}  // namespace

std::unique_ptr<Backend> make_absent_backend(std::string name, std::string reason) {
  return std::make_unique<AbsentBackend>(std::move(name), std::move(reason));
}

}  // namespace heddle
