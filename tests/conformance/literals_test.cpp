// Numbers that become literals of a kernel: what does not fit the dtype wraps or saturates as the reference does, on
// every device.
#include <gtest/gtest.h>

#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/functions/functions.h"

namespace heddle::tests {
namespace {

TEST(Literals, NumbersBeyondI32WrapOnEveryDevice) {
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (!info.available || info.caps.device_class == DeviceClass::null) continue;
    SCOPED_TRACE(info.id);
    DeviceContext& dev = device(info.id);
    EXPECT_EQ(full({1}, 1e12, DType::i32, &dev).item(), -727379968);
    EXPECT_EQ(full({1}, 2147483648.0, DType::i32, &dev).item(), -2147483648.0);
    EXPECT_EQ(full({1}, -2147483648.0, DType::i32, &dev).item(), -2147483648.0);
    EXPECT_EQ(full({1}, 300, DType::i8, &dev).item(), 44);
    EXPECT_EQ(full({1}, -1, DType::u8, &dev).item(), 255);
  }
}

}  // namespace
}  // namespace heddle::tests
