// The device that stands in another's place: it counts what that one would hold, and needs no values.
#ifdef HEDDLE_HAS_BENCH

#include "heddle/core/device/blank_device.h"

#include <gtest/gtest.h>

#include <memory>

#include "bench/training_step.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/device/null_device.h"
#include "heddle/heddle.h"
#include "tests/support/expect_error.h"

namespace heddle {
namespace {

DeviceContext limited_context(uint64_t allocation = uint64_t{1} << 30) {
  Caps caps = NullDevice::null_caps();
  caps.max_allocation_bytes = allocation;
  DeviceInfo info;
  info.id = "null:9";
  info.backend = "null";
  return {std::make_unique<NullDevice>(caps), info};
}

uint64_t peak_of(const char* text, DeviceContext& device) {
  const bench::TrainingStep step = bench::make_training_step(text, device);
  for (int i = 0; i < 2; ++i) {
    const Tensor loss = step.record();
    eval_pending();
  }
  return device.memory().peak_bytes;
}

TEST(BlankDevice, CountsWhatItsModelWouldHold) {
  for (const char* text : {"mlp:32", "gpt-checkpoint:2x32x4x32"}) {
    DeviceContext real = limited_context();
    const std::unique_ptr<DeviceContext> blank = blank_context(real);
    EXPECT_EQ(real.memory().live_bytes, 0u);
    const uint64_t predicted = peak_of(text, *blank);
    EXPECT_EQ(predicted, peak_of(text, real)) << text;
    EXPECT_GT(predicted, 0u);
  }
}

TEST(BlankDevice, HasZerosAndLimitsAndNoMemoryOfTheHost) {
  DeviceContext real = limited_context(4096);
  const std::unique_ptr<DeviceContext> blank = blank_context(real);
  EXPECT_TRUE(is_blank(*blank));
  EXPECT_FALSE(is_blank(real));
  EXPECT_EQ(blank->id(), real.id());
  EXPECT_EQ(full({3}, 2, DType::f32, blank.get()).to_vector<float>(), std::vector<float>(3));
  BlankDevice itself(real.caps(), false);
  tests::expect_error<LimitError>([&] { itself.alloc(4097); }, {"4097", "max_allocation_bytes"});
  tests::expect_error<LimitError>([&] { blank->allocate(4097); }, {"4097", "max_allocation_bytes"});
  alignas(64) static const uint8_t bytes[4096] = {};
  EXPECT_EQ(adopt_constant(*blank, bytes, sizeof bytes), nullptr);
  EXPECT_EQ(adopted_bytes(*blank), 0u);
}

TEST(BlankDevice, AdoptedMemoryIsNotTheDevices) {
  DeviceInfo info;
  info.id = "blank:0";
  DeviceContext context(std::make_unique<BlankDevice>(NullDevice::null_caps(), true), info);
  alignas(64) static const uint8_t bytes[4096] = {};
  EXPECT_NE(adopt_constant(context, bytes, sizeof bytes), nullptr);
  EXPECT_EQ(context.memory().live_bytes, 0u);
  EXPECT_EQ(adopted_bytes(context), sizeof bytes);
}

}  // namespace
}  // namespace heddle

#endif  // HEDDLE_HAS_BENCH
