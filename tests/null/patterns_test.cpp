// Operations that are written out become the library's: the same kernels, in the same number. Needs no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "heddle/core/op/primitives.h"
#include "heddle/heddle.h"
#include "heddle/nn/conv.h"
#include "heddle/nn/norm.h"
#include "tests/null/null_device.h"
#include "tests/support/planned.h"

namespace heddle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

using test::leaf;
using test::null_device;

// The step that computes all that is held: kernel texts in order, and what they need.
struct Planned {
  std::vector<std::string> names, texts;
  uint64_t arena = 0;
  bool operator==(const Planned& other) const { return texts == other.texts; }
};
Planned plan(PassSet passes = PassSet::all()) {
  const Caps caps = null_device().caps();
  const Plan plan = test::planned_pending(caps, true, passes);
  Planned planned;
  for (const LoweredKernel& kernel : plan.kernels) {
    planned.names.push_back(kernel.source.name);
    planned.texts.push_back(kernel.source.str());
  }
  planned.arena = plan.memory.arena.total();
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
  return static_cast<int>(std::count_if(p.names.begin(), p.names.end(),
                                        [&](const std::string& name) { return name.find(part) != std::string::npos; }));
}

struct Projections {
  Tensor q, k, v;
};
Projections projections(int64_t batch, int64_t heads, int64_t queries, int64_t keys, int64_t size,
                        bool tracks = false) {
  Projections p{leaf({batch, heads, queries, size}), leaf({batch, heads, keys, size}),
                leaf({batch, heads, keys, size})};
  for (Tensor* x : {&p.q, &p.k, &p.v}) x->set_requires_grad(tracks);
  return p;
}
Tensor places(int64_t count, int axis) {
  return unsqueeze(arange(0, static_cast<double>(count), 1, DType::i32, &null_device()), axis);
}

// ---- attention
std::string fmt_names(const Planned& p) {
  std::string text;
  for (const std::string& name : p.names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

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
      {"no maximum",
       [&] {
         const Tensor e = exp(scores() * 0.25);
         return matmul(e / sum(e, {-1}, true), p.v);
       }},
      {"reciprocal of the sum",
       [&] {
         const Tensor e = exp(scores() * 0.25);
         return matmul(e * reciprocal(sum(e, {-1}, true)), p.v);
       }},
      {"stopped maximum",
       [&] {
         const Tensor s = scores() * 0.25, e = exp(s - stop_gradient(max(s, {-1}, true)));
         return matmul(e / sum(e, {-1}, true), p.v);
       }},
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
    const std::function<Tensor(const Tensor&)> others[] = {
        [&](const Tensor& s) { return where(column() >= row() + shift, -infinity, s); },
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
  EXPECT_TRUE(planned([&] { return matmul(softmax(scores() + bias), p.v); }) ==
              planned([&] { return scaled_dot_product_attention(p.q, p.k, p.v, biased); }));
  const Planned masked = planned([&] { return matmul(softmax(where(mask, scores(), -infinity)), p.v); });
  EXPECT_EQ(kernels_named(masked, "attention"), 1);
  const Planned both = planned(
      [&] { return matmul(softmax(where(mask && places(24, 0) <= places(24, 1), scores() + bias, -infinity)), p.v); });
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
  const auto none = [&](const std::function<Tensor()>& make) {
    EXPECT_EQ(kernels_named(planned(make), "attention"), 0);
  };
  none([&] { return matmul(softmax(matmul(p.q, transpose(p.k)), 2), p.v); });
  none([&] { return matmul(softmax(matmul(p.q, transpose(p.k)) + 1.0) * 2.0, p.v); });
  none([&] {
    const Tensor s = matmul(p.q, transpose(p.k));
    return matmul(exp(s) / transpose(sum(exp(s), {-1}, true)), p.v);
  });
}

TEST(AttentionPattern, MemoryDoesNotGrowWithTheMatrix) {
  const auto arena = [&](int64_t length) {
    const Projections p = projections(1, 4, length, length, 32);
    return planned([&] {
             return matmul(
                 softmax(where(places(length, 0) > places(length, 1), -infinity, matmul(p.q, transpose(p.k)) * 0.17)),
                 p.v);
           })
        .arena;
  };
  const uint64_t small = arena(512), large = arena(4096);
  EXPECT_LE(large, 8 * small + 4096);
  EXPECT_LT(large, uint64_t{4096} * 4096);  // the scores of one head would be four times that
}

TEST(AttentionPattern, GradientsAreThoseOfTheFusedRow) {
  const Projections p = projections(2, 3, 40, 40, 16, true);
  AttentionOptions options;
  options.causal = true;
  const Planned library = planned_gradient(
      [&] { return sum(square(scaled_dot_product_attention(p.q, p.k, p.v, options))); }, {p.q, p.k, p.v});
  const Planned written = planned_gradient(
      [&] {
        return sum(square(
            matmul(softmax(where(places(40, 0) > places(40, 1), -infinity, matmul(p.q, transpose(p.k)) * 0.25)), p.v)));
      },
      {p.q, p.k, p.v});
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

// ---- rows
struct Pair {
  const char* name;
  std::function<Tensor(const Tensor&)> written, library;
  bool same_text = true;  // else: as many kernels
  size_t more_with_gradient = 0;
};

// Forward, and with the gradient recorded through the written form.
void expect_same(const Pair& pair, const Shape& shape, DType dtype = DType::f32) {
  SCOPED_TRACE(pair.name);
  Tensor x = leaf(shape, dtype);
  const Planned library = planned([&] { return pair.library(x); }), written = planned([&] { return pair.written(x); });
  if (pair.same_text) {
    EXPECT_TRUE(written == library) << fmt_names(written) << " against " << fmt_names(library);
  } else {
    EXPECT_EQ(written.names.size(), library.names.size()) << fmt_names(written) << " against " << fmt_names(library);
  }
  x.set_requires_grad(true);
  const Tensor g = leaf(pair.library(x).shape());
  const auto loss = [&](const std::function<Tensor(const Tensor&)>& f) { return [&, f] { return sum(f(x) * g); }; };
  const Planned by_hand = planned_gradient(loss(pair.written), {x}),
                by_library = planned_gradient(loss(pair.library), {x});
  EXPECT_LE(by_hand.names.size(), by_library.names.size() + pair.more_with_gradient)
      << fmt_names(by_hand) << " against " << fmt_names(by_library);
}

Tensor root_mean(const Tensor& x) { return mean(x * x, {-1}, true); }
Tensor scaled_rows(const Tensor& centred, const Tensor& variance) { return centred / sqrt(variance + 1e-5); }

TEST(RowPatterns, SoftmaxIsTheLibrarys) {
  for (const int axis : {-1, 0}) {
    SCOPED_TRACE(axis);
    const auto soft = [axis](const Tensor& x) { return softmax(x, axis); };
    const auto log_soft = [axis](const Tensor& x) { return log_softmax(x, axis); };
    const auto total = [axis](const Tensor& e) { return sum(e, {axis}, true); };
    const auto shifted = [axis](const Tensor& x) { return x - max(x, {axis}, true); };
    const Pair pairs[] = {
        {"softmax",
         [=](const Tensor& x) {
           const Tensor e = exp(shifted(x));
           return e / total(e);
         },
         soft},
        {"softmax without maximum",
         [=](const Tensor& x) {
           const Tensor e = exp(x);
           return e / total(e);
         },
         soft},
        {"log of softmax",
         [=](const Tensor& x) {
           const Tensor e = exp(shifted(x));
           return log(e / total(e));
         },
         log_soft},
        {"log softmax",
         [=](const Tensor& x) {
           const Tensor s = shifted(x);
           return s - log(total(exp(s)));
         },
         log_soft},
        {"log softmax without maximum", [=](const Tensor& x) { return x - log(total(exp(x))); }, log_soft},
    };
    for (const Pair& pair : pairs) expect_same(pair, {6, 9});
  }
}

TEST(RowPatterns, NormsAreTheLibrarys) {
  const auto layer = [](const Tensor& x) { return layer_norm(x, Shape{x.dim(-1)}); };
  const Pair pairs[] = {
      {"layer norm",
       [](const Tensor& x) {
         const Tensor c = x - mean(x, {-1}, true);
         return scaled_rows(c, mean(c * c, {-1}, true));
       },
       layer},
      {"inverse root",
       [](const Tensor& x) {
         const Tensor c = x - mean(x, {-1}, true);
         return c * (1.0 / sqrt(mean(c * c, {-1}, true) + 1e-5));
       },
       layer},
      {"square",
       [](const Tensor& x) {
         const Tensor c = x - mean(x, {-1}, true);
         return scaled_rows(c, mean(square(c), {-1}, true));
       },
       layer, false},
      {"var()", [](const Tensor& x) { return scaled_rows(x - mean(x, {-1}, true), var(x, {-1}, true, 0)); }, layer},
      {"mean of squares",
       [](const Tensor& x) {
         const Tensor m = mean(x, {-1}, true);
         return scaled_rows(x - m, mean(x * x, {-1}, true) - m * m);
       },
       layer},
      {"rms norm", [](const Tensor& x) { return x / sqrt(root_mean(x) + 1e-6); },
       [](const Tensor& x) { return rms_norm(x); }},
  };
  for (const Pair& pair : pairs) expect_same(pair, {6, 9});
}

TEST(RowPatterns, SwitchedOffTheyStayAsWritten) {
  const Tensor x = leaf({6, 9}), e = exp(x), y = e / sum(e, {-1}, true);
  const auto divisions = [&](PassSet passes) {
    const Graph graph = test::prepared_pending(null_device().caps(), true, passes);
    return std::count_if(graph.nodes.begin(), graph.nodes.end(),
                         [](const IrNode& node) { return node.op == &ops::div_op; });
  };
  EXPECT_EQ(divisions(PassSet::all()), 0);
  EXPECT_EQ(divisions(PassSet::all().without(Pass::softmax)), 1);
}

// ---- activations
TEST(ActivationPatterns, AreOneOperation) {
  const auto tanh_form = [](const Tensor& x, const Tensor& u) { return 0.5 * x * (1.0 + tanh(u)); };
  const double k = std::sqrt(2 / std::acos(-1.0));
  const Pair pairs[] = {
      {"erf", [](const Tensor& x) { return 0.5 * x * (1.0 + erf(x / std::sqrt(2.0))); },
       [](const Tensor& x) { return gelu(x); }},
      {"erf, half last", [](const Tensor& x) { return x * (erf(x * std::sqrt(0.5)) + 1.0) * 0.5; },
       [](const Tensor& x) { return gelu(x); }},
      {"tanh", [=](const Tensor& x) { return tanh_form(x, k * (x + 0.044715 * pow(x, 3.0))); },
       [](const Tensor& x) { return gelu_tanh(x); }},
      {"tanh, products", [=](const Tensor& x) { return tanh_form(x, (x + 0.044715 * x * x * x) * k); },
       [](const Tensor& x) { return gelu_tanh(x); }},
      {"tanh, x taken out", [=](const Tensor& x) { return tanh_form(x, k * x * (1.0 + 0.044715 * x * x)); },
       [](const Tensor& x) { return gelu_tanh(x); }, true, 1},
      {"silu", [](const Tensor& x) { return x * sigmoid(x); }, [](const Tensor& x) { return silu(x); }},
      {"silu, divided", [](const Tensor& x) { return x / (1.0 + exp(-x)); }, [](const Tensor& x) { return silu(x); }},
      {"silu, sigmoid by hand", [](const Tensor& x) { return x * (1.0 / (1.0 + exp(-x))); },
       [](const Tensor& x) { return silu(x); }},
      {"sigmoid", [](const Tensor& x) { return 1.0 / (exp(-x) + 1.0); }, [](const Tensor& x) { return sigmoid(x); }},
  };
  for (const Pair& pair : pairs) expect_same(pair, {6, 9});
  for (const Pair& pair : pairs) {
    for (const DType half : {DType::f16, DType::bf16}) {
      const Tensor x = leaf({6, 9}, half);
      EXPECT_TRUE(planned([&] { return pair.written(x); }) == planned([&] { return pair.library(x); }))
          << pair.name << " " << name_of(half);
    }
  }
  const Tensor x = leaf({6, 9});
  for (const double other : {0.79, 0.8})
    EXPECT_FALSE(planned([&] { return tanh_form(x, other * (x + 0.044715 * x * x * x)); }) ==
                 planned([&] { return gelu_tanh(x); }));
  EXPECT_FALSE(planned([&] { return x * sigmoid(x * 2.0); }) == planned([&] { return silu(x); }));
}

// ---- normalisations behind convolutions and products
template <class F>
uint64_t kernels_of(const F& f) {
  const uint64_t before = null_device().counters().kernels;
  const Tensor y = f();
  eval_pending();
  return null_device().counters().kernels - before;
}

TEST(BatchNormFolding, IsPartOfTheWeightsAndComputedOnce) {
  const Tensor x = leaf({2, 3, 8, 8});
  nn::Conv2d conv(3, 4, {3, 3}, {.device = null_device()});
  nn::BatchNorm norm(4, {.device = null_device()});
  norm.eval();
  eval_pending();
  const NoGradScope no_grad;
  const auto kernels = [&] { return kernels_of([&] { return relu(norm(conv(x))); }); };
  const uint64_t first = kernels();
  EXPECT_GT(first, 1u);
  EXPECT_EQ(kernels(), 1u);
  EXPECT_EQ(kernels(), 1u);
  norm.weight.assign(norm.weight * 2.0);
  eval_pending();
  EXPECT_EQ(kernels(), first) << "the weights changed";
  EXPECT_EQ(kernels(), 1u);
  const PassScope off("-batch-norm");
  EXPECT_GT(kernels(), 1u);
  EXPECT_GT(kernels(), 1u);
}

TEST(BatchNormFolding, BehindALinearLayerToo) {
  const Tensor x = leaf({5, 6});
  nn::Linear linear(6, 4, {.device = null_device()});
  nn::BatchNorm norm(4, {.device = null_device()});
  norm.eval();
  eval_pending();
  const NoGradScope no_grad;
  const auto kernels = [&] { return kernels_of([&] { return relu(norm(linear(x))); }); };
  kernels();
  EXPECT_EQ(kernels(), 1u);
}

TEST(BatchNormFolding, NotWhereTheResultIsReadOrTheStatisticsAreTheBatchs) {
  nn::Conv2d conv(3, 4, {3, 3}, {.device = null_device()});
  nn::BatchNorm norm(4, {.device = null_device()});
  const Tensor x = leaf({2, 3, 8, 8});
  eval_pending();
  const auto folded = [&](const std::function<Tensor()>& make) {
    const Tensor y = make();
    const Graph graph = test::prepared_pending(null_device().caps());
    return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const IrNode& node) { return node.once; });
  };
  EXPECT_FALSE(folded([&] { return norm(conv(x)); })) << "training";
  eval_pending();
  norm.eval();
  EXPECT_TRUE(folded([&] { return norm(conv(x)); }));
  const Tensor held = conv(x);
  EXPECT_FALSE(folded([&] { return norm(held); })) << "somebody reads the convolution";
}

}  // namespace
}  // namespace heddle
