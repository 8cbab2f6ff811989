// Modules: names, modes, state dicts, moves; layers against arithmetic done here.
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

struct Small : nn::Module {
  Small() : Module("Small") { counter = add_buffer("counter", f32({7}, Shape{1})); }
  nn::Linear fc1 = add("fc1", nn::Linear(3, 4, {.device = reference()}));
  nn::Sequential tail = add(
      "tail", nn::Sequential{nn::ReLU(), nn::Dropout(0.5), nn::Linear(4, 2, {.bias = false, .device = reference()})});
  Tensor counter;
  Tensor forward(const Tensor& x) override { return tail(fc1(x)); }
};

std::vector<std::string> names(const nn::NamedTensors& list) {
  std::vector<std::string> result;
  for (const auto& [name, tensor] : list) result.push_back(name);
  return result;
}

TEST(Module, NamesInOrderOfRegistration) {
  Small net;
  EXPECT_EQ(names(net.named_parameters()), (std::vector<std::string>{"fc1.weight", "fc1.bias", "tail.2.weight"}));
  EXPECT_EQ(names(net.named_buffers()), std::vector<std::string>{"counter"});
  EXPECT_EQ(net.parameter_count(), 12 + 4 + 8);
  EXPECT_EQ(net.kind(), "Small");
  ASSERT_EQ(net.named_children().size(), 2u);
  EXPECT_EQ(net.named_children()[1].first, "tail");
}

TEST(Module, CopiesShareParameters) {
  Small net;
  Small copy = net;
  copy.fc1.weight.assign(zeros(Shape{4, 3}, DType::f32, &reference()));
  EXPECT_EQ(net.fc1.weight.to_doubles(), Values(12, 0));
  EXPECT_EQ(net.named_parameters()[0].second.to_doubles(), Values(12, 0));
}

TEST(Module, TiedParametersCountOnce) {
  const nn::Linear shared(3, 3, {.bias = false, .device = reference()});
  nn::Sequential twice{shared, shared};
  EXPECT_EQ(twice.named_parameters().size(), 2u);
  EXPECT_EQ(twice.parameters().size(), 1u);
  EXPECT_EQ(twice.parameter_count(), 9);
}

TEST(Module, TrainAndEvalReachTheLeaves) {
  Small net;
  const Tensor x = ones(Shape{5, 3}, DType::f32, &reference());
  net.eval();
  EXPECT_FALSE(net.tail.training());
  EXPECT_EQ(net(x).to_doubles(), net(x).to_doubles());
  net.train();
  EXPECT_TRUE(net.tail.training());
}

TEST(Module, ApplyVisitsChildrenFirst) {
  Small net;
  std::vector<std::string> seen;
  net.apply([&](const std::string& path, nn::Module& m) {
    seen.push_back(path + ":" + m.kind());
    for (auto& [name, p] : m.named_parameters()) {
      Tensor target = p;
      nn::init::constant(target, 0.25);
    }
  });
  EXPECT_EQ(seen, (std::vector<std::string>{"fc1:Linear", "tail.0:ReLU", "tail.1:Dropout", "tail.2:Linear",
                                            "tail:Sequential", ":Small"}));
  EXPECT_EQ(net.fc1.bias.to_doubles(), Values(4, 0.25));
  EXPECT_TRUE(net.fc1.bias.requires_grad());
}

TEST(Module, ZeroGradAndRequiresGrad) {
  Small net;
  net.eval();
  backward(sum(net(ones(Shape{2, 3}, DType::f32, &reference()))));
  EXPECT_TRUE(net.fc1.weight.grad().defined());
  net.zero_grad();
  EXPECT_FALSE(net.fc1.weight.grad().defined());
  net.requires_grad(false);
  EXPECT_FALSE(net(ones(Shape{2, 3}, DType::f32, &reference())).requires_grad());
}

TEST(Module, BadNames) {
  struct Bad : nn::Module {
    explicit Bad(const char* name) : Module("Bad") {
      add_parameter("w", zeros(Shape{1}, DType::f32, &reference()));
      add_buffer(name, zeros(Shape{1}, DType::f32, &reference()));
    }
  };
  expect_error<ValueError>([] { Bad("w"); }, {"Bad", "'w'", "already"});
  expect_error<ValueError>([] { Bad("a.b"); }, {"'a.b'", "dot"});
  expect_error<ValueError>([] { Bad(""); }, {"empty"});
  expect_error<ValueError>([] { nn::Module()(Tensor()); }, {"forward"});
}

// ---- state dicts

TEST(StateDict, RoundTrip) {
  Small from, to;
  ASSERT_NE(from.fc1.weight.to_doubles(), to.fc1.weight.to_doubles());
  to.load_state_dict(from.state_dict());
  const nn::StateDict a = from.state_dict(), b = to.state_dict();
  ASSERT_EQ(a.size(), 4u);
  for (const auto& [name, tensor] : a) EXPECT_EQ(tensor.to_bytes(), b.at(name).to_bytes()) << name;
  EXPECT_TRUE(to.fc1.weight.requires_grad());
  // Copies, not shared: a change of one does not reach the other.
  nn::init::zeros(from.fc1.weight);
  EXPECT_NE(to.fc1.weight.to_doubles(), Values(12, 0));
}

TEST(StateDict, OwnStateIsANoOp) {
  Small net;
  const Values before = net.fc1.weight.to_doubles();
  net.load_state_dict(net.state_dict());
  EXPECT_EQ(net.fc1.weight.to_doubles(), before);
}

TEST(StateDict, StrictErrorsNameTheKeys) {
  Small net;
  nn::StateDict state = net.state_dict();
  state.emplace("fc9.weight", f32({1}, Shape{1}));
  state.erase("fc1.bias");
  expect_error<ValueError>([&] { net.load_state_dict(state); }, {"missing [fc1.bias]", "unexpected [fc9.weight]"});
}

TEST(StateDict, NothingChangesOnAShapeError) {
  Small net;
  const Values before = net.fc1.bias.to_doubles();
  nn::StateDict state = net.state_dict();
  state["fc1.bias"] = zeros(Shape{4}, DType::f32, &reference());
  state["tail.2.weight"] = zeros(Shape{2, 5}, DType::f32, &reference());
  expect_error<ShapeError>([&] { net.load_state_dict(state); }, {"tail.2.weight", "(2, 4)", "(2, 5)"});
  EXPECT_EQ(net.fc1.bias.to_doubles(), before);
  state["tail.2.weight"] = zeros(Shape{2, 4}, DType::f64, &reference());
  expect_error<DTypeError>([&] { net.load_state_dict(state); }, {"tail.2.weight", "f32", "f64"});
}

// ---- layers

TEST(Layers, LinearIsAnAffineMap) {
  nn::Linear layer(3, 2, {.device = reference()});
  layer.weight.assign(f32({1, 2, 3, -1, 0.5, 4}, Shape{2, 3}));
  layer.bias.assign(f32({10, -20}, Shape{2}));
  EXPECT_EQ(layer(f32({1, 1, 1, 2, 0, -1}, Shape{2, 3})).to_doubles(), (Values{16, -16.5, 9, -26}));
  EXPECT_EQ(layer(ones(Shape{4, 5, 3}, DType::f32, &reference())).shape(), (Shape{4, 5, 2}));
  EXPECT_EQ(layer(ones(Shape{3}, DType::f32, &reference())).shape(), Shape{2});
  EXPECT_EQ(layer(ones(Shape{0, 3}, DType::f32, &reference())).shape(), (Shape{0, 2}));
  expect_error<ShapeError>([&] { layer(ones(Shape{2, 4}, DType::f32, &reference())); }, {"[Linear]", "(2, 4)", "3"});
  expect_error<ValueError>([] { nn::Linear(-1, 2); }, {"-1"});
}

TEST(Layers, ActivationsAreTheFunctions) {
  const Tensor x = f32({-2, -0.5, 0, 0.5, 2}, Shape{5});
  EXPECT_EQ(nn::ReLU()(x).to_doubles(), relu(x).to_doubles());
  EXPECT_EQ(nn::GELU()(x).to_doubles(), gelu(x).to_doubles());
  EXPECT_EQ(nn::SiLU()(x).to_doubles(), silu(x).to_doubles());
  EXPECT_EQ(nn::Tanh()(x).to_doubles(), tanh(x).to_doubles());
  EXPECT_EQ(nn::Sigmoid()(x).to_doubles(), sigmoid(x).to_doubles());
  EXPECT_EQ(nn::Softplus()(x).to_doubles(), softplus(x).to_doubles());
  EXPECT_EQ(nn::Softmax()(x).to_doubles(), softmax(x).to_doubles());
}

TEST(Layers, DropoutKeepsTheMean) {
  Generator generator{5, 0};
  nn::Dropout layer(0.25, {.generator = &generator});
  const Tensor x = ones(Shape{20000}, DType::f32, &reference());
  const Values y = layer(x).to_doubles();
  double total = 0;
  for (const double v : y) {
    ASSERT_TRUE(v == 0 || std::abs(v - 4 / 3.0) < 1e-6) << v;
    total += v;
  }
  EXPECT_NEAR(total / 20000, 1, 0.02);
  EXPECT_NE(layer(x).to_doubles(), y);  // a new mask each time
  layer.eval();
  EXPECT_EQ(layer(x).to_doubles(), Values(20000, 1));
  for (const double p : {-0.1, 1.0, std::nan("")}) EXPECT_THROW(nn::Dropout{p}, ValueError);
}

TEST(Layers, Flatten) {
  EXPECT_EQ(nn::Flatten()(ones(Shape{2, 3, 4}, DType::f32, &reference())).shape(), (Shape{2, 12}));
  EXPECT_EQ(nn::Flatten(0)(ones(Shape{2, 3}, DType::f32, &reference())).shape(), Shape{6});
  EXPECT_EQ(nn::Flatten(2)(ones(Shape{2, 3}, DType::f32, &reference())).shape(), (Shape{2, 3, 1}));
  EXPECT_THROW(nn::Flatten(3)(ones(Shape{2, 3}, DType::f32, &reference())), ShapeError);
}

TEST(Layers, SequentialRunsInOrder) {
  nn::Sequential seq{nn::Flatten(), nn::Linear(4, 3, {.device = reference()}), nn::ReLU()};
  const nn::Linear second(3, 1, {.device = reference()});
  seq.append(second);
  EXPECT_EQ(seq.size(), 4u);
  EXPECT_EQ(seq(ones(Shape{2, 2, 2}, DType::f32, &reference())).shape(), (Shape{2, 1}));
  EXPECT_EQ(names(seq.named_parameters()), (std::vector<std::string>{"1.weight", "1.bias", "3.weight", "3.bias"}));
}

// ---- dtypes

TEST(Module, IsCastUnderTheSameHandles) {
  Small net;
  const Tensor weight = net.fc1.weight;
  const Values before = weight.to_doubles();
  net.to(DType::bf16);
  EXPECT_EQ(weight.dtype(), DType::bf16);
  EXPECT_TRUE(weight.requires_grad());
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_EQ(weight.to_doubles(),
            cast(Tensor::from_vector(std::vector<float>(before.begin(), before.end()), weight.shape()), DType::bf16)
                .to_doubles());
  net.to(DType::f32);
  EXPECT_EQ(net.parameters()[0].dtype(), DType::f32);
  expect_error<DTypeError>([&] { net.to(DType::i32); }, {"i32 is no floating dtype"});
}

// ---- devices

TEST(Module, MovesBetweenDevicesUnderTheSameHandles) {
  DeviceContext* there = nullptr;
  try {
    there = &device("opencl:0");
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  Small net;
  const Values weight = net.fc1.weight.to_doubles();
  const std::vector<Tensor> before = net.parameters();
  net.to(*there);
  EXPECT_EQ(&before[0].device(), there);
  EXPECT_EQ(&net.counter.device(), there);
  EXPECT_EQ(net.fc1.weight.to_doubles(), weight);
  EXPECT_TRUE(before[0].requires_grad());
  EXPECT_FALSE(net.counter.requires_grad());
  backward(sum(net.eval()(ones(Shape{2, 3}, DType::f32, there))));
  EXPECT_EQ(before[0].grad().shape(), (Shape{4, 3}));
  net.to("reference:0");
  EXPECT_EQ(net.fc1.weight.to_doubles(), weight);
}

}  // namespace
}  // namespace heddle::tests
