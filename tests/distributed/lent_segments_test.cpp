// Leaves whose values come and go: what is computed from them, in which order they are asked for, how many at a time.
#include "heddle/core/run/lent_segments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/compile/hand_over.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/evaluate_in_order.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle {
namespace {

using tests::expect_error;

constexpr int64_t side = 9, samples = 5;

// Square matrices, a group each, whose values stand on the host.
class Matrices final : public Lender {
 public:
  Matrices(size_t count, DeviceContext& device, bool keeps = false) : device_(device), keeps_(keeps) {
    for (size_t g = 0; g < count; ++g) {
      std::vector<float> values;
      for (int64_t i = 0; i < side * side; ++i)
        values.push_back(static_cast<float>((i * 7 + static_cast<int64_t>(g) * 5) % 19) / 19 - 0.4f);
      values_.push_back(values);
      lent.emplace_back(zeros(Shape{side, side}, DType::f32, &device));
      lent.back().set_requires_grad();
      NodePtr leaf = make_lent_leaf(device, Shape{side, side}, DType::f32, g);
      leaf->tracks = true;
      leaf->grad_target = lent.back().impl();
      lent.back().impl()->set_node(leaf);
      whole.push_back(Tensor::from_vector(values, Shape{side, side}, &device).set_requires_grad());
    }
  }

  uint64_t bytes_of(size_t) const override { return side * side * sizeof(float); }
  bool keeps() const override { return keeps_; }
  void fetch(size_t group) override {
    if (!out.contains(group) && under_way.insert(group).second) asked.push_back(group);
    most = std::max(most, out.size() + under_way.size());
  }
  void lend(size_t group) override {
    fetch(group);
    under_way.erase(group);
    if (!out.insert(group).second) return;
    most = std::max(most, out.size() + under_way.size());
    StoragePtr storage = device_.allocate(values_[group].size() * sizeof(float));
    device_.write(*storage, 0, values_[group].data(), values_[group].size() * sizeof(float));
    lent[group].node()->storage = std::move(storage);
  }
  void take_back(size_t group) override {
    EXPECT_EQ(out.erase(group), 1u);
    lent[group].node()->storage.reset();
  }

  // Both the lent one, as from the next time that it is lent, and the whole one.
  void set(size_t group, float value) {
    values_[group].assign(values_[group].size(), value);
    whole[group].assign(full(Shape{side, side}, value, DType::f32, &device_));
  }

  std::vector<Tensor> lent, whole;  // the same matrices
  std::vector<size_t> asked;        // in order
  std::set<size_t> out, under_way;
  size_t most = 0;  // at a time

 private:
  DeviceContext& device_;
  bool keeps_;
  std::vector<std::vector<float>> values_;
};

class LentSegmentsTest : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
  Tensor input() const {
    std::vector<float> values;
    for (int64_t i = 0; i < samples * side; ++i) values.push_back(static_cast<float>(i % 11) / 11 - 0.5f);
    return Tensor::from_vector(values, Shape{samples, side}, &device());
  }
};

using Matrix = const std::vector<Tensor>&;

Tensor chain(const Tensor& x, Matrix w, const std::vector<size_t>& order) {
  Tensor y = x;
  for (const size_t i : order) y = tanh(matmul(y, w[i]));
  return y;
}

// Gradients of the matrices, the last first.
std::vector<Tensor> gradients_of(const Tensor& y, std::vector<Tensor> w) {
  backward(sum(y * y));
  std::vector<Tensor> found;
  std::reverse(w.begin(), w.end());
  for (Tensor& matrix : w) {
    found.push_back(matrix.grad() * 2.0);
    matrix.zero_grad();
  }
  return found;
}

void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i])));
}

// The gradients of `from` through `graph`, by matrices that are lent and by whole ones.
template <class Graph>
void expect_same_gradients(Matrices& matrices, const Graph& graph) {
  std::vector<std::vector<float>> expected;
  for (const Tensor& gradient : gradients_of(graph(matrices.whole), matrices.whole))
    expected.push_back(gradient.to_vector<float>());
  const LenderScope scope(&matrices);
  size_t next = 0;
  evaluate_in_order(gradients_of(graph(matrices.lent), matrices.lent), [&](size_t place, const Tensor& gradient) {
    EXPECT_EQ(place, next++);
    expect_same(gradient.to_vector<float>(), expected[place]);
  });
  EXPECT_EQ(next, expected.size());
  EXPECT_TRUE(matrices.out.empty());
}

TEST_P(LentSegmentsTest, ForwardAndBackwardAskInOrder) {
  Matrices matrices(5, device());
  expect_same_gradients(matrices, [&](Matrix w) { return chain(input(), w, {0, 1, 2, 3, 4}); });
  // The first matrix is not read for its own gradient.
  EXPECT_EQ(matrices.asked, (std::vector<size_t>{0, 1, 2, 3, 4, 3, 2, 1}));
  EXPECT_EQ(matrices.most, 2u);
}

TEST_P(LentSegmentsTest, WhatIsKeptComesOnce) {
  Matrices matrices(4, device(), true);
  expect_same_gradients(matrices, [&](Matrix w) { return chain(input(), w, {0, 1, 2, 3}); });
  EXPECT_EQ(matrices.asked, (std::vector<size_t>{0, 1, 2, 3}));
}

// A matrix that is read at both ends, products in 16 bits, what a checkpoint computes again.
TEST_P(LentSegmentsTest, OtherGraphs) {
  Matrices tied(4, device()), cast(3, device()), again(4, device());
  expect_same_gradients(tied, [&](Matrix w) { return chain(input(), w, {0, 1, 2, 3, 0}); });
  EXPECT_EQ(tied.most, 2u);
  expect_same_gradients(cast, [&](Matrix w) {
    Tensor y = input();
    for (const Tensor& matrix : w) y = tanh(matmul(y, transpose(matrix.to(DType::bf16).to(DType::f32), 0, 1) * 0.5));
    return y;
  });
  EXPECT_EQ(cast.asked, (std::vector<size_t>{0, 1, 2, 1}));  // no cast is kept for the backward pass
  EXPECT_EQ(cast.most, 2u);
  expect_same_gradients(again, [&](Matrix w) {
    const auto block = [&](const Tensor& x) { return chain(x, w, {1, 2}); };
    return chain(checkpoint(block, chain(input(), w, {0})), w, {3});
  });
}

// A network that reads its matrices in turn, many times: they come together instead.
TEST_P(LentSegmentsTest, WhatTakesTurnsComesTogether) {
  Matrices matrices(2, device());
  expect_same_gradients(matrices, [&](Matrix w) { return chain(input(), w, {0, 1, 0, 1, 0, 1, 0, 1}); });
  EXPECT_LE(matrices.asked.size(), 4u);
}

TEST_P(LentSegmentsTest, AnEvaluationBorrowsAsItGoes) {
  Matrices matrices(4, device());
  const std::vector<float> expected = chain(input(), matrices.whole, {0, 1, 2, 3}).to_vector<float>();
  {
    const LenderScope scope(&matrices);
    const NoGradScope no_grad;
    expect_same(chain(input(), matrices.lent, {0, 1, 2, 3}).to_vector<float>(), expected);
    EXPECT_EQ(matrices.asked, (std::vector<size_t>{0, 1, 2, 3}));
    EXPECT_EQ(matrices.most, 2u);
    EXPECT_TRUE(matrices.out.empty());
    // A compiled function runs as it stands each time.
    const auto compiled = compile([&](const Tensor& x) { return chain(x, matrices.lent, {2, 1}); });
    const std::vector<float> pair = chain(input(), matrices.whole, {2, 1}).to_vector<float>();
    for (int i = 0; i < 3; ++i) expect_same(compiled(input()).template to_vector<float>(), pair);
  }
  expect_error<ValueError>([&] { (void)chain(input(), matrices.lent, {0}).to_vector<float>(); },
                           {"was looked at whose elements several ranks share"});
}

// A compiled function whose gradients are handed over asks for the same in the same order when it is replayed, and what
// it gives follows what is lent.
TEST_P(LentSegmentsTest, ReplaysAskAndGiveTheSame) {
  Matrices matrices(5, device());
  const auto gradients = [&](const Tensor& x, std::vector<Tensor>& w) {
    const Tensor y = chain(x, w, {0, 1, 2, 3, 4});
    std::vector<Tensor> all = gradients_of(y, w);
    all.push_back(sum(y).detach());
    return all;
  };
  std::vector<std::vector<float>> found;
  const auto compiled = compile([&](const Tensor& x) { return gradients(x, matrices.lent); });
  const auto take = [&](size_t place, const Tensor& gradient) {
    EXPECT_EQ(place, found.size());
    found.push_back(gradient.to_vector<float>());
  };
  const LenderScope scope(&matrices);
  for (int call = 0; call < 6; ++call) {
    const Tensor x = (input() * (1.0 + call)).detach();
    if (call == 4) matrices.set(1, 0.25f);
    found.clear(), matrices.asked.clear();
    const HandOverScope taking(take);
    const std::vector<float> last = compiled(x).back().template to_vector<float>();
    found.push_back(last);
    EXPECT_EQ(matrices.asked, (std::vector<size_t>{0, 1, 2, 3, 4, 3, 2, 1})) << call;
    EXPECT_TRUE(matrices.out.empty()) << call;
    const std::vector<Tensor> expected = gradients(x, matrices.whole);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) expect_same(found[i], expected[i].to_vector<float>());
  }
  EXPECT_EQ(matrices.most, 2u);
  if (device().caps().target != Target::none) EXPECT_EQ(compiled.stats().replayed, 4u) << compiled.stats().refusal;
}

// States that are written on the way: those who read before see the old values.
TEST_P(LentSegmentsTest, AssignsOnTheWay) {
  Matrices matrices(3, device());
  const NoGradScope no_grad;
  const auto run = [&](Matrix w) {
    Tensor state = zeros(Shape{samples, side}, DType::f32, &device()) + 1.0;
    Tensor y = matmul(input(), w[0]);
    const Tensor before = y + state;
    state.assign(state + y);
    y = matmul(state, w[1]);
    state.assign(state * 2.0 + y);
    const Tensor after = matmul(y + before, w[2]) + state;
    std::vector<float> all = after.to_vector<float>();
    const std::vector<float> last = state.to_vector<float>();
    all.insert(all.end(), last.begin(), last.end());
    return all;
  };
  const std::vector<float> expected = run(matrices.whole);
  const LenderScope scope(&matrices);
  expect_same(run(matrices.lent), expected);
}

INSTANTIATE_TEST_SUITE_P(Devices, LentSegmentsTest, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

}  // namespace
}  // namespace heddle
