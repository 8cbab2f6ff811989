#include "heddle/core/device/device_ref.h"

#include "heddle/core/device/context.h"

namespace heddle {

DeviceRef::DeviceRef(std::string_view id) : device_(&heddle::device(id)) {}

DeviceContext& DeviceRef::context() const { return device_ ? *device_ : default_device(); }

}  // namespace heddle
