// Weights that a product of some rows finds turned (core/run/turned_weights.h): bits, what is turned, and when anew.
#include "heddle/core/run/turned_weights.h"

#include <cmath>

#include "heddle/core/record/capture.h"
#include "heddle/core/run/chains.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/launcher.h"
#include "heddle/core/run/replay.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"
#include "tests/support/replayed.h"

namespace heddle::tests {
namespace {

class TurnedWeights : public DeviceTest {
 protected:
  bool turns() const { return device().caps().machine() == Machine::cpu_loops; }
  // How many values a graph that repeats computes once.
  size_t once(const Tensor& y) const {
    const RepeatedScope repeated;
    const NodePtr root = y.node();
    const GraphImage image = CompiledGraph::compile(device(), capture({&root, 1}), true, {})->image();
    return image.once.empty() ? 0 : image.once[0].outputs.size();
  }
};

TEST_P(TurnedWeights, BitsAreThoseOfWeightsAsTheyLie) {
  const Tensor all = drawn({131 * 193 + 7}, 1), x = drawn({33, 193}, 2), bias = drawn({131}, 3);
  // Behind other elements of its storage, as parameters lie.
  const Tensor weight = reshape(slice(all, 0, {.start = 7, .stop = 131 * 193 + 7}), {131, 193});
  eval({weight});
  expect_replays([&] { return relu(matmul(x, transpose(weight)) + bias); });
}

TEST_P(TurnedWeights, AreTurnedAnewWhenSomebodyWroteThem) {
  Tensor weight = drawn({96, 128}, 4);
  const Tensor x = drawn({48, 128}, 5);
  const auto layer = compile([&](const Tensor& input) { return matmul(input, transpose(weight)); });
  for (int i = 0; i < 3; ++i) layer(x);
  for (uint64_t seed : {6, 7}) {
    weight.assign(drawn({96, 128}, seed));
    const std::vector<uint8_t> expected = matmul(x, transpose(weight)).to_bytes();
    EXPECT_EQ(layer(x).to_bytes(), expected);
    EXPECT_EQ(layer(x).to_bytes(), expected);
  }
}

TEST_P(TurnedWeights, OnlyWhereItPays) {
  const auto product = [&](int64_t rows, int64_t columns, int64_t inner) {
    return matmul(drawn({rows, inner}, 8), transpose(drawn({columns, inner}, 9)));
  };
  const size_t one = turns() ? 1 : 0;
  EXPECT_EQ(once(product(32, 128, 784)), one);
  EXPECT_EQ(once(product(24, 64, 64)), one);
  EXPECT_EQ(once(product(95, 65, 67)), one);
  EXPECT_EQ(once(product(23, 128, 128)), 0u);
  EXPECT_EQ(once(product(96, 128, 128)), 0u);
  EXPECT_EQ(once(product(32, 63, 128)), 0u);
  EXPECT_EQ(once(product(32, 128, 63)), 0u);
  EXPECT_EQ(once(product(32, 512, 512)), 0u);
  EXPECT_EQ(once(matmul(drawn({32, 128}, 8), drawn({128, 128}, 9))), 0u);
}

// Two products of one matrix share a copy; what the graph itself writes is no stored value.
TEST_P(TurnedWeights, OneCopyOfAMatrixAndNoneOfWhatIsWritten) {
  const Tensor x = drawn({32, 128}, 10), y = drawn({40, 128}, 11);
  Tensor weight = drawn({96, 128}, 12);
  const Tensor turned = transpose(weight);
  EXPECT_EQ(once(concat({matmul(x, turned), matmul(y, turned)}, 0)), turns() ? 1u : 0u);
  const auto step = compile([&](const Tensor& input) {
    const Tensor out = matmul(input, transpose(weight));
    weight.assign(weight * 0.5);
    return out;
  });
  std::vector<std::vector<uint8_t>> halves;
  for (int i = 0; i < 5; ++i) halves.push_back((matmul(x, transpose(weight * std::pow(0.5, i)))).to_bytes());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(x).to_bytes(), halves[static_cast<size_t>(i)]) << i;
}

HEDDLE_DEVICE_TESTS(TurnedWeights);

}  // namespace
}  // namespace heddle::tests
