// What used to go wrong without a word: optimizers without parameters or gradients, parts that were never added, states
// of other libraries; and where messages point.
#include <cstdio>

#include "heddle/autograd/autograd.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

nn::Linear linear_layer(int64_t in, int64_t out) { return nn::Linear(in, out, {.device = reference()}); }

TEST(SilentMistakes, OptimizersWithoutParameters) {
  struct Forgetful : nn::Module {
    nn::Linear fc = linear_layer(2, 2);  // not added
  } net;
  expect_error<ValueError>([&] { nn::SGD(net.parameters(), 0.1); }, {"[SGD]", "no parameters", "add(\"fc1\""});
  expect_error<ValueError>([] { nn::Adam({}, {.lr = 0.1}); }, {"[Adam]", "no parameters"});
}

TEST(SilentMistakes, UpdatesWithoutAnyGradient) {
  nn::Linear net = linear_layer(2, 1);
  nn::SGD sgd(net.parameters(), 0.1);
  expect_error<GradError>([&] { sgd.step(); },
                          {"[SGD]", "none of the 2 parameters has a gradient", "backward(loss)", "NoGradScope"});
  net.requires_grad(false);
  expect_error<GradError>([&] { sgd.update(); }, {"all are frozen"});
  net.requires_grad(true);
  backward(sum(net.weight * 2));
  sgd.step();  // one has a gradient
  sgd.zero_grad();
  sgd.step();  // nothing to do: it has been trained before
}

struct Outer : nn::Module {
  explicit Outer(bool added) : Module("Outer") {
    if (added) add("inner", inner);
  }
  nn::Linear inner = linear_layer(3, 3);
  Tensor forward(const Tensor& x) override { return inner(x); }
};

// Its part's tensors are registered, under names of its own.
struct ByTensor : Outer {
  ByTensor() : Outer(false) {
    add_parameter("w", inner.weight);
    add_parameter("b", inner.bias);
  }
};

std::string said_by(nn::Module& net, int calls) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < calls; ++i) net(f32({1, 2, 3}, {1, 3}));
  return testing::internal::GetCapturedStderr();
}

TEST(SilentMistakes, PartsThatWereNeverAdded) {
  Outer forgetful(false), right(true), frozen(false);
  frozen.inner.requires_grad(false);
  const std::string said = said_by(forgetful, 3);
  EXPECT_NE(said.find("heddle: Outer calls a Linear that is none of its parts (silent_mistakes_test.cpp:"),
            std::string::npos)
      << said;
  EXPECT_EQ(said.find("heddle:"), said.rfind("heddle:")) << said;  // once
  EXPECT_EQ(said_by(right, 2), "");
  EXPECT_EQ(said_by(frozen, 2), "");
  ByTensor by_tensor;
  EXPECT_EQ(said_by(by_tensor, 2), "");
  nn::Sequential deep{linear_layer(3, 3), nn::Sequential{linear_layer(3, 3), nn::ReLU()}};
  EXPECT_EQ(said_by(deep, 2), "");
  EXPECT_EQ(said_by(forgetful.inner, 1), "");
}

TEST(SilentMistakes, StatesOfOtherLibrariesNameTheCure) {
  struct Net : nn::Module {
    Net() : Module("Net") {
      for (int i = 0; i < 9; ++i) add("fc" + std::to_string(i), linear_layer(2, 2));
    }
  } net;
  const auto refused = [&](nn::StateDict state, std::initializer_list<const char*> pieces) {
    expect_error<ValueError>([&] { net.load_state_dict(state); }, pieces);
  };
  nn::StateDict more = net.state_dict();
  more["bn.num_batches_tracked"] = f32({1}, {1});
  refused(more, {"missing []", "from_torchvision"});
  refused({{"transformer.h.0.attn.c_attn.weight", f32({1}, {1})}}, {"and 13 more", "from_gpt2"});
  refused({{"module.fc1.weight", f32({1}, {1})}}, {"DataParallel"});
  refused({{"encoder.weight", f32({1}, {1})}},
          {"missing [fc0.bias, fc0.weight, fc1.bias, fc1.weight, fc2.bias and 13 more]", "load_matching"});
}

TEST(SilentMistakes, GradientsThatAreNotThere) {
  const Tensor w = f32({1, 2}, {2});
  expect_error<ValueError>([&] { w.grad().to_doubles(); }, {"grad()", "no backward()"});
}

struct Narrow : nn::Module {
  nn::Linear fc = add("fc", linear_layer(4, 2));
  Tensor forward(const Tensor& x) override { return fc(x); }
};

TEST(SilentMistakes, ShapeErrorsInModelsNameBothLines) {
  Narrow net;
  const Tensor x = f32({1, 2, 3}, {1, 3});
  const auto line = std::to_string(__LINE__ + 1);
  expect_error<ShapeError>([&] { net(x); }, {"(silent_mistakes_test.cpp:",
                                             (", called from silent_mistakes_test.cpp:" + line + ")").c_str()});
  try {
    matmul(x, x);
  } catch (const ShapeError& e) {
    EXPECT_EQ(std::string(e.what()).find("called from"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace heddle::tests
