// Tests named after the backends of their devices.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace heddle::tests {

// "opencl" of "opencl:0".
inline std::string device_name(const testing::TestParamInfo<std::string>& info) {
  return info.param.substr(0, info.param.find(':'));
}

}  // namespace heddle::tests
