// Dtypes that functions give, Python's slices by an exhaustive oracle, decompositions against the fused rows, and other
// edges.
#include "heddle/core/functions/functions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "checks/op_cases.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/reference/reference.h"
#include "tests/support/coverage.h"
#include "tests/support/reference_device.h"

namespace heddle {
namespace {

using tests::reference;

Tensor of(DType t, const Shape& shape = {2}) { return ones(shape, t, &reference()); }
Tensor range(int64_t n) { return arange(0, static_cast<double>(n), 1, DType::i32, &reference()); }

TEST(Types, RulesOfRows) {
  EXPECT_EQ(exp(of(DType::i32)).dtype(), DType::f32);
  EXPECT_EQ(exp(of(DType::bf16)).dtype(), DType::bf16);
  EXPECT_EQ((of(DType::u8) / of(DType::u8)).dtype(), DType::f32);
  EXPECT_EQ((of(DType::u8) + of(DType::i8)).dtype(), DType::i32);
  EXPECT_EQ((of(DType::boolean) + of(DType::boolean)).dtype(), DType::boolean);
  EXPECT_EQ((of(DType::boolean) + of(DType::boolean)).to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ(mod(of(DType::boolean), of(DType::boolean)).dtype(), DType::i32);
  EXPECT_EQ((of(DType::f16) * of(DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ((of(DType::i64) < of(DType::f32)).dtype(), DType::boolean);
  EXPECT_EQ(isnan(of(DType::f16)).dtype(), DType::boolean);
  EXPECT_EQ((of(DType::f32) && of(DType::i32)).dtype(), DType::boolean);
  EXPECT_EQ(where(of(DType::boolean), of(DType::u8), of(DType::f16)).dtype(), DType::f16);
}

TEST(Types, NumbersBesideTensors) {
  EXPECT_EQ((of(DType::f16) * 2.5).dtype(), DType::f16);
  EXPECT_EQ((of(DType::i32) * 2).dtype(), DType::i32);
  EXPECT_EQ((of(DType::i32) * 2.5).dtype(), DType::f32);
  EXPECT_EQ((of(DType::u8) + 300).dtype(), DType::i32);
  EXPECT_EQ((of(DType::u8) - -1).dtype(), DType::i32);
  EXPECT_EQ((of(DType::i32) + 3e9).dtype(), DType::i64);
  EXPECT_EQ((of(DType::i64) + 1e30).dtype(), DType::f32);
  EXPECT_EQ((of(DType::i32) + INFINITY).dtype(), DType::f32);
  EXPECT_EQ((of(DType::boolean) + 1).dtype(), DType::i32);
  EXPECT_EQ((of(DType::u8) < 300).to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ((1 - of(DType::i8)).dtype(), DType::i8);
  EXPECT_EQ(clamp(of(DType::i32), 0.5, {}).dtype(), DType::f32);
}

TEST(Types, Reductions) {
  for (DType t : {DType::boolean, DType::i8, DType::u8, DType::i32, DType::i64}) {
    EXPECT_EQ(sum(of(t)).dtype(), DType::i64);
    EXPECT_EQ(prod(of(t)).dtype(), DType::i64);
    EXPECT_EQ(max(of(t)).dtype(), t);
    EXPECT_EQ(mean(of(t)).dtype(), DType::f32);
    EXPECT_EQ(var(of(t)).dtype(), DType::f32);
    EXPECT_EQ(argmin(of(t)).dtype(), DType::i64);
  }
  EXPECT_EQ(sum(of(DType::f16)).dtype(), DType::f16);
  EXPECT_EQ(mean(of(DType::bf16)).dtype(), DType::bf16);
  EXPECT_EQ(softmax(of(DType::f16)).dtype(), DType::f16);
  EXPECT_EQ(cross_entropy(of(DType::f16, {2, 3}), of(DType::i32)).dtype(), DType::f32);
  EXPECT_EQ(matmul(of(DType::i8, {2, 2}), of(DType::f16, {2, 2})).dtype(), DType::f16);
  // 100 times 1000 exceeds f16 on the way, not in the end.
  EXPECT_EQ(mean(full({100}, 1000, DType::f16, &reference())).item(), 1000);
}

TEST(Types, IntegersAreExactAndWrap) {
  const std::vector<int64_t> big{(int64_t{1} << 53) + 1, INT64_MAX};
  const Tensor t = Tensor::from_vector(big, {2}, &reference());
  const NodePtr total = sum(t).node();
  EXPECT_EQ(evaluate_reference({&total, 1})[0].ints[0],
            static_cast<int64_t>(static_cast<uint64_t>(big[0]) + static_cast<uint64_t>(big[1])));
  EXPECT_EQ((full({1}, 200, DType::u8, &reference()) * full({1}, 2, DType::u8, &reference())).item(), 144);
  EXPECT_EQ((full({1}, 127, DType::i8, &reference()) + 1).item(), -128);
  EXPECT_EQ(cast(full({1}, -1.9, DType::f32, &reference()), DType::i32).item(), -1);
  EXPECT_EQ(cast(full({1}, 0.5, DType::f32, &reference()), DType::boolean).item(), 1);
}

// Python's rule, one index at a time.
std::vector<int> python_slice(int64_t n, const Slice& s) {
  const auto bound = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    int64_t v = *at < 0 ? *at + n : *at;
    if (s.step > 0) return std::min(std::max<int64_t>(v, 0), n);
    return std::min(std::max<int64_t>(v, -1), n - 1);
  };
  const int64_t first = bound(s.start, s.step > 0 ? 0 : n - 1), end = bound(s.stop, s.step > 0 ? n : -1);
  std::vector<int> result;
  for (int64_t i = first; s.step > 0 ? i < end : i > end; i += s.step) result.push_back(static_cast<int>(i));
  return result;
}

TEST(Slices, AreThoseOfPython) {
  for (int64_t n : {0, 1, 4}) {
    const Tensor x = range(n);
    for (int64_t step : {-3, -2, -1, 1, 2, 5}) {
      for (int64_t start = -6; start <= 6; ++start) {
        for (int64_t stop = -6; stop <= 6; ++stop) {
          // 6 stands for a missing bound.
          Slice s{start == 6 ? std::nullopt : std::optional(start), stop == 6 ? std::nullopt : std::optional(stop),
                  step};
          ASSERT_EQ(slice(x, 0, s).to_vector<int>(), python_slice(n, s))
              << n << " " << start << ":" << stop << ":" << step;
        }
      }
    }
  }
  const Tensor x = range(4);
  EXPECT_EQ(slice(x, 0, Slice{INT64_MIN, INT64_MAX, INT64_MAX}).to_vector<int>(), (std::vector<int>{0}));
  EXPECT_EQ(slice(x, 0, Slice{INT64_MAX, INT64_MIN, INT64_MIN}).to_vector<int>(), (std::vector<int>{3}));
  EXPECT_EQ(slice(x, 0, Slice{}).node(), x.node());
}

TEST(Indices, AreClampedOrIgnored) {
  const Tensor x = range(4);
  const Tensor i = Tensor::from_vector<int32_t>({-9, -4, -1, 0, 3, 4, 99}, {7}, &reference());
  EXPECT_EQ(take(x, i).to_vector<int>(), (std::vector<int>{0, 0, 3, 0, 3, 3, 3}));
  EXPECT_EQ(gather(x, 0, i).to_vector<int>(), (std::vector<int>{0, 0, 3, 0, 3, 3, 3}));
  const Tensor ones_ = full({7}, 1, DType::i32, &reference());
  EXPECT_EQ(scatter_add(x, 0, i, ones_).to_vector<int>(), (std::vector<int>{1, 1, 2, 4}));
  EXPECT_EQ(index_add(x, i, ones_).to_vector<int>(), (std::vector<int>{1, 1, 2, 4}));
  EXPECT_EQ(one_hot(i, 4, DType::i32).to_vector<int>(),
            (std::vector<int>{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(Movement, KeepsWhatIsAsItIs) {
  const Tensor x = of(DType::f32, {2, 3});
  EXPECT_EQ(reshape(x, {2, -1}).node(), x.node());
  EXPECT_EQ(permute(x, {0, 1}).node(), x.node());
  EXPECT_EQ(expand(x, {2, 3}).node(), x.node());
  EXPECT_EQ(cast(x, DType::f32).node(), x.node());
  EXPECT_EQ(pad(x, {}).node(), x.node());
  EXPECT_EQ(concat({x}, 0).node(), x.node());
  EXPECT_THROW(reshape(zeros({0, 3}, DType::f32, &reference()), {0, -1}), ShapeError);  // any number would do
}

TEST(Creation, ArangeCounts) {
  EXPECT_EQ(arange(0, 1, 0.1, DType::f64, &reference()).numel(), 10);
  EXPECT_EQ(arange(1, 1, 1, DType::f32, &reference()).numel(), 0);
  EXPECT_EQ(arange(5, 1, 1, DType::f32, &reference()).numel(), 0);
  EXPECT_EQ(arange(5, 1, -2, DType::i32, &reference()).to_vector<int>(), (std::vector<int>{5, 3}));
  const std::vector<float> ends = linspace(0.1, 0.7, 7, DType::f32, &reference()).to_vector<float>();
  EXPECT_EQ(ends.front(), 0.1f);
  EXPECT_EQ(ends.back(), 0.7f);
}

TEST(Reductions, EdgesOfNothing) {
  const Tensor none = zeros({3, 0}, DType::f32, &reference());
  EXPECT_EQ(sum(none, {1}).to_vector<float>(), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(prod(none, {1}).to_vector<float>(), (std::vector<float>{1, 1, 1}));
  EXPECT_TRUE(std::isnan(mean(none).item()));
  EXPECT_EQ(logsumexp(none).item(), -INFINITY);
  EXPECT_TRUE(max(none, {0}).to_vector<float>().empty());
  EXPECT_TRUE(std::isnan(var(of(DType::f32, {1})).item()));
  EXPECT_EQ(matmul(zeros({2, 0}, DType::f32, &reference()), zeros({0, 3}, DType::f32, &reference())).to_vector<float>(),
            std::vector<float>(6, 0));
}

// The fused rows of the reference are written from the definition; their decompositions from simpler rows must agree.
TEST(Decompositions, AgreeWithTheirRows) {
  int compared = 0;
  for (const checks::OpCase& c : checks::op_cases(checks::Coverage::full)) {
    const OpDef* row = find_op(c.op);
    if (row == nullptr || row->kind != OpKind::fused) continue;
    SCOPED_TRACE(c.name);
    const Tensor result = c.run(reference(), checks::make_inputs(c, reference(), 5));
    const Node* fused = result.node().get();
    while (fused->op != row && !fused->inputs.empty()) fused = fused->inputs[0].get();
    if (fused->op != row) continue;
    const NodePtr pair[] = {row->decompose(*fused).node()};
    const HostArray simple = evaluate_reference(pair)[0];
    auto copy = std::make_shared<Node>();
    copy->op = row;
    copy->attrs = fused->attrs;
    copy->inputs = fused->inputs;
    copy->shape = fused->shape;
    copy->dtype = fused->dtype;
    copy->device = fused->device;
    const NodePtr whole[] = {copy};
    const HostArray direct = evaluate_reference(whole)[0];
    EXPECT_EQ(simple.shape, direct.shape);
    EXPECT_EQ(simple.dtype, direct.dtype);
    // f16 and bf16 are rounded by the decomposition's cast, and not at all by the row.
    const checks::Tolerance close =
        size_of(direct.dtype) == 2 ? checks::tolerance(c.op, direct.dtype) : checks::Tolerance{1e-7, 1e-12};
    EXPECT_EQ(checks::difference(simple.floats, direct.floats, close), "");
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

// Every case of the table runs on the reference, and its result has the size its shape says.
TEST(Decompositions, EveryOpCaseRunsOnTheReference) {
  for (const checks::OpCase& c : checks::op_cases(tests::coverage_from_environment())) {
    SCOPED_TRACE(c.name);
    const Tensor result = c.run(reference(), checks::make_inputs(c, reference(), 5));
    EXPECT_EQ(static_cast<int64_t>(result.to_bytes().size()),
              result.numel() * static_cast<int64_t>(size_of(result.dtype())));
  }
}

}  // namespace
}  // namespace heddle
