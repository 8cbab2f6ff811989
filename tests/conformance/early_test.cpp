// Values that a compiled function wants early (wanted_early()): told in their order while the rest is computed, with
// the bits of one submission.
#include <memory>
#include <utility>
#include <vector>

#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/node.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

constexpr int64_t layers = 5, width = 37;

class Early : public DeviceTest {
 protected:
  void SetUp() override {
    for (uint64_t l = 0; l < layers; ++l) {
      weights.push_back(drawn({width, width}, l));
      gradients.push_back(Tensor::from_vector(std::vector<float>(width * width + 1), {width * width + 1}, &device()));
      for (Tensor* made : {&weights.back(), &gradients.back()}) eval({*made});
      weights.back().set_requires_grad(true);
    }
    input = drawn({3, width}, 9);
  }
  // Gradients of the layers, the last one first, each with the loss behind it.
  void record(const Tensor& x, bool early) {
    Tensor y = x;
    for (const Tensor& weight : weights) y = tanh(matmul(y, weight));
    const Tensor loss = mean(y * y);
    backward(loss);
    for (size_t l = layers; l-- > 0;) {
      const NoGradScope no_grad;
      const Tensor flat = reshape(weights[l].grad() * 0.5, {width * width});
      gradients[l].assign(concat({flat, reshape(loss.detach(), {1})}, 0));
      if (early) wanted_early(gradients[l]);
    }
    for (Tensor& weight : weights) weight.zero_grad();
  }
  std::vector<std::vector<uint8_t>> bytes() const {
    std::vector<std::vector<uint8_t>> all;
    for (const Tensor& gradient : gradients) all.push_back(gradient.to_bytes());
    return all;
  }
  // Whether each gradient's own launch may end before the last one.
  bool has_kernels() const { return device().caps().target != Target::none; }

  std::vector<Tensor> weights, gradients;
  Tensor input;
};

TEST_P(Early, AreToldInTheirOrderWithTheBitsOfOneSubmission) {
  const auto plain = compile([&](const Tensor& x) { record(x, false); });
  std::vector<size_t> told;
  std::vector<Event> ends;
  const auto early = compile([&](const Tensor& x) { record(x, true); }, {.ready = [&](size_t number, const Event& end) {
                               told.push_back(number);
                               ends.push_back(end);
                             }});
  for (int call = 0; call < 6; ++call) {
    plain(input);
    const auto expected = bytes();
    told.clear();
    ends.clear();
    const uint64_t before = device().counters().submissions;
    early(input);
    EXPECT_EQ(told, (std::vector<size_t>{0, 1, 2, 3, 4})) << call;
    if (has_kernels()) EXPECT_EQ(device().counters().submissions - before, uint64_t{layers}) << call;
    for (const Event& end : ends) end.wait();
    EXPECT_EQ(bytes(), expected) << call;
  }
  if (has_kernels()) EXPECT_GE(early.stats().replayed, 3u) << early.stats().refusal;
}

// The value lies where the tensor's did, before the rest has been submitted.
TEST_P(Early, AreThereWhenTold) {
  if (!has_kernels()) GTEST_SKIP() << "without kernels everything is computed at once";
  record(input, false);
  const auto expected = bytes();
  std::vector<Storage*> places;
  for (const Tensor& gradient : gradients) places.push_back(gradient.node()->storage.get());
  std::vector<std::vector<uint8_t>> found(layers);
  const auto early = compile([&](const Tensor& x) { record(x, true); }, {.ready = [&](size_t number, const Event& end) {
                               const size_t l = layers - 1 - number;
                               end.wait();
                               found[l].resize(places[l]->bytes());
                               device().read(*places[l], 0, found[l].data(), found[l].size());
                             }});
  for (int call = 0; call < 5; ++call) {
    for (Tensor& gradient : gradients) gradient.assign(zeros(gradient.shape(), DType::f32, &device()));
    eval_pending();
    for (size_t l = 0; l < layers; ++l) ASSERT_EQ(gradients[l].node()->storage.get(), places[l]);
    early(input);
    EXPECT_EQ(found, expected) << call;
  }
}

TEST_P(Early, NothingIsToldWhereTheFunctionSimplyRuns) {
  int told = 0;
  const auto early =
      compile([&](const Tensor& x) { record(x, true); }, {.ready = [&](size_t, const Event&) { ++told; }});
  {
    const EagerScope eager;
    early(input);
  }
  EXPECT_EQ(told, 0);
  const auto silent = compile([&](const Tensor& x) { record(x, true); });
  const uint64_t before = device().counters().submissions;
  for (int call = 0; call < 4; ++call) silent(input);
  if (has_kernels()) EXPECT_EQ(device().counters().submissions - before, 4u);
  expect_error<ValueError>([&] { wanted_early(input); }, {"[wanted_early] nothing was assigned"});
}

INSTANTIATE_TEST_SUITE_P(Devices, Early, testing::ValuesIn(test::value_devices()), device_test_name);

}  // namespace
}  // namespace heddle::tests
