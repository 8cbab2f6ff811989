// Which sums over the iterations of a loop are computed after it, and what is stacked for that.
#include "heddle/autograd/loop_sums.h"

#include <gtest/gtest.h>

#include <set>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::tests {
namespace {

using autograd::choose_late_sums;
using autograd::LateSums;

// x (2, 3) and g (2, 5) of an iteration, pending.
class LoopSums : public testing::Test {
 protected:
  LateSums choose(const std::vector<Tensor>& terms, const std::vector<Tensor>& stacked, int64_t room) const {
    std::set<const Node*> at_hand;
    for (const Tensor& t : stacked) at_hand.insert(t.node().get());
    return choose_late_sums(
        terms, [&](const Node& node) { return at_hand.contains(&node); }, room);
  }
  static Tensor weight_term(const Tensor& x, const Tensor& g) { return matmul(transpose(x), g); }

  DeviceContext& device_ = device("reference:0");
  const Tensor x_ = sin(ones({2, 3}, DType::f32, &device_)), g_ = sin(ones({2, 5}, DType::f32, &device_));
};

TEST_F(LoopSums, StacksForProductsWhatThereIsRoomFor) {
  const std::vector<Tensor> term{weight_term(x_, g_)};
  EXPECT_TRUE(choose(term, {x_, g_}, 0).chosen[0]);
  EXPECT_FALSE(choose(term, {x_}, 9).chosen[0]);
  const LateSums found = choose(term, {x_}, 10);
  EXPECT_TRUE(found.chosen[0]);
  EXPECT_EQ(found.factors, (std::vector<NodePtr>{x_.node(), g_.node()}));
  EXPECT_EQ(choose({term[0], term[0] * 1.0 + 1.0}, {x_}, 10).chosen, (std::vector<bool>{true, false})) << "no product";
  EXPECT_EQ(choose({term[0], Tensor()}, {x_}, 10).chosen, (std::vector<bool>{true, false})) << "no term";
}

// A factor counts once, and a sum of rows reads what products had stacked, in whatever order they come.
TEST_F(LoopSums, RowsAreSummedFromStacksAlone) {
  const Tensor rows = sum(g_, {0}), product = weight_term(x_, g_), turned = matmul(transpose(g_), x_);
  EXPECT_EQ(choose({rows}, {x_}, 1000).chosen, (std::vector<bool>{false}));
  EXPECT_EQ(choose({rows}, {g_}, 0).chosen, (std::vector<bool>{true}));
  const LateSums all = choose({rows, product, turned}, {x_}, 10);
  EXPECT_EQ(all.chosen, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(all.factors.size(), 2u);
}

// The sum of products of views and casts of what is stacked, against the sum written out.
TEST_F(LoopSums, SumsThroughViewsAndCasts) {
  const Tensor turned = transpose(x_);  // (3, 2), stacked
  const Tensor term = reshape(matmul(cast(turned, DType::f64), cast(g_, DType::f64)), {15}) +
                      reshape(matmul(transpose(cast(x_, DType::f64)), cast(g_ + g_, DType::f64)), {15});
  const LateSums found = choose({term}, {turned, g_, x_}, 10);
  ASSERT_TRUE(found.chosen[0]);
  autograd::FactorStacks stacks;
  Tensor expected = zeros({3, 5}, DType::f64, &device_);
  const auto wave = [&](const Shape& shape, double phase) {
    return sin(reshape(arange(0, static_cast<double>(shape.numel()), 1, DType::f64, &device_), shape) + phase);
  };
  const Tensor xs = wave({4, 2, 3}, 0.1), gs = wave({4, 2, 5}, 0.7);
  for (const NodePtr& factor : found.factors) {
    const bool is_x = factor == x_.node(), is_turned = factor == turned.node(), is_g = factor == g_.node();
    stacks.emplace(factor.get(), is_x ? xs : is_turned ? transpose(xs) : is_g ? gs : gs * 2.0);
  }
  for (int64_t t = 0; t < 4; ++t) {
    const auto at = [&](const Tensor& all) { return squeeze(slice(all, 0, {t, t + 1}), 0); };
    expected = expected + weight_term(at(xs), at(gs)) * 3.0;
  }
  const std::vector<double> sums = autograd::sum_after_loop(term.node(), stacks).to_doubles(),
                            wanted = expected.to_doubles();
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(sums[i], wanted[i], 1e-12) << i;
}

}  // namespace
}  // namespace heddle::tests
