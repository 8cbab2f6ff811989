// pmap against the same function of each slice, one after the other; what it refuses.
#include "heddle/distributed/pmap.h"

#include <gtest/gtest.h>

#include <thread>

#include "heddle/autograd/transforms.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/local_transport.h"
#include "heddle/distributed/world.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

using test::drawn;
using test::List;
using tests::expect_error;

class Pmap : public test::ValuesTest {};

// Slices of the last axis beside a whole weight; one result stacked along axis 1, one that is the sum of all.
TEST_P(Pmap, IsTheFunctionOfEachSlice) {
  const Tensor x = numbers({4, 2, 3}, 1), w = numbers({2, 5}, 2);
  const auto f = [](const List& in) {
    const Tensor y = matmul(in[0], in[1]);
    return List{y, psum(sum(square(y)), "i")};
  };
  const List got = pmap(f, "i", {-1, std::nullopt}, {1, std::nullopt})({x, w});
  List each;
  for (int64_t i = 0; i < 3; ++i) each.push_back(matmul(squeeze(slice(x, 2, {.start = i, .stop = i + 1}), 2), w));
  const Tensor wanted = stack(each, 1);
  expect_same(got[0], wanted, "stacked");
  expect_same(got[1], sum(square(wanted)), "summed");
}

// A data-parallel gradient: of what all have, summed by itself.
TEST_P(Pmap, TakesGradientsInside) {
  const Tensor x = numbers({3, 4, 2}, 1), w = numbers({2}, 2);
  const auto loss = [](const Tensor& rows, const Tensor& weight) { return mean(square(matmul(rows, weight))); };
  const auto step = [&](const List& in) {
    const auto of_weight = [&](const Tensor& weight) { return pmean(loss(in[0], weight), "i"); };
    return List{of_weight(in[1]), grad(of_weight)(in[1])};
  };
  const List got = pmap(step, "i", {0, std::nullopt}, {std::nullopt, std::nullopt})({x, w});
  const Tensor rows = reshape(x, {12, 2});
  expect_same(got[0], loss(rows, w), "loss");
  expect_same(got[1], grad([&](const Tensor& weight) { return loss(rows, weight); })(w), "gradient");
}

INSTANTIATE_TEST_SUITE_P(Devices, Pmap, testing::ValuesIn(heddle::test::value_devices()), tests::device_test_name);

// In a real world each process has its slice.
TEST(PmapWorld, BringsOneSliceEach) {
  DeviceContext& d = heddle::device("reference:0");
  const LocalWorld local(2);
  std::vector<double> seen(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      World world([&] { return local.transport(rank); });
      const Tensor own = full({1}, rank + 1.0, DType::f64, &d);
      const auto f = [](const List& in) { return List{in[0] * 10 + psum(in[0], "i")}; };
      seen[static_cast<size_t>(rank)] = pmap(f, world, "i")({own})[0].item();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(seen, (std::vector<double>{13, 23}));
}

TEST(PmapErrors, NameWhatIsWrong) {
  DeviceContext& d = heddle::device("reference:0");
  const Tensor x = drawn({3, 2}, 1, DType::f64, d), y = drawn({4, 2}, 1, DType::f64, d);
  const auto same = [](const List& in) { return in; };
  expect_error<ShapeError>(
      [&] {
        pmap(same, "i", {0}, {0, 0})({x, y});
      },
      {"[pmap] argument 1, (4, 2), has 4 slices along axis 0; one before has 3"});
  expect_error<ShapeError>([&] { pmap(same, "i", {2})({x}); }, {"[pmap]", "2"});
  expect_error<ShapeError>([&] { pmap(same, "i")({drawn({0, 2}, 1, DType::f64, d)}); }, {"there must be one at least"});
  expect_error<ValueError>([&] { pmap(same, "i", {0, 0, 0})({x, y}); }, {"[pmap] 3 axes for 2 arguments"});
  expect_error<ValueError>([&] { pmap(same, "i", {std::nullopt})({x}); }, {"[pmap] no argument is mapped"});
  expect_error<ValueError>([&] { pmap(same, "i", {0}, {-1}); }, {"[pmap] the axis -1 of a result"});
  expect_error<ValueError>([&] { pmap(same, "i")({x, x}); }, {"[pmap] 2 results, but 1 axes for them"});
  expect_error<AxisError>([&] { pmap(same, "i", {0}, {std::nullopt})({x}); }, {"varies along 'i'"});
}

}  // namespace
}  // namespace heddle::distributed
