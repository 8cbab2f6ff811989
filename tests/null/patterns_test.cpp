// Operations that are written out become the library's: the same kernels, in the same number. Needs no device.
#include <gtest/gtest.h>

#include <functional>

#include "core/exec/passes/passes.h"
#include "core/exec/passes/simplifier.h"
#include "core/exec/pending.h"
#include "core/exec/plan.h"
#include "core/graph/primitives.h"
#include "heddle.h"

namespace heddle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

DeviceContext& null_device() { return device("null:0"); }
Tensor leaf(const Shape& shape, DType dtype = DType::f32) {
  const std::vector<uint8_t> zeros(static_cast<size_t>(shape.numel()) * size_of(dtype), 0);
  return Tensor::from_bytes(zeros.data(), static_cast<size_t>(shape.numel()), dtype, shape, &null_device());
}

// The step that computes all that is held: kernel texts in order, and what they need.
struct Planned {
  std::vector<std::string> names, texts;
  uint64_t arena = 0;
  bool operator==(const Planned& other) const { return texts == other.texts; }
};
Planned plan(PassSet passes = PassSet::all()) {
  const Caps caps = null_device().caps();
  const PlannedStep step = plan_step(prepare(import_graph(capture(held_pending())), caps, true, passes), caps, true, passes);
  Planned planned;
  for (const LoweredKernel& kernel : step.kernels) {
    planned.names.push_back(kernel.source.name);
    planned.texts.push_back(kernel.source.str());
  }
  planned.arena = step.plan.arena.total();
  return planned;
}

Planned planned(const std::function<Tensor()>& make) {
  const Tensor y = make();
  return plan();
}

// Forward and backward, as a training step has them.
Planned planned_gradient(const std::function<Tensor()>& loss, std::vector<Tensor> parameters) {
  const std::vector<Tensor> gradients = grad(loss(), parameters);
  return plan();
}

int kernels_named(const Planned& p, const std::string& part) {
  return static_cast<int>(std::count_if(p.names.begin(), p.names.end(), [&](const std::string& name) { return name.find(part) != std::string::npos; }));
}

struct Projections {
  Tensor q, k, v;
};
Projections projections(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t size, bool tracks = false) {
  Projections p{leaf({batch, heads, queries, size}), leaf({batch, heads, keys, size}), leaf({batch, heads, keys, size})};
  for (Tensor* x : {&p.q, &p.k, &p.v}) x->set_requires_grad(tracks);
  return p;
}
Tensor places(int64_t count, int axis) { return unsqueeze(arange(0, static_cast<double>(count), 1, DType::i32, &null_device()), axis); }

// ---- attention
TEST(AttentionPattern, EveryWayToWriteItIsTheLibrarysKernel) {
  const Projections p = projections(2, 3, 40, 40, 16);
  const Planned library = planned([&] { return scaled_dot_product_attention(p.q, p.k, p.v); });
  ASSERT_EQ(kernels_named(library, "attention"), 1);
  const auto scores = [&] { return matmul(p.q, transpose(p.k)); };
  const auto by_hand = [](const Tensor& s) {
    const Tensor e = exp(s - max(s, {-1}, true));
    return e / sum(e, {-1}, true);
  };
  const std::pair<const char*, std::function<Tensor()>> ways[] = {
      {"softmax of scaled scores", [&] { return matmul(softmax(scores() * 0.25), p.v); }},
      {"divided scores", [&] { return matmul(softmax(scores() / 4.0), p.v); }},
      {"scaled queries", [&] { return matmul(softmax(matmul(p.q * 0.25, transpose(p.k))), p.v); }},
      {"scaled keys", [&] { return matmul(softmax(matmul(p.q, transpose(p.k) * 0.25)), p.v); }},
      {"softmax by hand", [&] { return matmul(by_hand(scores() * 0.25), p.v); }},
      {"no maximum", [&] { const Tensor e = exp(scores() * 0.25); return matmul(e / sum(e, {-1}, true), p.v); }},
      {"reciprocal of the sum", [&] { const Tensor e = exp(scores() * 0.25); return matmul(e * reciprocal(sum(e, {-1}, true)), p.v); }},
      {"stopped maximum", [&] { const Tensor s = scores() * 0.25, e = exp(s - stop_gradient(max(s, {-1}, true))); return matmul(e / sum(e, {-1}, true), p.v); }},
  };
  for (const auto& [name, make] : ways) EXPECT_TRUE(planned(make) == library) << name;
}

TEST(AttentionPattern, MasksOfPositionsAreCausal) {
  for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{32, 32}, {8, 32}}) {
    const Projections p = projections(1, 2, queries, keys, 16);
    AttentionOptions options;
    options.causal = true;
    const Planned library = planned([&] { return scaled_dot_product_attention(p.q, p.k, p.v, options); });
    const auto row = [&, t = queries] { return places(t, 1); };
    const auto column = [&, n = keys] { return places(n, 0); };
    const double shift = static_cast<double>(keys - queries);
    const std::function<Tensor(const Tensor&)> masks[] = {
        [&](const Tensor& s) { return where(column() > row() + shift, -infinity, s); },
        [&](const Tensor& s) { return where(column() >= row() + (shift + 1), -infinity, s); },
        [&](const Tensor& s) { return where(column() <= row() + shift, s, -infinity); },
        [&](const Tensor& s) { return where(row() + shift >= column(), s, -1e9); },
        [&](const Tensor& s) { return where(!(column() > row() + shift), s, -infinity); },
        [&](const Tensor& s) { return where(column() - row() < shift + 1, s, -infinity); }};
    int way = 0;
    for (const auto& mask : masks) {
      SCOPED_TRACE(way++);
      EXPECT_TRUE(planned([&] { return matmul(softmax(mask(matmul(p.q, transpose(p.k)) * 0.25)), p.v); }) == library);
    }
    // One off, or turned around: another mask, which needs its matrix.
    const std::function<Tensor(const Tensor&)> others[] = {[&](const Tensor& s) { return where(column() >= row() + shift, -infinity, s); },
                                                           [&](const Tensor& s) { return where(column() > row() + shift, s, -infinity); },
                                                           [&](const Tensor& s) { return where(column() < row() + shift, s, -infinity); }};
    for (const auto& mask : others) {
      EXPECT_FALSE(planned([&] { return matmul(softmax(mask(matmul(p.q, transpose(p.k)) * 0.25)), p.v); }) == library);
    }
  }
}

TEST(AttentionPattern, BiasesAndMasksOfKeysGoIntoTheKernel) {
  const Projections p = projections(2, 3, 24, 24, 16);
  const Tensor mask = leaf({2, 1, 1, 24}, DType::boolean), bias = leaf({3, 24, 24});
  const auto scores = [&] { return matmul(p.q, transpose(p.k)) * 0.25; };
  AttentionOptions biased;
  biased.bias = reshape(bias, {1, 3, 24, 24});
  EXPECT_TRUE(planned([&] { return matmul(softmax(scores() + bias), p.v); }) == planned([&] { return scaled_dot_product_attention(p.q, p.k, p.v, biased); }));
  const Planned masked = planned([&] { return matmul(softmax(where(mask, scores(), -infinity)), p.v); });
  EXPECT_EQ(kernels_named(masked, "attention"), 1);
  const Planned both = planned([&] { return matmul(softmax(where(mask && places(24, 0) <= places(24, 1), scores() + bias, -infinity)), p.v); });
  EXPECT_EQ(kernels_named(both, "attention"), 1);
  EXPECT_EQ(kernels_named(both, "matmul"), 0);
}

TEST(AttentionPattern, WhatOthersReadStays) {
  const Projections p = projections(1, 2, 24, 24, 16);
  {
    const Tensor weights = softmax(matmul(p.q, transpose(p.k)) * 0.25), y = matmul(weights, p.v);
    EXPECT_EQ(kernels_named(plan(), "attention"), 0);
  }
  {
    const PassSet passes = PassSet::all().without(Pass::attention);
    const Tensor y = matmul(softmax(matmul(p.q, transpose(p.k)) * 0.25), p.v);
    EXPECT_EQ(kernels_named(plan(passes), "attention"), 0);
    EXPECT_EQ(kernels_named(plan(), "attention"), 1);
  }
  // No attention: another axis, scores of other vectors, weights by another sum.
  const auto none = [&](const std::function<Tensor()>& make) { EXPECT_EQ(kernels_named(planned(make), "attention"), 0); };
  none([&] { return matmul(softmax(matmul(p.q, transpose(p.k)), 2), p.v); });
  none([&] { return matmul(softmax(matmul(p.q, transpose(p.k)) + 1.0) * 2.0, p.v); });
  none([&] { const Tensor s = matmul(p.q, transpose(p.k)); return matmul(exp(s) / transpose(sum(exp(s), {-1}, true)), p.v); });
}

TEST(AttentionPattern, MemoryDoesNotGrowWithTheMatrix) {
  const auto arena = [&](int64_t length) {
    const Projections p = projections(1, 4, length, length, 32);
    return planned([&] { return matmul(softmax(where(places(length, 0) > places(length, 1), -infinity, matmul(p.q, transpose(p.k)) * 0.17)), p.v); }).arena;
  };
  const uint64_t small = arena(512), large = arena(4096);
  EXPECT_LE(large, 8 * small + 4096);
  EXPECT_LT(large, uint64_t{4096} * 4096);  // the scores of one head would be four times that
}

TEST(AttentionPattern, GradientsAreThoseOfTheFusedRow) {
  const Projections p = projections(2, 3, 40, 40, 16, true);
  AttentionOptions options;
  options.causal = true;
  const Planned library = planned_gradient([&] { return sum(square(scaled_dot_product_attention(p.q, p.k, p.v, options))); }, {p.q, p.k, p.v});
  const Planned written = planned_gradient(
      [&] { return sum(square(matmul(softmax(where(places(40, 0) > places(40, 1), -infinity, matmul(p.q, transpose(p.k)) * 0.25)), p.v))); }, {p.q, p.k, p.v});
  EXPECT_EQ(written.names, library.names);
  EXPECT_EQ(written.arena, library.arena);
  EXPECT_EQ(kernels_named(written, "matmul"), 0);
}

TEST(AttentionPattern, ThreeAndTwoDimensions) {
  const Tensor q = leaf({6, 40, 16}), k = leaf({6, 40, 16}), v = leaf({6, 40, 8});
  EXPECT_EQ(kernels_named(planned([&] { return matmul(softmax(matmul(q, transpose(k))), v); }), "attention"), 1);
  const Tensor a = leaf({40, 16}), b = leaf({48, 16}), c = leaf({48, 8});
  EXPECT_EQ(kernels_named(planned([&] { return matmul(softmax(matmul(a, transpose(b))), c); }), "attention"), 1);
  const Tensor h = leaf({2, 2, 40, 16}, DType::f16);
  EXPECT_EQ(kernels_named(planned([&] { return matmul(softmax(matmul(h, transpose(h)) * 0.25), h); }), "attention"), 1);
}

}  // namespace
}  // namespace heddle
