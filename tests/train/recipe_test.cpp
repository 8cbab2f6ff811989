// Every recipe makes its task from its defaults, trains a few steps of a small model on the reference device, and is
// evaluated from its file.
#include "heddle/train/recipe.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/data/datasets.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/records.h"
#include "heddle/data/text.h"
#include "heddle/train/model_file.h"
#include "heddle/train/recipes/digits.h"
#include "heddle/train/recipes/language.h"
#include "heddle/train/trainer.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/host.h"

namespace heddle::train {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::thrown_text;

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
  Evaluation train_and_read(Config c, const std::string& variant = "") {
    const std::unique_ptr<Task> task = make_task(c, host());
    RunFolder folder(runs / (c.run.recipe + variant), false);
    Trainer trainer(*task, c, host());
    trainer.write_to(folder);
    EXPECT_EQ(trainer.run(), Outcome::finished);
    ModelFile file = read_model_file(folder.path(), host());
    const std::unique_ptr<Task> again = make_task(file.config, host(), file.metadata);
    again->model().load_state_dict(file.state);
    again->model().eval();
    const NoGradScope no_grad;
    EXPECT_NEAR(again->evaluate().loss, trainer.evaluation().loss, 1e-6) << c.run.recipe;
    EXPECT_EQ(again->test().examples, trainer.tested().examples) << c.run.recipe;
    if (trainer.tested().examples > 0) {
      EXPECT_NEAR(again->test().loss, trainer.tested().loss, 1e-6) << c.run.recipe;
    }
    return trainer.evaluation();
  }

  test::TemporaryFolder digits, runs;
  const std::string text = runs / "text.txt";
};

TEST_F(Recipes, NamesAreKnown) {
  std::set<std::string> names;
  for (const Recipe& recipe : recipes()) EXPECT_TRUE(names.insert(recipe.name).second);
  EXPECT_EQ(names.size(), 11u);
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([] { find_recipe("mnist"); }), "unknown recipe 'mnist'; known: mnist-mlp, "));
  Config c = small("mnist-mlp", {{"model.hiden", "3"}});
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "hiden"));
}

TEST_F(Recipes, Digits) {
  const Evaluation mlp =
      train_and_read(small("mnist-mlp", {{"model.hidden", "8"}, {"training.label_smoothing", "0.1"}}));
  EXPECT_EQ(mlp.split, "validation");
  EXPECT_EQ(mlp.examples, 2);  // of 48
  EXPECT_EQ(mlp.confusion.size(), 10u);
  for (const char* name : {"accuracy", "f1", "top5"}) EXPECT_TRUE(std::isfinite(mlp.metric(name))) << name;
  train_and_read(small("mnist-cnn", {{"model.stages", "2,3,2"}, {"model.hidden", "5"}}));
}

// Docs and figures of mnist-cnn are of this network and these options.
TEST_F(Recipes, DefaultsOfMnistCnn) {
  Config c = recipe_config("mnist-cnn");
  EXPECT_EQ(c.model_value<Integers>("stages"), (Integers{16, 32, 64}));
  EXPECT_EQ(c.model_value<Integer>("hidden"), 128);
  EXPECT_EQ(c.model_value<Number>("dropout"), 0.25);
  EXPECT_TRUE(c.data.augment);
  c.data.path = digits.path();
  EXPECT_EQ(read_digits(c).training.transforms.size(), 1u);
  c.data.augment = false;
  EXPECT_TRUE(read_digits(c).training.transforms.empty());
}

TEST_F(Recipes, DigitsOfAnotherSizeOrWithoutATestAreRefused) {
  const auto read = [&](const test::TemporaryFolder& folder) {
    return read_digits(small("mnist-mlp", {{"data.path", folder.path()}}));
  };
  const auto refused = [&](const test::TemporaryFolder& folder, const std::string& why) {
    const std::string said = thrown_text<IoError>([&] { read(folder); });
    EXPECT_TRUE(contains(said, "[mnist-mlp] " + folder.path() + ": " + why)) << said;
  };
  const test::TemporaryFolder narrow, untested, tested;
  test::write_mnist_folder(narrow, 48, 20, 20);
  refused(narrow, "images are 20x20, expected 28x28");
  test::write_mnist_folder(untested, 48, 0);
  refused(untested, "there are no test images");
  test::write_mnist_folder(tested, 48, 1);
  EXPECT_EQ(read(tested).test->size(), 1);
}

TEST_F(Recipes, MailSorter) {
  const Evaluation mail = train_and_read(
      small("mail-sorter",
            {{"model.stages", "2"}, {"model.hidden", "5"}, {"model.length", "4"}, {"data.validation", "0.5"}}));
  EXPECT_EQ(mail.curve.size(), 10u);
  EXPECT_EQ(mail.curve.back().coverage, 1);
  EXPECT_DOUBLE_EQ(mail.metric("pieces_right"), 1 - mail.curve.back().risk);
  Config c = small("mail-sorter", {{"model.length", "21"}, {"data.validation", "0.5"}});
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }),
                       "a piece of 21 digits cannot be made of 20 test images"));
  c = small("mail-sorter", {});
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }),
                       "a piece of 5 digits cannot be made of 2 validation images"));
  c = small("mail-sorter", {{"data.validation", "0.5"}, {"model.threshold", "1.5"}});
  EXPECT_TRUE(
      contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "the threshold is 1.5, expected a probability"));
}

// By the run's seed, and no image is in both parts.
TEST_F(Recipes, ImagesAreHeldOut) {
  const auto parts = [&](const char* seed) {
    Config c = small("mnist-mlp", {{"data.validation", "0.25"}, {"run.seed", seed}});
    const ImageData images = read_digits(c);
    std::vector<decltype(data::Array::bytes)> all;
    data::Random random(0, 0, 0);
    for (const data::DatasetPtr& part : {images.training.dataset, images.validation}) {
      for (int64_t i = 0; i < part->size(); ++i) all.push_back(part->get(i, random)[0].bytes);
    }
    EXPECT_EQ(images.training.dataset->size(), 36);
    EXPECT_EQ(images.validation->size(), 12);
    EXPECT_EQ(images.test->size(), 20);
    return all;
  };
  const auto one = parts("1");
  EXPECT_EQ(parts("1"), one);
  const auto two = parts("2");
  EXPECT_NE(two, one);
  EXPECT_EQ(std::multiset(two.begin(), two.end()), std::multiset(one.begin(), one.end()));
}

// Without a held-out part the evaluations are the test.
TEST_F(Recipes, NothingHeldOut) {
  Config c = small("mnist-mlp", {{"data.validation", "0"}, {"model.hidden", "8"}});
  const std::unique_ptr<Task> task = make_task(c, host());
  task->model().eval();
  EXPECT_EQ(task->training().dataset->size(), 48);
  EXPECT_EQ(task->evaluate(0).split, "test");
  EXPECT_EQ(task->test(0).examples, 0);
}

TEST_F(Recipes, Vae) {
  const Evaluation vae = train_and_read(small("vae", {{"model.hidden", "6"}, {"model.latent", "2"}}));
  EXPECT_NEAR(vae.loss, vae.metric("reconstruction") + vae.metric("divergence"), 1e-3);
  Config c = small("vae", {{"model.hidden", "6"}, {"model.latent", "2"}});
  const std::unique_ptr<Task> task = make_task(c, host());
  const uint64_t offset = default_generator().offset;
  EXPECT_EQ(task->evaluate(0).loss, task->evaluate(0).loss);  // its draws are the same, and none of training's
  EXPECT_EQ(default_generator().offset, offset);
  for (const auto& [key, value, said] : {std::tuple{"model.latent", "0", "latent is 0"},
                                         {"model.hidden", "0", "the width of a hidden layer is 0"},
                                         {"model.beta", "-1", "beta, is -1"}}) {
    Config wrong = small("vae", {{key, value}});
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(wrong, host()); }), said));
  }
  EXPECT_TRUE(fs::exists(runs / "vae/samples/step-3.png"));
}

TEST_F(Recipes, Text) {
  const std::map<std::string, std::string> tiny = {
      {"data.path", text}, {"model.layers", "1"}, {"model.width", "8"}, {"model.context", "8"}};
  auto with = [&](std::map<std::string, std::string> more) {
    more.insert(tiny.begin(), tiny.end());
    return more;
  };
  const Evaluation gpt = train_and_read(small("char-gpt", with({{"model.heads", "2"}})));
  EXPECT_EQ(gpt.split, "validation");
  EXPECT_DOUBLE_EQ(gpt.metric("perplexity"), std::exp(gpt.loss));
  train_and_read(small("char-gpt", with({{"model.heads", "2"}, {"model.experts", "3"}})), "-with-experts");
  train_and_read(small("char-lstm", with({{"model.hidden", "8"}})));
  train_and_read(small("gpt2", with({{"model.heads", "2"}, {"model.vocabulary", "270"}})));
  const auto held_out = [&](const char* share) {
    Config c = small("char-gpt", with({{"model.heads", "2"}, {"data.validation", share}}));
    return make_task(c, host())->evaluate(0).examples;
  };
  EXPECT_NEAR(static_cast<double>(held_out("0.4")) / static_cast<double>(held_out("0.1")), 4, 0.3);
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { held_out("0"); }),
                       "a text has no test data: its last part has to be held out"));
  Config c = small("char-gpt", with({{"model.context", "5000"}}));
  c.set("model.context", "5000");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "both take more than a block of 5000"));
  for (const char* context : {"0", "-1", "-9223372036854775808"}) {
    Config none = small("char-lstm", with({{"model.hidden", "8"}}));
    none.set("model.context", context);
    EXPECT_TRUE(
        contains(thrown_text<ValueError>([&] { make_task(none, host()); }), "model.context must be at least 1"));
  }
  Config many = small("char-lstm", with({{"model.hidden", "8"}}));
  many.training.batch = many.training.accumulate = INT64_MAX;
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(many, host()); }), "[train] an update cannot take"));
}

// Without --data: the project's own kernels.
TEST_F(Recipes, TextOfItsOwn) {
  Config c = recipe_config("char-gpt");
  const std::unique_ptr<Task> task = make_task(c, host());
  EXPECT_GT(task->training().dataset->size(), 2000);
  EXPECT_EQ(task->training().tokens, 64);
}

// A packed text is the same training as the text, but for what its last block leaves out.
TEST_F(Recipes, PackedText) {
  const std::map<std::string, std::string> tiny = {
      {"model.layers", "1"}, {"model.width", "8"}, {"model.context", "8"}, {"model.heads", "2"}};
  const std::string contents = data::read_text(text);
  const auto tokenizer = std::make_shared<data::CharTokenizer>(contents);
  data::Preprocessing preprocessing;
  preprocessing.tokenizer = tokenizer;
  const std::vector<int32_t> tokens = tokenizer->encode(contents);
  data::pack(*data::windows(data::token_stream(tokens), 16), runs / "text.rec", preprocessing.str());
  Config c = small("char-gpt", tiny);
  c.data.path = runs / "text.rec";
  const auto blocks = static_cast<int64_t>(tokens.size() - 1) / 16;
  const Corpus corpus = read_corpus(c, nullptr, nullptr);
  EXPECT_EQ(corpus.training.size() + corpus.validation.size(), blocks * 16 + 1);
  EXPECT_TRUE(std::equal(corpus.training.all->begin(), corpus.training.all->end(), tokens.begin()));
  train_and_read(c);
  c.data.tokenizer = "t.json";
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "is tokens already"));
  c.data.tokenizer.clear();
  EXPECT_TRUE(contains(
      thrown_text<ValueError>([&] { read_corpus(c, std::make_shared<data::CharTokenizer>("other"), nullptr); }),
      "its tokens are not those of the model's tokenizer"));
  data::pack(*data::windows(data::token_stream(tokens), 16), c.data.path);
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { make_task(c, host()); }), "no tokenizer in it"));
}

// A file of digits holds one part: a share of it is held out, and nothing is left for a test.
TEST_F(Recipes, PackedDigits) {
  const data::Split split = data::read_mnist_folder(digits.path());
  data::pack(*data::dataset_of(split.train), runs / "digits.rec");
  for (const char* name : {"mnist-mlp", "mnist-cnn", "vae", "mail-sorter"}) {
    Config c = small(name, {{"data.validation", "0.25"}});
    c.data.path = runs / "digits.rec";
    if (std::string(name) != "mnist-mlp" && std::string(name) != "vae") c.set("model.stages", "2,3,2");
    const Evaluation e = train_and_read(c);
    EXPECT_EQ(e.split, "validation") << name;
    EXPECT_EQ(e.examples, 12) << name;
    c.data.validation = 0;
    EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "holds no test images"));
  }
  const test::TemporaryFolder narrow;
  test::write_mnist_folder(narrow, 48, 20, 20);
  data::pack(*data::dataset_of(data::read_mnist_folder(narrow.path()).train), runs / "narrow.rec");
  Config c = small("mnist-mlp", {});
  c.data.path = runs / "narrow.rec";
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { make_task(c, host()); }), "images are (1, 20, 20) of 10 classes"));
}

TEST_F(Recipes, CifarNeedsItsFolder) {
  Config c = recipe_config("cifar-resnet");
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { make_task(c, host()); }), "--data is missing"));
}

// Three test images beside ten for training, whose pixels are 0 or 51: what is tested, and whose statistics count.
TEST_F(Recipes, CifarHasItsTestAndItsStatistics) {
  const test::TemporaryFolder cifar;
  const auto images = [](const std::vector<uint8_t>& pixels) {
    test::Bytes records;
    for (const uint8_t pixel : pixels) {
      records.push_back(pixel % 10);  // the label
      records.insert(records.end(), 3072, pixel);
    }
    return records;
  };
  for (int i = 1; i <= 5; ++i) test::write_bytes(cifar / fmt::format("data_batch_{}.bin", i), images({0, 51}));
  test::write_bytes(cifar / "test_batch.bin", images({255, 3, 4}));
  std::ofstream(cifar / "batches.meta.txt") << "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";
  const std::map<std::string, std::string> tiny = {{"model.blocks", "1"}, {"model.width", "2"}};
  Config c = small("cifar-resnet", tiny);
  c.data.path = cifar.path();
  c.data.validation = 0;
  const std::unique_ptr<Task> task = make_task(c, host());
  EXPECT_EQ(task->training().dataset->size(), 10);
  task->model().eval();
  EXPECT_EQ(task->evaluate(0).examples, 3);
  Metadata metadata = task->metadata();
  data::Preprocessing stored = data::Preprocessing::parse(metadata.at("preprocessing"));
  ASSERT_EQ(stored.statistics.mean.size(), 3u);
  for (const double mean : stored.statistics.mean) EXPECT_NEAR(mean, 0.1, 1e-6);
  EXPECT_EQ(stored.classes.size(), 10u);
  stored.statistics.mean = {0.25, 0.5, 0.75};  // a model that is there keeps its own
  metadata["preprocessing"] = stored.str();
  EXPECT_EQ(make_task(c, host(), metadata)->metadata().at("preprocessing"), stored.str());
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
