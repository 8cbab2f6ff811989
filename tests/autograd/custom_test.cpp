// Derivatives given by hand: used instead of the function's own, in every mode, order and transform.
#include "heddle/autograd/custom.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "heddle/autograd/gradcheck.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/custom.h"

namespace heddle::tests {
namespace {

Tensor vector(const std::vector<double>& x) {
  return Tensor::from_vector(x, Shape{static_cast<int64_t>(x.size())}, &device("reference:0"));
}

// x^3 with three times its gradient: that the rule is used shows.
const auto marked_vjp =
    custom_vjp([](const Tensor& x) { return x * x * x; }, [](const Tensor& x) { return std::pair(x * x * x, x * x); },
               [](const Tensor& squared, const Tensor& g) { return 9 * squared * g; });
const auto marked_jvp = custom_jvp([](const Tensor& x) { return x * x * x; },
                                   [](const Tensor& x, const Tensor& t) { return 9 * (x * x) * t; });

template <class F>
void check_marked(const F& f) {
  const Tensor x = vector({1, -2, 0.5});
  EXPECT_EQ(f(x).to_doubles(), (x * x * x).to_doubles());
  const auto loss = [&](const Tensor& t) { return sum(f(t)); };
  const std::vector<double> first = (9 * x * x).to_doubles(), second = (18 * x).to_doubles();
  EXPECT_EQ(grad(loss)(x).to_doubles(), first);
  EXPECT_EQ(jvp(f, x, ones_like(x)).second.to_doubles(), first);
  EXPECT_EQ(hvp(loss, x, ones_like(x)).to_doubles(), second);
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(grad(loss)(t)); })(x).to_doubles(), second);
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(jvp(f, t, ones_like(t)).second); })(x).to_doubles(), second);
  EXPECT_EQ(vmap(grad(loss))(reshape(x, {3, 1})).to_doubles(), first);
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(vmap(f)(t)); })(x).to_doubles(), first);
  EXPECT_EQ(jvp([&](const Tensor& t) { return vmap(f)(t); }, x, ones_like(x)).second.to_doubles(), first);
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(grad([&](const Tensor& s) { return sum(vmap(f)(s)); })(t)); })(x)
                .to_doubles(),
            second);
  Tensor leaf = vector({1, -2, 0.5}).set_requires_grad();
  backward(sum(f(leaf)));
  EXPECT_EQ(leaf.grad().to_doubles(), first);
}

TEST(CustomRules, ReverseRuleInEveryTransform) { check_marked(marked_vjp); }
TEST(CustomRules, ForwardRuleInEveryTransform) { check_marked(marked_jvp); }

// Several arguments, one of them not floating, several results, residuals of both kinds, and one argument mapped.
TEST(CustomRules, TreesOfArgumentsAndResults) {
  const auto plain = [](const Tensor& x, const Tensor& rows, const Tensor& w) {
    return std::pair(take(x, rows) * w, sum(x * x));
  };
  const auto rule = custom_vjp(
      plain,
      [&](const Tensor& x, const Tensor& rows, const Tensor& w) {
        return std::pair(plain(x, rows, w), std::tuple(x, rows, w));
      },
      [](const std::tuple<Tensor, Tensor, Tensor>& seen, const std::pair<Tensor, Tensor>& g) {
        const auto& [x, rows, w] = seen;
        const Tensor dx = index_add(zeros_like(x), rows, g.first * w) + 2 * x * g.second;
        return std::tuple(dx, Tensor(), sum(g.first * take(x, rows)));
      });
  const Tensor x = vector({1, 2, 3}),
               rows = Tensor::from_vector(std::vector<int32_t>{2, 0}, Shape{2}, &device("reference:0"));
  const Tensor w = Tensor::from_vector(std::vector<double>{0.5}, Shape{}, &device("reference:0"));
  const auto loss_of = [](const auto& f) {
    return [&f](const Tensor& a, const Tensor& i, const Tensor& b) {
      const auto [y, z] = f(a, i, b);
      return sum(y * y) * z;
    };
  };
  const auto expected = grad<0, 2>(loss_of(plain))(x, rows, w), found = grad<0, 2>(loss_of(rule))(x, rows, w);
  EXPECT_EQ(std::get<0>(found).to_doubles(), std::get<0>(expected).to_doubles());
  EXPECT_EQ(std::get<1>(found).to_doubles(), std::get<1>(expected).to_doubles());
  const Tensor many = reshape(vector({1, 2, 3, 4, 5, 6}), {2, 3});
  const InAxes axes{0, std::nullopt, std::nullopt};
  const auto each = [&](const auto& f) { return vmap(grad<0, 2>(loss_of(f)), axes)(many, rows, w); };
  EXPECT_EQ(std::get<0>(each(rule)).to_doubles(), std::get<0>(each(plain)).to_doubles());
  EXPECT_EQ(std::get<1>(each(rule)).to_doubles(), std::get<1>(each(plain)).to_doubles());
  const auto total = [&](const auto& f) {
    return grad<1>([&](const Tensor& a, const Tensor& b) { return sum(vmap(loss_of(f), axes)(a, rows, b)); })(many, w);
  };
  EXPECT_EQ(total(rule).item(), total(plain).item());
}

// What custom_jvp() refuses by itself comes here from a rule inside the library.
TEST(CustomRules, ATangentOfAnotherShapeOrTypeIsAFaultOfTheRule) {
  const auto pushed = [](const std::function<Tensor(const Tensor& tangent)>& rule) -> std::string {
    const auto f = [&](const Tensor& x) {
      auto made = std::make_shared<CustomRule>();
      made->arguments = 1;
      made->jvp = [&](std::span<const Tensor>, std::span<const Tensor> tangents) { return rule(tangents[0]); };
      return make_custom(x * x, std::span(&x, 1), made);
    };
    const Tensor x = vector({1, -2, 0.5});
    try {
      jvp(f, x, ones_like(x)).second.to_doubles();
    } catch (const Error& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  EXPECT_EQ(pushed([](const Tensor& t) { return 2 * t; }), "nothing thrown");
  const auto refused = [&](const std::string& given, const std::function<Tensor(const Tensor& tangent)>& rule) {
    const std::string said = pushed(rule);
    EXPECT_TRUE(said.starts_with("[jvp] the rule of 'custom' gave " + given + " for (3) f64; a fault of the rule"))
        << said;
  };
  refused("() f64", [](const Tensor& t) { return sum(t); });
  refused("(3) f32", [](const Tensor& t) { return cast(t, DType::f32); });
}

// A function for which automatic differentiation fails: log(1 + e^x) written naively overflows, its rule does not.
TEST(CustomRules, StableWhereTheFunctionIsNot) {
  const auto soft = custom_jvp([](const Tensor& x) { return where(x > 30, x, log1p(exp(minimum(x, 30)))); },
                               [](const Tensor& x, const Tensor& t) { return sigmoid(x) * t; });
  const Tensor x = vector({-2, 0, 3, 100});
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(soft(t)); })(x).to_doubles(), sigmoid(x).to_doubles());
  const Tensor at = vector({-2, 0, 3});
  const GradcheckResult result =
      gradcheck([&](std::span<const Tensor> in) { return std::vector<Tensor>{soft(in[0])}; }, std::span(&at, 1));
  EXPECT_TRUE(result.ok) << result.message;
}

TEST(CustomRules, StraightThrough) {
  const auto quantise = straight_through([](const Tensor& x) { return round(x * 4) / 4; });
  const Tensor x = vector({0.3, -1.1, 2.0});
  EXPECT_EQ(quantise(x).to_doubles(), (std::vector<double>{0.25, -1, 2}));
  EXPECT_EQ(grad([&](const Tensor& t) { return sum(square(quantise(t))); })(x).to_doubles(),
            (std::vector<double>{0.5, -2, 4}));
  EXPECT_EQ(hessian([&](const Tensor& t) { return sum(square(quantise(t))); })(x).to_doubles(),
            (std::vector<double>{2, 0, 0, 0, 2, 0, 0, 0, 2}));
  const auto wider = straight_through([](const Tensor& t) { return sum(t); });
  EXPECT_THROW(grad(wider)(x), GradError);
}

TEST(CustomRules, WrongRulesAreNamed) {
  const auto message = [](const auto& rule) -> std::string {
    const auto f = custom_vjp([](const Tensor& x) { return x; }, [](const Tensor& x) { return std::pair(x, x); }, rule);
    try {
      grad([&](const Tensor& t) { return sum(f(t)); })(vector({1, 2}));
    } catch (const GradError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  const auto has = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(message([](const Tensor&, const Tensor& g) { return sum(g); }),
      "[custom_vjp] the rule gave () f64 for tensor 0, which is (2) f64");
  has(message([](const Tensor&, const Tensor& g) { return std::tuple(g, g); }),
      "[custom_vjp] the rule gave 2 tensors, but there are 1 floating ones");
}

TEST(CustomRules, OnADriverAndCompiled) {
  DeviceContext* on = nullptr;
  try {
    on = &device("opencl:0");
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  const auto step =
      compile([](const Tensor& x) { return grad([](const Tensor& t) { return sum(marked_vjp(t)); })(x); });
  for (int i = 1; i < 5; ++i) {
    const Tensor x = Tensor::from_vector(std::vector<float>{1, 2.0f * static_cast<float>(i)}, Shape{2}, on);
    EXPECT_EQ(step(x).to_doubles(), (9 * x * x).to_doubles());
  }
  EXPECT_GE(step.stats().replayed, 2u) << step.stats().refusal;
}

}  // namespace
}  // namespace heddle::tests
