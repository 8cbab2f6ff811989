// The place of the user's code that each node keeps: which line of this file, from every kind of call.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/caller.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/norms.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/node.h"
#include "heddle/data/array.h"
#include "heddle/data/collate.h"
#include "heddle/nn/accumulate.h"
#include "heddle/nn/activations.h"
#include "heddle/nn/generate.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/loss_scale.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/optim.h"
#include "heddle/nn/recurrent.h"
#include "tests/support/reference_device.h"
#include "tests/unit/places.h"

namespace heddle {
namespace {

using test::here;
using test::place;
using tests::reference;

constexpr unsigned placed_line = __LINE__ + 1;
Tensor placed(const Shape& shape) { return zeros(shape, DType::f32, &reference()); }

// Places of all nodes below a tensor that something computes.
std::vector<std::string> places_below(const Tensor& t) {
  std::vector<std::string> all;
  std::vector<NodePtr> stack{t.node()};
  while (!stack.empty()) {
    const NodePtr node = stack.back();
    stack.pop_back();
    if (!node->has_value()) all.push_back(node->where.str());
    stack.insert(stack.end(), node->inputs.begin(), node->inputs.end());
  }
  return all;
}

TEST(Place, FunctionsAndOperatorsNameTheirLine) {
  const Tensor x = placed({4, 3}), w = placed({3, 2});
  EXPECT_EQ(place(x), here(placed_line));  // inside placed()
  EXPECT_EQ(place(exp(x)), here());
  EXPECT_EQ(place(add(x, x)), here());
  EXPECT_EQ(place(add(x, 2)), here());
  EXPECT_EQ(place(sub(2.0, x)), here());
  EXPECT_EQ(place(x + x), here());
  EXPECT_EQ(place(x * 2), here());
  EXPECT_EQ(place(1 - x), here());
  EXPECT_EQ(place(-x), here());
  EXPECT_EQ(place(!(x > 0.0)), here());
  EXPECT_EQ(place(x == x), here());
  EXPECT_EQ(place(x != 1), here());
  EXPECT_EQ(place((x < x) && (x > x)), here());
  EXPECT_EQ(place(matmul(x, w)), here());
  EXPECT_EQ(place(sum(x, {0})), here());
  EXPECT_EQ(place(reshape(x, {2, -1})), here());
  EXPECT_EQ(place(concat({x, x}, 0)), here());
  EXPECT_EQ(place(split(x, {1, 3}, 0)[1]), here());
  EXPECT_EQ(place(topk(x, 2).indices), here());
  EXPECT_EQ(place(where(x > 0.0, x, 1.0)), here());
  EXPECT_EQ(place(stop_gradient(x)), here());
  EXPECT_EQ(place(ones_like(x)), here());
  EXPECT_EQ(place(layer_norm(x, {3})), here());
  EXPECT_EQ(place(conv1d(placed({1, 2, 8}), placed({2, 2, 3}))), here());
  EXPECT_EQ(place(dropout(x, 0.5)), here());
  EXPECT_EQ(place(uniform({3}, 0, 1, &reference())), here());
  EXPECT_EQ(place(x.to(DType::f16)), here());
  EXPECT_EQ(place(Tensor::from_vector<float>({1, 2}, {2}, &reference())), here());
  Tensor target = placed({3});
  target.assign(placed({3}) + 1);
  EXPECT_EQ(place(target), here(__LINE__ - 1));
}

TEST(Place, EachLineOfAnExpressionIsItsOwn) {
  const Tensor x = placed({4});
  const Tensor y = relu(x) +  // a line of its own
                   exp(x);
  EXPECT_EQ(place(Tensor(y.node()->inputs[0])), here(__LINE__ - 2));
  EXPECT_EQ(place(Tensor(y.node()->inputs[1])), here(__LINE__ - 2));
}

TEST(Place, WhatAFunctionIsComposedOfIsItsCallers) {
  Tensor x = Tensor::from_vector<float>({1, 2, 3, 4}, {2, 2}, &reference());
  eval({x});
  const Tensor y = var(x, {1});
  for (const std::string& p : places_below(y)) EXPECT_TRUE(p == here(__LINE__ - 1) || p == here(__LINE__ - 3)) << p;
}

TEST(Place, FunctionsAreStillValues) {
  const std::function<Tensor(const Tensor&)> f = relu;
  const std::function<Tensor(const Tensor&, const Tensor&)> g = matmul;
  const Tensor x = placed({2, 2});
  EXPECT_EQ(f(x).shape(), x.shape());
  EXPECT_EQ(g(x, x).shape(), x.shape());
  EXPECT_EQ(place(f(x)), "");  // called by the standard library: nobody's place
  const CallerScope scope(Caller::current());
  EXPECT_EQ(place(f(x)), here(__LINE__ - 1));
}

struct Net : nn::Module {
  nn::Linear fc = add("fc", nn::Linear(3, 2, {.device = reference()}));
  nn::Sequential tail = add("tail", nn::Sequential{nn::ReLU(), nn::Dropout(0.1)});
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc(x);
    return tail(y) * 2;
  }
};
constexpr unsigned fc_line = __LINE__ - 4, tail_line = __LINE__ - 3;

TEST(Place, TheUsersModuleNamesItsOwnLinesNotTheTrainingLoops) {
  Net net;
  const Tensor y = net(placed({5, 3}));
  EXPECT_EQ(place(y), here(tail_line));
  const std::vector<std::string> all = places_below(y);
  EXPECT_NE(std::find(all.begin(), all.end(), here(fc_line)), all.end());
  for (const std::string& p : all) EXPECT_TRUE(p.starts_with("place_test.cpp:") || p.empty()) << p;
  EXPECT_EQ(std::count(all.begin(), all.end(), here(__LINE__ - 5)), 0);
}

TEST(Place, ModelsOfTheLibraryAreProgramsWrittenWithIt) {
  nn::Gpt model({.vocabulary = 8, .context = 4, .layers = 1, .heads = 1, .width = 4}, {.device = reference()});
  const Tensor y = model(zeros({1, 4}, DType::i32, &reference()));
  EXPECT_TRUE(place(y).starts_with("gpt.cpp:")) << place(y);
}

TEST(Place, LayersOfTheLibraryNameTheLineThatCallsThem) {
  nn::Sequential net{nn::Linear(3, 2, {.device = reference()}), nn::Tanh()};
  const Tensor y = net(placed({5, 3}));
  EXPECT_EQ(place(y), here(__LINE__ - 1));
  const Tensor z = checkpoint(nn::Tanh(), y);
  EXPECT_EQ(place(z), here(__LINE__ - 1));
  const Tensor own = checkpoint([](const Tensor& t) { return exp(t); }, y);
  EXPECT_EQ(place(own), here(__LINE__ - 1));
}

// Functions of nn and data that record, but are neither modules nor functions of core.
TEST(Place, FunctionsOfNnAndDataNameTheLineThatCallsThem) {
  const Tensor x = placed({4, 3}), labels = zeros({4}, DType::i32, &reference());
  EXPECT_EQ(place(nn::activate(x, nn::Activation::gelu)), here());
  EXPECT_EQ(place(nn::sample(x, {.temperature = 0})), here());
  const Tensor w = placed({3}).detach().set_requires_grad();
  const auto loss = [&](const Tensor& part) { return sum(part * w); };
  EXPECT_EQ(place(nn::accumulate({.parts = 2}, loss, x)), here());
  EXPECT_EQ(place(data::mix(placed({4, 1, 2, 2}), labels, 3, {.share = 0.5}).targets), here());
  EXPECT_EQ(place(data::mixup(placed({4, 1, 2, 2}), labels, 3, placed({4})).targets), here());
  EXPECT_EQ(place(data::to_tensors({data::Array::scalar(1.0f)}, reference())[0]), here());
  nn::LossScale scaling({.device = reference()});
  EXPECT_EQ(place(scaling.inverse()), here());
  scaling.update(ones({}, DType::boolean, &reference()));
  EXPECT_EQ(place(scaling.value()), here(__LINE__ - 1));
  const nn::GRU layer(3, 2, {.device = reference()});
  EXPECT_EQ(place(layer.run(placed({5, 4, 3})).states), here());
  EXPECT_EQ(place(layer.run(placed({5, 4, 3}), {}, std::vector<int64_t>{5, 4, 3, 0}).states), here());
  EXPECT_EQ(place(nn::GRUCell(3, 2, {.device = reference()}).step(x)[0]), here());
}

TEST(Place, GradientsAreMarkedWithTheLineTheyAreTheGradientOf) {
  Tensor w = placed({3}).detach();
  w.set_requires_grad();
  const Tensor y = exp(w) * w;
  const Tensor loss = sum(y);
  const Tensor g = grad(loss, w);
  const std::vector<std::string> all = places_below(g);
  EXPECT_NE(std::find(all.begin(), all.end(), here(__LINE__ - 4) + " (backward)"), all.end());
  EXPECT_NE(std::find(all.begin(), all.end(), here(__LINE__ - 4) + " (backward)"), all.end());
  EXPECT_EQ(current_line().str(), "");
}

TEST(Place, HooksNameTheirOwnLine) {
  Tensor w = placed({3}).detach();
  w.set_requires_grad();
  w.register_hook([](const Tensor& g) { return g * 3; });
  const unsigned line = __LINE__ - 1;
  backward(sum(exp(w)));
  EXPECT_TRUE(place(w.grad()).starts_with(here(line))) << place(w.grad());
}

TEST(Place, OptimizersNameTheLineOfTheUpdate) {
  Tensor w = placed({3}).detach();
  w.set_requires_grad();
  nn::SGD sgd({w}, {.lr = 0.1});
  backward(sum(w * w));
  sgd.update();
  EXPECT_EQ(place(w), here(__LINE__ - 1));
}

TEST(Place, ErrorsEndWithIt) {
  const auto text = [](const std::function<void()>& f) -> std::string {
    try {
      f();
    } catch (const UserError& e) {
      return e.what();
    }
    return "nothing";
  };
  const Tensor a = placed({2, 3}), b = placed({2, 3});
  EXPECT_EQ(text([&] { matmul(a, b); }),
            "[matmul] inner dimensions differ: a is (2, 3), b is (2, 3); did you mean transpose(b)? (" + here() + ")");
  const std::string added = text([&] { static_cast<void>(a + placed({2, 2})); });
  EXPECT_EQ(added,
            "[add] shapes (2, 3) and (2, 2) do not broadcast: 3 beside 2 in dimension 1 from the end (they must be "
            "equal or one of them 1) (" +
                here(__LINE__ - 4) + ")");
  Net net;
  const std::string shown = text([&] { net(placed({1, 4})); });  // the model's line and the call's
  EXPECT_TRUE(shown.ends_with("(" + here(fc_line) + ", called from " + here(__LINE__ - 1) + ")")) << shown;
  EXPECT_EQ(text([] { throw ValueError("[mine] no call is under way"); }), "[mine] no call is under way");
}

TEST(Place, ListsShowTheUsersPlacesFirstAndCountTheRest) {
  std::vector<SourceLine> places(6);
  EXPECT_EQ(list_lines(places), "");
  places[2].caller = Caller::current();
  places[4] = {Caller::current(), true};
  EXPECT_EQ(list_lines(places), here(__LINE__ - 2) + ", " + here(__LINE__ - 1) + " (backward)");
  EXPECT_EQ(list_lines(places, 1), here(__LINE__ - 3) + " and 1 more");
}

}  // namespace
}  // namespace heddle
