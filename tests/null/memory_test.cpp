// What steps keep in memory: order of kernels, arena against its bounds, checkpoints. Needs no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "heddle/core/lower/lower.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/schedule/kernel_order.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"
#include "tests/support/planned.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;
using test::null_plan;

Tensor labels(int64_t count) {
  return Tensor::from_vector(std::vector<int32_t>(static_cast<size_t>(count), 1), {count}, &null_device());
}

// Of every value that is not a view of another.
uint64_t all_bytes(const Graph& graph) {
  uint64_t sum = 0;
  for (const IrNode& node : graph.nodes) {
    if (node.leaf < 0 && node.op->kind != OpKind::movement && node.op->kind != OpKind::constant)
      sum += static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype);
  }
  return sum;
}

// The second step: the first has made the optimizer's state.
template <class Loss>
Plan plan_training(nn::Module& model, const Loss& loss) {
  nn::AdamW optimizer(model.parameters(), 1e-3);
  Plan planned;
  for (int step = 0; step < 2; ++step) {
    const Tensor value = loss();
    backward(value);
    optimizer.update();
    optimizer.zero_grad();
    if (step == 1) planned = null_plan();
    eval_pending();
  }
  return planned;
}

nn::GptOptions small_gpt(bool checkpoint) {
  return {.vocabulary = 256,
          .context = 64,
          .layers = 12,
          .heads = 4,
          .width = 64,
          .dropout = 0.1,
          .checkpoint = checkpoint};
}

Plan plan_gpt(bool checkpoint) {
  manual_seed(1);
  nn::Gpt model(small_gpt(checkpoint), {.device = null_device()});
  const Tensor tokens = reshape(labels(4 * 64), {4, 64}), next = labels(4 * 64);
  return plan_training(model, [&] { return cross_entropy(reshape(model(tokens), {-1, 256}), next); });
}

size_t forward_groups() {
  const NoGradScope no_grad;
  nn::Gpt model(small_gpt(false), {.device = null_device()});
  const Tensor logits = model(reshape(labels(4 * 64), {4, 64}));
  return null_plan().scheduled.groups.size();
}

void expect_small_arena(const Plan& p, const char* what) {
  EXPECT_LE(static_cast<double>(p.memory.arena.total()), 1.15 * static_cast<double>(p.memory.lower_bound)) << what;
  EXPECT_LE(static_cast<double>(p.memory.arena.total()), 0.6 * static_cast<double>(all_bytes(p.scheduled.graph)))
      << what;
}

TEST(StepMemory, ArenaIsNearItsLowerBound) {
  nn::Sequential mlp{nn::Linear(784, 128, {.device = null_device()}), nn::ReLU(),
                     nn::Linear(128, 64, {.device = null_device()}), nn::ReLU(),
                     nn::Linear(64, 10, {.device = null_device()})};
  const Tensor x = leaf({32, 784}), y = labels(32), images = leaf({32, 1, 28, 28});
  expect_small_arena(plan_training(mlp, [&] { return cross_entropy(mlp(x), y); }), "mlp");
  nn::Cnn cnn(nn::CnnOptions{}, {.device = null_device()});
  expect_small_arena(plan_training(cnn, [&] { return cross_entropy(cnn(images), y); }), "cnn");
  expect_small_arena(plan_gpt(false), "gpt");
}

TEST(StepMemory, CheckpointedBlocksHalveTheArena) {
  const Plan kept = plan_gpt(false), again = plan_gpt(true);
  EXPECT_LE(again.memory.arena.total() * 2, kept.memory.arena.total());
  // The forward pass of the blocks once more, and not more than that. Groups are counted: how many kernels join into
  // one launch depends on the memory that is left.
  const size_t more = again.scheduled.groups.size() - kept.scheduled.groups.size();
  EXPECT_GT(more, 12u);
  EXPECT_LE(more, forward_groups());
}

TEST(Checkpoint, ResultsAreKeptAndInsidesComputedAgain) {
  Tensor x = leaf({8, 16}), w = leaf({16, 16});
  w.set_requires_grad();
  const auto block = [&](const Tensor& in) { return matmul(exp(matmul(in, w)), w); };
  const auto matmuls = [](const Graph& graph) {
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const IrNode& n) { return n.op == &ops::matmul_op; });
  };
  const auto record = [&](bool checkpointed) {
    const Tensor y = checkpointed ? checkpoint(block, x) : block(x);
    const Tensor g = grad(sum(exp(y)), w);
    return matmuls(test::prepared_pending(null_device().caps()));
  };
  const auto plain = record(false), again = record(true);
  EXPECT_EQ(again, plain + 1);  // x w for exp and its gradient; y's own product is not computed again, as y is kept
}

TEST(Checkpoint, SeveralResultsAndNestedCheckpoints) {
  Tensor x = leaf({4, 4});
  x.set_requires_grad();
  const auto inner = [](const Tensor& in) { return exp(in); };
  const auto outer = [&](const Tensor& in) { return std::pair(checkpoint(inner, in), sin(in)); };
  const auto [a, b] = checkpoint(outer, x);
  EXPECT_EQ(a.node()->keep, Keep::result);
  EXPECT_EQ(b.node()->keep, Keep::result);
  EXPECT_FALSE(RecomputeScope::active());
  const auto fails = [](const Tensor&) -> Tensor { throw ValueError("inside"); };
  EXPECT_THROW(checkpoint(fails, x), ValueError);
  EXPECT_FALSE(RecomputeScope::active());
  // A result that was there before is not touched.
  const Tensor before = cos(x);
  const Tensor same = checkpoint([](const Tensor& in) { return in; }, before);
  EXPECT_EQ(same.node()->keep, Keep::plain);
}

// ---- order

// y_i = f(x_i) are made one after the other, each is summed to one number: sums first, as soon as their input is there.
TEST(KernelOrder, WhatFreesMemoryRunsFirst) {
  std::vector<Tensor> made, sums;
  for (int i = 0; i < 6; ++i) made.push_back(matmul(leaf({64, 64}), leaf({64, 64})));
  for (const Tensor& y : made) sums.push_back(sum(exp(y)));
  made.clear();
  const Plan plan = test::planned_pending(null_device().caps(), true, PassSet::all().without(Pass::horizontal));
  const TemporaryBytes temporaries(plan.scheduled, plan.kernels);
  std::vector<size_t> given(plan.kernels.size());
  std::iota(given.begin(), given.end(), size_t{0});
  EXPECT_EQ(temporaries.peak(given), 64 * 64 * 4);
}

TEST(KernelOrder, IsAPermutationThatRespectsDependencies) {
  const auto check = [](const std::vector<LoweredKernel>& kernels, const std::vector<size_t>& order) {
    const KernelDependencies dependencies(kernels);
    std::vector<size_t> place(order.size());
    ASSERT_EQ(order.size(), kernels.size());
    std::vector<bool> seen(order.size(), false);
    for (size_t i = 0; i < order.size(); ++i) {
      EXPECT_FALSE(seen[order[i]]);
      seen[order[i]] = true;
      place[order[i]] = i;
    }
    for (size_t k = 0; k < order.size(); ++k) {
      for (size_t later : dependencies.after[k]) EXPECT_LT(place[k], place[later]);
    }
  };
  const Plan gpt = plan_gpt(true);
  check(gpt.kernels, order_for_memory(gpt.scheduled, gpt.kernels));
}

}  // namespace
}  // namespace heddle
