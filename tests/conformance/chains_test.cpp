// Chains (core/run/chains.h): one launch instead of several small ones, with the bits of the several.
#include "heddle/core/run/chains.h"

#include <algorithm>
#include <functional>

#include "heddle/core/contract/quirks.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/launcher.h"
#include "heddle/core/run/replay.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"
#include "tests/support/replayed.h"

namespace heddle::tests {
namespace {

class Chains : public DeviceTest {
 protected:
  bool chained() const { return Quirks(device().info()).has(Quirk::wakes_threads); }
  // `y` by its launches, and 20 times by chains of so many workers, of which each run finds what the one before left.
  void expect_same_shared(const Tensor& y, uint32_t workers) {
    if (!chained()) GTEST_SKIP() << "no chains on " << GetParam();
    const NodePtr root = y.node();
    const Capture captured = capture({&root, 1});
    const GraphImage plain = CompiledGraph::compile(device(), captured, true, {})->image();
    GraphImage image = plain;
    Caps caps = device().caps();
    caps.compute_units = workers;
    ASSERT_FALSE(chain_launches(image, caps, {.shared_rows = 1}).empty());
    ASSERT_LT(image.launches.size(), plain.launches.size());
    const auto is_shared = [&](const GraphImage::Launch& launch) { return launch.workers == workers; };
    ASSERT_TRUE(workers == 1 || std::any_of(image.launches.begin(), image.launches.end(), is_shared));
    const auto bytes_of = [&](Launcher& launcher) {
      const GraphResult result = launcher.run({captured.storages, captured.bases, captured.host_values});
      Storage& storage = *result.outputs.at(0).storage;
      std::vector<uint8_t> all(storage.bytes());
      device().read(storage, 0, all.data(), all.size());
      return all;
    };
    Launcher before(device(), plain), after(device(), image);
    const std::vector<uint8_t> expected = bytes_of(before);
    for (int round = 0; round < 20; ++round) ASSERT_EQ(bytes_of(after), expected) << round;
  }
};

// Grids of one, two and three dimensions.
TEST_P(Chains, ALinkReadsWhatTheLinkBeforeWrote) {
  const Tensor x = drawn({3, 37}, 1), w = drawn({37, 37}, 2), k = drawn({2, 3, 3, 3}, 3);
  const size_t launches = expect_replays([&] {
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
  const size_t launches = expect_replays([&] {
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
  expect_replays([&] {
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
  const size_t launches = expect_replays([&] {
    Tensor y = x;
    for (int i = 0; i < 50; ++i) y = cumsum(y * 0.5, i % 2) - mean(y, {i % 2}, true);
    return y;
  });
  if (chained()) {
    EXPECT_GE(launches, 3u);
    EXPECT_LE(launches, 12u);
  }
}

// Products of 0.4 ms by guess: launches of several workers, of which one compiles few different kernels once more where
// there are many.
TEST_P(Chains, LongLinksAreLaunchesOfSeveralWorkers) {
  const Tensor x = drawn({191, 193}, 30), w = drawn({193, 193}, 31);
  const bool shared = chained() && shares_links(device().caps());
  const size_t few = expect_replays([&] { return tanh(matmul(tanh(matmul(tanh(matmul(x, w)), w)), w)); });
  EXPECT_EQ(few, shared ? 1u : 3u);
  using Unary = Tensor (*)(TensorArg);
  const std::vector<Unary> different = {tanh, sin, cos, exp, sigmoid, abs, neg, square, relu};
  const size_t many = expect_replays([&] {
    Tensor y = x;
    for (const Unary f : different) y = f(matmul(y, w) * 1e-2);
    return y;
  });
  const size_t of_one = ChainLimits().long_texts;
  EXPECT_EQ(many, shared ? (different.size() + of_one - 1) / of_one : different.size());
}

// Nor are they compiled twice where kernels are very many.
TEST_P(Chains, LongLinksOfVeryManyKernelsStayLaunches) {
  if (!chained() || !shares_links(device().caps())) GTEST_SKIP() << "no shared chains on " << GetParam();
  const Tensor x = drawn({191, 193}, 30), w = drawn({193, 193}, 31);
  const NodePtr root = sin(matmul(tanh(matmul(x, w) * 1e-2), w) * 1e-2).node();
  const GraphImage plain = CompiledGraph::compile(device(), capture({&root, 1}), true, {})->image();
  GraphImage many = plain, fewer = plain;
  EXPECT_TRUE(chain_launches(many, device().caps(), {.few_texts = 1, .many_texts = 1}).empty());
  EXPECT_EQ(chain_launches(fewer, device().caps(), {.few_texts = 1, .many_texts = 2}).size(), 1u);
}

TEST_P(Chains, LargeKernelsStayOfAllCores) {
  const Tensor x = drawn({2048, 4096}, 11);
  const size_t launches = expect_replays([&] { return cumsum(cumsum(x, 0), 1); });
  EXPECT_GE(launches, 2u);
}

// Long enough for several workers: products, a link with fewer groups than workers, links of many short groups.
TEST_P(Chains, WorkersShareOutTheGroupsOfALink) {
  const Tensor x = drawn({61, 193}, 12), w = drawn({193, 193}, 13), k = drawn({5, 3, 3, 3}, 14);
  Tensor y = x;
  for (int i = 0; i < 3; ++i) y = tanh(softmax(matmul(y, w) * 0.1, -1));
  const Tensor image = conv2d(reshape(y, {1, 1, 61, 193}) * reshape(slice(y, 0, {.stop = 3}), {1, 3, 1, 193}), k);
  const Tensor sums = reshape(cumsum(image, 3), {-1}), sorted = reshape(sort(y, 0).values, {-1});
  expect_same_shared(concat({sums, reshape(sum(y), {1}), sorted}, 0), device().caps().compute_units);
}

// More work groups than the driver has threads: the first ones do all, the last ones find nothing left.
TEST_P(Chains, OneWorkerAloneGetsThrough) {
  const Tensor x = drawn({40, 200}, 20), w = drawn({200, 200}, 21);
  expect_same_shared(softmax(tanh(matmul(softmax(matmul(x, w), -1), w)), 0), 7);
}

// All iterations of a loop are one launch where their memory allows it: of the first and the last one, carries lie
// elsewhere. Forwards and backwards, one link and several.
TEST_P(Chains, IterationsOfALoopAreOneLaunch) {
  const Tensor xs = drawn({23, 3, 96}, 17), w = drawn({96, 96}, 18), start = drawn({3, 96}, 19);
  const auto all = [&](const ScanBody& body, bool reverse) {
    return expect_replays([&] {
      const Scanned made = scan(body, {start}, {xs}, {.reverse = reverse});
      return concat({reshape(made.carry[0], {-1}), reshape(made.ys[0], {-1})}, 0);
    });
  };
  const ScanBody one = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& x) {
    const Tensor next = tanh(matmul(state[0], w) * 0.1 + x[0]);
    return Scanned{{next}, {next}};
  };
  const ScanBody several = [&](const std::vector<Tensor>& state, const std::vector<Tensor>& x) {
    const Tensor next = softmax(matmul(state[0], w) + cumsum(x[0], 1), 1);
    return Scanned{{next}, {matmul(next, w)}};
  };
  for (const bool reverse : {false, true}) {
    const size_t launches = all(one, reverse), more = all(several, reverse);
    if (!chained()) continue;
    EXPECT_LE(launches, 6u);
    EXPECT_LE(more, 6u);
  }
}

HEDDLE_DEVICE_TESTS(Chains);

}  // namespace
}  // namespace heddle::tests
