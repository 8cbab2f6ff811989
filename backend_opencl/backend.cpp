// The opencl backend as the registry sees it.
#include <fmt/format.h>

#include "heddle/backend_opencl/opencl_device.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

class OpenClBackend final : public Backend {
 public:
  std::string_view name() const override { return "opencl"; }

  std::vector<DeviceInfo> enumerate() override {
    std::string absent;
    std::vector<DeviceInfo> infos;
    for (const opencl::Found& found : opencl::find_devices(&absent)) infos.push_back(found.info);
    if (infos.empty()) {
      DeviceInfo info;
      info.id = "opencl:0";
      info.backend = "opencl";
      info.reason = absent;
      infos.push_back(info);
    }
    return infos;
  }

  std::unique_ptr<Device> open(int index) override {
    std::string absent;
    const auto& devices = opencl::find_devices(&absent);
    if (devices.empty()) throw DeviceUnavailable("[opencl] " + absent);
    if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
      throw DeviceUnavailable(fmt::format("[opencl] no device {}; there are {}", index, devices.size()));
    }
    const opencl::Found& found = devices[static_cast<size_t>(index)];
    if (!found.info.available) throw DeviceUnavailable(fmt::format("[{}] {}", found.info.id, found.info.reason));
    return std::make_unique<opencl::OpenClDevice>(found);
  }
};

}  // namespace

std::unique_ptr<Backend> make_opencl_backend() { return std::make_unique<OpenClBackend>(); }

}  // namespace heddle
