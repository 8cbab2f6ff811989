// Options that only some recipes know: mixup, limits, samples. Each does what it says or is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/recorded_run.h"

namespace heddle::train {
namespace {

using test::contains;
using test::thrown_text;
using Json = nlohmann::json;
using Options = std::map<std::string, std::string>;

class RecipeOptions : public testing::TestWithParam<std::string> {
 protected:
  RecipeOptions() {
    test::write_mnist_folder(folder, 40, 20);
    std::ofstream file(text);
    for (int i = 0; i < 80; ++i) file << "Zeile " << i << " über das Weben; ";
  }
  DeviceContext& where() const { return device(GetParam()); }
  Config small(const std::string& name, const Options& more) {
    Config c = recipe_config(name);
    c.training.steps = 6;
    c.training.batch = 5;
    c.training.accumulate = 1;
    c.schedule.warmup = 0;
    c.data.path = folder.path();
    for (const auto& [key, value] : more) c.set(key, value);
    return c;
  }
  Config mlp(const Options& more) {
    Config c = small("mnist-mlp", more);
    c.set("model.hidden", "8");
    return c;
  }
  Config gpt(const Options& more) {
    Config c = small("char-gpt", more);
    for (const auto& [key, value] : Options{{"model.layers", "1"},
                                            {"model.heads", "2"},
                                            {"model.width", "8"},
                                            {"model.context", "16"},
                                            {"data.path", text}})
      c.set(key, value);
    return c;
  }
  // The events of a run, in order.
  std::vector<Json> events(const Config& c, const std::string& run, int64_t stop_before = -1, bool resume = false) {
    return recorded_run(c, where(), folder / run, stop_before, resume).lines;
  }
  static std::vector<int64_t> steps_of(const std::vector<Json>& events, const std::string& kind) {
    std::vector<int64_t> all;
    for (const Json& e : events) {
      if (e["event"] == kind) all.push_back(e["step"]);
    }
    return all;
  }

  test::TemporaryFolder folder;
  const std::string text = folder / "text.txt";
};

// Against the formula in double precision: the loss of two labels, weighted as the images are.
TEST_P(RecipeOptions, MixupIsTheLossOfMixedImagesAndLabels) {
  Config c = mlp({{"data.mixup", "0.4"}});
  const std::unique_ptr<Task> task = make_task(c, where());
  constexpr size_t examples = 3, size = 28 * 28;
  const std::vector<float> share = {0.75f, 0.5f, 0.125f};
  const std::vector<int32_t> labels = {4, 0, 9};
  std::vector<float> images(examples * size), mixed(examples * size);
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i * 37 % 101) / 101;
  for (size_t i = 0; i < images.size(); ++i) {
    const size_t example = i / size, opposite = examples - 1 - example;
    mixed[i] = share[example] * images[i] + (1 - share[example]) * images[opposite * size + i % size];
  }
  const Shape shape{examples, 1, 28, 28};
  const std::vector<double> logits = task->model()(Tensor::from_vector(mixed, shape, &where())).to_doubles();
  double expected = 0;
  for (size_t i = 0; i < examples; ++i) {
    double sum = 0;
    for (size_t k = 0; k < 10; ++k) sum += std::exp(logits[i * 10 + k]);
    const auto minus_log = [&](int32_t label) { return std::log(sum) - logits[i * 10 + static_cast<size_t>(label)]; };
    expected += (share[i] * minus_log(labels[i]) + (1 - share[i]) * minus_log(labels[examples - 1 - i])) / examples;
  }
  const Tensor loss =
      task->loss({Tensor::from_vector(images, shape, &where()), Tensor::from_vector(labels, {examples}, &where()),
                  Tensor::from_vector(share, {examples}, &where())});
  EXPECT_NEAR(loss.item(), expected, 1e-5);
}

TEST_P(RecipeOptions, MixupRepeatsAndResumesBitForBit) {
  Config c = mlp({{"data.mixup", "0.4"}});
  const std::vector<double> whole = losses_of(events(c, "whole"));
  ASSERT_EQ(whole.size(), 6u);
  c.data.workers = 0;
  EXPECT_EQ(losses_of(events(c, "alone")), whole);
  events(c, "cut", 3);
  EXPECT_EQ(losses_of(events(c, "cut", -1, true)), whole);
}

// The loss of a mixture's training has what its routers find, by the weights that are asked for; lines of steps say it.
TEST_P(RecipeOptions, MixturesHaveTheirRoutersLosses) {
  const auto of_step = [&](const Options& more, const std::string& run) {
    Options options = {
        {"model.experts", "4"}, {"training.steps", "2"}, {"model.balance_loss", "0"}, {"model.router_z_loss", "0"}};
    for (const auto& [key, value] : more) options[key] = value;
    for (const Json& e : events(gpt(options), run)) {
      if (e["event"] == "step") return e;
    }
    return Json();
  };
  const Json plain = of_step({}, "plain"), balanced = of_step({{"model.balance_loss", "0.5"}}, "balanced");
  const double balance = plain["expert_balance"], dropped = plain["dropped_tokens"];
  EXPECT_GE(balance, 1 - 1e-5);
  EXPECT_NEAR(balanced["loss"].get<double>(), plain["loss"].get<double>() + 0.5 * balance, 1e-5);
  EXPECT_GE(dropped, 0);
  EXPECT_GT(of_step({{"model.router_z_loss", "1"}}, "z")["loss"].get<double>(), plain["loss"].get<double>());
  EXPECT_EQ(of_step({{"model.capacity_factor", "0"}}, "none")["dropped_tokens"], 1);
  EXPECT_EQ(of_step({{"model.capacity_factor", "4"}}, "all")["dropped_tokens"], 0);
  EXPECT_EQ(of_step({{"training.accumulate", "2"}}, "parts").count("dropped_tokens"), 0u);
}

TEST_P(RecipeOptions, ExpertsThatCannotBeMeantAreRefused) {
  for (const auto& [options, said] :
       {std::pair<Options, std::string>{{{"model.top_k", "2"}},
                                        "[char-gpt] model.top_k is 2, but it counts only where"},
        {{{"model.balance_loss", "0.5"}}, "[char-gpt] model.balance_loss is 0.5, but it counts only where"},
        {{{"model.experts", "-1"}}, "[Gpt] experts is -1"},
        {{{"model.experts", "2"}, {"model.top_k", "3"}}, "[Gpt] top_k is 3; it must be 1 to 2"},
        {{{"model.experts", "2"}, {"model.router_z_loss", "-1"}}, "[char-gpt] model.router_z_loss is -1; it must be"},
        {{{"model.experts", "2"}, {"model.capacity_factor", "-1"}}, "[Gpt] capacity_factor is -1"}}) {
    Config c = gpt(options);
    const std::string text = thrown_text<ValueError>([&] { make_task(c, where()); });
    EXPECT_TRUE(contains(text, said)) << text;
  }
}

TEST_P(RecipeOptions, SamplesComeWithEvaluationsOrEveryFewUpdates) {
  const std::vector<Json> with_evaluations = events(gpt({{"log.eval_every", "4"}}), "a");
  EXPECT_EQ(steps_of(with_evaluations, "eval"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(steps_of(with_evaluations, "sample"), (std::vector<int64_t>{4, 6}));
  const std::vector<Json> often = events(gpt({{"log.eval_every", "4"}, {"log.sample_every", "2"}}), "b");
  EXPECT_EQ(steps_of(often, "eval"), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(steps_of(often, "sample"), (std::vector<int64_t>{2, 4, 6}));
  EXPECT_EQ(losses_of(often), losses_of(with_evaluations));  // what is drawn for a sample is not taken from training
}

TEST_P(RecipeOptions, ASampleRepeatsAndCompilesNothingAnew) {
  for (Config c : {gpt({}), small("char-lstm", {{"data.path", text},
                                                {"model.layers", "1"},
                                                {"model.width", "8"},
                                                {"model.hidden", "8"},
                                                {"model.context", "8"}})}) {
    const std::unique_ptr<Task> task = make_task(c, where());
    task->model().eval();
    const NoGradScope no_grad;
    const std::string first = task->generate().text;
    EXPECT_GE(first.size(), 201u);
    const uint64_t kernels = where().counters().kernels_compiled;
    EXPECT_EQ(task->generate().text, first);
    EXPECT_EQ(where().counters().kernels_compiled, kernels);
  }
}

TEST_P(RecipeOptions, LimitsOfTrainingExamples) {
  const auto examples = [&](Config c) { return make_task(c, where())->training().dataset->size(); };
  EXPECT_EQ(examples(mlp({{"data.limit_train", "7"}})), 7);
  EXPECT_EQ(examples(mlp({{"data.limit_train", "700"}})), 38);  // two are held out
  EXPECT_EQ(examples(mlp({{"data.limit_train", "700"}, {"data.validation", "0"}})), 40);
  EXPECT_EQ(examples(gpt({{"data.limit_train", "9"}})), 9);
  EXPECT_GT(examples(gpt({{"data.limit_train", "1000000"}})), 100);
  test::Bytes records(3073 * 3);
  for (size_t i = 0; i < records.size(); ++i) records[i] = static_cast<uint8_t>(i % 7);
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
                           "data_batch_5.bin", "test_batch.bin"})
    test::write_bytes(folder / name, records);
  std::ofstream(folder / "batches.meta.txt") << "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  EXPECT_EQ(examples(small("cifar-resnet", {{"model.blocks", "1"}, {"model.width", "2"}})), 14);
  EXPECT_EQ(examples(small("cifar-resnet", {{"model.blocks", "1"}, {"model.width", "2"}, {"data.limit_train", "4"}})),
            4);
}

INSTANTIATE_TEST_SUITE_P(Devices, RecipeOptions, testing::ValuesIn(test::value_devices()), tests::device_test_name);

TEST(RecipeOptionsRefused, WhatARecipeHasNoMeaningFor) {
  const std::map<std::string, std::vector<std::pair<std::string, std::string>>> refused = {
      {"mnist-mlp", {{"log.sample_every", "5"}, {"data.tokenizer", "t.json"}, {"data.target", "y"}}},
      {"mnist-cnn", {{"log.sample_every", "5"}, {"data.image_size", "20"}}},
      {"cifar-resnet", {{"log.sample_every", "5"}, {"data.task", "regression"}}},
      {"image-classifier", {{"log.sample_every", "5"}, {"data.task", "regression"}, {"data.tokenizer", "t.json"}}},
      {"table", {{"data.augment", "true"}, {"data.mixup", "0.2"}, {"data.skip_broken", "true"}}},
      {"mail-sorter", {{"log.sample_every", "5"}, {"data.image_column", "file"}}},
      {"vae", {{"data.mixup", "0.2"}, {"training.label_smoothing", "0.1"}, {"data.tokenizer", "t.json"}}},
      {"char-gpt", {{"data.mixup", "0.2"}, {"data.augment", "true"}, {"data.skip_broken", "true"}}},
      {"char-lstm", {{"data.mixup", "0.2"}}},
      {"gpt2", {{"data.mixup", "0.2"}}},
      {"finetune", {{"data.mixup", "0.2"}, {"data.augment", "true"}, {"data.tokenizer", "t.json"}}},
  };
  EXPECT_EQ(refused.size(), recipes().size());
  for (const auto& [recipe, options] : refused) {
    for (const auto& [key, value] : options) {
      Config c = recipe_config(recipe);
      c.set(key, value);
      const std::string said = thrown_text<ValueError>([&] { make_task(c, device("reference:0")); });
      EXPECT_TRUE(contains(said, "(" + key + ") is ")) << recipe << ": " << said;
      EXPECT_TRUE(contains(said, "has no meaning for this recipe")) << recipe << ": " << said;
    }
  }
}

TEST(RecipeOptionsRefused, NamesAreOptions) {
  for (const Recipe& recipe : recipes()) {
    for (const std::string& key : recipe.unused)
      EXPECT_NE(std::ranges::find(config_rows(), key, &ConfigRow::key), config_rows().end())
          << recipe.name << ": " << key;
  }
}

}  // namespace
}  // namespace heddle::train
