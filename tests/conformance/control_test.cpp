// Loops in the graph on every device: values and gradients of loops written out, what is launched and compiled, random
// numbers, and the modes around them.
#include "heddle/core/functions/control/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/heddle.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

using Tensors = std::vector<Tensor>;

std::vector<float> wave(int64_t n, double frequency) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(0.6 * std::sin(frequency * (static_cast<double>(i) + 1)));
  return values;
}

void expect_near(const Tensor& found, const Tensor& expected, double tolerance, const char* what) {
  const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  double scale = 1;
  for (double v : b) scale = std::max(scale, std::abs(v));
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * scale) << what << " " << i;
}

class ControlFlow : public tests::DeviceTest {
 protected:
  Tensor leaf(const Shape& shape, double frequency) const { return leaf(shape, frequency, device()); }
  static Tensor leaf(const Shape& shape, double frequency, DeviceContext& d) {
    Tensor t = Tensor::from_vector(wave(shape.numel(), frequency), shape, &d);
    return t.set_requires_grad();
  }
};

struct Rnn {
  Tensor x, w, u, b, h;
  Tensor cell(const Tensor& state, const Tensor& input) const { return tanh(matmul(input, w) + matmul(state, u) + b); }
  Tensors all() const { return {x, w, u, b, h}; }
};

// The loop on the device; written out on the reference device. Rows of 20 bytes, which no device can bind as they lie,
// and of 256, which every device can.
TEST_P(ControlFlow, ScanIsTheLoopWrittenOut) {
  for (const bool reverse : {false, true}) {
    const int64_t steps = 4, width = reverse ? 16 : 5, batch = reverse ? 4 : 1;
    const auto make = [&](DeviceContext& d) {
      return Rnn{leaf({steps, batch, 3}, 0.7, d), leaf({3, width}, 1.1, d), leaf({width, width}, 0.37, d),
                 leaf({width}, 2.3, d), leaf({batch, width}, 0.9, d)};
    };
    const Rnn rnn = make(device()), oracle = make(heddle::device("reference:0"));
    const Scanned all = scan(
        [&](const Tensors& c, const Tensors& x) {
          const Tensor h = rnn.cell(c[0], x[0]);
          return Scanned{{h}, {h, sum(h, {1})}};
        },
        {rnn.h}, {rnn.x}, {{}, reverse, reverse});
    Tensor h = oracle.h;
    Tensors states(static_cast<size_t>(steps)), sums(static_cast<size_t>(steps));
    for (int64_t k = 0; k < steps; ++k) {
      const int64_t t = reverse ? steps - 1 - k : k;
      h = oracle.cell(h, squeeze(slice(oracle.x, 0, {t, t + 1}), 0));
      states[static_cast<size_t>(t)] = unsqueeze(h, 0);
      sums[static_cast<size_t>(t)] = unsqueeze(sum(h, {1}), 0);
    }
    const auto loss_of = [](const Rnn& r, const Tensor& last, const Tensor& ys, const Tensor& s) {
      return sum(square(ys)) + sum(last * r.h) + sum(s * 0.3);
    };
    const Tensor ys = concat(states, 0), s = concat(sums, 0);
    const Tensors in = rnn.all(), oracle_in = oracle.all();
    const Tensors found = grad(loss_of(rnn, all.carry[0], all.ys[0], all.ys[1]), in, {}, true),
                  expected = grad(loss_of(oracle, h, ys, s), oracle_in, {}, true);
    Tensors second, written_out;
    if (!reverse) {
      second = grad(sum(square(found[2])) + sum(found[0]), in, {}, false, true);
      written_out = grad(sum(square(expected[2])) + sum(expected[0]), oracle_in, {}, false, true);
    }
    expect_near(all.carry[0], h, 1e-5, "carry");
    expect_near(all.ys[0], ys, 1e-5, "ys");
    expect_near(all.ys[1], s, 1e-5, "sums");
    for (size_t i = 0; i < in.size(); ++i) expect_near(found[i], expected[i], 1e-5, "gradient");
    for (size_t i = 0; i < second.size(); ++i) expect_near(second[i], written_out[i], 2e-5, "second gradient");
  }
}

// Of a training step: one region; as many launches per step of time whatever the length; nothing to compile for another
// length; a plan found again. Results of a loop may be asked for one after the other, each evaluated by itself: the
// gradient asks the forward loop for what it reads, and its own for each cotangent.
TEST_P(ControlFlow, OneOperationAtATime) {
  const auto gradients = [&](DeviceContext& d, bool written_out) {
    const Tensor x = leaf({3, 2}, 0.7, d), w = leaf({2}, 1.1, d), first = leaf({2}, 0.9, d);
    const auto next = [&](const Tensor& c, const Tensor& in) { return where(in > 0.0, tanh(c * w) + in, c * w); };
    Tensor last = first;
    if (written_out) {
      for (int64_t t = 0; t < 3; ++t) last = next(last, squeeze(slice(x, 0, {.start = t, .stop = t + 1}), 0));
    } else {
      last = scan(
                 [&](const Tensors& c, const Tensors& in) {
                   return Scanned{{next(c[0], in[0])}, {}};
                 },
                 {first}, {x})
                 .carry[0];
    }
    return grad(sum(square(last)), Tensors{x, w, first});
  };
  const Tensors expected = gradients(heddle::device("reference:0"), true);
  const EagerScope eager;
  const Tensors found = gradients(device(), false);
  for (size_t i = 0; i < expected.size(); ++i) expect_near(found[i], expected[i], 2e-6, "gradient");
}

TEST_P(ControlFlow, LaunchesPerStep) {
  const int64_t width = 32, batch = 8;
  Tensor w = leaf({3, width}, 1.1), u = leaf({width, width}, 0.37);
  const auto step = [&](int64_t steps) {
    const Tensor x = Tensor::from_vector(wave(steps * batch * 3, 0.7), {steps, batch, 3}, &device());
    const Scanned all = scan(
        [&](const Tensors& c, const Tensors& s) {
          return Scanned{{tanh(matmul(s[0], w) + matmul(c[0], u))}, {}};
        },
        {zeros({batch, width}, DType::f32, &device())}, {x});
    const Tensors g = grad(mean(square(all.carry[0])), {{w, u}});
    w.assign(w - g[0] * 0.1);
    u.assign(u - g[1] * 0.1);
    const DeviceCounters before = device().counters();
    eval({w, u});
    const DeviceCounters after = device().counters();
    EXPECT_EQ(after.submissions, before.submissions + 1);
    EXPECT_EQ(after.region_breaks, before.region_breaks);
    return after.kernels - before.kernels;
  };
  const auto four = step(4);
  const uint64_t compiled = device().counters().kernels_compiled;
  const auto nine = step(9);
  EXPECT_EQ((nine - four) % 5, 0u);
  EXPECT_LE((nine - four) / 5, 6u) << "launches per step of time, forward and backward";
  EXPECT_LE(device().counters().kernels_compiled, compiled + 2) << "outside of the loop the length may matter";
  const uint64_t hits = device().counters().step_hits;
  EXPECT_EQ(step(9), nine);
  EXPECT_EQ(step(9), nine);
  EXPECT_GE(device().counters().step_hits, hits + 1);
  EXPECT_TRUE(std::isfinite(sum(w).item()));
}

// A factor from outside that few rows multiply by columns (core/run/loop_factors.h), beside one that is read both ways.
TEST_P(ControlFlow, FactorsReadByColumns) {
  const auto all_of = [](DeviceContext& d, int64_t width) {
    const Tensor u = leaf({width, width}, 0.37, d), v = leaf({width + 3, width}, 0.53, d),
                 first = leaf({3, width}, 0.9, d);
    Tensors results = scan(
                          [&](const Tensors& c, const Tensors&) {
                            const Tensor both = matmul(matmul(c[0], transpose(v)), v);
                            return Scanned{{tanh(matmul(c[0], transpose(u)) * 0.3 + both * 0.01)}, {}};
                          },
                          {first}, {}, {.length = 3})
                          .carry;
    results.push_back(grad(sum(square(results[0])), Tensors{u})[0]);
    return results;
  };
  const auto launches = [&](int64_t width) {
    const uint64_t before = device().counters().kernels;
    const Tensors found = all_of(device(), width), expected = all_of(heddle::device("reference:0"), width);
    eval(found);
    const uint64_t after = device().counters().kernels;
    for (size_t i = 0; i < found.size(); ++i) expect_near(found[i], expected[i], 1e-5, "result");
    return after - before;
  };
  const bool turns = device().caps().machine() == Machine::cpu_loops;
  EXPECT_EQ(launches(71), launches(61) + (turns ? 1 : 0));
}

// A stored factor that is read by columns is turned by the first of several runs, and again when it was written.
TEST_P(ControlFlow, StoredFactorsAreTurnedOnce) {
  if (device().caps().machine() != Machine::cpu_loops) GTEST_SKIP() << "turned where a group is a loop of one lane";
  Tensor u = leaf({67, 67}, 0.37, device());
  const Tensor first = leaf({3, 67}, 0.9, device());
  const auto run = [&](Tensor& factor, const Tensor& start) {
    return scan(
               [&](const Tensors& c, const Tensors&) {
                 return Scanned{{tanh(matmul(c[0], transpose(factor)))}, {}};
               },
               {start}, {}, {.length = 4})
        .carry[0];
  };
  const auto launches = [&](const char* what) {
    const uint64_t before = device().counters().kernels;
    const Tensor found = run(u, first);
    eval({found});
    const uint64_t after = device().counters().kernels;
    Tensor v = u.to(heddle::device("reference:0"));
    expect_near(found, run(v, first.to(heddle::device("reference:0"))), 1e-5, what);
    return after - before;
  };
  const uint64_t once = launches("first");
  EXPECT_EQ(launches("again"), once - 1);
  {
    const NoGradScope no_grad;
    u.assign(u * 0.5);
    eval({u});
  }
  EXPECT_EQ(launches("written"), once);
  EXPECT_EQ(launches("kept"), once - 1);
}

// Carries of every kind against numbers computed here: they change places, stay, are results as they are.
TEST_P(ControlFlow, OddCarries) {
  DeviceContext& d = device();
  const Tensor x = Tensor::from_vector(std::vector<int32_t>{1, 2, 3, 4, 5}, {5}, &d);
  const Scanned fibonacci = scan(
      [](const Tensors& c, const Tensors& s) {
        return Scanned{{c[1], c[0] + c[1], c[2], !c[3], c[4] + cast(s[0], DType::f16)},
                       {c[0], s[0], c[3], s[0] * 2.0, c[1] > 3.0}};
      },
      {zeros({}, DType::i32, &d), ones({}, DType::i32, &d), full({2}, 7, DType::i32, &d),
       full({3}, 0, DType::boolean, &d), full({3}, 0.5, DType::f16, &d)},
      {x});
  EXPECT_EQ(fibonacci.carry[0].item(), 5);
  EXPECT_EQ(fibonacci.carry[1].item(), 8);
  EXPECT_EQ(fibonacci.carry[2].to_doubles(), (std::vector<double>{7, 7}));
  EXPECT_EQ(fibonacci.carry[3].to_doubles(), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(fibonacci.carry[4].to_doubles(), (std::vector<double>{15.5, 15.5, 15.5}));
  EXPECT_EQ(fibonacci.ys[0].to_doubles(), (std::vector<double>{0, 1, 1, 2, 3}));
  EXPECT_EQ(fibonacci.ys[1].to_doubles(), (std::vector<double>{1, 2, 3, 4, 5}));
  EXPECT_EQ(fibonacci.ys[2].to_doubles(), (std::vector<double>{0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 0, 0, 0}));
  EXPECT_EQ(fibonacci.ys[3].to_doubles(), (std::vector<double>{2, 4, 6, 8, 10}));
  EXPECT_EQ(fibonacci.ys[4].to_doubles(), (std::vector<double>{0, 0, 0, 0, 1}));
}

// Slices of a batch-first tensor and of a part of a larger one; no xs at all; carries without elements.
TEST_P(ControlFlow, StridedSlicesAndNone) {
  DeviceContext& d = device();
  const Tensor x = Tensor::from_vector(wave(2 * 6 * 3, 0.7), {2, 6, 3}, &d);
  const Tensor time_first = permute(slice(x, 1, {1, 5, 1}), {1, 0, 2});
  const Scanned sums = scan(
      [](const Tensors& c, const Tensors& s) {
        return Scanned{{c[0] + s[0]}, {c[0]}};
      },
      {zeros({2, 3}, DType::f32, &d)}, {time_first}, {{}, true, false});
  expect_near(sums.carry[0], sum(slice(x, 1, {1, 5}), {1}), 1e-6, "sum");
  expect_near(sums.ys[0], permute(cumsum(slice(x, 1, {1, 5}), 1, true, true), {1, 0, 2}), 1e-6, "sums");
  const Scanned counted = scan(
      [](const Tensors& c, const Tensors&) {
        return Scanned{{c[0] + 1.0, c[1]}, {c[0] * 2.0}};
      },
      {zeros({}, DType::f32, &d), zeros({0, 3}, DType::f32, &d)}, {}, {3});
  EXPECT_EQ(counted.carry[0].item(), 3);
  EXPECT_EQ(counted.carry[1].shape(), (Shape{0, 3}));
  EXPECT_EQ(counted.ys[0].to_doubles(), (std::vector<double>{0, 2, 4}));
}

// Every iteration, of nested loops too, draws other numbers; the same ones under the same seed, in the gradient and on
// every device.
TEST_P(ControlFlow, RandomNumbers) {
  const auto draw = [](DeviceContext& d) {
    manual_seed(11);
    const Scanned nested = scan(
        [&](const Tensors&, const Tensors&) {
          const Scanned inner = scan(
              [&](const Tensors&, const Tensors&) {
                return Scanned{{}, {uniform({4}, 0, 1, &d)}};
              },
              {}, {}, {3, false, false, &d});
          return Scanned{{}, {inner.ys[0], uniform({4}, 0, 1, &d)}};
        },
        {}, {}, {2, false, false, &d});
    std::vector<double> all = nested.ys[0].to_doubles();
    for (double v : nested.ys[1].to_doubles()) all.push_back(v);
    for (double v : uniform({4}, 0, 1, &d).to_doubles()) all.push_back(v);
    return all;
  };
  const std::vector<double> first = draw(device());
  for (size_t i = 0; i < first.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(first[i], first[j]) << i << " and " << j;
  }
  EXPECT_EQ(first, draw(device()));
  EXPECT_EQ(first, draw(heddle::device("reference:0")));

  manual_seed(5);
  Tensor x = leaf({6, 8}, 0.3);
  const Scanned dropped = scan(
      [](const Tensors&, const Tensors& s) {
        return Scanned{{}, {dropout(s[0], 0.5)}};
      },
      {}, {x}, {{}, false, true});
  const std::vector<double> y = dropped.ys[0].to_doubles(), g = grad(sum(dropped.ys[0]), x).to_doubles(),
                            before = x.to_doubles();
  for (size_t i = 0; i < y.size(); ++i) EXPECT_NEAR(y[i], g[i] * before[i], 1e-6);
}

// The same losses as the plain loop when compile() replays the step; with the whole loop checkpointed; step by step.
TEST_P(ControlFlow, InsideCompileAndCheckpoint) {
  const Tensor x = Tensor::from_vector(wave(5 * 2 * 3, 0.7), {5, 2, 3}, &device());
  const auto losses = [&](int mode) {
    Tensor w = leaf({3, 4}, 1.1), u = leaf({4, 4}, 0.37);
    manual_seed(7);
    const auto loop = [&](const Tensor& xs) {
      return scan(
                 [&](const Tensors& c, const Tensors& s) {
                   return Scanned{{dropout(tanh(matmul(s[0], w) + matmul(c[0], u)), 0.2)}, {}};
                 },
                 {zeros({2, 4}, DType::f32, &device())}, {xs})
          .carry[0];
    };
    const auto step = [&](const Tensor& xs) {
      const Tensor loss = mean(square((mode == 2 ? checkpoint(loop, xs) : loop(xs)) - 0.5));
      const Tensors g = grad(loss, {{w, u}});
      w.assign(w - g[0] * 0.3);
      u.assign(u - g[1] * 0.3);
      return loss.detach();
    };
    auto compiled = compile(step);
    std::vector<double> values;
    for (int i = 0; i < 5; ++i) values.push_back((mode == 1 ? compiled(x) : step(x)).item());
    if (mode == 1) {
      EXPECT_GE(compiled.stats().replayed, 1u) << compiled.stats().refusal;
    }
    return values;
  };
  const std::vector<double> plain = losses(0);
  EXPECT_LT(plain[4], plain[0]);
  EXPECT_EQ(plain, losses(1));
  EXPECT_EQ(plain, losses(2));
}

TEST_P(ControlFlow, OneByOne) {
  const EagerScope eager;
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 2, 3}, {3}, &device());
  const Scanned all = scan(
      [](const Tensors& c, const Tensors& s) {
        return Scanned{{c[0] * 2.0 + s[0]}, {c[0]}};
      },
      {ones({}, DType::f32, &device())}, {x});
  EXPECT_EQ(all.carry[0].item(), 19);
  EXPECT_EQ(all.ys[0].to_doubles(), (std::vector<double>{1, 3, 8}));
}

// sqrt and log of a negative number and the division by zero stay in the branch that is not taken, in the second
// gradient too; also of what it captures.
TEST_P(ControlFlow, TheOtherBranchDoesNotLeak) {
  Tensor x = Tensor::from_vector(std::vector<float>{-1, 0, 4}, {3}, &device());
  Tensor w = Tensor::from_vector(std::vector<float>{0}, {1}, &device());
  x.set_requires_grad();
  w.set_requires_grad();
  const Tensor positive = min(x) > 0.0;
  const auto roots = [&](const Tensors& v) { return Tensors{sqrt(v[0]) * log(w) + v[0] / w}; };
  const auto squares = [&](const Tensors& v) { return Tensors{square(v[0]) * (w + 2.0)}; };
  for (const bool swapped : {false, true}) {
    const Tensor y = swapped ? cond(!positive, squares, roots, {x})[0] : cond(positive, roots, squares, {x})[0];
    const Tensors g = grad(sum(y), {{x, w}}, {}, true);
    const Tensors second = grad(sum(g[0] * g[0]), {{x, w}});
    EXPECT_EQ(y.to_doubles(), (std::vector<double>{2, 0, 32}));
    EXPECT_EQ(g[0].to_doubles(), (std::vector<double>{-4, 0, 16}));
    EXPECT_EQ(g[1].item(), 17);
    EXPECT_EQ(second[0].to_doubles(), (std::vector<double>{-32, 0, 128}));
    EXPECT_EQ(second[1].item(), 272);
  }
}

// Newton's square root of 2 and the Collatz length of 27, bounded and not; iterations after the end must not spoil the
// gradient.
TEST_P(ControlFlow, While) {
  const auto collatz = [&](const WhileOptions& options) {
    return while_loop(
        [](const Tensors& c) { return c[0] != 1.0; },
        [](const Tensors& c) {
          const Tensor odd = mod(c[0], 2.0) == 1.0;
          return Tensors{where(odd, c[0] * 3.0 + 1.0, floor(cast(c[0], DType::f32) * 0.5).to(DType::i32))};
        },
        {full({}, 27, DType::i32, &device()) + 0.0}, options);
  };
  const WhileResult bounded = collatz({120, 16});
  EXPECT_EQ(bounded.iterations.item(), 111);
  EXPECT_EQ(bounded.carry[0].item(), 1);
  EXPECT_EQ(collatz({20, 16}).iterations.item(), 20);
  EXPECT_EQ(collatz({0, 16}).iterations.item(), 0);
  const uint64_t breaks = device().counters().region_breaks;
  const WhileResult open = collatz({{}, 40});
  EXPECT_EQ(device().counters().region_breaks, breaks + 4);  // 0, 40, 80 and 120
  EXPECT_EQ(open.iterations.item(), 111);

  // y = y - sqrt(y) while y > 1: the last y lies below 1, where sqrt of y - 1, not taken, is NaN.
  Tensor y = Tensor::from_vector(std::vector<float>{9}, {1}, &device());
  y.set_requires_grad();
  const WhileResult fell =
      while_loop([](const Tensors& c) { return max(c[0]) > 1.0; },
                 [](const Tensors& c) { return Tensors{c[0] - sqrt(c[0] - 1.0) - 0.1}; }, {y}, {10, 16});
  double value = 9, slope = 1;
  int count = 0;
  while (value > 1) {
    slope *= 1 - 0.5 / std::sqrt(value - 1);
    value -= std::sqrt(value - 1) + 0.1;
    ++count;
  }
  EXPECT_NEAR(fell.carry[0].item(), value, 1e-4);
  EXPECT_EQ(fell.iterations.item(), count);
  EXPECT_NEAR(grad(fell.carry[0], y).item(), slope, 2e-3 * std::abs(slope));
}

HEDDLE_DEVICE_TESTS(ControlFlow);

}  // namespace
}  // namespace heddle
