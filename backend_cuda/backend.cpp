// The cuda backend as the registry sees it.
#include <fmt/format.h>

#include "heddle/backend_cuda/cuda_device.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

class CudaBackend final : public Backend {
 public:
  std::string_view name() const override { return "cuda"; }

  std::vector<DeviceInfo> enumerate() override {
    std::string absent;
    std::vector<DeviceInfo> infos;
    for (const cuda::Found& found : cuda::find_devices(&absent)) infos.push_back(found.info);
    if (infos.empty()) {
      DeviceInfo info;
      info.id = "cuda:0";
      info.backend = "cuda";
      info.reason = absent;
      infos.push_back(info);
    }
    return infos;
  }

  std::unique_ptr<Device> open(int index) override {
    std::string absent;
    const auto& devices = cuda::find_devices(&absent);
    if (devices.empty()) throw DeviceUnavailable("[cuda] " + absent);
    if (index < 0 || static_cast<size_t>(index) >= devices.size()) {
      throw DeviceUnavailable(fmt::format("[cuda] no device {}; there are {}", index, devices.size()));
    }
    const cuda::Found& found = devices[static_cast<size_t>(index)];
    if (!found.info.available) throw DeviceUnavailable(fmt::format("[{}] {}", found.info.id, found.info.reason));
    return std::make_unique<cuda::CudaDevice>(found);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend() { return std::make_unique<CudaBackend>(); }

}  // namespace heddle
