// Checkpointed training gives the losses of plain training, bit for bit, on every device.
#include "heddle/core/graph/checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>

#include "heddle/heddle.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

std::vector<double> train_gpt(DeviceContext& d, bool checkpoint, int steps) {
  manual_seed(3);
  nn::Gpt model(
      {.vocabulary = 31, .context = 9, .layers = 2, .heads = 2, .width = 24, .dropout = 0.2, .checkpoint = checkpoint},
      {.device = d});
  nn::AdamW optimizer(model.parameters(), 1e-2);
  std::vector<int32_t> text(2 * 9 + 1);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<int32_t>(i * 7 % 31);
  const Tensor tokens = Tensor::from_vector(std::vector<int32_t>(text.begin(), text.end() - 1), {2, 9}, &d);
  const Tensor next = Tensor::from_vector(std::vector<int32_t>(text.begin() + 1, text.end()), {18}, &d);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    const Tensor loss = cross_entropy(reshape(model(tokens), {-1, 31}), next);
    backward(loss);
    optimizer.step();
    optimizer.zero_grad();
    losses.push_back(loss.item());
  }
  return losses;
}

using CheckpointTraining = tests::DeviceTest;

TEST_P(CheckpointTraining, LossesAreBitIdentical) {
  const std::vector<double> plain = train_gpt(device(), false, 8), again = train_gpt(device(), true, 8);
  EXPECT_EQ(0, std::memcmp(plain.data(), again.data(), plain.size() * sizeof(double)))
      << plain.back() << " and " << again.back();
  EXPECT_LT(plain.back(), plain.front() - 0.5);
}

HEDDLE_DEVICE_TESTS(CheckpointTraining);

}  // namespace
}  // namespace heddle
