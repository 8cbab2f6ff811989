// Ten training steps of small networks against PyTorch's losses, on every device (tools/parity/make_losses.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "checks/networks.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"

namespace heddle::tests {
namespace {

using checks::Network;
using checks::networks;
using checks::training_losses;

class Losses : public testing::TestWithParam<std::tuple<const char*, Network>> {
 protected:
  void SetUp() override {
    try {
      device_ = &device(std::get<0>(GetParam()));
    } catch (const DeviceUnavailable& error) {
      GTEST_SKIP() << error.what();
    }
  }
  const Network& tested() const { return std::get<1>(GetParam()); }
  DeviceContext* device_ = nullptr;
};

TEST_P(Losses, AsPyTorchs) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/parity/losses.json");
  const nlohmann::json stored = nlohmann::json::parse(file);
  const std::vector<double> expected = stored.at(tested().name).at("f32"), found = training_losses(tested(), *device_);
  ASSERT_EQ(expected.size(), found.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-4 * expected[i]) << "step " << i;
}

class Repeated : public Losses {};

TEST_P(Repeated, TwoRunsAgreeBitForBit) {
  EXPECT_EQ(training_losses(tested(), *device_), training_losses(tested(), *device_));
}

auto on_devices(const std::vector<Network>& which) {
  return testing::Combine(testing::Values("reference:0", "opencl:0", "vulkan:0", "cuda:0"), testing::ValuesIn(which));
}

std::string name_of_test(const testing::TestParamInfo<std::tuple<const char*, Network>>& param_info) {
  const std::string id = std::get<0>(param_info.param);
  return id.substr(0, id.find(':')) + "_" + std::get<1>(param_info.param).name;
}

INSTANTIATE_TEST_SUITE_P(Devices, Losses, on_devices(networks()), name_of_test);
INSTANTIATE_TEST_SUITE_P(Devices, Repeated, on_devices({networks().front()}), name_of_test);

}  // namespace
}  // namespace heddle::tests
