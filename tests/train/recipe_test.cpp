// Every recipe makes its task from its defaults, trains a few steps of a small model on the reference device, and is evaluated from its file.
#include "train/recipe.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "core/base/error.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"
#include "train/model_file.h"
#include "train/trainer.h"

namespace heddle::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::thrown_text;

DeviceContext& host() { return device("reference:0"); }

class Recipes : public testing::Test {
 protected:
  Recipes() {
    test::write_mnist_folder(digits, 48, 20);
    std::ofstream file(text);
    for (int i = 0; i < 60; ++i) file << "Zeile " << i << " über das Weben; ";
  }
  // Three steps of batches of 4, everything small.
  Config small(const std::string& name, const std::map<std::string, std::string>& more) {
    Config c = recipe_config(name);
    c.training.steps = 3;
    c.training.batch = 4;
    c.training.accumulate = 1;
    c.schedule.warmup = 0;
    c.data.path = digits.path();
    for (const auto& [key, value] : more) c.set(key, value);
    return c;
  }
  // Trains, and evaluates what it wrote; the two agree.
  Evaluation train_and_read(Config c) {
    const std::unique_ptr<Task> task = make_task(c, host());
    RunFolder folder(runs / c.run.recipe, false);
    Trainer trainer(*task, c, host());
    trainer.write_to(folder);
    EXPECT_EQ(trainer.run(), Outcome::finished);
    ModelFile file = read_model_file(folder.path(), host());
    const std::unique_ptr<Task> again = make_task(file.config, host(), file.metadata);
    again->model().load_state_dict(file.state);
    again->model().eval();
    const NoGradScope no_grad;
    EXPECT_NEAR(again->evaluate().loss, trainer.evaluation().loss, 1e-6) << c.run.recipe;
    return trainer.evaluation();
  }

  test::TemporaryFolder digits, runs;
  const std::string text = runs / "text.txt";
};

TEST_F(Recipes, NamesAreKnown) {
  std::set<std::string> names;
  for (const Recipe& recipe : recipes()) EXPECT_TRUE(names.insert(recipe.name).second);
  EXPECT_EQ(names.size(), 8u);
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { find_recipe("mnist"); }), "unknown recipe 'mnist'; known: mnist-mlp, "));
  Config c = small("mnist-mlp", {{"model.hiden", "3"}});
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "hiden"));
}

TEST_F(Recipes, Digits) {
  const Evaluation mlp = train_and_read(small("mnist-mlp", {{"model.hidden", "8"}, {"training.label_smoothing", "0.1"}}));
  EXPECT_EQ(mlp.split, "test");
  EXPECT_EQ(mlp.examples, 20);
  EXPECT_EQ(mlp.confusion.size(), 10u);
  for (const char* name : {"accuracy", "f1", "top5"}) EXPECT_TRUE(std::isfinite(mlp.metric(name))) << name;
  train_and_read(small("mnist-cnn", {{"model.stages", "2,3,2"}, {"model.hidden", "5"}}));
}

TEST_F(Recipes, MailSorter) {
  const Evaluation mail = train_and_read(small("mail-sorter", {{"model.stages", "2"}, {"model.hidden", "5"}, {"model.length", "4"}}));
  EXPECT_EQ(mail.curve.size(), 10u);
  EXPECT_EQ(mail.curve.back().coverage, 1);
  EXPECT_DOUBLE_EQ(mail.metric("pieces_right"), 1 - mail.curve.back().risk);
  Config c = small("mail-sorter", {{"model.length", "21"}});
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "a piece of 21 digits cannot be made of 20 test images"));
}

TEST_F(Recipes, Vae) {
  const Evaluation vae = train_and_read(small("vae", {{"model.hidden", "6"}, {"model.latent", "2"}}));
  EXPECT_NEAR(vae.loss, vae.metric("reconstruction") + vae.metric("divergence"), 1e-3);
  EXPECT_TRUE(fs::exists(runs / "vae/samples/step-3.png"));
}

TEST_F(Recipes, Text) {
  const std::map<std::string, std::string> tiny = {{"data.path", text}, {"model.layers", "1"}, {"model.width", "8"}, {"model.context", "8"}};
  auto with = [&](std::map<std::string, std::string> more) {
    more.insert(tiny.begin(), tiny.end());
    return more;
  };
  const Evaluation gpt = train_and_read(small("char-gpt", with({{"model.heads", "2"}})));
  EXPECT_EQ(gpt.split, "validation");
  EXPECT_DOUBLE_EQ(gpt.metric("perplexity"), std::exp(gpt.loss));
  train_and_read(small("char-lstm", with({{"model.hidden", "8"}})));
  train_and_read(small("gpt2", with({{"model.heads", "2"}, {"model.vocabulary", "270"}})));
  Config c = small("char-gpt", with({{"model.context", "5000"}}));
  c.set("model.context", "5000");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "both take more than a block of 5000"));
}

// Without --data: the project's own kernels.
TEST_F(Recipes, TextOfItsOwn) {
  Config c = recipe_config("char-gpt");
  const std::unique_ptr<Task> task = make_task(c, host());
  EXPECT_GT(task->training().dataset->size(), 2000);
  EXPECT_EQ(task->training().tokens, 64);
}

TEST_F(Recipes, CifarNeedsItsFolder) {
  Config c = recipe_config("cifar-resnet");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "--data is missing"));
}

TEST_F(Recipes, BeginFromAFileWithFrozenLayers) {
  train_and_read(small("mnist-mlp", {{"model.hidden", "8"}}));
  const std::string file = runs / "mnist-mlp/model.safetensors";
  Config c = small("mnist-mlp", {{"model.hidden", "8"}, {"run.init_from", file}, {"run.freeze", "0.*"}});
  const std::unique_ptr<Task> task = make_task(c, host());
  const auto before = task->model().state_dict();
  const std::vector<double> first = before.at("0.weight").to_doubles(), last = before.at("2.weight").to_doubles();
  EXPECT_EQ(first, read_model_file(file, host()).state.at("0.weight").to_doubles());
  Trainer(*task, c, host()).run();
  EXPECT_EQ(task->model().state_dict().at("0.weight").to_doubles(), first);
  EXPECT_NE(task->model().state_dict().at("2.weight").to_doubles(), last);
  c.run.freeze = {"encoder.*"};
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "fits 'encoder.*'; there are 0.weight"));
}

}  // namespace
}  // namespace heddle::train
