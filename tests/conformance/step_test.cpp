// What a plain loop may rely on: plans are found again, updates happen in place or not at all, runs repeat bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/run/graph_cache.h"
#include "heddle/core/run/replay.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

class StepTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }
  Tensor leaf(const Shape& shape, float start = 0, float step = 1) {
    std::vector<float> data(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < data.size(); ++i) data[i] = start + step * static_cast<float>(i);
    return Tensor::from_vector(data, shape, &dev());
  }
  bool compiles() { return dev().caps().target != Target::none; }
};

using test::value_devices;

TEST_P(StepTest, SameStructureIsPlannedOnce) {
  if (!compiles()) GTEST_SKIP() << "the reference device has no plans";
  const auto before = dev().counters();
  for (int i = 0; i < 5; ++i) {
    const Tensor x = leaf({3, 5}, static_cast<float>(i));
    const Tensor y = sum(tanh(x) * 2.0, {1});
    EXPECT_EQ(y.to_doubles().size(), 3u);
  }
  EXPECT_EQ(dev().counters().steps_compiled - before.steps_compiled, 1u);
  EXPECT_EQ(dev().counters().step_hits - before.step_hits, 4u);
}

TEST_P(StepTest, NewSizesDoNotMakeNewKernels) {
  if (!compiles()) GTEST_SKIP() << "the reference device has no kernels";
  const auto run = [&](int64_t rows, int64_t columns) {
    const Tensor x = leaf({rows, columns});
    return sum(exp(x * -0.125) + 1.5, {1}).to_doubles();
  };
  run(33, 70);
  const auto before = dev().counters();
  run(37, 75);
  EXPECT_EQ(dev().counters().kernels_compiled, before.kernels_compiled);
  EXPECT_EQ(dev().counters().steps_compiled, before.steps_compiled + 1);
}

TEST_P(StepTest, AReplayComputesAgainFromWhatItsMemoryHolds) {
  if (!compiles()) GTEST_SKIP() << "the reference device records nothing";
  const Tensor x = leaf({64});
  Tensor y;
  const Replay replay = Replay::capture([&] {
    y = x * 3.0 + 1.0;
    eval({y});
  });
  EXPECT_EQ(replay.submissions(), 1u);
  EXPECT_EQ(replay.kernels(), 1u);
  EXPECT_EQ(y.to_doubles()[5], 16);
  const std::vector<float> other(64, 7.0f);
  const StoragePtr memory = x.node()->storage;
  dev().write(*memory, 0, other.data(), other.size() * sizeof(float));
  EXPECT_EQ(y.to_doubles()[5], 16);
  replay.run();
  EXPECT_EQ(y.to_doubles()[5], 22);
  // It goes on working when the plan is forgotten.
  graph_cache(dev()).clear();
  replay.run();
  EXPECT_EQ(y.to_doubles()[63], 22);
}

// A scale of channels behind a convolution becomes part of its weights, once for all runs.
TEST_P(StepTest, AReplayComputesOnceWhatStoredValuesAloneSay) {
  if (!compiles()) GTEST_SKIP() << "the reference device records nothing";
  const Tensor x = leaf({1, 3, 6, 5}, -2, 0.1f), kernels = leaf({4, 3, 3, 3}, 1, -0.01f), scale = leaf({1, 4, 1, 1}, 1);
  Tensor y;
  const Replay replay = Replay::capture([&] {
    y = conv2d(x, kernels) * scale;
    eval({y});
  });
  const auto launched = [&] {
    const auto before = dev().counters().kernels;
    replay.run();
    return dev().counters().kernels - before;
  };
  const std::vector<double> first = y.to_doubles();
  EXPECT_EQ(replay.submissions(), 2u);
  EXPECT_EQ(replay.kernels(), 1u);
  EXPECT_EQ(launched(), 1u);
  EXPECT_EQ(y.to_doubles(), first);
  const std::vector<float> twice = {2, 4, 6, 8};
  dev().write(*scale.node()->storage, 0, twice.data(), twice.size() * sizeof(float));
  EXPECT_GT(launched(), 1u);
  const std::vector<double> second = y.to_doubles();
  for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(second[i], 2 * first[i], 1e-4) << i;
  EXPECT_EQ(launched(), 1u);
  EXPECT_EQ(y.to_doubles(), second);
}

TEST_P(StepTest, AReplayThatUpdatesAScaleComputesItsWeightsAnew) {
  if (!compiles()) GTEST_SKIP() << "the reference device records nothing";
  const Tensor x = leaf({1, 3, 6, 5}, -2, 0.1f), kernels = leaf({4, 3, 3, 3}, 1, -0.01f);
  const std::vector<double> plain = conv2d(x, kernels).to_doubles();
  Tensor scale = leaf({1, 4, 1, 1}, 1), y;
  const Replay replay = Replay::capture([&] {
    scale.assign(scale + 1.0);
    eval({scale});
    y = conv2d(x, kernels) * scale;
    eval({y});
  });
  for (int run = 0; run < 3; ++run) {
    if (run > 0) replay.run();
    const std::vector<double> now = y.to_doubles();
    for (size_t i = 0; i < now.size(); ++i) {
      const double of_channel = static_cast<double>(i / (now.size() / 4)) + 2 + run;
      EXPECT_NEAR(now[i], of_channel * plain[i], 1e-5 * std::abs(of_channel * plain[i]) + 1e-4) << run << " " << i;
    }
  }
}

TEST_P(StepTest, ForcedTunablesArePlannedApart) {
  if (!compiles()) GTEST_SKIP() << "the reference device has no plans";
  const Tensor a = leaf({9, 33}, -2, 0.01f), b = leaf({33, 20}, 1, -0.005f);
  const auto product = [&] { return matmul(a, b).to_doubles(); };
  const std::vector<double> expected = product();
  const auto before = dev().counters();
  {
    const ScopedTuning forced({"matmul", "", {}}, {{"SCHEDULE", 0}, {"VW", 1}, {"LX", 8}, {"LY", 2}});
    const std::vector<double> ours = product();
    EXPECT_EQ(dev().counters().steps_compiled, before.steps_compiled + 1);
    for (size_t i = 0; i < ours.size(); ++i) EXPECT_NEAR(ours[i], expected[i], 1e-4) << i;
    product();
    EXPECT_EQ(dev().counters().steps_compiled, before.steps_compiled + 1);
  }
  EXPECT_EQ(product(), expected);
  EXPECT_EQ(dev().counters().steps_compiled, before.steps_compiled + 1);  // the first plan is found again
  TuningRecorder recorder;
  product();
  ASSERT_EQ(recorder.uses().size(), 1u);
  EXPECT_EQ(recorder.uses()[0].key.sizes, (std::vector<int64_t>{1, 9, 20, 33}));
}

// Parts are written where they belong in the result, by kernels of several kinds; an assign of such a concat must not
// overwrite what is still read.
TEST_P(StepTest, ConcatOfManyParts) {
  Tensor whole = leaf({120, 3}, -4, 0.03f);
  const std::vector<double> before = whole.to_doubles();
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 60; ++i) {
    const Tensor rows = slice(whole, 0, {118 - 2 * i, 120 - 2 * i});
    if (i % 3 == 0)
      parts.push_back(rows);
    else if (i % 3 == 1)
      parts.push_back(exp(rows));
    else
      parts.push_back(expand(sum(rows, {0}, true), Shape{2, 3}));
    if (i % 20 == 0) parts.push_back(slice(whole, 0, {0, 0}));
  }
  whole.assign(concat(parts, 0));
  const Tensor doubled = whole * 2.0;
  parts.clear();
  eval_pending();
  const std::vector<double> found = whole.to_doubles(), twice = doubled.to_doubles();
  for (size_t i = 0; i < 60; ++i) {
    for (size_t e = 0; e < 6; ++e) {
      const size_t from = (118 - 2 * i) * 3;
      const double x = before[from + e], both = before[from + e % 3] + before[from + 3 + e % 3];
      const double expected = i % 3 == 0 ? x : i % 3 == 1 ? std::exp(x) : both;
      ASSERT_NEAR(found[6 * i + e], expected, 1e-5 * (1 + std::abs(expected))) << i << " " << e;
      ASSERT_EQ(twice[6 * i + e], 2 * found[6 * i + e]);
    }
  }
}

TEST_P(StepTest, HostScalarsChangeWithoutANewPlan) {
  const Tensor x = leaf({4});
  if (compiles()) (x * Tensor::host_scalar(1, &dev())).to_doubles();
  const auto before = dev().counters();
  for (float lr : {0.5f, 0.25f, 3.0f}) {
    const std::vector<double> y = (x * Tensor::host_scalar(lr, &dev())).to_doubles();
    EXPECT_EQ(y[3], 3.0 * lr);
  }
  EXPECT_EQ(dev().counters().steps_compiled, before.steps_compiled);
}

TEST_P(StepTest, UnobservedIntermediatesAreNotStored) {
  if (!compiles()) GTEST_SKIP() << "the reference device does not fuse";
  const Tensor x = leaf({64});
  const auto before = dev().counters();
  const Tensor y = tanh(relu(x) + 1.0) * 0.5;
  y.to_doubles();
  EXPECT_EQ(dev().counters().kernels - before.kernels, 1u);
}

TEST_P(StepTest, EagerRunsEveryOperation) {
  if (!compiles()) GTEST_SKIP() << "the reference device does not fuse";
  const Tensor x = leaf({64});
  const auto before = dev().counters();
  const EagerScope eager;
  const Tensor y = tanh(relu(x));
  EXPECT_EQ(dev().counters().kernels - before.kernels, 2u);  // before anybody looked
  EXPECT_TRUE(y.node()->has_value());
}

TEST_P(StepTest, AssignIsSeenByCopiesOfTheHandle) {
  Tensor p = leaf({5});
  const Tensor same = p;
  p.assign(p * 2.0);
  EXPECT_EQ(same.to_doubles(), (std::vector<double>{0, 2, 4, 6, 8}));
}

TEST_P(StepTest, PendingReadersGetTheOldValue) {
  Tensor p = leaf({5});
  const Tensor old = p + 100.0;
  p.assign(p * 2.0);
  EXPECT_EQ(p.to_doubles()[4], 8);
  EXPECT_EQ(old.to_doubles()[4], 104);
}

TEST_P(StepTest, ViewsHeldByTheUserKeepTheOldValue) {
  Tensor p = leaf({2, 3});
  const Tensor pending_view = transpose(p);
  const Tensor done_view = slice(p, 0, {.start = 1});
  eval({done_view});
  p.assign(p + 10.0);
  eval({p});
  EXPECT_EQ(pending_view.to_doubles(), (std::vector<double>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(done_view.to_doubles(), (std::vector<double>{3, 4, 5}));
  EXPECT_EQ(p.to_doubles()[0], 10);
}

TEST_P(StepTest, TwoAssignsBeforeAFlushKeepTheLast) {
  Tensor p = leaf({3});
  p.assign(p + 1.0);
  p.assign(p * 10.0);
  EXPECT_EQ(p.to_doubles(), (std::vector<double>{10, 20, 30}));
}

TEST_P(StepTest, SwapOfTwoParameters) {
  Tensor a = leaf({4}, 0), b = leaf({4}, 50);
  const Tensor keep = a + 0.0;
  a.assign(b);
  b.assign(keep);
  eval({a, b});
  EXPECT_EQ(a.to_doubles()[1], 51);
  EXPECT_EQ(b.to_doubles()[1], 1);
}

TEST_P(StepTest, AssignReadingItselfBackwards) {
  Tensor p = leaf({6});
  p.assign(flip(p, {0}));
  EXPECT_EQ(p.to_doubles(), (std::vector<double>{5, 4, 3, 2, 1, 0}));
  p.assign(matmul(reshape(p, {2, 3}), transpose(reshape(p, {2, 3}))).dim(0) == 2 ? p + 1.0 : p);
  EXPECT_EQ(p.to_doubles()[0], 6);
}

TEST_P(StepTest, MatmulIntoItsOwnOperand) {
  Tensor p = leaf({2, 2}, 1);  // 1 2 3 4
  p.assign(matmul(p, p));
  EXPECT_EQ(p.to_doubles(), (std::vector<double>{7, 10, 15, 22}));
}

TEST_P(StepTest, UpdatesAreInPlace) {
  if (!compiles()) GTEST_SKIP() << "the reference device does not update in place";
  Tensor p = leaf({1000});
  eval({p});
  const Storage* before = p.node()->storage.get();
  for (int i = 0; i < 3; ++i) {
    p.assign(p + 1.0);
    eval({p});
  }
  EXPECT_EQ(p.node()->storage.get(), before);
  EXPECT_EQ(p.to_doubles()[0], 3);
}

TEST_P(StepTest, GradientThroughAnOverwrittenValueIsRefused) {
  if (!compiles()) GTEST_SKIP() << "the reference device does not update in place";
  Tensor p = leaf({3}, 1);
  p.set_requires_grad();
  for (int i = 0; i < 2; ++i) {  // the second time the old value is itself the result of an assign
    const Tensor y = sum(square(p));
    y.item();
    {
      const NoGradScope no_grad;
      p.assign(p + 1.0);
      eval({p});
    }
    backward(y);
    const Tensor gradient = p.grad();
    EXPECT_THROW(gradient.to_doubles(), ValueError);
    p.zero_grad();
  }
  EXPECT_EQ(p.to_doubles(), (std::vector<double>{3, 4, 5}));
}

TEST_P(StepTest, ConcatOfMoreThanAKernelCanBind) {
  std::vector<Tensor> parts;
  for (int i = 0; i < 200; ++i) parts.push_back(leaf({3, 2}, static_cast<float>(i)));
  const std::vector<double> all = concat(parts, 1).to_doubles();
  ASSERT_EQ(all.size(), 1200u);
  for (int i = 0; i < 200; ++i)
    EXPECT_EQ(all[static_cast<size_t>(400 + 2 * i)], i + 2) << i;  // row 1, first column of part i
}

// Right, or refused with the limit's name: some drivers end long loops in silence.
TEST_P(StepTest, LongReductionsAreRightOrRefused) {
  const auto value = [&](auto make) -> double {
    try {
      return make().item();
    } catch (const LimitError& error) {
      EXPECT_NE(std::string(error.what()).find("max_loop_iterations"), std::string::npos) << error.what();
      return -1;
    }
  };
  const int64_t n = 70001;
  const double integers = value([&] { return sum(ones({n}, DType::i32, &dev())); });
  EXPECT_TRUE(integers == n || integers == -1) << integers;
  const double product = value([&] {
    return matmul(ones({1, n}, DType::f32, &dev()), ones({n, 1}, DType::f32, &dev()));
  });
  EXPECT_TRUE(product == n || product == -1) << product;
  const double last = value([&] { return argmax(arange(0, n, 1, DType::f32, &dev())); });
  EXPECT_TRUE(last == n - 1 || last == -1) << last;
  EXPECT_EQ(value([&] { return sum(ones({n}, DType::f32, &dev())); }), n);
}

TEST_P(StepTest, AnIndexThatIsCastWhereItIsFound) {  // no buffer of the kernel is i64
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 3, 2, 7, 0, 5}, {2, 3}, &dev());
  EXPECT_EQ(cast(argmax(x, 1), DType::i32).to_vector<int32_t>(), (std::vector<int32_t>{1, 0}));
}

TEST_P(StepTest, DivisionByALiteralZero) {
  const Tensor x = Tensor::from_vector(std::vector<float>{1, -2, 0}, {3}, &dev());
  const std::vector<double> y = (x / 0.0).to_doubles();
  EXPECT_EQ(y[0], INFINITY);
  EXPECT_EQ(y[1], -INFINITY);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST_P(StepTest, TwoRunsAgreeBitForBit) {
  const auto run = [&] {
    manual_seed(5);
    const Tensor x = normal({37, 19}, 0, 1, &dev());
    const Tensor y = softmax(matmul(x, transpose(x)));
    return (sum(y * log(y + 1.0)) + mean(x)).to_bytes();
  };
  EXPECT_EQ(run(), run());
}

TEST_P(StepTest, EmptyAndScalarTensors) {
  const Tensor none = Tensor::from_vector(std::vector<float>{}, {0, 3}, &dev());
  EXPECT_EQ((none * 2.0).to_doubles().size(), 0u);
  EXPECT_EQ(sum(none).item(), 0);
  EXPECT_EQ(sum(none, {0}).to_doubles(), (std::vector<double>{0, 0, 0}));
  EXPECT_EQ(matmul(transpose(none), none).to_doubles(), std::vector<double>(9, 0.0));
  EXPECT_EQ((leaf({}, 3) + 1.0).item(), 4);
}

TEST_P(StepTest, MovementOfAHeldValueIsAViewOfIt) {
  if (!compiles()) GTEST_SKIP() << "the reference device copies";
  const Tensor x = leaf({4, 6});
  const Tensor y = transpose(x);
  eval({y});
  EXPECT_EQ(y.node()->storage, x.node()->storage);
}

TEST_P(StepTest, LongUnobservedLoopStaysBounded) {
  Tensor x = leaf({2});
  for (int i = 0; i < 30000; ++i) x = x + 1.0;
  EXPECT_EQ(x.to_doubles()[0], 30000);
}

// A stored value's view must not read like a pending slice's attributes in a step's key.
TEST_P(StepTest, StoredViewsAndPendingSlicesAreTold) {
  const Tensor x0 = leaf({5}), x1 = leaf({5}, 10);
  const Tensor y = slice(x0, 0, {1, 5, 2});
  eval({y});
  EXPECT_EQ(((sum(x0) + sum(x1)) + y).to_vector<float>(), (std::vector<float>{71, 73}));
  EXPECT_EQ(((sum(x0) + sum(x1)) + slice(x1, 0, {0, 2, 1})).to_vector<float>(), (std::vector<float>{80, 81}));
}

TEST_P(StepTest, AnOperandThatIsAlsoReadBeforeTheProduct) {
  const Tensor a = leaf({2, 2}, 1), b = leaf({2, 2}, 1), s = leaf({2, 2}, 2), w = leaf({2, 2}, 1);
  const auto run = [&] {
    const Tensor h = a + b;
    return h * s + matmul(h, w);
  };
  EXPECT_EQ(run().to_vector<float>(), (std::vector<float>{18, 32, 54, 84}));
}

TEST_P(StepTest, AssignToTheFrontOfALargerStorage) {
  Tensor y;
  {
    const Tensor x = leaf({100000});
    y = slice(x, 0, {0, 4, 1});
    eval({y});
  }
  y.assign(flip(y, {0}) + 1.0);
  EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{4, 3, 2, 1}));
}

TEST_P(StepTest, EmptyValuesAreAssignedAndReshaped) {
  Tensor x = leaf({0, 3});
  x.assign(flip(x, {1}) + 1.0);
  EXPECT_TRUE(x.to_doubles().empty());
  const Tensor joined = concat({leaf({0, 5}), leaf({0, 5})}, 0);
  EXPECT_EQ((concat({reshape(joined, Shape{0}), leaf({3})}, 0) * 2.0).to_vector<float>(),
            (std::vector<float>{0, 2, 4}));
}

TEST_P(StepTest, ConstantsAreRoundedToTheirType) {
  EXPECT_EQ(cast(full({2}, 300, DType::u8, &dev()), DType::i32).to_vector<int>(), (std::vector<int>{44, 44}));
  const Tensor bytes = cast(leaf({2}), DType::u8);
  EXPECT_EQ(cast(pad(bytes, {{1, 1}}, -1), DType::i32).to_vector<int>(), (std::vector<int>{255, 0, 1, 255}));
  // 1 / 2^-20 is infinite in f16; x / 2^-20 is not.
  const Tensor small = cast(leaf({2}, 0, 0.0009765625f), DType::f16);
  EXPECT_EQ((small / 9.5367431640625e-07).to_vector<float>(), (std::vector<float>{0, 1024}));
}

TEST_P(StepTest, NarrowIntegersAreScattered) {
  for (DType t : {DType::i8, DType::u8}) {
    const Tensor at = cast(leaf({3}, 0, 2), DType::i32);
    const Tensor y = index_add(cast(leaf({4, 2}), t), at, cast(leaf({3, 2}, 1), t));
    EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{1, 3, 2, 3, 7, 9, 6, 7})) << name_of(t);
  }
}

// What is stored once a row comes before the row's elements: they must still see the old value.
TEST_P(StepTest, RowsAssignedBesideTheirElements) {
  Tensor a = leaf({4});
  const Tensor x = leaf({4, 300});
  const auto run = [&] {
    const Tensor q = a * 2.0;
    const Tensor w = max(x, {1}) + 1.0;
    const Tensor y = x * 0.0 + reshape(q + w, {4, 1});
    a.assign(w);
    return y;
  };
  const Tensor y = run();
  EXPECT_EQ(slice(y, 1, {0, 300, 299}).to_vector<float>(),
            (std::vector<float>{300, 300, 602, 602, 904, 904, 1206, 1206}));
  EXPECT_EQ(a.to_vector<float>(), (std::vector<float>{300, 600, 900, 1200}));
}

INSTANTIATE_TEST_SUITE_P(Devices, StepTest, ::testing::ValuesIn(value_devices()), [](const auto& param) {
  std::string n = param.param;
  std::replace(n.begin(), n.end(), ':', '_');
  return n;
});

}  // namespace
}  // namespace heddle
