// Horizontal fusion: which kernels are joined, in which order, and how their joined rows are bound. Needs no device.
#include "heddle/core/lower/horizontal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/run/joined_launch.h"
#include "heddle/core/schedule/early_order.h"
#include "tests/null/null_device.h"
#include "tests/support/planned.h"

namespace heddle {
namespace {

using test::leaf;
using test::lower_pending;
using test::null_device;

TEST(Horizontal, EqualTextsAreOneLaunch) {
  for (const bool loop_lanes : {true, false}) {
    std::vector<Tensor> results;
    for (int64_t n : {5, 700, 70000, 64}) results.push_back(exp(leaf(Shape{n})) + 1.0);
    results.push_back(exp(leaf(Shape{3, 5})) + 1.0);  // the same text: neighbouring dimensions merge
    results.push_back(exp(leaf(Shape{40})) + 2.0);    // another
    const auto kernels = lower_pending(loop_lanes);
    ASSERT_EQ(kernels.size(), 2u);
    const size_t many = kernels[0].joined.empty() ? 1 : 0;
    EXPECT_EQ(kernels[many].joined.size(), 5u);
    EXPECT_EQ(kernels[many].writes.size(), 5u);
    EXPECT_TRUE(kernels[1 - many].joined.empty());
    eval_pending();  // the null device checks bounds
  }
}

// y = f(x), z = f(y): one text, but the second needs the first.
TEST(Horizontal, WhatDependsIsNotJoined) {
  std::vector<Tensor> kept;
  Tensor x = leaf(Shape{30});
  for (int i = 0; i < 3; ++i) {
    x = flip(exp(x), {0});
    kept.push_back(x);
    x = sum(matmul(unsqueeze(x, 0), leaf(Shape{30, 30})), {0});
  }
  for (const LoweredKernel& kernel : lower_pending()) EXPECT_LE(kernel.joined.size(), 1u);
  eval_pending();
}

// Kernels wait for their equals: the sums of four layers' rows are taken at once though the layers follow each other.
TEST(Horizontal, SmallResultsWait) {
  std::vector<Tensor> sums;
  Tensor x = leaf(Shape{40, 40});
  for (int i = 0; i < 4; ++i) {
    x = matmul(x, leaf(Shape{40, 40}));
    sums.push_back(sum(exp(x), {1}));
  }
  size_t many = 0;
  for (const LoweredKernel& kernel : lower_pending()) many = std::max(many, kernel.joined.size());
  EXPECT_EQ(many, 4u);
  eval_pending();
}

// Two kinds of sums, of which one of each needs one of the other, wait for their equals, but not while a value is
// computed that is wanted behind theirs.
TEST(Horizontal, NobodyWaitsWhileALaterEarlyOutputIsComputed) {
  const Tensor m = leaf(Shape{40, 40}), w = leaf(Shape{40, 1600});
  const auto exps = [](const Tensor& x) { return sum(exp(x), {1}); };
  const auto sines = [](const Tensor& x) { return sum(sin(x), {1}); };
  const auto square = [&](const Tensor& row) { return reshape(matmul(unsqueeze(row, 0), w), Shape{40, 40}); };
  const auto times = [&](const Tensor& row) { return matmul(unsqueeze(row, 0), m); };
  const Tensor first = times(sines(square(exps(m)))) + times(exps(square(sines(m))));
  const Tensor second = matmul(matmul(m, m), m);
  const Caps caps = test::with_loop_lanes(null_device().caps());
  const Plan plan = make_plan(test::prepared_pending(caps), caps, true, PassSet::all(), {}, {0, 1});
  const std::vector<size_t> needed = first_needed_for(plan.scheduled, plan.kernels);
  EXPECT_TRUE(std::ranges::is_sorted(needed));
  EXPECT_EQ(std::ranges::count(needed, 1u), 2);  // the two products
  eval_pending();
}

// An update waits for whoever still reads the old value, even if its equals could run at once.
TEST(Horizontal, UpdatesWaitForReaders) {
  Tensor p0 = leaf(Shape{20, 20}), p1 = leaf(Shape{20, 20});
  const Tensor w = leaf(Shape{20, 20}), g0 = leaf(Shape{20, 20}), g1 = leaf(Shape{20, 20});
  p0.assign(p0 - g0);
  const Tensor reader = exp(matmul(matmul(w, w), w)) + p1;
  p1.assign(p1 - g1);
  std::map<SlotRef, size_t> written;
  size_t joined = 0;
  for (const LoweredKernel& kernel : lower_pending()) {
    joined = std::max(joined, kernel.joined.size());
    kernel.for_each_binding([&](SlotRef slot, Access access) {
      EXPECT_FALSE(slot.kind == SlotRef::Kind::input && access == Access::read && written.contains(slot))
          << "input " << slot.index;
    });
    kernel.for_each_binding([&](SlotRef slot, Access access) {
      if (slot.kind == SlotRef::Kind::input && access != Access::read) ++written[slot];
    });
  }
  EXPECT_EQ(joined, 2u);
  EXPECT_EQ(written.size(), 2u);
}

// Large temporaries of one text are not all made at once: memory comes before launches.
TEST(Horizontal, LargeTemporariesAreNotJoined) {
  std::vector<Tensor> results;
  for (int i = 0; i < 4; ++i) {
    const Tensor wide = exp(leaf(Shape{300, 300}));
    results.push_back(sum(matmul(wide, wide)));
  }
  for (const LoweredKernel& kernel : lower_pending()) {
    EXPECT_TRUE(!kernel.source.name.starts_with("ew_exp") || kernel.joined.empty());
  }
  eval_pending();
}

// Two updates that read the same memory: one kernel.
TEST(Horizontal, SiblingsReadOnce) {
  Tensor m = leaf(Shape{50}), p = leaf(Shape{50});
  const Tensor g = leaf(Shape{50});
  const Tensor direction = sign(m * 0.9 + g * 0.1);
  m.assign(m * 0.99 + g * 0.01);
  p.assign(p - direction);
  EXPECT_EQ(lower_pending().size(), 1u);
  eval_pending();
  // Also when one of them had to store something for the other: the scaled gradient.
  const Tensor scale = leaf(Shape{});
  const auto scaled = [&] { return g * expand(scale, Shape{50}); };
  const Tensor turn = sign(m * 0.9 + scaled() * 0.1);
  m.assign(m * 0.99 + scaled() * 0.01);
  p.assign(p - turn);
  EXPECT_EQ(lower_pending().size(), 1u);
  eval_pending();
}

// Gradients that are slices of one tensor: its readers are no siblings, but joined rows.
TEST(Horizontal, SlicesOfOneStorageStayApart) {
  std::vector<Tensor> parameters;
  const Tensor flat = leaf(Shape{120});
  for (int i = 0; i < 4; ++i) {
    parameters.push_back(leaf(Shape{30}));
    parameters.back().assign(parameters.back() - slice(flat, 0, {30 * i, 30 * i + 30}));
  }
  const auto kernels = lower_pending();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].joined.size(), 4u);
  eval_pending();
}

// A concat of many parts has no kernel: its parts are written where they belong.
TEST(Horizontal, ManyPartsAreWrittenInPlace) {
  std::vector<Tensor> parts;
  for (int i = 0; i < 60; ++i) parts.push_back(exp(leaf(Shape{1 + i, 3})));
  const Tensor whole = concat(parts, 0);
  parts.clear();
  const auto kernels = lower_pending();
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0].joined.size(), 60u);
  eval_pending();
}

// So do several long ones that are stored: a kernel that read all would ask for each element which part it is of.
TEST(Horizontal, SeveralLongStoredPartsAreCopiedInPlace) {
  Caps caps = null_device().caps();
  caps.max_bindings = 64;  // all parts of one kernel
  const auto kernels_of = [&](int count, int64_t rows) {
    std::vector<Tensor> parts;
    for (int i = 0; i < count; ++i) parts.push_back(leaf(Shape{rows + i, 3}));
    const Tensor whole = concat(parts, 0);
    std::vector<size_t> rows_of_kernels;
    for (const LoweredKernel& kernel : test::planned_pending(caps).kernels)
      rows_of_kernels.push_back(kernel.joined.size());
    eval_pending();
    return rows_of_kernels;
  };
  EXPECT_EQ(kernels_of(5, 2000), (std::vector<size_t>{5}));
  EXPECT_EQ(kernels_of(4, 2000), (std::vector<size_t>{0}));  // one kernel reads them, one after the other
  EXPECT_EQ(kernels_of(5, 20), (std::vector<size_t>{0}));
}

// ---- joined rows and memory

KernelSource two_buffers() {
  KernelSource source;
  source.buffers = {
      {"t_b0", DType::f32, Access::read}, {"t_b1", DType::f16, Access::write}, {"t_table", DType::i32, Access::read}};
  return source;
}
std::vector<GraphImage::JoinedRow> joined_rows(size_t count) {
  std::vector<GraphImage::JoinedRow> rows;
  for (size_t r = 0; r < count; ++r)
    rows.push_back({{}, {static_cast<uint32_t>(100 + r), 7}, static_cast<int64_t>(r) + 1});
  return rows;
}

TEST(Segments, LaunchesFollowTheBuffers) {
  const KernelSource kernel = two_buffers();
  const auto rows = joined_rows(4);
  const BufferId a{1}, b{2};
  const std::vector<std::vector<Binding>> bound = {{{a, 512, 100}, {b, 0, 50}},
                                                   {{a, 0, 100}, {b, 1024, 50}},
                                                   {{b, 0, 100}, {b, 2048, 50}},
                                                   {{a, 4096, 64}, {b, 256, 32}}};
  Caps caps;
  const auto launches = cover_joined(signature_of(kernel), rows, bound, caps);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].rows, (std::vector<size_t>{0, 1, 3}));
  EXPECT_EQ(launches[0].covers[0], (Binding{a, 0, 4160}));
  EXPECT_EQ(launches[0].covers[1], (Binding{b, 0, 1074}));
  EXPECT_EQ(launches[0].groups, 1 + 2 + 4);
  EXPECT_EQ(launches[1].rows, (std::vector<size_t>{2}));
  // Seven groups, then rows: first group, bases in elements, numbers.
  const std::vector<int32_t> table = joined_table(signature_of(kernel), rows, bound, launches[0]);
  EXPECT_EQ(table, (std::vector<int32_t>{7, 12, 12, 17,  17,  17, 17, 0,    128, 0,   100,
                                         7, 1,  0,  512, 101, 7,  3,  1024, 128, 103, 7}));
}

TEST(Segments, ABindingHasALimit) {
  const KernelSource kernel = two_buffers();
  const auto rows = joined_rows(3);
  const BufferId a{1};
  const std::vector<std::vector<Binding>> bound = {
      {{a, 0, 600}, {a, 8192, 10}}, {{a, 512, 600}, {a, 8192, 10}}, {{a, 256, 600}, {a, 8192, 10}}};
  Caps caps;
  caps.max_binding_bytes = 1000;
  const auto launches = cover_joined(signature_of(kernel), rows, bound, caps);
  ASSERT_EQ(launches.size(), 2u);
  EXPECT_EQ(launches[0].rows, (std::vector<size_t>{0, 2}));
  caps.max_binding_bytes = 500;
  EXPECT_THROW(cover_joined(signature_of(kernel), rows, bound, caps), LimitError);
}

// ---- storages side by side

TEST(AdjacentStorages, LieInOneStretchAndAreFreedApart) {
  DeviceContext& dev = null_device();
  const uint64_t live = dev.memory().live_bytes;
  {
    std::vector<StoragePtr> storages = dev.allocate_adjacent({100, 1000, 0, 50000, 4});
    for (size_t i = 1; i < storages.size(); ++i) {
      const Binding before = storages[i - 1]->binding(), here = storages[i]->binding();
      EXPECT_EQ(here.buffer, before.buffer);
      EXPECT_GE(here.offset, before.offset + before.size);
      EXPECT_LT(here.offset - before.offset - before.size, 512u);
    }
    storages.erase(storages.begin() + 1);
    storages.push_back(dev.allocate(1000));
    dev.lock().allocator.verify();
  }
  EXPECT_EQ(dev.memory().live_bytes, live);
  dev.lock().allocator.verify();
  EXPECT_TRUE(dev.allocate_adjacent({}).empty());
}

// A result that somebody keeps, in the middle of a stretch, must not make every later step take a new one.
TEST(AdjacentStorages, KeptResultsDoNotEatMemory) {
  DeviceContext& dev = null_device();
  std::vector<StoragePtr> kept;
  const std::vector<uint64_t> sizes(40, 100000);
  dev.allocate_results(sizes);
  uint64_t after_some = 0;
  for (int step = 0; step < 60; ++step) {
    kept.push_back(dev.allocate_results(sizes)[20]);
    if (step == 20) after_some = dev.memory().reserved_bytes;
  }
  EXPECT_LE(dev.memory().reserved_bytes, after_some + 2 * 40 * 100000);
}

}  // namespace
}  // namespace heddle
