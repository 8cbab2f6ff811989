// Training under a memory budget, and with values in host memory, gives the losses of plain training, bit for bit, on
// every device; and takes less memory.
#include "heddle/core/memory/memory_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "heddle/core/compile/dump.h"
#include "heddle/core/run/graph_cache.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"

namespace heddle {
namespace {

enum class Model { gpt, cnn };
struct Trained {
  std::vector<double> losses;
  MemoryReport report;    // of the last step
  uint64_t measured = 0;  // the most that was held during it
};

// `budget`: of each step from the second on, as a share of the arena above what must be held; 1 and more: none.
Trained train(DeviceContext& d, Model which, double share, bool offload, int steps) {
  manual_seed(3);
  std::unique_ptr<nn::Module> model;
  Tensor x, y;
  const auto numbers = [](size_t count, int modulus) {
    std::vector<int32_t> values(count);
    for (size_t i = 0; i < count; ++i) values[i] = static_cast<int32_t>(i * 7 % static_cast<size_t>(modulus));
    return values;
  };
  if (which == Model::gpt) {
    model = std::make_unique<nn::Gpt>(
        nn::GptOptions{
            .vocabulary = 31, .context = 24, .layers = 3, .heads = 2, .width = 24, .dropout = 0.2, .offload = offload},
        nn::ParameterOptions{.device = d});
    x = Tensor::from_vector(numbers(8 * 24, 31), {8, 24}, &d);
    y = Tensor::from_vector(numbers(8 * 24, 29), {8 * 24}, &d);
  } else {
    model = std::make_unique<nn::Cnn>(nn::CnnOptions{}, nn::ParameterOptions{.device = d});
    x = cast(Tensor::from_vector(numbers(4 * 28 * 28, 17), {4, 1, 28, 28}, &d), DType::f32) * 0.1f;
    eval({x});
    y = Tensor::from_vector(numbers(4, 10), {4}, &d);
  }
  nn::AdamW optimizer(model->parameters(), 1e-2);
  Trained run;
  for (int i = 0; i < steps; ++i) {
    Tensor loss = (*model)(x);
    loss = cross_entropy(which == Model::gpt ? reshape(loss, {-1, 31}) : loss, y);
    backward(loss);
    optimizer.update();
    optimizer.zero_grad();
    std::optional<MemoryBudget> budget;
    run.report = plan_pending();
    if (share < 1) {
      budget.emplace(run.report.peak() - static_cast<uint64_t>((1 - share) * static_cast<double>(run.report.arena)));
      run.report = plan_pending();
    }
    if (i + 1 == steps) graph_cache(d).clear();  // arenas of other steps
    d.reset_peak_memory();
    eval_pending();
    run.measured = d.memory().peak_bytes;
    run.losses.push_back(loss.item());
  }
  return run;
}

void expect_same(const Trained& a, const Trained& b) {
  ASSERT_EQ(a.losses.size(), b.losses.size());
  EXPECT_EQ(0, std::memcmp(a.losses.data(), b.losses.data(), a.losses.size() * sizeof(double)))
      << a.losses.back() << " and " << b.losses.back();
}

using BudgetTraining = tests::DeviceTest;

TEST_P(BudgetTraining, LossesAreBitIdenticalAndMemoryFalls) {
  for (const Model model : {Model::gpt, Model::cnn}) {
    const Trained plain = train(device(), model, 1, false, 3), fitted = train(device(), model, 0.75, false, 3);
    expect_same(plain, fitted);
    EXPECT_LE(static_cast<double>(fitted.report.arena), 0.75 * static_cast<double>(plain.report.arena) + 1);
    EXPECT_GT(fitted.report.kernels, plain.report.kernels);
    // What was saved in the plan was saved on the device.
    EXPECT_NEAR(static_cast<double>(plain.measured) - static_cast<double>(fitted.measured),
                static_cast<double>(plain.report.arena - fitted.report.arena),
                0.1 * static_cast<double>(plain.report.arena));
  }
}

TEST_P(BudgetTraining, OffloadedValuesComeBack) {
  const Trained plain = train(device(), Model::gpt, 1, false, 3), away = train(device(), Model::gpt, 1, true, 3);
  expect_same(plain, away);
  EXPECT_GT(away.report.offloaded, 0u);
  EXPECT_LT(static_cast<double>(away.report.arena), 0.8 * static_cast<double>(plain.report.arena));
  EXPECT_LT(away.measured, plain.measured);
  // Both together.
  const Trained both = train(device(), Model::gpt, 0.985, true, 3);
  EXPECT_TRUE(std::equal(both.losses.begin(), both.losses.end(), plain.losses.begin()));
  EXPECT_LE(static_cast<double>(both.report.arena), 0.985 * static_cast<double>(away.report.arena) + 1);
}

// Blocks that are computed again, whose inputs (results of the blocks before) wait in the host's memory.
TEST_P(BudgetTraining, InputsOfCheckpointsWaitOnTheHost) {
  constexpr int64_t rows = 64, width = 48, blocks = 5;
  const auto run = [&](bool moves) {
    manual_seed(4);
    std::vector<nn::Linear> layers;
    std::vector<Tensor> weights;
    for (int64_t i = 0; i < blocks; ++i) {
      layers.push_back(nn::Linear(width, width, {.device = device()}));
      for (const Tensor& p : layers.back().parameters()) weights.push_back(p);
    }
    eval(weights);
    Tensor x = Tensor::from_vector(std::vector<float>(rows * width, 0.5f), {rows, width}, &device());
    for (nn::Linear& layer : layers) {
      const auto block = [&](const Tensor& in) { return in + tanh(layer(tanh(layer(gelu(layer(in)))))); };
      if (moves) x = offload(x);
      x = checkpoint(block, x);
    }
    std::vector<Tensor> all = grad(mean(square(x)), weights);
    const MemoryReport report = plan_pending();
    return std::pair(report, all);
  };
  const auto [kept, expected] = run(false);
  const auto [moved, found] = run(true);
  EXPECT_EQ(kept.offloaded, 0u);
  EXPECT_GE(moved.offloaded, static_cast<uint64_t>((blocks - 2) * rows * width * 4));  // the last waits for too little
  EXPECT_LT(moved.arena, kept.arena);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i].to_bytes(), expected[i].to_bytes()) << i;
}

TEST_P(BudgetTraining, CompiledFunctionsHaveABudgetOfTheirOwn) {
  DeviceContext& d = device();
  const auto losses = [&](uint64_t budget, size_t* kernels) {
    manual_seed(5);
    nn::Sequential model{nn::Linear(16, 64, {.device = d}), nn::ReLU(), nn::Linear(64, 64, {.device = d}), nn::ReLU(),
                         nn::Linear(64, 4, {.device = d})};
    nn::SGD optimizer(model.parameters(), 0.1);
    const Tensor x = Tensor::from_vector(std::vector<float>(256 * 16, 0.25f), {256, 16}, &d),
                 y = Tensor::from_vector(std::vector<int32_t>(256, 2), {256}, &d);
    auto step = compile(
        [&] {
          const Tensor loss = cross_entropy(model(x), y);
          backward(loss);
          optimizer.update();
          optimizer.zero_grad();
          return loss;
        },
        {.memory_budget = budget});
    std::vector<double> values;
    for (int i = 0; i < 6; ++i) {
      const uint64_t before = d.counters().kernels;
      values.push_back(step().item());
      *kernels = d.counters().kernels - before;
    }
    EXPECT_GT(step.stats().replayed, 2u);
    return values;
  };
  size_t free_kernels = 0, kernels = 0;
  const std::vector<double> plain = losses(0, &free_kernels);
  EXPECT_THROW(losses(1000, &kernels), BudgetError);
  uint64_t needed = 0;
  try {
    losses(1000, &kernels);
  } catch (const BudgetError& error) {
    needed = error.needed();
  }
  EXPECT_EQ(losses(needed, &kernels), plain);
  EXPECT_GE(kernels, free_kernels);
}

HEDDLE_DEVICE_TESTS(BudgetTraining);

TEST(MemoryBudget, TheReferenceDeviceHasNone) {
  const MemoryBudget budget(1);
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 2, 3}, {3}, &device("reference:0"));
  EXPECT_EQ((x + x).to_vector<float>(), (std::vector<float>{2, 4, 6}));
}

}  // namespace
}  // namespace heddle
