// Chains (core/run/chains.h): one launch instead of several small ones, with the bits of the several.
#include "heddle/core/run/chains.h"

#include <functional>

#include "heddle/core/contract/quirks.h"
#include "heddle/core/run/replay.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"
#include "tests/support/noise.h"

namespace heddle::tests {
namespace {

class Chains : public DeviceTest {
 protected:
  bool chained() const { return Quirks(device().info()).has(Quirk::wakes_threads); }
  Tensor drawn(const Shape& shape, uint64_t seed) const {
    const std::vector<double> values = test::noise(shape.numel(), seed);
    return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &device());
  }
  // `work` computed at once, where nothing is chained, and replayed twice. Gives the launches of a replay.
  size_t expect_same(const std::function<Tensor()>& work) {
    const std::vector<uint8_t> at_once = work().to_bytes();
    Tensor result;
    const Replay replay = Replay::capture([&] {
      result = work();
      eval({result});
    });
    EXPECT_EQ(result.to_bytes(), at_once);
    replay.run();
    EXPECT_EQ(result.to_bytes(), at_once);
    return replay.kernels();
  }
};

// Grids of one, two and three dimensions.
TEST_P(Chains, ALinkReadsWhatTheLinkBeforeWrote) {
  const Tensor x = drawn({3, 37}, 1), w = drawn({37, 37}, 2), k = drawn({2, 3, 3, 3}, 3);
  const size_t launches = expect_same([&] {
    Tensor y = x;
    for (int i = 0; i < 4; ++i) y = softmax(matmul(y, w) * 3.0, -1);
    const Tensor image = conv2d(reshape(cumsum(y, 1), {1, 3, 37, 1}) * reshape(y, {1, 3, 1, 37}), k);
    return sort(permute(image, {3, 0, 2, 1}), 0).values;
  });
  if (chained()) {
    EXPECT_LE(launches, 4u);
  }
}

TEST_P(Chains, LinksOfOneTextDifferInNumbersAndPlaces) {
  const Tensor x = drawn({64}, 4);
  const size_t launches = expect_same([&] {
    std::vector<Tensor> sums;
    for (int64_t i = 1; i < 12; ++i) sums.push_back(cumsum(slice(x, 0, {.start = i, .stop = 5 * i + 2}) * 0.5, 0));
    return concat(sums, 0);
  });
  if (chained()) {
    EXPECT_LE(launches, 6u);
  }
}

// What is updated in place is read by links before and after.
TEST_P(Chains, UpdatesInPlace) {
  Tensor w = drawn({16, 16}, 5);
  const Tensor x = drawn({4, 16}, 6);
  const auto step = compile([&](const Tensor& input) {
    const Tensor before = sum(matmul(input, w), {0});
    w.assign(w * 0.5 + matmul(transpose(input), input));
    return concat({before, sum(matmul(input, w), {0})}, 0);
  });
  const Tensor kept = w * 1.0;
  eval({kept});
  for (int i = 0; i < 4; ++i) step(x);
  const std::vector<uint8_t> compiled = step(x).to_bytes();
  w.assign(kept);
  std::vector<uint8_t> at_once;
  for (int i = 0; i < 5; ++i) {
    const Tensor before = sum(matmul(x, w), {0});
    eval({before});
    w.assign(w * 0.5 + matmul(transpose(x), x));
    eval({w});
    at_once = concat({before, sum(matmul(x, w), {0})}, 0).to_bytes();
  }
  EXPECT_EQ(compiled, at_once);
}

TEST_P(Chains, BodiesOfLoops) {
  const Tensor xs = drawn({9, 2, 8}, 7), w = drawn({8, 8}, 8), start = drawn({2, 8}, 9);
  expect_same([&] {
    const auto body = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& x) {
      const Tensor next = softmax(matmul(state[0], w) + cumsum(x[0], 1), 1);
      return Scanned{{next}, {matmul(next, w)}};
    };
    const Scanned all = scan(body, {start}, {xs});
    return concat({reshape(all.carry[0], {-1}), reshape(all.ys[0], {-1})}, 0);
  });
}

// More links, and more texts, than one chain takes.
TEST_P(Chains, LongOnesAreCut) {
  const Tensor x = drawn({3, 11}, 10);
  const size_t launches = expect_same([&] {
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = cumsum(y * 0.5, i % 2) - mean(y, {i % 2}, true);
    return y;
  });
  if (chained()) {
    EXPECT_GE(launches, 3u);
    EXPECT_LE(launches, 12u);
  }
}

TEST_P(Chains, LargeKernelsStayOfAllCores) {
  const Tensor x = drawn({512, 512}, 11);
  const size_t launches = expect_same([&] { return cumsum(cumsum(x, 0), 1); });
  EXPECT_GE(launches, 2u);
}

HEDDLE_DEVICE_TESTS(Chains);

}  // namespace
}  // namespace heddle::tests
