// Transforms of modules and of whole training steps: functional calls, hooks, per-example gradients, second-order
// meta-learning, gradient penalties, a differential equation solved by a network.
#include "heddle/autograd/transforms.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

using List = std::vector<Tensor>;

Tensor random(const Shape& shape, uint32_t seed, double scale = 1, DType dtype = DType::f64,
              DeviceContext& on = reference()) {
  Values values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * (2 * philox_uniform({seed, 8, 8, 8}, i) - 1);
  return cast(Tensor::from_vector(values, shape, &on), dtype);
}

void expect_close(const Tensor& found, const Tensor& expected, double tolerance) {
  ASSERT_EQ(found.shape(), expected.shape());
  const Values a = found.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
}

TEST(FunctionalCall, OtherTensorsInThePlaceOfParameters) {
  nn::Sequential net(nn::Linear(3, 4, {.device = reference()}), nn::Tanh(), nn::Linear(4, 2, {.device = reference()}));
  const Tensor x = random({5, 3}, 1, 1, DType::f32);
  const Values before = net(x).to_doubles();
  List doubled;
  for (const Tensor& p : nn::detached(net.parameters())) doubled.push_back(p * 2);
  const Values found = nn::functional_call(net, doubled, x).to_doubles();
  EXPECT_NE(found, before);
  EXPECT_EQ(net(x).to_doubles(), before);
  EXPECT_TRUE(net.parameters()[0].requires_grad());
  EXPECT_EQ(nn::functional_call(net, nn::StateDict{}, x).to_doubles(), before);
  nn::Sequential other(nn::Linear(3, 4, {.device = reference()}), nn::Tanh(),
                       nn::Linear(4, 2, {.device = reference()}));
  const NoGradScope none;
  for (size_t i = 0; i < doubled.size(); ++i) other.parameters()[i].assign(doubled[i]);
  EXPECT_EQ(other(x).to_doubles(), found);
  nn::StateDict state = other.state_dict();
  state.erase("2.bias");
  state.emplace("2.bias", doubled[3]);
  EXPECT_EQ(nn::functional_call(net, state, x).to_doubles(), found);

  expect_error<ValueError>([&] { nn::functional_call(net, List{doubled[0]}, x); },
                           {"[functional_call] Sequential has 4 parameters, but 1 tensors were given"});
  expect_error<ValueError>(
      [&] {
        nn::functional_call(net, nn::StateDict{{"2.weights", x}}, x);
      },
      {"no parameter or buffer '2.weights'"});
  expect_error<ShapeError>(
      [&] {
        nn::functional_call(net, nn::StateDict{{"0.bias", doubled[1]}, {"0.weight", x}}, x);
      },
      {"0.weight is (4, 3) f32", "(5, 3) f32"});
  expect_error<ShapeError>([&] { nn::functional_call(net, doubled, random({5, 7}, 2, 1, DType::f32)); }, {"[Linear]"});
  EXPECT_EQ(net(x).to_doubles(), before);
}

// An ensemble: several sets of parameters through one module, and gradients of a module with the module's own backward
// pass as the oracle.
TEST(FunctionalCall, EnsemblesAndGradients) {
  nn::Sequential net(nn::Linear(3, 4, {.device = reference()}), nn::ReLU(), nn::Linear(4, 2, {.device = reference()}));
  const Tensor x = random({5, 3}, 1, 1, DType::f32);
  const List parameters = nn::detached(net.parameters());
  List stacked;
  for (const Tensor& p : parameters) stacked.push_back(concat({unsqueeze(p, 0), unsqueeze(p * 0.5, 0)}, 0));
  const auto call = [&](const List& p, const Tensor& in) { return nn::functional_call(net, p, in); };
  const Tensor both = vmap(call, {0, std::nullopt})(stacked, x);
  List half;
  for (const Tensor& p : parameters) half.push_back(p * 0.5);
  expect_close(both, concat({unsqueeze(call(parameters, x), 0), unsqueeze(call(half, x), 0)}, 0), 1e-6);
  const auto loss = [&](const List& p) { return sum(square(call(p, x))); };
  const List found = grad(loss)(parameters);
  backward(sum(square(net(x))));
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i].to_doubles(), net.parameters()[i].grad().to_doubles());
}

TEST(ModuleHooks, SeeAndReplace) {
  nn::Sequential net(nn::Linear(2, 2, {.bias = false, .device = reference()}),
                     nn::Linear(2, 1, {.bias = false, .device = reference()}));
  nn::Linear head(2, 1, {.bias = false, .device = reference()});
  const Tensor x = f32({1, 2}, Shape{1, 2});
  const double plain = head(x).item();
  std::vector<std::string> log;
  const size_t before = head.register_forward_pre_hook([&](nn::Module& m, const Tensor& in) {
    log.push_back(m.kind() + " before");
    return in * 2;
  });
  const size_t after = head.register_forward_hook([&](nn::Module&, const Tensor& in, const Tensor& y) {
    log.push_back("after " + std::to_string(in.to_doubles()[0]));
    return y + 1;
  });
  EXPECT_NEAR(head(x).item(), 2 * plain + 1, 1e-6);
  EXPECT_EQ(log, (std::vector<std::string>{"Linear before", "after 2.000000"}));
  head.remove_hook(before);
  head.remove_hook(after);
  EXPECT_NEAR(head(x).item(), plain, 1e-6);
  expect_error<ValueError>([&] { head.remove_hook(after); }, {"no hook with the number"});

  // The gradient of a layer inside, doubled on its way.
  Values seen;
  backward(sum(net(x)));
  const Values expected = net.parameters()[0].grad().to_doubles();
  net.zero_grad();
  nn::Module inner = net.named_children()[0].second;
  const size_t number = inner.register_backward_hook([&](nn::Module&, const Tensor& g) {
    seen = g.to_doubles();
    return g * 2;
  });
  backward(sum(net(x)));
  EXPECT_EQ(seen, net.parameters()[1].to_doubles());
  const Values doubled = net.parameters()[0].grad().to_doubles();
  for (size_t i = 0; i < 4; ++i) EXPECT_FLOAT_EQ(static_cast<float>(doubled[i]), static_cast<float>(2 * expected[i]));
  inner.remove_hook(number);
  inner.register_backward_hook([](nn::Module&, const Tensor& g) { return sum(g); });
  expect_error<GradError>([&] { backward(sum(net(x))); },
                          {"[hook] a backward hook of Linear gave () f32 for a gradient of (1, 2) f32"});
}

// vmap(grad(loss)) over examples equals the loop, on a driver.
TEST(Shows, PerExampleGradientsOfAnMlp) {
  DeviceContext* on = nullptr;
  try {
    on = &device("opencl:0");
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  nn::Sequential model(nn::Linear(784, 128, {.device = on}), nn::ReLU(), nn::Linear(128, 64, {.device = on}),
                       nn::ReLU(), nn::Linear(64, 10, {.device = on}));
  const List parameters = nn::detached(model.parameters());
  const auto loss = [&](const List& p, const Tensor& x, const Tensor& y) {
    return cross_entropy(nn::functional_call(model, p, unsqueeze(x, 0)), unsqueeze(y, 0));
  };
  const int64_t count = 16;
  const Tensor images = random({count, 784}, 1, 1, DType::f32, *on);
  std::vector<int32_t> digits;
  for (int i = 0; i < count; ++i) digits.push_back(i * 7 % 10);
  const Tensor labels = Tensor::from_vector(digits, {count}, on);
  const auto [losses, each] = vmap(value_and_grad(loss), {std::nullopt, 0, 0})(parameters, images, labels);
  EXPECT_EQ(each[0].shape(), (Shape{count, 128, 784}));
  const Values pixels = images.to_doubles(), values = losses.to_doubles();
  for (const size_t b : {size_t{0}, size_t{7}, size_t{15}}) {
    // Tensors of their own, so that every example is the same recorded step.
    const Tensor x = f32(Values(pixels.begin() + static_cast<std::ptrdiff_t>(784 * b),
                                pixels.begin() + static_cast<std::ptrdiff_t>(784 * (b + 1))),
                         {784}, *on);
    const auto [one, gradient] =
        value_and_grad(loss)(parameters, x, Tensor::from_vector(std::vector<int32_t>{digits[b]}, Shape{}, on));
    EXPECT_NEAR(values[b], one.item(), 1e-5);
    for (size_t i = 0; i < each.size(); ++i) {
      const Values all = each[i].to_doubles(), expected = gradient[i].to_doubles();
      for (size_t k = 0; k < expected.size(); ++k)
        ASSERT_NEAR(all[b * expected.size() + k], expected[k], 2e-5 * (1 + std::abs(expected[k])))
            << b << ", gradient " << i;
    }
  }
}

// All second derivatives of a net with two layers by all its parameters against central differences of its gradient.
TEST(Shows, HessianOfANetEqualsFiniteDifferences) {
  const Tensor x = random({6, 3}, 1), y = random({6, 2}, 2);
  const auto loss = [&](const Tensor& p) {  // (3 x 4, 4, 4 x 2, 2)
    const List w = split(p, {12, 4, 8, 2}, 0);
    return mse_loss(matmul(tanh(matmul(x, reshape(w[0], {3, 4})) + w[1]), reshape(w[2], {4, 2})) + w[3], y);
  };
  const Tensor p = random({26}, 3);
  const Values h = hessian(loss)(p).to_doubles();
  ASSERT_EQ(h.size(), 26u * 26u);
  const double step = 1e-5;
  for (int64_t i = 0; i < 26; ++i) {
    Values direction(26, 0);
    direction[static_cast<size_t>(i)] = step;
    const Tensor d = Tensor::from_vector(direction, {26}, &reference());
    const Values up = grad(loss)(p + d).to_doubles(), down = grad(loss)(p - d).to_doubles();
    for (size_t j = 0; j < 26; ++j)
      ASSERT_NEAR(h[static_cast<size_t>(i) * 26 + j], (up[j] - down[j]) / (2 * step), 1e-8) << i << ", " << j;
  }
}

// Model-agnostic meta-learning: the loss after an inner gradient step, over tasks at once, differentiated through the
// step.
TEST(Shows, MetaLearningTrainsThroughItsInnerStep) {
  const auto net = [](const List& p, const Tensor& x) { return matmul(tanh(matmul(x, p[0]) + p[1]), p[2]) + p[3]; };
  const auto task_loss = [&](const List& p, const Tensor& x, const Tensor& y) { return mse_loss(net(p, x), y); };
  const auto adapted = [&](const List& p, const Tensor& x, const Tensor& y) {
    const List g = grad(task_loss)(p, x, y);
    List after;
    for (size_t i = 0; i < p.size(); ++i) after.push_back(p[i] - 0.1 * g[i]);
    return after;
  };
  const int64_t tasks = 5, points = 8;
  const Tensor amplitude = reshape(linspace(0.5, 2, tasks, DType::f64, &reference()), {tasks, 1, 1});
  const Tensor x1 = random({tasks, points, 1}, 1, 2), x2 = random({tasks, points, 1}, 2, 2);
  const Tensor y1 = amplitude * sin(x1), y2 = amplitude * sin(x2);
  const auto meta_loss = [&](const List& p) {
    const auto one = [&](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
      return task_loss(adapted(p, a, b), c, d);
    };
    return mean(vmap(one)(x1, y1, x2, y2));
  };
  List p{random({1, 10}, 3), random({10}, 4), random({10, 1}, 5, 0.5), random({1}, 6, 0.1)};
  // The meta-gradient along a direction.
  const List g = grad(meta_loss)(p);
  List v, up, down;
  double along = 0;
  for (size_t i = 0; i < p.size(); ++i) {
    v.push_back(random(p[i].shape(), static_cast<uint32_t>(20 + i)));
    up.push_back(p[i] + 1e-5 * v[i]);
    down.push_back(p[i] - 1e-5 * v[i]);
    along += sum(g[i] * v[i]).item();
  }
  EXPECT_NEAR(along, (meta_loss(up).item() - meta_loss(down).item()) / 2e-5, 1e-8);
  const double first = meta_loss(p).item();
  for (int step = 0; step < 100; ++step) {
    const List slope = grad(meta_loss)(p);
    for (size_t i = 0; i < p.size(); ++i) p[i] = p[i] - 0.1 * slope[i];
    eval(p);
  }
  EXPECT_LT(meta_loss(p).item(), 0.3 * first);
}

// A critic whose slope is held at 1 (Gulrajani et al. 2017): the penalty is a function of gradients by the input, and
// trains the parameters.
TEST(Shows, GradientPenaltyTrains) {
  manual_seed(3);
  nn::Sequential critic(nn::Linear(2, 16, {.device = reference()}), nn::Tanh(),
                        nn::Linear(16, 1, {.device = reference()}));
  nn::Adam optimizer(critic.parameters(), 1e-2);
  const Tensor real = random({32, 2}, 1, 1, DType::f32), made = random({32, 2}, 2, 1, DType::f32) + 2;
  const auto penalty = [&] {
    const Tensor between = 0.5 * (real + made);
    const Tensor slopes = grad([&](const Tensor& x) { return sum(critic(x)); })(between);
    return mean(square(sqrt(sum(square(slopes), {1}) + 1e-12) - 1));
  };
  const auto loss = [&] { return mean(critic(made)) - mean(critic(real)) + 10 * penalty(); };
  // One derivative by a parameter against differences, then training.
  backward(loss());
  Tensor w = critic.parameters()[0];
  const double found = w.grad().to_doubles()[3];
  critic.zero_grad();
  const auto moved = [&](double by) {
    Values values = w.to_doubles();
    values[3] += by;
    nn::StateDict state{{"0.weight", f32(values, w.shape())}};
    const Tensor between = 0.5 * (real + made);
    const Tensor slopes = grad([&](const Tensor& x) { return sum(nn::functional_call(critic, state, x)); })(between);
    const auto call = [&](const Tensor& x) { return nn::functional_call(critic, state, x); };
    return (mean(call(made)) - mean(call(real)) + 10 * mean(square(sqrt(sum(square(slopes), {1}) + 1e-12) - 1))).item();
  };
  EXPECT_NEAR(found, (moved(0.01) - moved(-0.01)) / 0.02, 2e-3 * (1 + std::abs(found)));
  const double before = penalty().item(), distance = loss().item();
  for (int step = 0; step < 100; ++step) {
    backward(loss());
    optimizer.step();
    critic.zero_grad();
  }
  EXPECT_LT(penalty().item(), 0.2 * before);
  EXPECT_LT(loss().item(), distance - 0.5);
}

// Solves (A + damping I) x = b for symmetric positive definite A by elimination.
Values solved(Values a, Values b, double damping) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) a[i * n + i] += damping;
  for (size_t i = 0; i < n; ++i) {
    for (size_t r = i + 1; r < n; ++r) {
      const double factor = a[r * n + i] / a[i * n + i];
      for (size_t c = i; c < n; ++c) a[r * n + c] -= factor * a[i * n + c];
      b[r] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t c = i + 1; c < n; ++c) b[i] -= a[i * n + c] * b[c];
    b[i] /= a[i * n + i];
  }
  return b;
}

// u'' = -u on [0, pi], u(0) = 0, u'(0) = 1, whose solution is sin: u = x + x^2 N(x) with a net of ten units, the
// residual at 25 points brought to zero by Levenberg and Marquardt's method. u'' is a derivative of a derivative by x,
// the residual's Jacobian one by the parameters on top of it.
TEST(Shows, PhysicsInformedNetSolvesAnOscillator) {
  const int64_t units = 10, points = 25;
  const auto u = [&](const Tensor& x, const Tensor& p) {
    const List w = split(p, {units, units, units, 1}, 0);
    return x + x * x * (sum(w[2] * tanh(w[0] * x + w[1])) + reshape(w[3], Shape{}));
  };
  const Tensor x = linspace(0, std::numbers::pi, points, DType::f64, &reference());
  const auto residual = [&](const Tensor& p) {
    const auto at = [&](const Tensor& t) {
      const auto value = [&](const Tensor& s) { return u(s, p); };
      return grad(grad(value))(t) + value(t);
    };
    return vmap(at)(x);
  };
  Tensor p = random({3 * units + 1}, 11);
  double damping = 1e-2, now = sum(square(residual(p))).item();
  for (int step = 0; step < 60 && now > 1e-9; ++step) {
    const Tensor j = jacrev(residual)(p), r = residual(p);
    const Values a = matmul(transpose(j), j).to_doubles(), b = matmul(transpose(j), r).to_doubles();
    for (int trial = 0; trial < 8; ++trial) {
      const Tensor next = p - Tensor::from_vector(solved(a, b, damping), p.shape(), &reference());
      const double then = sum(square(residual(next))).item();
      damping *= then < now ? 0.3 : 4;
      if (then >= now) continue;
      p = next;
      now = then;
      break;
    }
  }
  const Tensor fine = linspace(0, std::numbers::pi, 101, DType::f64, &reference());
  const Values found = vmap(u, {0, std::nullopt})(fine, p).to_doubles(), at = fine.to_doubles();
  double worst = 0;
  for (size_t i = 0; i < at.size(); ++i) worst = std::max(worst, std::abs(found[i] - std::sin(at[i])));
  EXPECT_LT(worst, 1e-3) << "residual " << now;
  RecordProperty("worst", std::to_string(worst));
}

}  // namespace
}  // namespace heddle::tests
