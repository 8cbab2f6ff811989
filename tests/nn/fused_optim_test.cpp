// Optimizers over many tensors: values, launches, memory, clipping.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/graph/philox.h"
#include "heddle/nn/clip.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/optim.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

std::vector<float> numbers(int64_t count, uint32_t stream) {
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = philox_uniform({9, 9, stream, 0}, i) * 2 - 1;
  return v;
}

// Shapes of all kinds: scalars, vectors shorter and longer than any vector register, matrices, and one that is summed
// in several parts.
std::vector<Shape> many_shapes() {
  std::vector<Shape> shapes;
  for (int i = 0; i < 10; ++i) {
    shapes.push_back(Shape{1});
    shapes.push_back(Shape{3 + i});
    shapes.push_back(Shape{5, 17 + i});
    shapes.push_back(Shape{300 + i});
  }
  shapes.push_back(Shape{70001});
  shapes.push_back(Shape{});
  shapes.push_back(Shape{0});
  return shapes;
}

struct Problem {
  std::vector<Tensor> parameters;

  Problem(DeviceContext& where, const std::vector<Shape>& shapes, DType dtype = DType::f32) {
    for (size_t i = 0; i < shapes.size(); ++i) {
      Tensor p = Tensor::from_vector(numbers(shapes[i].numel(), static_cast<uint32_t>(i)), shapes[i], &where).to(dtype);
      eval({p});
      parameters.push_back(p.set_requires_grad());
    }
  }

  void set_gradients(uint32_t step, double factor = 1) {
    std::vector<Tensor> gradients;
    for (size_t i = 0; i < parameters.size(); ++i) {
      Tensor& p = parameters[i];
      const Tensor raw =
          Tensor::from_vector(numbers(p.numel(), 1000 * (step + 1) + static_cast<uint32_t>(i)), p.shape(), &p.device());
      // Every third matrix as a product's transpose would come: not in its own row-major order. The others are results
      // of one step.
      const bool transposed = p.rank() == 2 && i % 3 == 0;
      gradients.push_back(
          (transposed ? transpose(reshape(raw, Shape{p.dim(1), p.dim(0)})) * factor : raw * (0.5 * factor))
              .to(p.dtype()));
    }
    eval(gradients);
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].set_grad(gradients[i]);
  }

  std::vector<Values> values() const {
    std::vector<Values> all;
    for (const Tensor& p : parameters) all.push_back(p.to_doubles());
    return all;
  }
};

std::unique_ptr<nn::Optimizer> make(const std::string& kind, const std::vector<Tensor>& parameters) {
  if (kind == "adamw") return std::make_unique<nn::AdamW>(parameters, nn::AdamOptions{.lr = 0.01, .weight_decay = 0.1});
  if (kind == "lion") return std::make_unique<nn::Lion>(parameters, nn::LionOptions{.lr = 0.01, .weight_decay = 0.1});
  return std::make_unique<nn::SGD>(parameters, nn::SgdOptions{.lr = 0.01, .momentum = 0.9, .nesterov = true});
}

std::vector<Values> run(DeviceContext& where, const std::string& kind, std::optional<double> clip, DType dtype,
                        std::vector<uint64_t>* launches = nullptr) {
  Problem problem(where, many_shapes(), dtype);
  const auto optimizer = make(kind, problem.parameters);
  optimizer->set_clip_norm(clip);
  for (uint32_t step = 0; step < 3; ++step) {
    problem.set_gradients(step);
    const uint64_t before = where.counters().kernels;
    optimizer->step();
    if (launches) launches->push_back(where.counters().kernels - before);
  }
  return problem.values();
}

void expect_close(const std::vector<Values>& found, const std::vector<Values>& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t p = 0; p < found.size(); ++p) {
    ASSERT_EQ(found[p].size(), expected[p].size());
    for (size_t i = 0; i < found[p].size(); ++i)
      ASSERT_NEAR(found[p][i], expected[p][i], tolerance) << "parameter " << p << " element " << i;
  }
}

class FusedOptim : public testing::TestWithParam<std::string> {};

TEST_P(FusedOptim, ManyTensorsLikeTheReference) {
  DeviceContext& where = device(GetParam());
  for (const std::string kind : {"adamw", "lion", "sgd"}) {
    for (const std::optional<double> clip : {std::optional<double>(), std::optional<double>(5.0)}) {
      SCOPED_TRACE(kind + (clip ? " clipped" : ""));
      std::vector<uint64_t> launches;
      const auto found = run(where, kind, clip, DType::f32, &launches);
      expect_close(found, run(reference(), kind, clip, DType::f32), 2e-6);
      // Vectors and matrices, transposed gradients, single elements, and the scalar; with the norm: partial sums
      // (whole, transposed, in parts), their join.
      EXPECT_LE(launches[2], clip ? 13u : 4u);
      EXPECT_EQ(found, run(where, kind, clip, DType::f32)) << "two runs must agree bit for bit";
    }
  }
}

TEST_P(FusedOptim, HalfPrecisionParameters) {
  DeviceContext& where = device(GetParam());
  expect_close(run(where, "adamw", 5.0, DType::f16), run(reference(), "adamw", 5.0, DType::f16), 2e-3);
  expect_close(run(where, "sgd", 5.0, DType::bf16), run(reference(), "sgd", 5.0, DType::bf16), 1.6e-2);
}

// Tensors that lie in different blocks of the allocator cannot share a binding: more launches, the same values.
TEST_P(FusedOptim, ScatteredGradients) {
  DeviceContext& where = device(GetParam());
  const std::vector<Shape> shapes(6, Shape{2000});
  Problem problem(where, shapes), apart(where, shapes);
  const auto first = make("adamw", problem.parameters), second = make("adamw", apart.parameters);
  std::vector<StoragePtr> between;
  for (uint32_t step = 0; step < 2; ++step) {
    problem.set_gradients(step);
    for (size_t i = 0; i < shapes.size(); ++i) {
      between.push_back(where.allocate(3 << 20));  // more than half of a block for small storages
      between.push_back(where.allocate(1 << 20));
      const Tensor gradient = Tensor::from_vector(problem.parameters[i].grad().to_vector<float>(), shapes[i], &where);
      apart.parameters[i].set_grad(gradient);
    }
    first->step();
    second->step();
  }
  EXPECT_EQ(problem.values(), apart.values());
}

TEST_P(FusedOptim, NormThatIsNotFiniteChangesNothing) {
  DeviceContext& where = device(GetParam());
  for (const std::string kind : {"adamw", "lion", "sgd"}) {
    for (const double bad : {std::nan(""), infinity, 3e30}) {
      if (bad == 3e30 && GetParam() == "reference:0") continue;  // whose squares are doubles
      SCOPED_TRACE(kind + " " + std::to_string(bad));
      const std::vector<Shape> shapes{Shape{5}, Shape{40}};
      Problem problem(where, shapes);
      const auto optimizer = make(kind, problem.parameters);
      optimizer->set_clip_norm(1.0);
      problem.set_gradients(0);
      optimizer->step();
      const auto before = problem.values();
      std::map<std::string, std::vector<uint8_t>> state;
      for (const auto& [name, tensor] : optimizer->state_dict()) state[name] = tensor.to_bytes();
      problem.set_gradients(1, bad);
      optimizer->step();
      EXPECT_FALSE(std::isfinite(optimizer->last_norm().item()));
      EXPECT_EQ(problem.values(), before);
      for (const auto& [name, tensor] : optimizer->state_dict()) {
        if (name.ends_with("step")) continue;
        EXPECT_EQ(tensor.to_bytes(), state[name]) << name;
      }
      problem.set_gradients(2);
      optimizer->step();
      EXPECT_NE(problem.values(), before);
    }
  }
}

TEST_P(FusedOptim, NormsOfAllOrders) {
  DeviceContext& where = device(GetParam());
  for (const auto& shapes : {many_shapes(), std::vector<Shape>{Shape{65536}, Shape{65537}, Shape{3 * 65536}},
                             std::vector<Shape>{Shape{7}}}) {
    Problem problem(where, shapes);
    double one = 0, two = 0, most = 0;
    for (const Values& values : problem.values()) {
      for (double v : values) {
        one += std::abs(v);
        two += v * v;
        most = std::max(most, std::abs(v));
      }
    }
    EXPECT_NEAR(nn::global_norm(problem.parameters, 1).item(), one, 1e-5 * one);
    EXPECT_NEAR(nn::global_norm(problem.parameters).item(), std::sqrt(two), 1e-5 * std::sqrt(two));
    EXPECT_EQ(nn::global_norm(problem.parameters, infinity).item(), most);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, FusedOptim, testing::ValuesIn(test::value_devices()), tests::backend_test_name);

TEST(Clip, ScalesGradientsLikePyTorch) {
  Tensor x = f32({0, 0}, Shape{2}).set_requires_grad(), y = f32({0}, Shape{1}).set_requires_grad(),
         none = f32({1}, Shape{1}).set_requires_grad();
  const std::vector<Tensor> all{x, y, none};
  x.set_grad(f32({3, 0}, Shape{2}));
  y.set_grad(f32({-4}, Shape{1}));
  EXPECT_EQ(nn::clip_grad_norm(all, 10).item(), 5);
  EXPECT_EQ(x.grad().to_doubles(), (Values{3, 0}));
  EXPECT_EQ(nn::clip_grad_norm(all, 1).item(), 5);
  EXPECT_NEAR(x.grad().to_doubles()[0], 3.0 / 5, 1e-6);
  EXPECT_NEAR(y.grad().item(), -4.0 / 5, 1e-6);
  EXPECT_FALSE(none.grad().defined());
  EXPECT_NEAR(nn::clip_grad_norm(all, 0.4, infinity).item(), 0.8, 1e-6);
  EXPECT_NEAR(y.grad().item(), -0.4, 1e-6);
  EXPECT_EQ(nn::clip_grad_norm(std::vector<Tensor>{none}, 1).item(), 0);
}

TEST(Clip, Values) {
  Tensor x = f32({0, 0, 0}, Shape{3}).set_requires_grad();
  x.set_grad(f32({3, -0.25, -7}, Shape{3}));
  nn::clip_grad_value(std::vector<Tensor>{x}, 0.5);
  EXPECT_EQ(x.grad().to_doubles(), (Values{0.5, -0.25, -0.5}));
}

TEST(Clip, NotFinite) {
  Tensor x = f32({0, 0}, Shape{2}).set_requires_grad();
  x.set_grad(f32({1, std::nan("")}, Shape{2}));
  expect_error<ValueError>([&] { nn::clip_grad_norm(std::vector<Tensor>{x}, 1, 2, true); },
                           {"[clip_grad_norm]", "nan"});
  EXPECT_EQ(x.grad().to_doubles()[0], 1) << "nothing changes when it throws";
  nn::clip_grad_norm(std::vector<Tensor>{x}, 1);
  EXPECT_TRUE(std::isnan(x.grad().to_doubles()[0]));
}

TEST(Clip, Errors) {
  Tensor x = f32({1}, Shape{1}).set_requires_grad();
  const std::vector<Tensor> all{x};
  expect_error<ValueError>([&] { nn::clip_grad_norm(all, -1); }, {"max_norm", "-1"});
  expect_error<ValueError>([&] { nn::clip_grad_norm(all, std::nan("")); }, {"max_norm", "nan"});
  expect_error<ValueError>([&] { nn::global_norm(all, 3); }, {"order 3", "infinity"});
  expect_error<ValueError>([&] { nn::clip_grad_value(all, -2); }, {"limit", "-2"});
  const Tensor elsewhere = Tensor::from_vector(std::vector<float>{1}, Shape{1}, &device("null:0"));
  expect_error<ValueError>([&] { nn::global_norm(std::vector<Tensor>{x, elsewhere}); }, {"reference:0", "null:0"});
}

TEST(Optim, StateFollowsAModuleToAnotherDevice) {
  for (const std::string& id : test::kernel_devices()) {
    const auto train = [&](bool moved) {
      manual_seed(3);
      nn::Linear model(3, 2, {.device = reference()});
      nn::Adam adam(model.parameters(), 0.1);
      for (int step = 0; step < 4; ++step) {
        if (moved && step == 2) model.to(id);
        DeviceContext& where = model.parameters()[0].device();
        backward(sum(model(f32({1, 2, 3}, Shape{1, 3}, where)) * (step + 1.0)));
        adam.step();
        adam.zero_grad();
      }
      EXPECT_EQ(adam.state_dict().at("0.m").device().id(), moved ? id : "reference:0");
      return model.parameters()[0].to_doubles();
    };
    const Values there = train(true), here = train(false);
    for (size_t i = 0; i < here.size(); ++i) EXPECT_NEAR(there[i], here[i], 1e-6) << id;
  }
}

}  // namespace
}  // namespace heddle::tests
