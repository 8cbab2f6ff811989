// Attention as users call it, on every device: against plain loops in double precision at head sizes, key heads and
// lengths that fit no tile; decoding with a cache; rows without keys, NaN, dropout; and memory that grows with the
// length, not with its square.
#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/compiled_graph.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class Attention : public DeviceTest {
 protected:
  // llvmpipe compiles a kernel in seconds and runs few of its lanes at once.
  bool slow() const { return device().caps().machine() == Machine::cpu_lanes; }
};

std::vector<float> values(int64_t count, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(seed >> 8) % 2001 - 1000) / 1000;
  }
  return x;
}

struct Problem {
  int64_t batch = 1, heads = 2, key_heads = 2, queries = 1, keys = 1, size = 64;
  bool causal = false;
  std::vector<int32_t> lengths = {};

  std::vector<float> q() const { return values(batch * heads * queries * size, 1); }
  std::vector<float> k() const { return values(batch * key_heads * keys * size, 2); }
  std::vector<float> v() const { return values(batch * key_heads * keys * size, 3); }

  std::vector<double> expected() const {
    const std::vector<float> q = this->q(), k = this->k(), v = this->v();
    std::vector<double> y(q.size(), 0);
    for (int64_t row = 0; row < batch * heads * queries; ++row) {
      const int64_t m = row % queries, h = row / queries % heads, b = row / queries / heads;
      const int64_t first = (b * key_heads + h / (heads / key_heads)) * keys;
      int64_t end = lengths.empty() ? keys : std::min<int64_t>(keys, lengths[static_cast<size_t>(b)]);
      if (causal) end = std::min(end, m + keys - queries + 1);
      double total = 0;
      for (int64_t n = 0; n < end; ++n) {
        double s = 0;
        for (int64_t d = 0; d < size; ++d)
          s += static_cast<double>(q[static_cast<size_t>(row * size + d)]) *
               k[static_cast<size_t>((first + n) * size + d)];
        const double p = std::exp(s / std::sqrt(static_cast<double>(size)));
        total += p;
        for (int64_t d = 0; d < size; ++d)
          y[static_cast<size_t>(row * size + d)] += p * v[static_cast<size_t>((first + n) * size + d)];
      }
      for (int64_t d = 0; d < size && total > 0; ++d) y[static_cast<size_t>(row * size + d)] /= total;
    }
    return y;
  }

  Tensor run(DeviceContext& device, DType t = DType::f32, AttentionOptions o = {}) const {
    o.causal = causal;
    if (!lengths.empty()) o.key_lengths = Tensor::from_vector(lengths, {batch}, &device);
    const auto tensor = [&](const std::vector<float>& x, int64_t h, int64_t rows) {
      return cast(Tensor::from_vector(x, {batch, h, rows, size}, &device), t);
    };
    return scaled_dot_product_attention(tensor(q(), heads, queries), tensor(k(), key_heads, keys),
                                        tensor(v(), key_heads, keys), o);
  }

  void check(DeviceContext& device, double tolerance = 2e-5, DType t = DType::f32) const {
    const std::vector<double> found = run(device, t).to_doubles(), y = expected();
    ASSERT_EQ(found.size(), y.size());
    for (size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(found[i], y[i], tolerance) << "element " << i << " of B" << batch << " H" << heads << "/" << key_heads
                                             << " " << queries << "x" << keys << " D" << size;
    }
  }
};

TEST_P(Attention, HeadSizes) {
  const std::vector<int64_t> all{16, 40, 64, 80, 128, 256}, few{40, 128};
  for (const int64_t size : slow() ? few : all) Problem{1, 2, 2, 19, 37, size, true}.check(device());
}

TEST_P(Attention, FewerAndMoreQueriesThanKeys) {
  Problem{2, 2, 2, 9, 70, 24, true}.check(device());
  Problem{1, 2, 2, 70, 9, 24, true}.check(device());  // the first 61 queries see nothing
  Problem{2, 6, 2, 33, 40, 24, true}.check(device());
  Problem{2, 5, 1, 20, 20, 24, true, {20, 0}}.check(device());
}

// One query, a long cache: the keys are cut into ranges, and heads that share keys are one problem.
TEST_P(Attention, Decode) {
  for (const int64_t keys : {1, 63, 1025, 4099}) Problem{1, 2, 2, 1, keys, 40, true}.check(device());
  Problem{2, 2, 2, 1, 3001, 64, true, {3001, 700}}.check(device());
  Problem{2, 8, 2, 1, 2050, 64, true, {2050, 0}}.check(device());
  Problem{1, 8, 1, 1, 1500, 64}.check(device());
  Problem{1, 2, 1, 3, 2500, 48, true}.check(device());
  Problem{1, 2, 2, 1, 1301, 64}.check(device(), 2e-3, DType::f16);
  Problem{1, 4, 1, 1, 1301, 64}.check(device(), 1e-2, DType::bf16);
}

void check_gradients(DeviceContext& device, const Problem& p, DType t, double tolerance) {
  const auto gradients = [&](DeviceContext& d) {
    std::vector<Tensor> in;
    for (const auto& [x, h, rows] :
         {std::tuple{p.q(), p.heads, p.queries}, {p.k(), p.key_heads, p.keys}, {p.v(), p.key_heads, p.keys}}) {
      in.push_back(cast(Tensor::from_vector(x, {p.batch, h, rows, p.size}, &d), t));
      in.back().set_requires_grad();
    }
    AttentionOptions o;
    o.causal = p.causal;
    const Tensor y = sum(square(scaled_dot_product_attention(in[0], in[1], in[2], o)));
    std::vector<std::vector<double>> all;
    for (const Tensor& g : grad(y, in)) all.push_back(g.to_doubles());
    return all;
  };
  const auto found = gradients(device), expected = gradients(heddle::device("reference:0"));
  for (size_t i = 0; i < found.size(); ++i) {
    for (size_t j = 0; j < found[i].size(); ++j)
      ASSERT_NEAR(found[i][j], expected[i][j], tolerance) << "gradient " << i << ", element " << j;
  }
}

// The logarithms of a row in ranges serve the gradient.
TEST_P(Attention, DecodeHasGradients) {
  check_gradients(device(), Problem{1, 4, 2, 1, 1100, 8, true}, DType::f32, 2e-6);
}

// Enough heads that a CPU driver computes all gradients in one kernel.
TEST_P(Attention, GradientsOfManyHeads) {
  if (slow()) GTEST_SKIP() << "lavapipe takes two kernels, which other tests run";
  check_gradients(device(), Problem{4, 4, 2, 35, 41, 20, true}, DType::f32, 1e-5);
  check_gradients(device(), Problem{4, 2, 2, 20, 24, 16, false}, DType::f16, 4e-3);
}

// A bias of -infinity is a mask of its own; a range of keys may be hidden whole.
TEST_P(Attention, RowsWithoutKeysGiveZeros) {
  for (const int64_t keys : {40, 1200}) {
    const Problem p{2, 2, 2, 1, keys, 16};
    std::vector<int32_t> seen(static_cast<size_t>(2 * keys), 0);
    for (int64_t n = keys / 2; n < keys; ++n) seen[static_cast<size_t>(n)] = 1;
    AttentionOptions o;
    o.key_mask = Tensor::from_vector(seen, {2, keys}, &device()) != 0;
    const std::vector<float> y = p.run(device(), DType::f32, o).to_vector<float>();
    for (size_t i = 0; i < y.size() / 2; ++i) EXPECT_TRUE(std::isfinite(y[i]) && y[i] != 0) << i;
    for (size_t i = y.size() / 2; i < y.size(); ++i) EXPECT_EQ(y[i], 0) << i;
  }
}

TEST_P(Attention, ANaNStaysInItsQuery) {
  for (const int64_t queries : {1, 3, 20}) {
    const int64_t keys = queries == 1 ? 1100 : 50;
    const Problem p{1, 2, 2, queries, keys, 24};
    std::vector<float> q = p.q();
    const int64_t bad = queries == 20 ? 7 : 0;
    q[static_cast<size_t>(bad * 24 + 5)] = NAN;  // of head 0
    const auto at = [&](const std::vector<float>& x, int64_t rows) {
      return Tensor::from_vector(x, {1, 2, rows, 24}, &device());
    };
    const std::vector<float> y =
        scaled_dot_product_attention(at(q, queries), at(p.k(), keys), at(p.v(), keys)).to_vector<float>();
    const std::vector<double> expected = p.expected();
    for (size_t i = 0; i < y.size(); ++i) {
      if (static_cast<int64_t>(i) / 24 == bad) {
        EXPECT_TRUE(std::isnan(y[i])) << i;
      } else {
        EXPECT_NEAR(y[i], expected[i], 2e-5) << i;
      }
    }
  }
}

TEST_P(Attention, DropoutIsDrawnFromTheGenerator) {
  const Problem p{2, 4, 4, 30, 64, 16};
  const auto run = [&](uint64_t seed, DeviceContext& d) {
    Generator generator{seed, 0};
    AttentionOptions o;
    o.dropout = 0.25;
    o.generator = &generator;
    return p.run(d, DType::f32, o).to_vector<float>();
  };
  const std::vector<float> first = run(3, device());
  EXPECT_EQ(first, run(3, device()));
  EXPECT_NE(first, run(4, device()));
  const std::vector<float> reference = run(3, heddle::device("reference:0"));
  for (size_t i = 0; i < first.size(); ++i) ASSERT_NEAR(first[i], reference[i], 2e-5) << i;
  // The mean over draws is the result without dropout: 64 draws leave a fortieth of the spread of one.
  std::vector<double> mean(first.size(), 0);
  for (uint64_t seed = 0; seed < 64; ++seed) {
    const std::vector<float> y = run(100 + seed, device());
    for (size_t i = 0; i < y.size(); ++i) mean[i] += y[i] / 64.0;
  }
  const std::vector<double> expected = p.expected();
  double bias = 0, spread = 0;
  for (size_t i = 0; i < mean.size(); ++i) {
    bias += (mean[i] - expected[i]) / static_cast<double>(mean.size());
    spread += std::pow(mean[i] - expected[i], 2) / static_cast<double>(mean.size());
  }
  EXPECT_LT(std::abs(bias), 1e-3);
  EXPECT_LT(std::sqrt(spread), 0.012);  // 0.58 sqrt(p / (1 - p) / 64 keys / 64 draws) is 0.005
  EXPECT_GT(std::sqrt(spread), 0.002);
}

// What a step of forward and backward needs beside its inputs and results: linear in the length.
TEST_P(Attention, MemoryIsLinear) {
  const int64_t length = slow() ? 256 : 2048;
  const auto peak = [&](int64_t t) {
    Tensor x = Tensor::from_vector(values(t * 3 * 16, 5), {1, t, 3, 1, 16}, &device());
    x.set_requires_grad();
    const Tensor pieces = permute(x, {2, 0, 3, 1, 4});
    const auto piece = [&](int64_t i) { return squeeze(slice(pieces, 0, {i, i + 1}), 0); };
    AttentionOptions o;
    o.causal = true;
    const Tensor g = grad(sum(square(scaled_dot_product_attention(piece(0), piece(1), piece(2), o))), x);
    const std::vector<NodePtr> roots{g.node()};
    return static_cast<double>(CompiledGraph::compile(device(), capture(roots), true, {})->arena_bytes());
  };
  const double once = peak(length), twice = peak(2 * length);
  EXPECT_GT(once, 0);
  EXPECT_LT(twice, 2.2 * once + 65536);
  EXPECT_LT(twice, 4.0 * static_cast<double>(length * length));  // a quarter of the matrix of scores
}

HEDDLE_DEVICE_TESTS(Attention);

}  // namespace
}  // namespace heddle::tests
