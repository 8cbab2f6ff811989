// train/option_uses.h: the table against what optimizers and schedules really do with each option, and what is refused.
#include "heddle/train/option_uses.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/models/mlp.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/recipe.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/host.h"

namespace heddle::train {
namespace {

using test::contains;
using test::thrown_text;

// Three layers, so that Muon finds a hidden matrix.
class Layers final : public Task {
 public:
  explicit Layers(int64_t width) : model_(made(width)) {}
  nn::Module& model() override { return model_; }
  const TrainingData& training() const override { return data_; }
  // Another target each time, so that gradients change their signs.
  Tensor loss(const std::vector<Tensor>&) override {
    return mean(square(model_(x_) - (calls_++ % 3 == 0 ? 4.0 : -3.0)));
  }
  Evaluation evaluate(int64_t) override { return {}; }

 private:
  static nn::Mlp made(int64_t width) {
    manual_seed(3);
    return nn::Mlp({.in = 3, .hidden = {width, width}, .out = 2}, {.device = host()});
  }
  nn::Mlp model_;
  Tensor x_ = Tensor::from_vector(std::vector<float>{1, 2, -1, 0.5f, 1, 3}, {2, 3}, &host());
  TrainingData data_;
  int calls_ = 0;
};

template <int64_t width>
std::vector<double> weights_after_updates(const Config& c) {
  Layers task(width);
  Optimizers optimizers(task, c, make_schedule(c, 10, nullptr), host());
  for (int i = 0; i < 12; ++i) {
    backward(task.loss({}));
    optimizers.update();
    optimizers.zero_grad();
  }
  std::vector<double> all;
  for (const Tensor& p : task.model().parameters()) {
    const std::vector<double> values = p.to_doubles();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<double> rates(const Config& c) {
  const auto plateau =
      c.schedule.name == "plateau"
          ? std::make_shared<nn::Plateau>(c.optimizer.lr, nn::PlateauOptions{.factor = c.schedule.gamma,
                                                                             .patience = c.schedule.patience,
                                                                             .least = c.schedule.least})
          : nullptr;
  const nn::Schedule schedule = make_schedule(c, 30, plateau);
  std::vector<double> all;
  for (int64_t step = 0; step < 30; ++step) {
    all.push_back(schedule(step));
    if (plateau) plateau->observe(1);
  }
  return all;
}

// Whether another value of `option` changes what `result` gives is what the table says of it.
template <class Result>
void expect_truth(const std::string& beside, const std::map<std::string, std::string>& others, const Config& usual,
                  Result result) {
  for (const std::string_view name : find_config_row(beside)->check.choices) {
    Config c = usual;
    c.set(beside, name);
    const std::vector<double> before = result(c);
    for (const auto& [option, value] : others) {
      Config changed = c;
      changed.set(option, value);
      const auto use = std::ranges::find(option_uses(), option, &OptionUse::option);
      ASSERT_NE(use, option_uses().end()) << option;
      EXPECT_EQ(result(changed) != before, use->applies(c)) << option << " beside " << name;
    }
  }
}

TEST(OptionUses, WhatOptimizersUse) {
  Config usual;
  usual.optimizer.beta2 = 0.5;  // a momentum that weighs as much as the gradient, so that lion's signs depend on both
  expect_truth("optimizer.name",
               {{"optimizer.momentum", "0.5"},
                {"optimizer.nesterov", "true"},
                {"optimizer.alpha", "0.5"},
                {"optimizer.beta1", "0.5"},
                {"optimizer.beta2", "0.9"},
                {"optimizer.eps", "0.01"}},
               usual, weights_after_updates<4>);
  // A matrix of 4,096 elements.
  expect_truth("optimizer.name", {{"optimizer.states", "8bit"}}, usual, weights_after_updates<64>);
}

TEST(OptionUses, WhatSchedulesUse) {
  Config usual;
  usual.schedule.every = 7;
  usual.schedule.milestones = {4};
  expect_truth("schedule.name",
               {{"schedule.least", "5e-4"},
                {"schedule.gamma", "0.5"},
                {"schedule.every", "3"},
                {"schedule.milestones", "6"},
                {"schedule.power", "2"},
                {"schedule.patience", "1"}},
               usual, rates);
}

TEST(OptionUses, NamesWhatThereIs) {
  for (const OptionUse& use : option_uses()) {
    EXPECT_NE(find_config_row(use.option), nullptr) << use.option;
    const ConfigRow* beside = find_config_row(use.beside);
    ASSERT_NE(beside, nullptr) << use.beside;
    for (const std::string_view value : use.values) {
      const auto& choices = beside->check.choices;
      EXPECT_TRUE(choices.empty() || std::ranges::find(choices, value) != choices.end()) << use.option << ": " << value;
    }
  }
}

void check(const std::string& recipe, const std::vector<std::pair<std::string, std::string>>& options) {
  const Config defaults = recipe.empty() ? Config() : recipe_config(recipe);
  Config c = defaults;
  for (const auto& [key, value] : options) c.set(key, value);
  refuse_unused_options(c, defaults);
}
std::string refusal(const std::string& recipe, const std::vector<std::pair<std::string, std::string>>& options) {
  return thrown_text<ValueError>([&] { check(recipe, options); });
}

TEST(OptionUses, RefusesInOneLineThatNamesTheUsers) {
  EXPECT_EQ(
      refusal("", {{"optimizer.momentum", "0.5"}}),
      "[config] --momentum (optimizer.momentum) is 0.5, but only sgd, rmsprop and muon use it: optimizer.name is adam");
  EXPECT_EQ(refusal("", {{"optimizer.alpha", "0.5"}}),
            "[config] --alpha (optimizer.alpha) is 0.5, but only rmsprop uses it: optimizer.name is adam");
  EXPECT_TRUE(contains(refusal("", {{"training.loss_scale", "1024"}, {"training.precision", "bf16"}}),
                       "only f16 uses it: training.precision is bf16"));
  EXPECT_TRUE(contains(refusal("", {{"schedule.gamma", "0.5"}}),
                       "only step, multi-step, exponential and plateau use it: schedule.name is cosine"));
  EXPECT_TRUE(contains(refusal("char-gpt", {{"training.epochs", "3"}}),
                       "it counts only where training.steps is 0: it is 2000"));
  EXPECT_TRUE(contains(refusal("", {{"optimizer.decay_all", "true"}}),
                       "only where optimizer.weight_decay is above 0: it is 0"));
  EXPECT_TRUE(contains(refusal("", {{"optimizer.momentum", "0.9"}}), "--momentum"))
      << "said, though it is what would have been";
}

TEST(OptionUses, DefaultsAreSilent) {
  check("", {{"optimizer.name", "sgd"}, {"optimizer.momentum", "0.5"}});
  check("", {{"training.precision", "f16"}, {"training.loss_scale", "1024"}});
  // Whatever a recipe sets for its own optimizer and schedule.
  for (const Recipe& recipe : recipes()) check(recipe.name, {{"optimizer.name", "sgd"}, {"schedule.name", "constant"}});
}

// A file is complete, so what it holds was not said by anybody unless it differs.
TEST(OptionUses, OfAFileOnlyWhatDiffers) {
  Config c = recipe_config("mnist-mlp");
  c.parse(c.str(), "run.toml");
  refuse_unused_options(c, recipe_config("mnist-mlp"));
  c.parse("[optimizer]\nname = \"adam\"\nmomentum = 0.25\n", "run.toml");
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([&] { refuse_unused_options(c, recipe_config("mnist-mlp")); }), "--momentum"));
}

}  // namespace
}  // namespace heddle::train
