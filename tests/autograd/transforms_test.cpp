// Forward mode against reverse mode for every differentiable function, to second order, and the transforms' own
// contracts.
#include "heddle/autograd/transforms.h"

#include <gtest/gtest.h>

#include <cmath>

#include "heddle/autograd/gradcheck.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/philox.h"
#include "tests/autograd/cases.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {
namespace {

using List = std::vector<Tensor>;

Tensor scalar(double x) { return Tensor::from_vector(std::vector<double>{x}, Shape{}, &reference()); }
Tensor f64_vector(const std::vector<double>& x) {
  return Tensor::from_vector(x, Shape{static_cast<int64_t>(x.size())}, &reference());
}

// Fixed numbers in [-1, 1) like x.
Tensor weights(const Tensor& x, uint32_t seed) {
  std::vector<double> values(static_cast<size_t>(x.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * philox_uniform({seed, 3, 1, 4}, i) - 1;
  return cast(Tensor::from_vector(values, x.shape(), &x.device()), x.dtype());
}
List weights(const List& x, uint32_t seed) {
  List all;
  for (const Tensor& t : x) all.push_back(weights(t, seed++));
  return all;
}
double dot(const List& a, const List& b) {
  double total = 0;
  for (size_t i = 0; i < a.size(); ++i) total += sum(a[i] * b[i]).item();
  return total;
}

#define EXPECT_CLOSE(a, b) EXPECT_NEAR(a, b, 1e-9 * (1 + std::abs(b)))

TEST(ForwardMode, AgreesWithReverseModeToSecondOrder) {
  for (const GradientCase& c : transform_cases()) {
    SCOPED_TRACE(c.name);
    const List x = make_inputs(c, DType::f64, reference());
    const List v = weights(x, 10), w = weights(x, 20);
    const auto f = [&](const List& in) { return c.f(in); };
    const auto [y, dy] = jvp(f, x, v);
    const Tensor u = weights(y, 30);
    const auto [y2, pull] = vjp(f, x);
    EXPECT_EQ(y.to_doubles(), y2.to_doubles());
    EXPECT_EQ(y.to_doubles(), c.f(x).to_doubles());
    EXPECT_CLOSE(sum(u * dy).item(), dot(pull(u), v));

    const auto loss = [&](const List& in) { return sum(u * c.f(in)); };
    const double reverse_reverse = dot(grad([&](const List& in) {
                                         const List g = grad(loss)(in);
                                         Tensor total = sum(g[0] * v[0]);
                                         for (size_t i = 1; i < g.size(); ++i) total = total + sum(g[i] * v[i]);
                                         return total;
                                       })(x),
                                       w);
    EXPECT_CLOSE(dot(hvp(loss, x, v), w), reverse_reverse);
    const auto slope = [&](const List& in) { return jvp(loss, in, v).second; };
    EXPECT_CLOSE(jvp(slope, x, w).second.item(), reverse_reverse);
    EXPECT_CLOSE(dot(grad(slope)(x), w), reverse_reverse);
  }
}

// Every tangent has the dtype of its value; half precision is where rules slip. push() checks it at each node.
TEST(ForwardMode, KeepsHalfPrecision) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const GradientCase& c : transform_cases()) {
      SCOPED_TRACE(c.name);
      const List x = make_inputs(c, dtype, reference());
      const auto f = [&](const List& in) { return c.f(in); };
      const auto [value, tangent] = jvp(f, x, weights(x, 10));
      EXPECT_EQ(tangent.dtype(), value.dtype());
      EXPECT_EQ(vmap([&](const List& in) { return grad([&](const List& t) { return sum(c.f(t)); })(in); },
                     {std::nullopt}, {0}, {Randomness::same, 2})(x)[0]
                    .dtype(),
                dtype);
    }
  }
}

// d/dx of x^2 sin x at 2 is 4 sin 2 + 4 cos 2; some texts print 2.805.
TEST(Transforms, DerivativeOfSquareTimesSine) {
  const auto f = [](const Tensor& x) { return square(x) * sin(x); };
  const double expected = 2 * 2 * std::sin(2.0) + 4 * std::cos(2.0);
  EXPECT_NEAR(expected, 1.9726024, 1e-7);
  EXPECT_NEAR(grad(f)(scalar(2)).item(), expected, 1e-12);
  EXPECT_NEAR(jvp(f, scalar(2), scalar(1)).second.item(), expected, 1e-12);
  EXPECT_NEAR((f(scalar(2 + 1e-6)).item() - f(scalar(2 - 1e-6)).item()) / 2e-6, expected, 1e-8);
}

TEST(Transforms, NestToAnyOrder) {
  const auto f = [](const Tensor& x) { return pow(x, 5); };
  EXPECT_NEAR(grad(grad(grad(f)))(scalar(2)).item(), 60 * 4, 1e-9);
  const auto d = [](auto g) { return [g](const Tensor& x) { return jvp(g, x, ones_like(x)).second; }; };
  EXPECT_NEAR(d(d(d(f)))(scalar(2)).item(), 60 * 4, 1e-9);
  EXPECT_NEAR(d(grad(d(f)))(scalar(2)).item(), 60 * 4, 1e-9);
  // Inner and outer variables are told apart: d/dx [x * d/dy (x + y)] = 1.
  EXPECT_NEAR(
      grad([](const Tensor& x) { return x * grad([&](const Tensor& y) { return x + y; })(scalar(7)); })(scalar(3))
          .item(),
      1, 1e-12);
  EXPECT_NEAR(
      d([&](const Tensor& x) { return x * d([&](const Tensor& y) { return x * y; })(scalar(7)); })(scalar(3)).item(), 6,
      1e-12);
}

TEST(Transforms, ArgumentsAndResultsAreTrees) {
  const auto f = [](const Tensor& x, const List& w, double scale, const std::pair<Tensor, Tensor>& p) {
    return std::pair(scale * sum(x * w[0] * p.second + w[1]), x + p.first);
  };
  const Tensor x = f64_vector({1, 2}), a = f64_vector({3, 4}), b = f64_vector({5, 6});
  const List w{a, b};
  const std::pair<Tensor, Tensor> p(a, b);
  EXPECT_EQ(grad(f)(x, w, 2.0, p).to_doubles(), (std::vector<double>{30, 48}));
  const List by_w = grad<1>(f)(x, w, 2.0, p);
  EXPECT_EQ(by_w[0].to_doubles(), (std::vector<double>{10, 24}));
  EXPECT_EQ(by_w[1].to_doubles(), (std::vector<double>{2, 2}));
  const auto [value, by_both] = value_and_grad<3, 0>(f)(x, w, 2.0, p);
  EXPECT_EQ(value.first.item(), 2 * (15 + 48 + 11));
  EXPECT_EQ(value.second.to_doubles(), (std::vector<double>{4, 6}));
  EXPECT_FALSE(value.first.requires_grad());
  EXPECT_EQ(std::get<0>(by_both).first.to_doubles(), (std::vector<double>{0, 0}));
  EXPECT_EQ(std::get<0>(by_both).second.to_doubles(), (std::vector<double>{6, 16}));
  EXPECT_EQ(std::get<1>(by_both).to_doubles(), (std::vector<double>{30, 48}));

  const auto g = [](const Tensor& s, const Tensor& t) { return std::tuple(s * t, s + t, argmax(s)); };
  const auto [y, pull] = vjp(g, x, a);
  EXPECT_EQ(std::get<2>(y).item(), 1);
  const auto [ds, dt] = pull({ones_like(x), Tensor(), Tensor()});
  EXPECT_EQ(ds.to_doubles(), a.to_doubles());
  EXPECT_EQ(dt.to_doubles(), x.to_doubles());
  const auto [z, dz] = jvp(g, std::tuple(x, a), std::tuple(ones_like(x), zeros_like(a)));
  EXPECT_EQ(std::get<0>(dz).to_doubles(), a.to_doubles());
  EXPECT_FALSE(std::get<2>(dz).defined());
  const std::map<std::string, Tensor> named{{"a", a}, {"b", b}};
  EXPECT_EQ(grad([](const std::map<std::string, Tensor>& m) { return sum(m.at("a") * m.at("b")); })(named)
                .at("b")
                .to_doubles(),
            a.to_doubles());
}

TEST(Transforms, LinearizeCallsTheFunctionOnce) {
  int calls = 0;
  const auto [y, push] = linearize(
      [&](const Tensor& x) {
        ++calls;
        return sin(x) * x;
      },
      f64_vector({1, 2}));
  const std::vector<double> at{1, 2};
  for (const double t : {1.0, -3.0}) {
    const std::vector<double> found = push(f64_vector({t, 2 * t})).to_doubles();
    for (size_t i = 0; i < 2; ++i)
      EXPECT_CLOSE(found[i], t * static_cast<double>(i + 1) * (std::cos(at[i]) * at[i] + std::sin(at[i])));
  }
  EXPECT_EQ(calls, 1);
}

// f(x) = (x0 x1, sin x2, x0 + x2 x2): Jacobian and Hessian of sums written out.
TEST(Transforms, JacobiansAndHessians) {
  const auto f = [](const Tensor& x) {
    const List parts = split(x, {1, 1, 1}, 0);
    return concat({parts[0] * parts[1], sin(parts[2]), parts[0] + square(parts[2])}, 0);
  };
  const Tensor x = f64_vector({2, 3, 0.5});
  const std::vector<double> expected{3, 2, 0, 0, 0, std::cos(0.5), 1, 0, 1};
  for (const Tensor& j : {jacrev(f)(x), jacfwd(f)(x)}) {
    EXPECT_EQ(j.shape(), (Shape{3, 3}));
    const std::vector<double> found = j.to_doubles();
    for (size_t i = 0; i < 9; ++i) EXPECT_CLOSE(found[i], expected[i]);
  }
  const auto loss = [&](const Tensor& t) { return sum(f(t)); };
  const std::vector<double> h = hessian(loss)(x).to_doubles(), h2 = jacrev(jacrev(loss))(x).to_doubles(),
                            h3 = jacfwd(jacfwd(loss))(x).to_doubles(), h4 = jacrev(jacfwd(loss))(x).to_doubles();
  const std::vector<double> second{0, 1, 0, 1, 0, 0, 0, 0, 2 - std::sin(0.5)};
  for (size_t i = 0; i < 9; ++i) {
    EXPECT_CLOSE(h[i], second[i]);
    EXPECT_CLOSE(h2[i], second[i]);
    EXPECT_CLOSE(h3[i], second[i]);
    EXPECT_CLOSE(h4[i], second[i]);
  }
  // Trees: the argument's in each place of the result's, shapes result then argument.
  const auto g = [](const List& w) { return std::pair(matmul(w[0], w[1]), sum(w[0])); };
  const List w{reshape(f64_vector({1, 2, 3, 4, 5, 6}), {2, 3}), f64_vector({1, -1, 2})};
  const auto [by_product, by_sum] = jacrev(g)(w);
  EXPECT_EQ(by_product[0].shape(), (Shape{2, 2, 3}));
  EXPECT_EQ(by_product[1].shape(), (Shape{2, 3}));
  EXPECT_EQ(by_product[1].to_doubles(), w[0].to_doubles());
  EXPECT_EQ(by_sum[0].shape(), (Shape{2, 3}));
  const auto forward = jacfwd(g)(w);
  EXPECT_EQ(forward.first[0].to_doubles(), by_product[0].to_doubles());
  EXPECT_EQ(forward.second[1].to_doubles(), (std::vector<double>{0, 0, 0}));
  const auto blocks = hessian([](const List& p) { return sum(square(matmul(p[0], p[1]))); })(w);
  EXPECT_EQ(blocks[0][1].shape(), (Shape{2, 3, 3}));
  EXPECT_EQ(permute(reshape(blocks[0][1], {6, 3}), {1, 0}).to_doubles(), reshape(blocks[1][0], {3, 6}).to_doubles());
}

// What a function closes over is constant for the transform, and tracked by what is around it.
TEST(Transforms, ClosedOverTensorsKeepTheirHistory) {
  Tensor w = f64_vector({1, 2}).set_requires_grad();
  const Tensor x = f64_vector({3, 4});
  const auto f = [&](const Tensor& t) { return sum(square(t) * square(w)); };
  const Tensor g = grad(f)(x);  // 2 x w^2
  EXPECT_TRUE(g.requires_grad());
  backward(sum(g));
  EXPECT_EQ(w.grad().to_doubles(), (std::vector<double>{12, 32}));  // 4 x w
  {
    const NoGradScope none;
    const auto [y, quiet] = value_and_grad(f)(x);
    EXPECT_FALSE(quiet.requires_grad());
    EXPECT_FALSE(y.requires_grad());
    EXPECT_EQ(quiet.to_doubles(), g.to_doubles());
  }
  EXPECT_FALSE(grad([](const Tensor& t) { return sum(square(t)); })(x).requires_grad());
  const Tensor leaf = f64_vector({3, 4}).set_requires_grad();
  backward(sum(jvp(f, leaf, ones_like(leaf)).second));  // sum 2 x w^2
  EXPECT_EQ(leaf.grad().to_doubles(), (std::vector<double>{2, 8}));
}

TEST(Transforms, CheckpointsInside) {
  const auto block = [](const Tensor& x) { return tanh(x * x) * x; };
  const auto plain = [&](const Tensor& x) { return sum(block(block(x))); };
  const auto marked = [&](const Tensor& x) { return sum(checkpoint(block, checkpoint(block, x))); };
  const Tensor x = f64_vector({0.3, -0.7, 1.1});
  EXPECT_EQ(grad(marked)(x).to_doubles(), grad(plain)(x).to_doubles());
  EXPECT_EQ(hessian(marked)(x).to_doubles(), hessian(plain)(x).to_doubles());
  const Tensor rows = reshape(f64_vector({0.3, -0.7, 1.1, 0.2, 0.5, -0.4}), {2, 3});
  EXPECT_EQ(vmap(grad(marked))(rows).to_doubles(), vmap(grad(plain))(rows).to_doubles());
}

TEST(Transforms, WrongCallsAreNamed) {
  const auto message = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const GradError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  const Tensor x = f64_vector({1, 2});
  const auto has = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message([&] { grad([](const Tensor& t) { return t * 2; })(x); }),
      "[grad] the function must give a floating tensor with one element (first, if it gives several), not (2) f64");
  has(message([&] { grad([](const Tensor& t) { return sum(cast(t, DType::f64)); })(cast(x, DType::i32)); }),
      "[grad] tensor 0 of the differentiated arguments is (2) i32");
  has(message([&] { value_and_grad([](double d) { return scalar(d); })(1.0); }), "hold no tensor");
  has(message([&] { vjp([](const Tensor& t) { return t * 2; }, x).second(scalar(1)); }),
      "[vjp] cotangent 0 is () f64, but its tensor is (2) f64");
  has(message([&] { jvp([](const Tensor& t) { return t * 2; }, x, scalar(1)); }),
      "[jvp] tangent 0 is () f64, but its tensor is (2) f64");
  has(message([&] {
        jvp([](const List& t) { return t[0]; }, List{x, x}, List{x});
      }),
      "takes 2 tensors, but there are 1 tangents");
  has(message([&] { jacrev([](const Tensor& t) { return argmax(t); })(x); }), "[jacrev] result 0 is () i64");
}

// The first zero of a row, the second, and both, to second order: nothing may divide by them.
TEST(Transforms, RunningProductsThroughZeros) {
  for (const std::vector<double>& row :
       {std::vector<double>{0, 2, 0, -1, 3}, {1, 0, 0, 2, 0.5}, {0, 0, 0, 0, 0}, {2, 3, -1, 0.5, 0}}) {
    for (const bool exclusive : {false, true}) {
      for (const bool reverse : {false, true}) {
        const Tensor x = Tensor::from_vector(row, Shape{5}, &reference());
        const GradcheckResult result =
            gradcheck([&](Inputs in) { return List{cumprod(in[0], 0, exclusive, reverse)}; }, std::span(&x, 1));
        EXPECT_TRUE(result.ok) << result.message;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::tests
