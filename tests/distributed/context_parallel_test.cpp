// Attention over positions in parts on ranks against attention over all of them: results and gradients, in f64 on the
// reference device and in f32 on the others.
#include "heddle/nn/context_parallel.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <string>
#include <tuple>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/shard_map.h"
#include "tests/distributed/ranks_by_hand.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::nn {
namespace {

using distributed::Mesh;
using distributed::shard_map;
using distributed::Spec;
using distributed::test::drawn;
using distributed::test::List;
using tests::expect_error;

constexpr auto ring = [](const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return ring_attention(q, k, v, "cp", {.causal = causal});
};
constexpr auto exchanged = [](const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return all_to_all_attention(q, k, v, "cp", {.causal = causal});
};
constexpr auto whole = [](const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
  return scaled_dot_product_attention(q, k, v, {.causal = causal});
};

class ContextParallel : public distributed::test::ValuesTest {
 protected:
  // The result, and gradients of q, k and v.
  template <class F>
  static List with_gradients(const F& attend, bool causal, const List& in) {
    List leaves;
    for (size_t i = 0; i < 3; ++i) leaves.push_back(in[i].detach());
    for (Tensor& leaf : leaves) leaf.set_requires_grad();
    const Tensor y = attend(leaves[0], leaves[1], leaves[2], causal);
    backward(sum(y * in[3]));
    return {y.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  }

  template <class F>
  void expect_whole(const F& attend, int ranks, const List& in, const std::string& name) {
    for (const bool causal : {true, false}) {
      if (!causal && GetParam() != "reference:0") continue;
      const Mesh mesh({{"cp", ranks}}, ranks);
      const Spec positions{{{}, {}, "cp"}};
      const std::vector<Spec> specs(4, positions);
      const List got =
          shard_map([&](const List& parts) { return with_gradients(attend, causal, parts); }, mesh, specs, specs)(in);
      const List expected = with_gradients(whole, causal, in);
      const char* const names[] = {"result", "gradient of q", "gradient of k", "gradient of v"};
      for (size_t i = 0; i < 4; ++i) expect_same(got[i], expected[i], name + (causal ? ", causal, " : ", ") + names[i]);
    }
  }
};

// Two query heads share a key head; head sizes of q and v differ.
TEST_P(ContextParallel, IsAttentionOverTheWhole) {
  const bool oracle = GetParam() == "reference:0";  // others compile each block's kernels anew
  for (const int ranks : oracle ? std::vector<int>{2, 4} : std::vector<int>{2}) {
    const int64_t t = 3 * ranks;
    const List in{numbers({2, 8, t, 5}, 1), numbers({2, 4, t, 5}, 2), numbers({2, 4, t, 6}, 3),
                  numbers({2, 8, t, 6}, 4)};
    expect_whole(ring, ranks, in, "ring of " + std::to_string(ranks));
    expect_whole(exchanged, ranks, in, "exchange of " + std::to_string(ranks));
  }
}

// Scores up to 1e4, whose exponentials no sum holds.
TEST_P(ContextParallel, LargeScoresStayFinite) {
  const List in{numbers({1, 2, 6, 4}, 1) * 100.0, numbers({1, 2, 6, 4}, 2) * 100.0, numbers({1, 2, 6, 4}, 3),
                numbers({1, 2, 6, 4}, 4)};
  const Mesh mesh({{"cp", 3}}, 3);
  const std::vector<Spec> specs(4, Spec{{{}, {}, "cp"}});
  const List got = shard_map([](const List& parts) { return List{ring(parts[0], parts[1], parts[2], true)}; }, mesh,
                             specs, {specs[0]})(in);
  const Tensor expected = whole(in[0], in[1], in[2], true);
  ASSERT_EQ(got[0].shape(), expected.shape());
  const std::vector<double> a = got[0].to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-3) << i;  // scores are 1e4 and rounded to f32
}

// Bytes of tensors that all ranks hold between the passes beside what they are given, of which each has its part.
uint64_t kept_between_passes(int ranks, const List& in, DeviceContext& where) {
  std::atomic<uint64_t> before{0}, behind{0};
  const auto held = [&] {
    const auto all_came = [&] { (void)distributed::psum(ones(Shape{1}, DType::f32, &where), "cp").to_doubles(); };
    all_came();
    where.synchronize();
    const MemoryUse use = where.memory_use();
    all_came();
    return use.live - use.arena;
  };
  const auto program = [&](const List& parts) {
    List leaves;
    for (size_t i = 0; i < 3; ++i) leaves.push_back(parts[i].detach());
    for (Tensor& leaf : leaves) leaf.set_requires_grad();
    before = held();
    const Tensor y = ring(leaves[0], leaves[1], leaves[2], true);
    eval({y});
    behind = held();
    backward(sum(y * parts[3]));
    return List{leaves[0].grad()};
  };
  const Spec positions{{{}, {}, "cp"}};
  eval(shard_map(program, Mesh({{"cp", ranks}}, ranks), std::vector<Spec>(4, positions), {positions})(in));
  return behind - before;
}

// The result and the logarithms of its sums alone.
TEST_P(ContextParallel, RanksKeepTheirPartBetweenThePasses) {
  if (GetParam() == "reference:0") GTEST_SKIP() << "it keeps every value of a graph";
  const Shape shape{1, 4, 512, 16};
  const List in{numbers(shape, 1), numbers(shape, 2), numbers(shape, 3), numbers(shape, 4)};
  eval(in);
  DeviceContext& where = heddle::device(GetParam());
  const auto alone = static_cast<double>(kept_between_passes(1, in, where));
  EXPECT_GE(alone, 4 * 4 * 512 * 17);
  const double share = static_cast<double>(kept_between_passes(4, in, where)) / 4 / alone;
  RecordProperty("share", fmt::format("{:.3f}", share));
  EXPECT_LE(share, 0.30);
}

INSTANTIATE_TEST_SUITE_P(Devices, ContextParallel, testing::ValuesIn(heddle::test::value_devices()),
                         tests::device_test_name);

TEST(ContextParallelErrors, NameWhatDoesNotFit) {
  const Mesh mesh({{"cp", 2}}, 2);
  DeviceContext& reference = heddle::device("reference:0");
  const Tensor q = drawn({1, 3, 4, 2}, 1, DType::f32, reference);
  const auto run = [&](const auto& f) { shard_map(f, mesh, {Spec{{{}, {}, "cp"}}}, {Spec{{{}, {}, "cp"}}})({q}); };
  expect_error<ShapeError>([&] { run([](const List& in) { return List{exchanged(in[0], in[0], in[0], false)}; }); },
                           {"[all_to_all_attention] 2 ranks do not divide 3 query heads and 3 key heads"});
  expect_error<ShapeError>(
      [&] {
        run([](const List& in) { return List{ring(in[0], slice(in[0], 2, {0, 1}), slice(in[0], 2, {0, 1}), false)}; });
      },
      {"[ring_attention] each rank has as many queries as keys and values: q is (1, 3, 2, 2)"});
  expect_error<AxisError>([&] { ring(q, q, q, false); }, {"[ring_attention] there is no mesh"});
}

}  // namespace
}  // namespace heddle::nn
