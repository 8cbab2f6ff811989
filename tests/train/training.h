// The fixture of the tests that train on every device (trainer_test.cpp, which instantiates it, and
// throughput_test.cpp).
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/train/trainer.h"

namespace heddle::train {

class Training : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
};

}  // namespace heddle::train
