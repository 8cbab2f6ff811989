// compile(): replays do what the function would do, and what changed is never missed.
#include "heddle/core/compile/compile.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <thread>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/nn.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

class CompileTest : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }
  Tensor leaf(const Shape& shape, float start = 0, float step = 0.125f) {
    std::vector<float> data(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < data.size(); ++i) data[i] = start + step * static_cast<float>(i % 17);
    return Tensor::from_vector(data, shape, &dev());
  }
  // Replays of `f` so far; on a device without kernels f runs at every call.
  template <class C>
  void expect_replays(const C& f, uint64_t replays, uint64_t recorded) {
    EXPECT_EQ(f.stats().replayed + f.stats().recorded, replays + recorded) << f.stats().refusal;
    if (dev().caps().target == Target::none) return;
    EXPECT_EQ(f.stats().replayed, replays) << f.stats().refusal;
    EXPECT_EQ(f.stats().recorded, recorded) << f.stats().refusal;
  }
};

TEST_P(CompileTest, ReplaysFromTheThirdCallAndRecordsNothing) {
  const auto f = compile([](const Tensor& x, const Tensor& y) { return tanh(x) * y + 1.0; });
  for (int i = 0; i < 6; ++i) {
    const auto before = dev().counters();
    const Tensor x = leaf({5, 7}, static_cast<float>(i)), y = leaf({7}, 2);
    const Tensor z = f(x, y);
    const std::vector<double> got = z.to_doubles(), a = x.to_doubles(), b = y.to_doubles();
    for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], std::tanh(a[k]) * b[k % 7] + 1, 1e-5) << i;
    if (i >= 2 && dev().caps().target != Target::none) {
      EXPECT_EQ(dev().counters().step_hits, before.step_hits);
      EXPECT_EQ(dev().counters().compiled_replays, before.compiled_replays + 1);
    }
  }
  expect_replays(f, 4, 2);
}

TEST_P(CompileTest, ResultsArePlainTensors) {
  const auto f = compile([](const Tensor& x) { return std::pair(x * 2.0, std::vector<Tensor>{x + 1.0, x}); });
  Tensor kept;
  for (int i = 0; i < 5; ++i) {
    const Tensor x = leaf({4}, static_cast<float>(i), 1);
    const auto [twice, more] = f(x);
    if (i == 3) kept = twice;
    EXPECT_EQ((twice - more[0]).to_doubles(), (std::vector<double>{i - 1.0, i + 0.0, i + 1.0, i + 2.0}));
    EXPECT_EQ(more[1].to_doubles(), x.to_doubles());
    Tensor w = twice;
    w.set_requires_grad();
    EXPECT_EQ(grad(sum(w * w), w).to_doubles()[1], 4.0 * (i + 1));
  }
  EXPECT_EQ(kept.to_doubles(), (std::vector<double>{6, 8, 10, 12}));
}

TEST_P(CompileTest, ShapesDtypesAndLayoutsAreRecordedApart) {
  const auto f = compile([](const Tensor& x) { return sum(x * 2.0, {1}); });
  const Tensor wide = leaf({3, 8});
  const Tensor turned = transpose(leaf({8, 3}));
  eval({turned});
  for (int i = 0; i < 4; ++i) {
    for (const Tensor& x : {leaf({3, 8}), leaf({6, 2}), leaf({3, 8}).to(DType::i32), turned, wide}) {
      const Tensor y = f(x);
      EXPECT_EQ(y.shape(), Shape({x.dim(0)}));
      EXPECT_EQ(y.dtype(), x.dtype() == DType::i32 ? DType::i64 : DType::f32);
      EXPECT_EQ(y.to_doubles(), sum(x * 2.0, {1}).to_doubles()) << i << " " << x.shape().str();
    }
  }
  if (dev().caps().target != Target::none) {
    EXPECT_GE(f.stats().replayed, 11u);
  }
}

TEST_P(CompileTest, ClosedOverTensorsAreReadAgain) {
  Tensor w = leaf({6}, 1, 1), keep = w;
  const auto f = compile([&](const Tensor& x) { return x * w; });
  const Tensor x = full({6}, 2, DType::f32, &dev());
  for (int i = 0; i < 3; ++i) f(x);
  w.assign(w + 1.0);
  EXPECT_EQ(f(x).to_doubles()[0], 4);
  w = leaf({6}, 5, 1);  // another tensor of the same kind: no need to record
  EXPECT_EQ(f(x).to_doubles()[0], 10);
  EXPECT_EQ(keep.to_doubles()[0], 2);
  std::swap(w, keep);
  EXPECT_EQ(f(x).to_doubles()[0], 4);
  expect_replays(f, 4, 2);
  w = leaf({1}, 7, 1);  // another shape
  EXPECT_EQ(f(x).to_doubles()[5], 14);
  w = x;  // now the argument itself
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x).to_doubles()[5], 4);
  w = leaf({6}, 3, 0);
  EXPECT_EQ(f(x).to_doubles()[5], 6);
}

TEST_P(CompileTest, AClosedOverTensorOfAnotherDTypeIsNoticed) {
  Tensor w = leaf({6}, 1, 1);
  const auto f = compile([&](const Tensor& x) { return x * w; });
  const Tensor x = full({6}, 2, DType::f32, &dev());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x).to_doubles()[5], 12);
  w = leaf({6}, 1, 1).to(DType::i32);
  eval({w});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x).to_doubles()[5], 12) << i;
}

// Replays would not make the gradient again.
TEST_P(CompileTest, ATensorThatOutlivesTheCallWithAGradientIsRecordedEachTime) {
  Tensor kept;
  const auto f = compile([&](const Tensor& x) {
    kept = x * 2.0;
    kept.set_grad(x);
    return x + 1.0;
  });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = leaf({6}, static_cast<float>(i), 1);
    f(x);
    EXPECT_EQ(kept.grad().to_doubles(), x.to_doubles()) << i;
  }
  EXPECT_EQ(f.stats().replayed, 0u);
}

TEST_P(CompileTest, AHandleThatIsGoneIsNoticed) {
  auto list = std::make_unique<std::vector<Tensor>>();
  list->push_back(leaf({4}, 1, 0));
  const auto f = compile([&](const Tensor& x) {
    Tensor all = x;
    for (const Tensor& t : *list) all = all + t;
    return all;
  });
  const Tensor x = full({4}, 1, DType::f32, &dev());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x).to_doubles()[0], 2);
  for (int i = 0; i < 3; ++i) list->push_back(leaf({4}, 10, 0));  // moves the first one
  EXPECT_EQ(f(x).to_doubles()[0], 32);
  list = std::make_unique<std::vector<Tensor>>(1, leaf({4}, 5, 0));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x).to_doubles()[0], 6);
}

TEST_P(CompileTest, StateThatItWritesFollows) {
  Tensor h = zeros({3}, DType::f32, &dev()), count = zeros({}, DType::f32, &dev());
  eval({h, count});
  const auto f = compile([&](const Tensor& x) {
    h = h * 0.5 + x;            // a handle that is rebound
    count.assign(count + 1.0);  // a value that is assigned
  });
  double expected = 0;
  for (int i = 0; i < 6; ++i) {
    f(full({3}, i, DType::f32, &dev()));
    expected = expected * 0.5 + i;
    if (i % 2 == 1) {
      EXPECT_EQ(h.to_doubles()[1], expected) << i;
    }
    EXPECT_EQ(count.item(), i + 1);
  }
  // What the first call reads was made by zeros(), what the second reads by the first: both are stored values, so the
  // second call confirms the first.
  expect_replays(f, 4, 2);
  const Tensor old = h;
  f(full({3}, 1, DType::f32, &dev()));
  EXPECT_EQ(old.to_doubles()[0], expected);
  EXPECT_EQ(h.to_doubles()[0], expected * 0.5 + 1);
}

TEST_P(CompileTest, AnOldValueReadLaterIsRefusedAsInALoop) {
  Tensor w = leaf({8}, 1, 0);
  const auto f = compile([&] { w.assign(w * 2.0); });
  for (int i = 0; i < 3; ++i) f();
  const Tensor alias = w.detach();  // shares the memory: updates may no longer be in place
  f();
  EXPECT_EQ(alias.to_doubles()[0], 8);
  EXPECT_EQ(w.to_doubles()[0], 16);
}

// One training step, in a loop and compiled: the same losses to the last bit.
template <class MakeOptimizer, class Between>
std::vector<double> train(DeviceContext& dev, bool compiled, int steps, const MakeOptimizer& make,
                          const Between& between, CompileStats* stats = nullptr) {
  Generator seeds{7, 0}, masks{11, 0};
  nn::Linear first(6, 16, {.device = dev, .generator = &seeds}), second(16, 4, {.device = dev, .generator = &seeds});
  std::vector<Tensor> parameters = first.parameters();
  for (const Tensor& p : second.parameters()) parameters.push_back(p);
  const auto optimizer = make(parameters);
  nn::Dropout drop(0.25, {.generator = &masks});
  const auto step = [&](const Tensor& x, const Tensor& y) {
    optimizer->zero_grad();
    const Tensor loss = cross_entropy(second(drop(relu(first(x)))), y);
    backward(loss);
    optimizer->step();
    return loss;
  };
  const auto fast = compile(step);
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    std::vector<float> data(5 * 6);
    for (size_t k = 0; k < data.size(); ++k) data[k] = std::sin(static_cast<float>(k) + 0.7f * static_cast<float>(i));
    const Tensor x = Tensor::from_vector(data, Shape{5, 6}, &dev);
    const Tensor y = Tensor::from_vector(std::vector<int32_t>{0, 1, 2, 3, i % 4}, Shape{5}, &dev);
    const Tensor loss = compiled ? fast(x, y) : step(x, y);
    losses.push_back(loss.item());
    between(i, *optimizer, drop);
  }
  if (stats != nullptr) *stats = fast.stats();
  return losses;
}

const auto nothing_between = [](int, nn::Optimizer&, nn::Dropout&) {};

TEST_P(CompileTest, OptimizersAndDropoutGoOnAsInALoop) {
  const auto adam = [](std::vector<Tensor> p) {
    return std::make_unique<nn::AdamW>(std::move(p), nn::AdamOptions{.lr = 0.01, .weight_decay = 0.1});
  };
  const auto sgd = [](std::vector<Tensor> p) {
    auto optimizer = std::make_unique<nn::SGD>(std::move(p), nn::SgdOptions{.lr = 0.05, .momentum = 0.9});
    optimizer->set_clip_norm(0.5);
    return optimizer;
  };
  CompileStats stats;
  EXPECT_EQ(train(dev(), true, 9, adam, nothing_between, &stats), train(dev(), false, 9, adam, nothing_between));
  if (dev().caps().target != Target::none) {
    EXPECT_EQ(stats.replayed, 6u) << stats.refusal;
  }
  EXPECT_EQ(train(dev(), true, 7, sgd, nothing_between, &stats), train(dev(), false, 7, sgd, nothing_between));
  if (dev().caps().target != Target::none) {
    EXPECT_GE(stats.replayed, 4u) << stats.refusal;
  }
}

TEST_P(CompileTest, LearningRatesAndFlagsThatChangeAreSeen) {
  const auto adam = [](std::vector<Tensor> p) { return std::make_unique<nn::Adam>(std::move(p), 0.02); };
  const auto scheduled = [&](std::vector<Tensor> p) {
    auto optimizer = adam(std::move(p));
    optimizer->set_schedule([](int64_t n) { return 0.1 / static_cast<double>(n); });
    return optimizer;
  };
  const auto outside = [](int i, nn::Optimizer& o, nn::Dropout& drop) {
    o.set_lr(0.05 / (i + 1));
    if (i == 4) drop.eval();
    if (i == 6) drop.train();
  };
  CompileStats stats;
  EXPECT_EQ(train(dev(), true, 10, adam, outside, &stats), train(dev(), false, 10, adam, outside));
  if (dev().caps().target != Target::none) {
    EXPECT_GE(stats.replayed, 3u) << stats.refusal;
  }
  EXPECT_EQ(stats.stale, 0u);
  EXPECT_EQ(train(dev(), true, 7, scheduled, nothing_between, &stats),
            train(dev(), false, 7, scheduled, nothing_between));
  if (dev().caps().target != Target::none) {
    EXPECT_EQ(stats.replayed, 4u) << stats.refusal;
  }
}

TEST_P(CompileTest, ALearningRateSetInsideRunsTheFunction) {
  Tensor w = leaf({4}, 1, 0);
  w.set_requires_grad();
  nn::SGD optimizer({w}, 0.1);
  int n = 0;
  const auto f = compile([&] {
    optimizer.set_lr(1.0 / (1 << ++n));
    optimizer.zero_grad();
    backward(sum(w));
    optimizer.step();
  });
  double expected = 1;
  for (int i = 1; i <= 6; ++i) {
    f();
    expected -= 1.0 / (1 << i);
    EXPECT_EQ(w.to_doubles()[2], expected);
  }
  EXPECT_EQ(f.stats().replayed, 0u);
  EXPECT_NE(f.stats().refusal.find("set_schedule"), std::string::npos) << f.stats().refusal;
}

// A model may make modules in its forward, as Flatten()(x): the first two calls make one, later ones find it.
struct MakesParts : nn::Module {
  explicit MakesParts(DeviceContext& device)
      : Module("MakesParts"), fc(add("fc", nn::Linear(3, 3, {.device = device}))) {}
  Tensor forward(const Tensor& x) override {
    if (made.size() < 2) made.emplace_back();
    return made.back()(fc(x));
  }
  nn::Linear fc;
  std::vector<nn::Tanh> made;
};

TEST_P(CompileTest, LookingForForgottenPartsIsNoPartOfTheStep) {
  MakesParts net(dev());
  nn::SGD optimizer(net.parameters(), 0.1);
  const auto f = compile([&](const Tensor& x) {
    backward(sum(net(x)));
    optimizer.step();
    optimizer.zero_grad();
  });
  const Tensor x = ones({2, 3}, DType::f32, &dev());
  for (int i = 0; i < 24; ++i) f(x);
  EXPECT_EQ(f.stats().stale, 0u);
  if (dev().caps().target != Target::none) {
    EXPECT_GE(f.stats().replayed, 16u) << f.stats().refusal;
  }
}

TEST_P(CompileTest, NumbersOfTheHost) {
  Watched<double> watched = 2;
  double plain = 3;
  const auto f = compile([&](const Tensor& x, double given) { return x * watched.value() * plain + given; });
  const Tensor x = full({3}, 1, DType::f32, &dev());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x, 1.0).to_doubles()[0], 7) << i;
  watched = 4;
  EXPECT_EQ(f(x, 1.0).to_doubles()[0], 13);
  EXPECT_EQ(f(x, 5.0).to_doubles()[0], 17);
  EXPECT_EQ(f.stats().stale, 0u);
  // A plain number is met when the function runs for comparison.
  for (int i = 0; i < 4; ++i) EXPECT_EQ(f(x, 1.0).to_doubles()[0], 13);
  plain = 1;
  for (int i = 0; i < 10; ++i) f(x, 1.0);
  EXPECT_EQ(f(x, 1.0).to_doubles()[0], 5);
  if (dev().caps().target != Target::none) {
    EXPECT_EQ(f.stats().stale, 1u);
  }
  const auto always = compile([&](const Tensor& t) { return t * plain; }, {.check_every = 1});
  for (int i = 0; i < 5; ++i) {
    plain = i;
    EXPECT_EQ(always(x).to_doubles()[0], i);
  }
}

TEST_P(CompileTest, Refusals) {
  std::vector<Tensor> kept;
  double factor = 0;
  const Tensor x = full({3}, 1, DType::f32, &dev());
  const auto keeps = compile([&](const Tensor& t) {
    kept.push_back(t * 2.0);
    return kept.back() + 1.0;
  });
  const auto counts = compile([&](const Tensor& t) { return t * ++factor; });
  const auto looks = compile([](const Tensor& t) { return sum(t).item() > 2 ? t * 2.0 : t; });
  const auto uploads = compile([&](const Tensor& t) {
    return t + Tensor::from_vector(std::vector<float>(3, static_cast<float>(factor)), Shape{3}, &dev());
  });
  const auto mutates = compile([n = 0](const Tensor& t) mutable { return t * static_cast<double>(++n / 3); });
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(keeps(x).to_doubles()[0], 3);
    EXPECT_EQ(counts(x).to_doubles()[0], i + 1);
    EXPECT_EQ(looks(x).to_doubles()[0], 2);
    EXPECT_EQ(uploads(x).to_doubles()[0], i + 2);
    EXPECT_EQ(mutates(x).to_doubles()[0], (i + 1) / 3);
  }
  EXPECT_EQ(kept.size(), 5u);
  for (const auto& stats : {keeps.stats(), counts.stats(), looks.stats(), uploads.stats(), mutates.stats()})
    EXPECT_EQ(stats.replayed, 0u);
  EXPECT_NE(looks.stats().refusal.find("compile_test.cpp:"), std::string::npos) << looks.stats().refusal;
  const auto empty = compile([](const Tensor&) {});
  EXPECT_THROW(empty(x), ValueError);
}

TEST_P(CompileTest, ThrowingLeavesTheLibraryUsable) {
  bool fail = false;
  Tensor w = leaf({3}, 1, 0);
  const auto f = compile([&](const Tensor& x) {
    const Tensor y = x * w;
    if (fail) throw std::runtime_error("mine");
    return matmul(y, x);
  });
  const Tensor x = full({3}, 2, DType::f32, &dev());
  EXPECT_EQ(f(x).item(), 12);
  fail = true;
  EXPECT_THROW(f(x), std::runtime_error);
  fail = false;
  EXPECT_THROW(f(full({4}, 2, DType::f32, &dev())), ShapeError);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(f(x).item(), 12);
}

TEST_P(CompileTest, NestedAndWithGradInside) {
  const auto inner = compile([](const Tensor& x) { return x * x * x; });
  const auto f = compile([&](const Tensor& x) {
    Tensor v = x.detach();
    v.set_requires_grad();
    const Tensor first = grad(sum(inner(v)), v, {}, true);
    return std::pair(first, grad(sum(first), v));
  });
  for (int i = 1; i < 5; ++i) {
    const auto [first, second] = f(full({4}, i, DType::f32, &dev()));
    EXPECT_EQ(first.to_doubles()[3], 3 * i * i);
    EXPECT_EQ(second.to_doubles()[3], 6 * i);
    EXPECT_FALSE(first.requires_grad());
  }
  expect_replays(f, 2, 2);
  // With an argument that tracks, it is the plain function, with its history.
  Tensor v = full({2}, 3, DType::f32, &dev());
  v.set_requires_grad();
  for (int i = 0; i < 4; ++i) EXPECT_EQ(grad(sum(inner(v)), v).to_doubles()[0], 27);
}

TEST_P(CompileTest, FourThreads) {
  const Tensor w = leaf({16, 16}, -1);
  const auto f = compile([&](const Tensor& x) { return matmul(tanh(x), w); });
  const Tensor x = leaf({4, 16});
  const std::vector<double> expected = matmul(tanh(x), w).to_doubles();
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        if (f(x).to_doubles() != expected) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(f.stats().recorded + f.stats().replayed, 80u);
}

INSTANTIATE_TEST_SUITE_P(Devices, CompileTest, ::testing::ValuesIn(test::value_devices()), tests::backend_test_name);

}  // namespace
}  // namespace heddle
