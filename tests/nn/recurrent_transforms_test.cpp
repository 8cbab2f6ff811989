// Transforms through loops: Hessians, forward mode and vmap of recurrent layers stay loops, on every device.
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/functional.h"
#include "heddle/nn/recurrent.h"
#include "tests/nn/support.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

void expect_close(const Tensor& found, const Tensor& expected, double tolerance, const char* what) {
  ASSERT_EQ(found.shape(), expected.shape()) << what;
  const Values a = found.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i)
    EXPECT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << what << " at " << i;
}

uint64_t kernels_of(const Tensor& x) {
  const uint64_t before = x.device().counters().kernels;
  eval({x});
  return x.device().counters().kernels - before;
}

TEST(RecurrentTransforms, HessianThroughAGru) {
  for (const std::string& id : test::value_devices()) {
    SCOPED_TRACE(id);
    DeviceContext& d = device(id);
    nn::GRU layer(2, 2, {.device = d});
    const Tensor h = f32({0.3, -0.4}, {1, 2}, d);
    const auto loss_after = [&](int64_t steps) {
      return
          [&, x = wave({steps, 2}, 0.9, d)](const Tensor& first) { return sum(square(layer.run(x, {first}).states)); };
    };
    const auto loss = loss_after(4);
    const Tensor second = hessian(loss)(h);
    expect_close(jacfwd(loss)(h), grad(loss)(h), 1e-5, "forward mode");
    const double step = 1e-2;
    const Values found = second.to_doubles();
    for (size_t i = 0; i < 2; ++i) {
      Values moved{0, 0};
      moved[i] = step;
      const Values up = grad(loss)(h + f32(moved, {1, 2}, d)).to_doubles(),
                   down = grad(loss)(h - f32(moved, {1, 2}, d)).to_doubles();
      for (size_t j = 0; j < 2; ++j)
        EXPECT_NEAR(found[2 * i + j], (up[j] - down[j]) / (2 * step), 2e-3) << i << " " << j;
    }
    if (id == "reference:0") continue;
    const uint64_t few = kernels_of(hessian(loss_after(5))(h)), more = kernels_of(hessian(loss_after(8))(h));
    EXPECT_LE((more - few) / 3, 12u)
        << "launches per step of time: forward, gradient, and the tangents of both, three each";
  }
}

TEST(RecurrentTransforms, MapsOverSequences) {
  for (const std::string& id : test::value_devices()) {
    SCOPED_TRACE(id);
    DeviceContext& d = device(id);
    nn::LSTM layer(3, 4, {.device = d});
    const std::vector<Tensor> parameters = nn::detached(layer.parameters());
    const auto run = [&](const Tensor& x) { return layer.run(x).states; };  // (T, 3)
    const Tensor many = wave({5, 6, 3}, 0.7, d);
    expect_close(vmap(run)(many), transpose(layer.run(transpose(many, 0, 1)).states, 0, 1), 1e-6,
                 "mapped against the batch");
    const auto loss = [&](const std::vector<Tensor>& p, const Tensor& x) {
      return sum(square(nn::functional_call(layer, p, x)));
    };
    const std::vector<Tensor> each = vmap(grad(loss), {std::nullopt, 0})(parameters, many);
    for (int64_t e : {int64_t{0}, int64_t{4}}) {
      const std::vector<Tensor> one = grad(loss)(parameters, squeeze(slice(many, 0, {e, e + 1}), 0));
      for (size_t k = 0; k < one.size(); ++k)
        expect_close(squeeze(slice(each[k], 0, {e, e + 1}), 0), one[k], 2e-5, "gradient of an example");
    }
    if (id == "reference:0") continue;
    const uint64_t few = kernels_of(vmap(run)(wave({5, 7, 3}, 0.7, d))),
                   more = kernels_of(vmap(run)(wave({5, 10, 3}, 0.7, d)));
    EXPECT_EQ((more - few) / 3, 2u) << "a product and the rest: one loop for all";
  }
}

// Draws in a body: each example its own, or all the same; and none where none are allowed. Carries that become mapped
// by what they are added to.
TEST(RecurrentTransforms, DrawsAndLateCarries) {
  DeviceContext& d = reference();
  const auto noisy = [&](const Tensor& x) {
    return scan(
               [&](const std::vector<Tensor>& c, const std::vector<Tensor>&) {
                 return Scanned{{c[0] + uniform({2}, 0, 1, &d), c[1] + c[0]}, {c[0] * x}};
               },
               {zeros({2}, DType::f32, &d), zeros({2}, DType::f32, &d)}, {}, {3})
        .ys[0];
  };
  const Tensor x = ones({4, 2}, DType::f32, &d);
  const auto rows = [&](Randomness randomness) {
    manual_seed(7);
    return vmap(noisy, {0}, {0}, {randomness, {}})(x).to_doubles();  // (4, 3, 2)
  };
  const Values own = rows(Randomness::different), same = rows(Randomness::same);
  EXPECT_EQ(own, rows(Randomness::different));
  EXPECT_EQ(Values(same.begin(), same.begin() + 6), Values(same.begin() + 6, same.begin() + 12));
  EXPECT_NE(Values(own.begin(), own.begin() + 6), Values(own.begin() + 6, own.begin() + 12));
  EXPECT_NE(own[2], own[4] - own[2]) << "every iteration draws anew";
  expect_error<ValueError>([&] { rows(Randomness::error); }, {"Randomness::error"});

  const auto late = [&](const Tensor& t) {
    return scan(
        [&](const std::vector<Tensor>& c, const std::vector<Tensor>& s) {
          return Scanned{{c[1], c[2] + s[0], c[2] * t}, {c[0]}};
        },
        {zeros({}, DType::f32, &d), zeros({}, DType::f32, &d), ones({}, DType::f32, &d)}, {f32({1, 2, 3, 4}, {4})});
  };
  const Tensor t = f32({0.5, -1, 2}, {3});
  const auto states = [&](const Tensor& v) {
    return concat(std::vector<Tensor>{late(v).ys[0], unsqueeze(late(v).carry[1], 0)}, 0);
  };
  const Values mapped = vmap(states)(t).to_doubles();
  for (int64_t e = 0; e < 3; ++e) {
    const Values one = states(squeeze(slice(t, 0, {e, e + 1}), 0)).to_doubles();
    EXPECT_EQ(Values(mapped.begin() + 5 * e, mapped.begin() + 5 * (e + 1)), one);
  }
  EXPECT_EQ(vmap(states)(zeros({0}, DType::f32, &d)).shape(), (Shape{0, 5}));
}

}  // namespace
}  // namespace heddle::tests
