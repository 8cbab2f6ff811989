// The Vulkan backend's entry in the registry.
#include <fmt/format.h>

#include "heddle/backend_vulkan/device.h"
#include "heddle/backend_vulkan/instance.h"
#include "heddle/backend_vulkan/physical.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

class VulkanBackend final : public Backend {
 public:
  std::string_view name() const override { return "vulkan"; }

  std::vector<DeviceInfo> enumerate() override {
    const vulkan::Instance& instance = vulkan::instance();
    std::vector<DeviceInfo> list;
    for (size_t i = 0; i < instance.devices.size(); ++i) {
      list.push_back(vulkan::Physical(instance.devices[i], static_cast<int>(i)).info());
    }
    if (list.empty()) {
      DeviceInfo absent;
      absent.id = "vulkan:0";
      absent.backend = "vulkan";
      absent.reason = instance.reason;
      list.push_back(std::move(absent));
    }
    return list;
  }

  std::unique_ptr<Device> open(int index) override {
    const vulkan::Instance& instance = vulkan::instance();
    if (index < 0 || static_cast<size_t>(index) >= instance.devices.size()) {
      throw DeviceUnavailable(fmt::format("[vulkan:{}] {}", index,
                                          instance.devices.empty()
                                              ? instance.reason
                                              : fmt::format("there are {} Vulkan devices", instance.devices.size())));
    }
    return std::make_unique<vulkan::VulkanDevice>(instance.devices[static_cast<size_t>(index)], index);
  }
};

}  // namespace

std::unique_ptr<Backend> make_vulkan_backend() { return std::make_unique<VulkanBackend>(); }

}  // namespace heddle
