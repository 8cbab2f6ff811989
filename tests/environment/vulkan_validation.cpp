// Part of every group: its tests run under Vulkan's validation layer where that is installed, and a message is a
// failure.
#ifdef HEDDLE_HAS_VULKAN

#include <gtest/gtest.h>

#include <cstdlib>

#include "heddle/backend_vulkan/validation.h"

namespace {

// Before any static object of the tests lists the devices, which makes the Vulkan instance.
[[gnu::constructor(200)]] void ask_for_validation() { setenv("HEDDLE_VULKAN_VALIDATION", "auto", 0); }

class NoValidationMessages : public testing::Environment {
 public:
  void TearDown() override {
    const auto messages = heddle::vulkan_validation_messages();
    EXPECT_TRUE(messages.empty()) << messages.size()
                                  << " messages of the validation layer, the first: " << messages.front();
  }
};

[[maybe_unused]] const testing::Environment* const registered =
    testing::AddGlobalTestEnvironment(new NoValidationMessages);

}  // namespace

#endif
