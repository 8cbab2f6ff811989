// A backward pass in two halves: what the first leaves is all that the second reads, and nothing is computed twice.
#include "heddle/autograd/residuals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using List = std::vector<Tensor>;

using Nodes = std::vector<NodePtr>;

// Products that are not computed yet.
int64_t products_below(const Nodes& roots) {
  const Nodes nodes = pending_below(roots);
  return std::ranges::count_if(nodes, [](const NodePtr& node) { return node->op->kind == OpKind::contraction; });
}

class Residuals : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    for (int i = 0; i < 3; ++i) weights.push_back(filled({5, 5}, 7 * i + 1));
    x = filled({3, 5}, 2);
    for (Tensor& w : weights) w.set_requires_grad();
    x.set_requires_grad();
  }
  Tensor filled(const Shape& shape, int seed) {
    std::vector<float> values;
    for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(static_cast<float>((i * 37 + seed * 11) % 17 - 8) / 9);
    return Tensor::from_vector(values, shape, &device());
  }
  Tensor forward() const {
    Tensor y = x;
    for (const Tensor& w : weights) y = tanh(matmul(y, transpose(w, 0, 1))) + y;
    return y;
  }
  // Of x and the weights.
  List of() const {
    List all{x};
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  }
  List weights;
  Tensor x;
};
HEDDLE_DEVICE_TESTS(Residuals);

TEST_P(Residuals, NothingIsComputedTwice) {
  const Tensor y = forward();
  const List outputs{y}, cotangents{filled({3, 5}, 4)};
  const NoGradScope no_grad;
  const Nodes recorded = pending_below(nodes_of(outputs)), found = nodes_of(vjp(outputs, of(), cotangents));
  EXPECT_EQ(products_below(found), 9);
  List kept = tensors_of(residuals(found, recorded));
  EXPECT_FALSE(kept.empty());
  EXPECT_LT(kept.size(), recorded.size());
  kept.push_back(y);
  eval(kept);
  EXPECT_EQ(products_below(found), 6);  // two a layer, no forward pass
  const Nodes first{found.front()}, later(found.begin() + 1, found.end());
  List left = tensors_of(residuals(later, pending_below(first)));
  left.emplace_back(first.front());
  eval(left);
  EXPECT_EQ(products_below(later), 3);  // the weights' own
  const List whole = grad(std::span<const Tensor>(outputs), of(), cotangents), halves = tensors_of(found);
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_EQ(halves[i].to_vector<float>(), whole[i].to_vector<float>()) << "gradient " << i;
}

// The order follows from the structure, so what one recording finds out counts for the next.
TEST_P(Residuals, NumbersAreThoseOfTheNextRecording) {
  const auto numbers = [&] {
    const List outputs{forward()}, cotangents{filled({3, 5}, 4)};
    const NoGradScope no_grad;
    const Nodes recorded = pending_below(nodes_of(outputs));
    std::vector<ptrdiff_t> found;
    for (const NodePtr& node : residuals(nodes_of(vjp(outputs, of(), cotangents)), recorded))
      found.push_back(std::ranges::find(recorded, node) - recorded.begin());
    return found;
  };
  EXPECT_EQ(numbers(), numbers());
}

TEST_P(Residuals, ViewsConstantsAndValuesAreNone) {
  const auto read = [&](const Tensor& later, const Tensor& earlier) {
    return residuals(nodes_of({{exp(later)}}), pending_below(nodes_of({{earlier}})));
  };
  const Tensor view = reshape(x + x, {15});  // of a function of what is there
  EXPECT_TRUE(read(view, view).empty());
  EXPECT_TRUE(residuals(nodes_of({{x, Tensor()}}), {}).empty());
  const Tensor product = matmul(x, weights.front()), turned = transpose(product, 0, 1);
  EXPECT_EQ(read(turned, turned), Nodes{product.node()});
  eval({product});
  EXPECT_TRUE(read(turned, turned).empty());
}

}  // namespace
}  // namespace heddle::tests
