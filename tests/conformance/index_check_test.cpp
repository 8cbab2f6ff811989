// HEDDLE_CHECK_INDICES: the first index out of range is found on the device and named, wherever the call was recorded;
// values stay what they are without it.
#include "heddle/core/functions/shape/index_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/math/math.h"
#include "heddle/core/functions/nn/bags.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/functions/shape/scatter.h"
#include "heddle/nn/embedding.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

class IndexCheck : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() const { return device(GetParam()); }
  Tensor ints(const std::vector<int>& values, const Shape& shape) const {
    return Tensor::from_vector(values, shape, &dev());
  }
  Tensor table(const Shape& shape) const {
    return reshape(arange(0, static_cast<double>(shape.numel()), 1, DType::f32, &dev()), shape);
  }
};

// What the observation throws, without the place behind it; "" where it throws nothing.
template <class F>
std::string fault_of(const F& observed) {
  try {
    observed();
  } catch (const IndexError& e) {
    const std::string text = e.what();
    EXPECT_NE(text.find(" (index_check_test.cpp:"), std::string::npos) << text;
    return text.substr(0, text.find(" (index_check_test.cpp:"));
  }
  return "";
}
std::string fault_of(const Tensor& result) {
  return fault_of([&] { result.to_bytes(); });
}

TEST_P(IndexCheck, NamesCallIndexPositionAndLine) {
  const IndexGuardScope guard;
  const Tensor x = table({5, 10}), bad = ints({0, 1, 2, 9, -10, 3, 12, -11}, {4, 2});
  const Tensor y = gather(x, 1, bad) * 2;
  const int line = __LINE__ - 1;
  try {
    y.to_bytes();
    FAIL();
  } catch (const IndexError& e) {
    EXPECT_EQ(std::string(e.what()), fmt::format("[gather] index 12 is out of range for dimension 1 of size 10, at "
                                                 "position (3, 0) (index_check_test.cpp:{})",
                                                 line));
    EXPECT_EQ(e.index(), 12);
    EXPECT_EQ(e.size(), 10);
    EXPECT_EQ(e.position(), (std::vector<int64_t>{3, 0}));
  }
  EXPECT_EQ(y.to_doubles(), (std::vector<double>{0, 2, 24, 38, 40, 46, 78,
                                                 60}));  // the observation is not lost: clamped, as without the guard
}

TEST_P(IndexCheck, EveryFunctionThatTakesIndices) {
  const IndexGuardScope guard;
  const Tensor x = table({3, 4}), rows = ints({0, 2, -4}, {3}), wide = ints({0, 1, 2, 4, 1, 0}, {3, 2}),
               values = table({3, 2});
  const Tensor labels = ints({0, 4, 1}, {3}), below = ints({0, -1, 2}, {3});
  const auto out = [](int index, int dim, int size, const char* at) {
    return fmt::format(" {} is out of range for dimension {} of size {}, at position {}", index, dim, size, at);
  };
  EXPECT_EQ(fault_of(take(x, rows)), "[take] index" + out(-4, 0, 3, "(2)"));
  EXPECT_EQ(fault_of(index_select(x, 0, rows)), "[index_select] index" + out(-4, 0, 3, "(2)"));
  EXPECT_EQ(fault_of(embedding(x, rows)), "[embedding] index" + out(-4, 0, 3, "(2)"));
  EXPECT_EQ(fault_of(embedding_bag(wide, x, BagMode::mean)), "[embedding_bag] index" + out(4, 0, 3, "(1, 1)"));
  EXPECT_EQ(fault_of(embedding_bag(rows, ints({0, 1}, {2}), x, BagMode::sum)),
            "[embedding_bag] index" + out(-4, 0, 3, "(2)"));
  EXPECT_EQ(fault_of(embedding_bag(ints({0, 1}, {2}), ints({0, 3}, {2}), x, BagMode::sum)),
            "[embedding_bag] offset" + out(3, 0, 3, "(1)"));
  EXPECT_EQ(fault_of(take_along_axis(x, wide, 1)), "[take_along_axis] index" + out(4, 1, 4, "(1, 1)"));
  EXPECT_EQ(fault_of(put_along_axis(x, wide, values, 1)), "[put_along_axis] index" + out(4, 1, 4, "(1, 1)"));
  EXPECT_EQ(fault_of(scatter(x, 1, wide, values)), "[scatter] index" + out(4, 1, 4, "(1, 1)"));
  EXPECT_EQ(fault_of(scatter(x, 1, wide, 7.0)), "[scatter] index" + out(4, 1, 4, "(1, 1)"));
  EXPECT_EQ(fault_of(scatter_add(x, 1, wide, values)), "[scatter_add] index" + out(4, 1, 4, "(1, 1)"));
  EXPECT_EQ(fault_of(scatter_reduce(x, 1, wide, values, ScatterReduction::amax)),
            "[scatter_reduce] index" + out(4, 1, 4, "(1, 1)"));
  EXPECT_EQ(fault_of(index_add(x, below, x)), "[index_add] index" + out(-1, 0, 3, "(1)"));
  EXPECT_EQ(fault_of(index_add(x, 1, labels, table({3, 3}))), "[index_add] index" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(index_add(x, 0, below, x)), "");
  EXPECT_EQ(fault_of(index_copy(x, 0, rows, x)), "[index_copy] index" + out(-4, 0, 3, "(2)"));
  EXPECT_EQ(fault_of(index_reduce(x, 0, rows, x, ScatterReduction::prod)),
            "[index_reduce] index" + out(-4, 0, 3, "(2)"));
  EXPECT_EQ(fault_of(index_fill(x, 1, labels, 1)), "[index_fill] index" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(index_put(x, std::vector<Tensor>{below, labels}, table({3}))),
            "[index_put] index" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(max_unpool1d(reshape(x, {1, 3, 4}), ints({0, 1, 2, 3, 0, 1, 8, 3, 0, 1, 2, 3}, {1, 3, 4}), {2})),
            "[max_unpool1d] index" + out(8, 2, 8, "(0, 1, 2)"));
  EXPECT_EQ(fault_of(one_hot(below, 3)), "[one_hot] class" + out(-1, 1, 3, "(1)"));
  EXPECT_EQ(fault_of(cross_entropy(x, labels)), "[cross_entropy] class" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(cross_entropy(x, labels, {.ignore_index = 4})), "");
  EXPECT_EQ(fault_of(cross_entropy(x, below, {.ignore_index = 4})), "[cross_entropy] class" + out(-1, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(nll_loss(x, labels)), "[nll_loss] class" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(nll_loss(x, labels, NllOptions{.ignore_index = 2})), "[nll_loss] class" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(multi_margin_loss(x, labels)), "[multi_margin_loss] class" + out(4, 1, 4, "(1)"));
  EXPECT_EQ(fault_of(multilabel_margin_loss(x, ints({0, -1, 9, 9, 1, 2, -1, 0, 5, 0, 1, 2}, {3, 4}))),
            "[multilabel_margin_loss] class" + out(5, 1, 4, "(2, 0)"));
  const Tensor logp = log_softmax(table({4, 2, 3}));
  const Tensor lengths = ints({4, 4}, {2});
  EXPECT_EQ(fault_of(ctc_loss(logp, ints({1, 9, 1, 3}, {2, 2}), lengths, ints({1, 2}, {2}))),
            "[ctc_loss] class" + out(3, 2, 3, "(1, 1)"));
}

// What functions compute for themselves is in range, or left out on purpose: nobody is told.
TEST_P(IndexCheck, RightCallsAndInnerIndicesAreSilent) {
  const IndexGuardScope guard;
  const Tensor x = table({40, 6}), picks = remainder(arange(-40, 40, 1, DType::i32, &dev()), 40.0);
  EXPECT_EQ(fault_of(take(x, picks - 40)), "");
  EXPECT_EQ(fault_of(scatter_add(x, 0, expand(reshape(picks, {80, 1}), {80, 6}), table({80, 6}))), "");
  EXPECT_EQ(fault_of(index_put(x, std::vector<Tensor>{picks}, table({80, 6}), true)), "");
  EXPECT_EQ(fault_of(searchsorted(table({100}), table({7}) * 50)), "");
  EXPECT_EQ(fault_of(take(x, ints({}, {0}))), "");
  EXPECT_EQ(fault_of(take(x, cast(picks, DType::i64))), "");
}

TEST_P(IndexCheck, StridedViewsOfIndicesAndFusedGathers) {
  const IndexGuardScope guard;
  const Tensor all = ints({0, 1, 2, 3, 4, 70, 6, 7, 8, 9, 10, 11}, {3, 4});
  const Tensor view = slice(transpose(all, 0, 1), 0, {.start = 1, .stop = 4, .step = 2});  // (2, 3): 1 70 9; 3 7 11
  EXPECT_EQ(fault_of(exp(take(table({12}), view) * 0.01) + 1),
            "[take] index 70 is out of range for dimension 0 of size 12, at position (0, 1)");
  const Tensor computed = take(table({12}), view * 2 - 1) + 1;  // the index is computed in the kernel that gathers
  EXPECT_EQ(fault_of(sum(computed)), "[take] index 139 is out of range for dimension 0 of size 12, at position (0, 1)");
}

TEST_P(IndexCheck, VmapLoopsAndBranches) {
  const IndexGuardScope guard;
  const Tensor x = table({3, 5}), picks = ints({0, 1, 4, 2, 5, 6}, {3, 2});
  const auto f = [](const Tensor& row, const Tensor& at) { return take(row, at); };
  EXPECT_EQ(fault_of(vmap(f)(x, picks)),
            "[take] index 5 is out of range for dimension 0 of size 5, at position (0) of example or iteration (2)");
  EXPECT_EQ(fault_of(vmap(f)(x, minimum(picks, 4))), "");
  const Tensor row = table({5});
  const auto nested = vmap(vmap([&](const Tensor& at) { return take(row, at); }));
  EXPECT_EQ(fault_of(nested(picks)),
            "[take] index 5 is out of range for dimension 0 of size 5, at position () of example or iteration (2, 0)");
  const ScanBody body = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>& at) {
    return Scanned{{carry[0] + sum(take(x, at[0], 1))}, {}};
  };
  EXPECT_EQ(fault_of(scan(body, {zeros({}, DType::f32, &dev())}, {picks}).carry[0]),
            "[take] index 5 is out of range for dimension 1 of size 5, at position (0) of example or iteration (2)");
  const auto pick = [&](const Tensor& taken) {
    return cond(
        taken, [&](const std::vector<Tensor>& at) { return std::vector<Tensor>{sum(take(x, at[0], 1))}; },
        [](const std::vector<Tensor>& at) { return std::vector<Tensor>{cast(sum(at[0]), DType::f32)}; }, {picks})[0];
  };
  EXPECT_EQ(fault_of(pick(sum(picks) > 100)), "");
  EXPECT_EQ(fault_of(pick(sum(picks) < 100)),
            "[take] index 5 is out of range for dimension 1 of size 5, at position (2, 0)");
}

TEST_P(IndexCheck, BackwardModulesAndCompiledFunctions) {
  const IndexGuardScope guard;
  Tensor weight = table({6, 3});
  weight.set_requires_grad(true);
  const Tensor at = ints({1, 6, 2}, {3});
  const Tensor loss = sum(square(take(weight, at)));
  EXPECT_EQ(fault_of([&] {
              backward(loss);
              weight.grad().to_bytes();
            }),
            "[take] index 6 is out of range for dimension 0 of size 6, at position (1)");
  EXPECT_EQ(fault_of(weight.grad()), "");
  const auto f_of = [&](const Tensor& w) { return square(take(w, at)); };
  EXPECT_EQ(fault_of(jvp(f_of, weight.detach(), weight.detach()).second),
            "[take] index 6 is out of range for dimension 0 of size 6, at position (1)");
  EXPECT_EQ(fault_of(weight.grad()), "");
  nn::Embedding layer(6, 3, {.device = dev()});
  EXPECT_EQ(fault_of(layer(at)), "[embedding] index 6 is out of range for dimension 0 of size 6, at position (1)");
  const auto f = compile([](const Tensor& w, const Tensor& picks) { return take(w, picks) + 1; });
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fault_of(f(weight, minimum(at, 5))), "");
  EXPECT_EQ(fault_of(f(weight, at)), "[take] index 6 is out of range for dimension 0 of size 6, at position (1)");
  const IndexGuardScope off(false);
  EXPECT_EQ(f(weight, at).to_doubles().size(), 9u);
}

TEST_P(IndexCheck, OneOperationAtATime) {
  const IndexGuardScope guard;
  const EagerScope eager;
  EXPECT_EQ(fault_of([&] {
              take(table({4}), ints({1, 4}, {2}));
            }),
            "[take] index 4 is out of range for dimension 0 of size 4, at position (1)");
}

// What a function watched before it threw is forgotten.
TEST_P(IndexCheck, FunctionsThatThrow) {
  const IndexGuardScope guard;
  const Tensor x = table({2, 5}), picks = ints({9, 9}, {2});
  const auto f = [](const Tensor& row, const Tensor& at) -> Tensor {
    take(row, reshape(at, {1}));
    throw ValueError("no");
  };
  EXPECT_THROW(vmap(f)(x, picks), ValueError);
  const ScanBody body = [&](const std::vector<Tensor>&, const std::vector<Tensor>& at) {
    return Scanned{{take(x, at[0])}, {}};
  };  // the carry changes its shape
  EXPECT_THROW(scan(body, {zeros({1}, DType::f32, &dev())}, {picks}), ShapeError);
  EXPECT_EQ(fault_of(x), "");
}

// What was uploaded is compared on the host, where the call stands: no launch, no read.
TEST_P(IndexCheck, UploadedIndicesAreCheckedByDefault) {
  const IndexGuardScope guard(IndexGuard::automatic);
  const Tensor x = table({3, 4}), labels = ints({0, 4, 1}, {3});
  const auto thrown = [](const auto& call) { return fault_of([&] { call(); }); };
  const std::string fault = " 4 is out of range for dimension 1 of size 4, at position (1)";
  EXPECT_EQ(thrown([&] { cross_entropy(x, labels); }), "[cross_entropy] class" + fault);
  EXPECT_EQ(thrown([&] { cross_entropy(x, cast(labels, DType::i64)); }), "[cross_entropy] class" + fault);
  EXPECT_EQ(thrown([&] { cross_entropy(x, labels, {.ignore_index = 4}); }), "");
  EXPECT_EQ(thrown([&] {
              take(x, ints({0, 1, 2, 3, -5, 1}, {2, 3}), 1);
            }),
            "[take] index -5 is out of range for dimension 1 of size 4, at position (1, 1)");
  const Tensor batch =
      Tensor::from_batch(std::span<const int64_t>(std::vector<int64_t>{7, 1, int64_t{1} << 32, 2}), {4}, &dev());
  EXPECT_EQ(thrown([&] { take(x, batch); }),
            "[take] index 7 is out of range for dimension 0 of size 3, at position (0)");
  EXPECT_EQ(fault_of(take(x, slice(batch, 0, {.start = 3}))), "");
  Tensor own = ints({9, 9}, {2});
  own.assign(ints({1, 2}, {2}) - 1);
  eval({own});
  EXPECT_EQ(take(x, own).to_doubles(), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));  // written since it was uploaded
  const uint64_t before = dev().counters().kernels;
  take(x, ints({0, 1}, {2})).to_bytes();
  EXPECT_LE(dev().counters().kernels - before, 1u);
}

// Recorded once, replayed while the labels are right; the call that brings a wrong one says so, and the next one goes
// on.
TEST_P(IndexCheck, CompiledFunctionsCheckTheirArgumentsByDefault) {
  const IndexGuardScope guard(IndexGuard::automatic);
  const Tensor x = table({3, 4});
  const auto f =
      compile([](const Tensor& logits, const Tensor& labels) { return cross_entropy(logits, reshape(labels, {3})); });
  const auto labels = [&](int last) {
    return Tensor::from_batch(std::span<const int32_t>(std::vector<int32_t>{0, 1, last}), {3, 1}, &dev());
  };
  std::vector<double> losses;
  for (int i = 0; i < 6; ++i) losses.push_back(f(x, labels(i % 4)).item());
  const uint64_t recorded = f.stats().recorded;
  EXPECT_EQ(fault_of([&] { f(x, labels(4)); }),
            "[cross_entropy] class 4 is out of range for dimension 1 of size 4, at position (2)");
  EXPECT_EQ(f(x, labels(1)).item(), losses[1]);
  if (GetParam() != "reference:0") {
    EXPECT_EQ(recorded, 2u);
    EXPECT_GE(f.stats().replayed, 5u);
  }
}

// On a CPU a device looks at what it computed itself.
TEST_P(IndexCheck, ComputedIndicesOnCpusByDefault) {
  const IndexGuardScope guard(IndexGuard::automatic);
  const DeviceClass kind = dev().caps().device_class;
  if (kind != DeviceClass::cpu && kind != DeviceClass::reference) return;
  EXPECT_EQ(fault_of(take(table({4}), ints({1, 3}, {2}) * 2)),
            "[take] index 6 is out of range for dimension 0 of size 4, at position (1)");
}

TEST_P(IndexCheck, OffWhenAskedFor) {
  const IndexGuardScope guard(false);
  EXPECT_FALSE(index_guard());
  EXPECT_EQ(take(table({4}), ints({9}, {1})).item(), 3);
}

INSTANTIATE_TEST_SUITE_P(Devices, IndexCheck, ::testing::ValuesIn(test::value_devices()));

}  // namespace
}  // namespace heddle
