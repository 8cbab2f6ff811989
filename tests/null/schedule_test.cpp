// Properties of schedules and memory plans over random programs, and the fusions people count on. Needs no device.
#include "heddle/core/schedule/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "heddle/core/compile/dump.h"
#include "heddle/core/device/context.h"
#include "heddle/core/lower/lower.h"
#include "heddle/core/op/primitives.h"
#include "tests/null/null_device.h"
#include "tests/support/planned.h"
#include "tests/support/random_graph.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;
using test::null_plan;

bool overlaps(const Lifetime& a, const Lifetime& b) { return a.first <= b.last && b.first <= a.last; }

void expect_sound_plan(const MemoryPlan& plan, const Caps& caps) {
  for (size_t i = 0; i < plan.lifetimes.size(); ++i) {
    const Placement& p = plan.arena.placements[i];
    EXPECT_EQ(p.offset % caps.buffer_alignment, 0u);
    EXPECT_LE(p.offset + plan.lifetimes[i].bytes, plan.arena.block_bytes[static_cast<size_t>(p.block)]);
    for (size_t j = 0; j < i; ++j) {
      const Placement& q = plan.arena.placements[j];
      if (p.block != q.block || !overlaps(plan.lifetimes[i], plan.lifetimes[j])) continue;
      const bool apart =
          p.offset + plan.lifetimes[i].bytes <= q.offset || q.offset + plan.lifetimes[j].bytes <= p.offset;
      EXPECT_TRUE(apart) << "vertices " << plan.lifetimes[i].vertex << " and " << plan.lifetimes[j].vertex
                         << " share bytes while both are alive";
    }
  }
  for (const Lifetime& life : plan.lifetimes) {
    uint64_t alive = 0;  // when it begins; the most bytes are alive when some value begins
    for (const Lifetime& other : plan.lifetimes)
      alive += other.first <= life.first && life.first <= other.last ? other.bytes : 0;
    EXPECT_GE(plan.arena.total(), alive) << "when vertex " << life.vertex << " is written";
  }
}

// The bound that the plan states, and the kernel during which it is met, counted one kernel after the other.
void expect_lower_bound(const MemoryPlan& plan, const Caps& caps) {
  const uint64_t alignment = std::max<uint64_t>(256, caps.buffer_alignment);
  std::map<int, uint64_t> alive;
  for (const Lifetime& life : plan.lifetimes) {
    for (int kernel = life.first; kernel <= life.last; ++kernel)
      alive[kernel] += (life.bytes + alignment - 1) / alignment * alignment;
  }
  uint64_t most = 0;
  for (const auto& [kernel, bytes] : alive) most = std::max(most, bytes);
  EXPECT_EQ(plan.lower_bound, most);
  if (most > 0) {
    EXPECT_EQ(alive[plan.fullest], most);
  }
}

// Every vertex a kernel reads was written by an earlier kernel; every vertex but a join is written once; old values of
// inputs are not read after they were overwritten, except by the writing kernel itself.
void expect_sound_order(const Plan& c) {
  std::set<int> written_vertices, written_inputs;
  for (const LoweredKernel& kernel : c.kernels) {
    ASSERT_EQ(kernel.bindings.size(), kernel.joined.empty() ? kernel.source.buffers.size() : 0);
    ASSERT_EQ(kernel.constants.size(), kernel.joined.empty() ? kernel.source.constants.size() : 0);
    for (const LoweredKernel::JoinedRow& row : kernel.joined)
      ASSERT_EQ(row.bindings.size() + 1, kernel.source.buffers.size());
    EXPECT_LE(kernel.constants.size(), KernelSource::max_constants);
    std::set<int> now_vertices, now_inputs;
    kernel.for_each_binding([&](SlotRef slot, Access access) {
      if (slot.kind == SlotRef::Kind::vertex) {
        if (access != Access::write) {
          EXPECT_TRUE(written_vertices.contains(slot.index))
              << "vertex " << slot.index << " is read before it is written";
        } else {
          const bool join = c.scheduled.graph.nodes[slot.index].op == &join_op;
          EXPECT_TRUE(join || !written_vertices.contains(slot.index)) << "vertex " << slot.index << " is written twice";
        }
        if (access != Access::read) now_vertices.insert(slot.index);
      } else if (slot.kind == SlotRef::Kind::input) {
        if (access != Access::read) now_inputs.insert(slot.index);
      }
    });
    written_vertices.merge(now_vertices);
    written_inputs.merge(now_inputs);
  }
  for (const OutputPlan& output : c.scheduled.outputs) {
    if (c.scheduled.graph.nodes[output.base].leaf >= 0) continue;
    if (output.in_place()) {
      EXPECT_TRUE(written_inputs.contains(output.assign_slot) ||
                  c.scheduled.graph.nodes[output.base].shape.numel() == 0);
    }
  }
}

TEST(ScheduleProperties, RandomProgramsAreSound) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const test::RandomProgram program = test::random_program(null_device(), seed, 10 + static_cast<int>(seed % 40));
    for (const bool fuse : {true, false}) {
      const Plan c = null_plan(fuse, seed % 2 == 0);
      SCOPED_TRACE("seed " + std::to_string(seed));
      expect_sound_order(c);
      expect_sound_plan(c.memory, null_device().caps());
      expect_lower_bound(c.memory, null_device().caps());
    }
    eval_pending();  // the null device checks every command: bounds, alignment, hazards, limits
  }
}

TEST(ArenaPlan, RandomLifetimesNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lives;
    const int count = static_cast<int>(random() % 40);
    for (int i = 0; i < count; ++i) {
      const int first = static_cast<int>(random() % 30);
      lives.push_back({i, 1 + random() % 5000, first, first + static_cast<int>(random() % 10)});
    }
    MemoryPlan plan;
    plan.lifetimes = lives;
    plan.arena = plan_arena(lives, 256, 8192);
    Caps caps;
    expect_sound_plan(plan, caps);
    for (uint64_t bytes : plan.arena.block_bytes) EXPECT_LE(bytes, 8192u);
  }
}

TEST(ArenaPlan, DisjointLivesShareBytes) {
  const ArenaPlan plan = plan_arena({{0, 1000, 0, 1}, {1, 1000, 2, 3}, {2, 500, 4, 9}}, 256, 1 << 20);
  EXPECT_EQ(plan.total(), 1000u);
}

// ---- fusions people count on

size_t kernels_of_pending() { return null_plan().kernels.size(); }

TEST(Fusion, ElementwiseChainIsOneKernel) {
  const Tensor x = leaf({5, 7}), b = leaf({7});
  const Tensor y = tanh(relu(x + b) * 2.0 - 1.0) / (abs(x) + 1.0);
  EXPECT_EQ(kernels_of_pending(), 1u);
}

TEST(Fusion, ElementwiseReduceElementwiseIsOneKernel) {
  const Tensor x = leaf({5, 7});
  const Tensor y = sqrt(sum(square(x) * 0.5, {1})) + 1.0;
  EXPECT_EQ(kernels_of_pending(), 1u);
}

// Some drivers compile long loops slowly: the operations before a reduction are then kernels of their own.
TEST(Fusion, LoopsHoldNoMoreThanTheDeviceSays) {
  const Tensor x = leaf({30, 50});
  Tensor y = x;
  for (int i = 0; i < 20; ++i) y = sin(y) * 0.5;
  const Tensor rows = sum(y, {1});
  Caps caps = null_device().caps();
  EXPECT_EQ(test::planned_pending(caps).kernels.size(), 1u);
  caps.max_loop_ops = 8;
  const Plan plan = test::planned_pending(caps);
  ASSERT_EQ(plan.kernels.size(), 2u);
  const auto in_loop = [](const Member& member) { return member.level == Level::full; };
  for (const Group& group : plan.scheduled.groups) EXPECT_LE(std::ranges::count_if(group.members, in_loop), 8);
}

TEST(Fusion, SoftmaxAndLayerNormAreOneKernel) {
  const Tensor x = leaf({6, 9});
  {
    const Tensor y = softmax(x);
    EXPECT_EQ(kernels_of_pending(), 1u);
  }
  {
    const Tensor centred = x - mean(x, {-1}, true);
    const Tensor y = centred * rsqrt(mean(square(centred), {-1}, true) + 1e-5) * leaf({9}) + leaf({9});
    EXPECT_EQ(null_plan().kernels.size(), 1u);
  }
}

TEST(Fusion, MatmulTakesBiasActivationAndResidual) {
  const Tensor a = leaf({8, 12}), b = leaf({12, 4}), bias = leaf({4}), residual = leaf({8, 4});
  const Tensor y = gelu(matmul(a, b) + bias) + residual;
  EXPECT_EQ(kernels_of_pending(), 1u);
}

TEST(Fusion, TransposedProductKeepsItsEpilogue) {
  const Tensor a = leaf({8, 12}), b = leaf({12, 4});
  const Tensor y = transpose(matmul(a, b)) * 2.0;
  EXPECT_EQ(kernels_of_pending(), 1u);
}

TEST(Fusion, TransposedProductOfHalvesKeepsItsCast) {
  const std::vector<uint16_t> ones(96, 0x3f80);
  const Tensor a = Tensor::from_bytes(ones.data(), 96, DType::bf16, {8, 12}, &null_device());
  const Tensor b = Tensor::from_bytes(ones.data(), 48, DType::bf16, {12, 4}, &null_device());
  const Tensor y = transpose(cast(matmul(a, b), DType::f32)) * 2.0;
  EXPECT_EQ(kernels_of_pending(), 1u);
}

TEST(Fusion, CheapOperandFunctionBecomesPrologue) {
  const Tensor a = leaf({8, 12}), b = leaf({12, 4});
  const Tensor y = matmul(relu(a), transpose(cast(leaf({4, 12}), DType::f32)));
  EXPECT_EQ(kernels_of_pending(), 1u);
}

TEST(Fusion, DearOperandFunctionIsComputedOnce) {
  const Tensor a = leaf({8, 12}), b = leaf({12, 4});
  const Tensor y = matmul(exp(a), b);
  EXPECT_EQ(kernels_of_pending(), 2u);
}

TEST(Fusion, MovementAloneCopiesNothing) {
  const Tensor x = leaf({4, 6});
  const Tensor y = reshape(transpose(slice(x, 0, {.start = 1, .stop = 3})), {6, 2});
  EXPECT_EQ(kernels_of_pending(), 0u);
}

// Each round of a scan by doubling reads the one before at two places: one kernel of all would hold the first round
// 2^rounds times.
TEST(Fusion, ScansByDoublingStayShort) {
  const auto text_of = [](int rounds) {
    Tensor sums = full({1024}, 1, DType::f32, &null_device()) * 2;
    eval({sums});
    for (int r = 0; r < rounds; ++r) {
      const int64_t step = int64_t{1} << r;
      sums = sums + pad(slice(sums, 0, {.stop = 1024 - step}), {{step, 0}});
    }
    return dump_pending(DumpWhat::source).size();
  };
  EXPECT_LT(text_of(9), 4 * text_of(5));
}

TEST(Fusion, UnfusedIsOneKernelAVertex) {
  const Tensor x = leaf({5, 7});
  const Tensor y = tanh(relu(x) * 2.0);
  EXPECT_EQ(null_plan(false).kernels.size(), 3u);
}

// ---- cheap values are computed again

TEST(CheapValues, AreComputedAgainByTheirReaders) {
  const Tensor x = leaf({64, 48});
  const auto arena_and_kernels = [&](bool recompute) {
    const Caps caps = null_device().caps();
    const PassSet passes = recompute ? PassSet::all() : PassSet::all().without(Pass::cheap);
    const Plan plan = test::planned_pending(caps, true, passes);
    return std::pair(plan.memory.arena.total(), plan.kernels.size());
  };
  {
    const auto make = [&] {
      const Tensor y = relu(x);
      return std::pair(sum(y, {0}), sum(y, {1}));
    };
    const auto both = make();
    EXPECT_EQ(arena_and_kernels(true), std::pair(uint64_t{0}, size_t{2}));
    EXPECT_GE(arena_and_kernels(false).first, 64u * 48 * 4);
  }
  {  // dear: computed once
    const auto make = [&] {
      const Tensor y = exp(x);
      return std::pair(sum(y, {0}), sum(y, {1}));
    };
    const auto both = make();
    EXPECT_GE(arena_and_kernels(true).first, 64u * 48 * 4);
  }
  {  // two tensors to read instead of one
    const Tensor z = leaf({64, 48});
    const auto make = [&] {
      const Tensor y = x + z;
      return std::pair(sum(y, {0}), sum(y, {1}));
    };
    const auto both = make();
    EXPECT_GE(arena_and_kernels(true).first, 64u * 48 * 4);
  }
}

TEST(CheapValues, WhatIsOverwrittenIsNotReadInstead) {
  Tensor p = leaf({64, 48});
  const auto make = [&] {
    const Tensor y = p * 2.0;
    return std::pair(sum(y, {0}), sum(y, {1}));
  };
  const auto both = make();
  p.assign(p + 1.0);
  const Plan c = null_plan();
  expect_sound_order(c);
  EXPECT_GE(c.memory.arena.total(), 64u * 48 * 4);
}

// ---- in-place updates

TEST(Assign, UpdateIsWrittenInPlaceBySameKernel) {
  Tensor p = leaf({33});
  p.assign(p - leaf({33}) * 0.1);
  const Plan c = null_plan();
  ASSERT_EQ(c.kernels.size(), 1u);
  EXPECT_EQ(c.scheduled.outputs[0].assign_slot >= 0, true);
  EXPECT_FALSE(c.scheduled.outputs[0].copy_back);
}

TEST(Assign, SwapGoesThroughCopies) {
  Tensor p = leaf({16}), q = leaf({16});
  const Tensor old = p + 0.5;
  p.assign(q * 2.0);
  q.assign(old);
  const Plan c = null_plan();
  expect_sound_order(c);
  bool copied = false;
  for (const OutputPlan& output : c.scheduled.outputs) copied = copied || output.copy_back;
  EXPECT_TRUE(copied);
}

TEST(Assign, ReadersOfTheOldValueRunFirst) {
  Tensor w = leaf({12, 4});
  const Tensor x = leaf({8, 12});
  const Tensor y = matmul(x, w);  // reads the old w
  w.assign(w * 0.5 + 1.0);
  const Plan c = null_plan();
  ASSERT_EQ(c.kernels.size(), 2u);
  EXPECT_EQ(c.scheduled.groups[0].kind, GroupKind::matmul);
}

}  // namespace
}  // namespace heddle
