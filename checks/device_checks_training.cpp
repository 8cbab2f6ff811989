// Small networks, trained for a few steps: the losses must be the reference device's.
#include <fmt/format.h>

#include <cmath>
#include <string_view>

#include "checks/device_checks.h"
#include "checks/networks.h"

namespace heddle::checks {
namespace {

constexpr std::string_view quick_networks[] = {"mlp", "cnn", "gpt"};  // the others compile for long

std::string against_reference(const Network& network, DeviceContext& context) {
  constexpr double tolerance = 1e-4;  // relative, of f32 losses after a few steps
  const std::vector<double> expected = training_losses(network, device("reference:0")),
                            found = training_losses(network, context);
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(std::abs(found[i] - expected[i]) <= tolerance * std::abs(expected[i])))
      return fmt::format("the loss of step {} is {:.7g}, expected {:.7g}", i, found[i], expected[i]);
  }
  return {};
}

}  // namespace

void add_training_checks(std::vector<DeviceCheck>& checks) {
  for (const std::string_view name : quick_networks) {
    for (const Network& network : networks()) {
      if (network.name == name)
        checks.push_back({.part = "training",
                          .name = fmt::format("{}, 10 steps", name),
                          .run = [&network](DeviceContext& context) { return against_reference(network, context); }});
    }
  }
}

}  // namespace heddle::checks
