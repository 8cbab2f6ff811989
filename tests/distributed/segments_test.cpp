// What becomes of recorded collectives: each is made once, in the order of recording, whoever looks; what lies around
// them is computed by the device in between. The ranks are those of a mesh whose calls a list remembers.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/run_once.h"
#include "heddle/core/op/primitives.h"
#include "heddle/distributed/collectives.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

using tests::expect_error;

// Two ranks along "dp" and three along "tp", all of which have what this one has: a psum of f32 is a product.
class Remembered final : public AxisLinks {
 public:
  const std::vector<ScopeAxis>& axes() const override { return axes_; }
  void call(const Node& node, std::span<const uint8_t> operand, std::span<uint8_t> result) override {
    calls.push_back(std::string(node.op->name) + " " + node.shape.str());
    if (seen) seen();
    if (calls.size() == fails_at) throw Error("[psum] the other ranks are gone");
    ASSERT_EQ(result.size(), static_cast<size_t>(node.shape.numel()) * sizeof(float));
    for (size_t i = 0; i < result.size(); ++i) result[i] = operand[i % operand.size()];
    auto* values = reinterpret_cast<float*>(result.data());
    for (size_t i = 0; i < result.size() / sizeof(float); ++i) values[i] *= 2;
  }

  std::vector<std::string> calls;
  size_t fails_at = 0;  // from 1
  std::function<void()> seen;

 private:
  std::vector<ScopeAxis> axes_{{"dp", 2, 1}, {"tp", 3, 0}};
};

using Calls = std::vector<std::string>;

class SegmentsOnDevices : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
  Tensor numbers(std::vector<float> values) const {
    const auto size = static_cast<int64_t>(values.size());
    return Tensor::from_vector(values, Shape{size}, &device());
  }
};

// Values that lie at an address of the host, where the device has one: whole, behind others, by columns, and one that
// the ranks gave. Kernels read them afterwards.
TEST_P(SegmentsOnDevices, ManyBytesAreExchangedWhereTheyLie) {
  constexpr int64_t side = 200, skipped = 5;
  std::vector<float> values(side * side);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1013);
  Remembered links;
  MeshScope scope(links);
  const Tensor x = numbers(values);
  const Tensor behind = psum(slice(x, 0, {skipped, side * side, 1}), "dp"), twice = psum(behind, "tp") + 1;
  const Tensor turned = psum(transpose(reshape(x, {side, side})), "dp"), computed = psum(x * 3, "dp");
  const std::vector<double> got = twice.to_doubles(), by_columns = turned.to_doubles(), thrice = computed.to_doubles();
  for (size_t i = 0; i < values.size(); ++i) {
    if (i < got.size()) {
      ASSERT_EQ(got[i], 4 * values[i + skipped] + 1) << i;
    }
    ASSERT_EQ(by_columns[i], 2 * values[i % side * side + i / side]) << i;
    ASSERT_EQ(thrice[i], 6 * values[i]) << i;
  }
  EXPECT_EQ(x.to_vector<float>(), values);
}

TEST_P(SegmentsOnDevices, CallsComeInTheOrderOfRecordingWhoeverIsLookedAt) {
  Remembered links;
  MeshScope scope(links);
  const Tensor x = numbers({1, 2, 3});
  const Tensor first = psum(x, "dp"), second = psum(slice(first, 0, {0, 2, 1}) + 1, "dp");
  psum(slice(x, 0, {0, 1, 1}), "dp");  // nobody keeps it
  EXPECT_TRUE(links.calls.empty());    // nothing was asked for
  EXPECT_EQ(second.to_doubles(), (std::vector<double>{6, 10}));
  EXPECT_EQ(links.calls, (Calls{"psum (3)", "psum (2)", "psum (1)"}));
  EXPECT_EQ(first.to_doubles(), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(links.calls.size(), 3u);
}

TEST_P(SegmentsOnDevices, WhatNobodyLooksAtIsMadeAtTheEnd) {
  Remembered links;
  MeshScope scope(links);
  psum(numbers({1}) * 3, "dp");
  scope.finish();
  EXPECT_EQ(links.calls, (Calls{"psum (1)"}));
  scope.finish();
  EXPECT_EQ(links.calls.size(), 1u);
}

TEST_P(SegmentsOnDevices, EqualCallsAreNotOne) {
  Remembered links;
  MeshScope scope(links);
  const Tensor x = numbers({1, 2});
  EXPECT_EQ((psum(x + 1, "dp") + psum(x + 1, "dp")).to_doubles(), (std::vector<double>{8, 12}));
  EXPECT_EQ(links.calls, (Calls{"psum (2)", "psum (2)"}));
}

TEST_P(SegmentsOnDevices, ACheckpointComputesNoCallAgain) {
  Remembered links;
  MeshScope scope(links);
  Tensor w = numbers({1, 2});
  w.set_requires_grad();
  const auto block = [](const Tensor& t) { return exp(psum(sin(t) * t, "dp")); };
  const Tensor loss = sum(checkpoint(block, w));
  backward(loss);
  const Tensor plain = numbers({1, 2}).set_requires_grad();
  const std::vector<double> got = w.grad().to_doubles();
  EXPECT_EQ(links.calls, (Calls{"psum (2)", "psum (2)"}));  // forward, and pvary's gradient
  backward(sum(block(plain)));
  const std::vector<double> expected = plain.grad().to_doubles();
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(got[i], expected[i], 1e-5 * expected[i]);
}

TEST_P(SegmentsOnDevices, WhatTwoSegmentsReadIsComputedOnceAndKept) {
  Remembered links;
  MeshScope scope(links);
  uint64_t before = 0;
  links.seen = [&] { before = device().counters().kernels; };
  const Tensor x = reshape(numbers({1, 2, 3, 4}), {2, 2});
  Tensor result;
  {
    const Tensor product = matmul(matmul(x, x), x);  // nobody holds it when the result is looked at
    result = psum(product + 1, "dp") * product;
  }
  EXPECT_EQ(result.to_doubles(), (std::vector<double>{2 * 38 * 37, 2 * 55 * 54, 2 * 82 * 81, 2 * 119 * 118}));
  if (device().caps().target != Target::none) {
    EXPECT_EQ(device().counters().kernels - before, 1u);
  }
}

TEST_P(SegmentsOnDevices, AnAssignWaitsForReadersOfTheOldValueInLaterSegments) {
  Remembered links;
  MeshScope scope(links);
  Tensor p = numbers({1, 2});
  eval({p});
  const Tensor old = p * 10;  // computed behind the call
  p.assign(p + 1);
  const Tensor moved = psum(p * 1, "dp");  // needs the new value
  const Tensor both = old + moved;
  EXPECT_EQ(both.to_doubles(), (std::vector<double>{14, 26}));
  EXPECT_EQ(p.to_doubles(), (std::vector<double>{2, 3}));
}

TEST_P(SegmentsOnDevices, EagerCallsAreMadeAtOnce) {
  Remembered links;
  MeshScope scope(links);
  const EagerScope eager;
  const Tensor y = psum(numbers({1, 2}), "dp");
  EXPECT_EQ(links.calls.size(), 1u);
  EXPECT_EQ((y + 1).to_doubles(), (std::vector<double>{3, 5}));
}

TEST_P(SegmentsOnDevices, PvaryIsItsOperand) {
  Remembered links;
  MeshScope scope(links);
  const Tensor x = numbers({1, 2});
  EXPECT_EQ(pvary(x, "dp").to_doubles(), x.to_doubles());
  EXPECT_EQ(pvary(x + 1, "dp").to_doubles(), (std::vector<double>{2, 3}));
  EXPECT_EQ((pvary(transpose(reshape(x, {1, 2})), "dp") * 2).to_doubles(), (std::vector<double>{2, 4}));
  EXPECT_TRUE(links.calls.empty());
}

TEST_P(SegmentsOnDevices, EmptyValues) {
  Remembered links;
  MeshScope scope(links);
  EXPECT_EQ(psum(zeros({0, 3}, DType::f32, &device()), "dp").shape(), (Shape{0, 3}));
  scope.finish();
  EXPECT_EQ(links.calls.size(), 1u);
}

TEST_P(SegmentsOnDevices, AFailedCallFailsWhatFollows) {
  Remembered links;
  links.fails_at = 2;
  MeshScope scope(links);
  const Tensor x = numbers({1, 2});
  const Tensor first = psum(x, "dp"), second = psum(x, "dp");
  expect_error<Error>([&] { second.to_doubles(); }, {"the other ranks are gone"});
  EXPECT_EQ(first.to_doubles(), (std::vector<double>{2, 4}));
  expect_error<AxisError>([&] { second.to_doubles(); }, {"[psum] the result (2) f32", "was never made"});
  EXPECT_EQ(links.calls.size(), 2u);  // and is not tried again
}

TEST_P(SegmentsOnDevices, CompiledFunctionsCallEachTime) {
  Remembered links;
  const auto inner = compile([](const Tensor& x) { return psum(x * 2, "dp") + 1; });
  {
    MeshScope scope(links);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(inner(numbers({1, 2})).to_doubles(), (std::vector<double>{5, 9}));
  }
  EXPECT_EQ(links.calls.size(), 3u);
  const auto outer = compile([&](const Tensor& x) {
    MeshScope scope(links);
    return full({}, sum(psum(x * 2, "dp") + 1).item(), DType::f32, &device());
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(outer(numbers({1, 2})).item(), 14);
  EXPECT_EQ(links.calls.size(), 6u);
  EXPECT_NE(outer.stats().refusal.find("psum waits for other ranks"), std::string::npos) << outer.stats().refusal;
}

INSTANTIATE_TEST_SUITE_P(Devices, SegmentsOnDevices, testing::ValuesIn(heddle::test::value_devices()),
                         tests::device_test_name);

// ---- types

class Types : public testing::Test {
 protected:
  Remembered links;
  MeshScope scope{links};
  DeviceContext& reference = heddle::device("reference:0");
  Tensor invariant = Tensor::from_vector(std::vector<float>{1, 2}, Shape{2}, &reference);
  Tensor along_tp = Tensor::from_vector(std::vector<float>{3, 4}, Shape{2}, &reference);
  void SetUp() override { set_varying(along_tp, "tp"); }
};

TEST_F(Types, FollowTheOperands) {
  EXPECT_FALSE(varies(invariant * 2, {"dp", "tp"}));
  const Tensor mixed = invariant * along_tp;
  EXPECT_TRUE(varies(mixed, "tp"));
  EXPECT_FALSE(varies(mixed, "dp"));
  EXPECT_FALSE(varies(psum(mixed, "tp"), {"dp", "tp"}));
  EXPECT_TRUE(varies(psum(mixed, "dp"), "tp"));
  EXPECT_FALSE(varies(psum(mixed, "dp"), "dp"));
  for (const Tensor& y : {all_gather(mixed, "tp"), ppermute(mixed, "tp", {})}) EXPECT_TRUE(varies(y, "tp"));
  EXPECT_TRUE(varies(pvary(mixed, "dp"), "dp"));
  EXPECT_EQ(pvary(mixed, "tp").node(), mixed.node());
  // Leaves over the same value: copies without history, and rows, which are views of what is there.
  EXPECT_TRUE(varies(along_tp.detach(), "tp"));
  EXPECT_TRUE(varies(slice(along_tp, 0, {1, 2, 1}), "tp"));
  EXPECT_TRUE(varies(along_tp[0], "tp"));
  EXPECT_TRUE(varies(axis_index("dp", &reference), "dp"));
  EXPECT_EQ(axis_index({"dp", "tp"}, &reference).item(), 3);
  EXPECT_EQ(axis_size({"tp", "dp"}), 6);
}

TEST_F(Types, AGradientOfWhatIsSharedIsSummed) {
  invariant.set_requires_grad();
  backward(sum(invariant * along_tp));
  EXPECT_EQ(invariant.grad().to_doubles(), (std::vector<double>{6, 8}));  // twice, as all psums here
  EXPECT_EQ(links.calls, (Calls{"psum (2)"}));
  EXPECT_FALSE(varies(invariant.grad(), {"dp", "tp"}));
}

TEST_F(Types, ALoopTakesItsTypeFromItsInputs) {
  invariant.set_requires_grad();
  const auto body = [&](const std::vector<Tensor>& c, const std::vector<Tensor>& s) {
    return Scanned{{c[0] + s[0] * invariant}, {}};
  };
  const Tensor last = scan(body, {zeros({2}, DType::f32, &reference)}, {stack({along_tp, along_tp}, 0)}).carry[0];
  EXPECT_TRUE(varies(last, "tp"));
  EXPECT_FALSE(varies(last, "dp"));
  backward(sum(last));
  EXPECT_EQ(invariant.grad().to_doubles(), (std::vector<double>{12, 16}));
  EXPECT_EQ(links.calls, (Calls{"psum (2)"}));
}

TEST_F(Types, ErrorsNameAxisOpAndLine) {
  expect_error<AxisError>([&] { psum(invariant, "pp"); },
                          {"[psum] the mesh dp=2,tp=3 has no axis 'pp'", "segments_test.cpp:"});
  expect_error<AxisError>([&] { pmax(invariant, {"tp", "tp"}); }, {"[pmax] the axis 'tp' stands twice"});
  expect_error<AxisError>([&] { all_gather(invariant, std::vector<std::string>{}); },
                          {"[all_gather] no axis is named"});
  expect_error<DTypeError>([&] { psum(cast(invariant, DType::u8), "tp"); },
                           {"[psum] (2) u8 cannot be reduced over ranks"});
  expect_error<DTypeError>([&] { pmean(cast(invariant, DType::i32), "tp"); }, {"[pmean] (2) i32 has no mean"});
  expect_error<ShapeError>([&] { reduce_scatter(invariant, "tp"); },
                           {"[reduce_scatter] the 3 ranks along 'tp' do not divide axis 0 of (2)"});
  expect_error<ShapeError>(
      [&] {
        all_to_all(invariant, {"dp", "tp"}, 0, 0);
      },
      {"the 6 ranks along 'dp' and 'tp' do not divide"});
  expect_error<ShapeError>([&] { all_gather(invariant, "tp", 2); }, {"[all_gather] axis 2 is out of range"});
  expect_error<ValueError>(
      [&] {
        ppermute(invariant, "tp", {{0, 3}});
      },
      {"[ppermute] 0 to 3: along 'tp' there are places 0 to 2"});
  expect_error<ValueError>([&] { ppermute(invariant, "tp", {{0, 1}, {2, 1}}); }, {"receives once"});
  Tensor shared = invariant.detach(), state = invariant.detach();
  shared.set_requires_grad();
  expect_error<AxisError>([&] { shared.assign(along_tp * 2); },
                          {"[assign] the value of segments_test.cpp:", "varies along 'tp'", "psum or pmean"});
  state.assign(along_tp * 2);
  EXPECT_TRUE(varies(state, "tp"));
  expect_error<AxisError>(
      [&] {
        const auto body = [](const std::vector<Tensor>& c, const std::vector<Tensor>& s) {
          return Scanned{{c[0] + psum(s[0], "tp")}, {}};
        };
        scan(body, {zeros({2}, DType::f32, &reference)}, {stack({along_tp, along_tp}, 0)});
      },
      {"[psum] a collective along 'tp' stands in the body of a scan", "segments_test.cpp:"});
  expect_error<ValueError>([&] { set_varying(invariant * 2, "tp"); }, {"[set_varying]", "pvary() it"});
  const auto wrong = [&] {
    const auto [y, pull] = vjp([&](const Tensor& x) { return x * 2; }, invariant);
    pull(along_tp);
  };
  expect_error<AxisError>(wrong, {"[grad] the cotangent", "varies along 'tp', the value does not"});
  EXPECT_TRUE(links.calls.empty());
}

TEST(OutsideOfAProgram, NamesMeanNothing) {
  const Tensor x = ones({2}, DType::f32, &heddle::device("reference:0"));
  expect_error<AxisError>([&] { psum(x, "tp"); }, {"[psum] there is no mesh: axes have names inside of shard_map"});
  expect_error<AxisError>([&] { axis_index("tp"); }, {"[axis_index] there is no mesh"});
  Tensor left;
  {
    Remembered links;
    const MeshScope scope(links);
    left = psum(x, "tp");
    expect_error<ValueError>([&] { const MeshScope second(links); }, {"inside of another"});
  }
  expect_error<AxisError>([&] { left.to_doubles(); },
                          {"[psum] the result (2) f32 of segments_test.cpp:", "was never made"});
}

}  // namespace
}  // namespace heddle::distributed
