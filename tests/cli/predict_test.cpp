// heddle train image-classifier and table, heddle predict, heddle eval --predictions: files in, lines and tables out,
// and what is refused.
#ifdef HEDDLE_HAS_PNG
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "heddle/core/base/parse_number.h"
#include "heddle/data/csv.h"
#include "tests/cli/command_test.h"
#include "tests/cli/user_error.h"
#include "tests/support/drawn_images.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::contains;
using test::Finished;
using Words = std::vector<std::string>;

class Predict : public test::CommandTest {
 protected:
  static std::vector<Json> lines(const Finished& run) {
    std::vector<Json> all;
    for (const std::string& line : run.out_lines()) all.push_back(Json::parse(line, nullptr, false));
    return all;
  }
  // On the reference device, which compiles nothing.
  static Words on_the_host(Words words) {
    if (std::ranges::find(words, "--device") == words.end()) words.insert(words.end(), {"--device", "reference:0"});
    return words;
  }
  static void refused(const Words& words, const std::string& part) {
    test::expect_user_error(on_the_host(words), part);
  }
  Finished good(const Words& words) {
    Finished run = test::run_heddle(on_the_host(words));
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run;
  }
  Words training(Words more = {}) {
    Words words = {"train", "image-classifier", "--data", folder / "photos", "--model", "cnn",      "--image-size",
                   "12",    "--batch",          "4",      "--epochs",        "2",       "--device", "reference:0",
                   "--out", folder / "run",     "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // The rows of the file that a command wrote.
  data::CsvTable written(const std::string& name) { return data::CsvTable(folder / name); }
};

TEST_F(Predict, Images) {
  test::draw_stripe_folder(folder / "photos", 10);
  const Finished run = good(training());
  const Json done = lines(run).back();
  EXPECT_EQ(done["event"], "done");
  for (const char* key : {"validation_loss", "validation_accuracy", "validation_f1", "median_step_ms", "checkpoint"})
    EXPECT_TRUE(done.contains(key)) << key;

  const Json evaluated = json({"eval", folder / "run", "--predictions", folder / "e.csv", "--device", "reference:0"});
  EXPECT_EQ(evaluated["predictions"], 4);
  EXPECT_EQ(evaluated["validation_accuracy"], done["validation_accuracy"]);
  const data::CsvTable rows = written("e.csv");
  EXPECT_EQ(rows.columns(), (Words{"file", "label", "class", "probability"}));
  ASSERT_EQ(rows.size(), 4);
  Words ask = {"predict", folder / "run"};
  for (int64_t i = 0; i < rows.size(); ++i) ask.push_back(rows.text(i, 0));
  Words as_json = ask, as_csv = ask, one = ask;
  as_json.push_back("--json");
  const std::vector<Json> answers = lines(good(as_json));
  ASSERT_EQ(answers.size(), 4u);
  int64_t right = 0;
  for (size_t i = 0; i < 4; ++i) {
    const auto row = static_cast<int64_t>(i);
    EXPECT_EQ(answers[i]["file"], rows.text(row, 0));
    EXPECT_EQ(answers[i]["class"], rows.text(row, 2));
    EXPECT_EQ(answers[i]["probability"].get<float>(), *parse_number<float>(rows.text(row, 3)));  // bit for bit
    ASSERT_EQ(answers[i]["top"].size(), 2u);
    EXPECT_EQ(answers[i]["top"][0], Json::array({answers[i]["class"], answers[i]["probability"]}));
    EXPECT_NEAR(answers[i]["top"][0][1].get<double>() + answers[i]["top"][1][1].get<double>(), 1, 1e-6);
    right += rows.text(row, 1) == rows.text(row, 2);
  }
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / 4, done["validation_accuracy"].get<double>());
  as_csv.insert(as_csv.end(), {"--csv", folder / "p.csv"});
  EXPECT_EQ(good(as_csv).out, "");
  EXPECT_EQ(written("p.csv").columns(), (Words{"file", "class", "probability"}));
  EXPECT_EQ(written("p.csv").text(3, 2), rows.text(3, 3));
  one.insert(one.end(), {"--top", "1"});
  const std::string first = good(one).out_lines().at(0);
  EXPECT_EQ(first, fmt::format("{}  {} {:.4f}", rows.text(0, 0), rows.text(0, 2), std::stod(rows.text(0, 3))));
  const Finished all = good({"eval", "--model", folder / "run", "--validation", "0"});
  EXPECT_TRUE(contains(all.out, "on 20 examples"));
}

TEST_F(Predict, Tables) {
  std::string rows = "x,kind,y\n";
  for (int i = 0; i < 60; ++i) rows += fmt::format("{},{},{}.25\n", i % 7, i % 2 == 0 ? "a" : "\"b,c\"", i % 7 * 2);
  const std::string path = write("rows.csv", rows);
  const Finished run = good({"train", "table", "--data", path, "--target", "y", "--epochs", "3", "--device",
                             "reference:0", "--out", folder / "run", "--json"});
  const Json done = lines(run).back();
  EXPECT_EQ(done["event"], "done");
  for (const char* key : {"validation_rmse", "validation_mae", "validation_r2"}) EXPECT_TRUE(done.contains(key)) << key;
  good({"eval", "--model", folder / "run", "--predictions", folder / "e.csv"});
  const data::CsvTable evaluated = written("e.csv");
  EXPECT_EQ(evaluated.columns(), (Words{"file", "row", "label", "value"}));
  EXPECT_EQ(evaluated.size(), 12);
  const std::vector<Json> answers = lines(good({"predict", folder / "run", path, "--json"}));
  ASSERT_EQ(answers.size(), 60u);
  EXPECT_EQ(answers[3]["file"], path);
  EXPECT_EQ(answers[3]["row"], 4);
  for (int64_t i = 0; i < evaluated.size(); ++i) {
    const auto row = static_cast<size_t>(evaluated.number(i, 1)) - 1;
    EXPECT_DOUBLE_EQ(answers.at(row)["value"].get<double>(), evaluated.number(i, 3));
    EXPECT_EQ(evaluated.text(i, 2), fmt::format("{}.25", row % 7 * 2));
  }
  const Finished unseen = good({"predict", folder / "run", write("new.csv", "kind,x\nz,1\na,?\n")});
  EXPECT_TRUE(contains(unseen.err, "1 texts of " + folder / "new.csv"));
  EXPECT_EQ(unseen.out_lines().size(), 2u);
  refused({"predict", folder / "run", write("less.csv", "kind\na\n")}, "has no column 'x'");
  refused({"predict", folder / "run", write("texts.csv", "kind,x\na,two\n")}, "'two' in column 'x'");
  refused({"predict", folder / "run", folder / "none.csv"}, "none.csv: no such file");
}

TEST_F(Predict, WhatCannotBeMeant) {
  refused(training(), "photos: no such file or folder");
  fs::create_directories(folder / "photos");
  refused(training(), "no folders of classes with images in them");
  test::draw_stripe_folder(folder / "photos", 5);
  refused({"train", "image-classifier", "--data", folder / "photos", "--model", "resnet19"},
          "no classifier of images 'resnet19'; did you mean resnet18");
  refused(training({"--freeze", "layer9.*"}), "fits 'layer9.*'");
  refused(training({"--init-from", folder / "none.safetensors"}), "none.safetensors");
  refused({"train", "mnist-mlp", "--model", "resnet18"}, "model.name: no option of the model of mnist-mlp");
  write("photos/lying/102.png", "");
  refused(training(), "lying/102.png: neither a PNG nor a JPEG file; 1 of 10 images cannot be read; --skip-broken");
  const Finished skipping = good(training({"--skip-broken"}));
  EXPECT_TRUE(contains(skipping.err, "1 of 10 training images cannot be read and are left out"));
  refused({"predict", folder / "run", folder / "photos/lying/102.png"}, "102.png: neither a PNG");
  refused({"predict", folder / "run", folder / "none.png"}, "none.png: no such file");
  refused({"predict", folder / "none", "a.png"}, "none");
  refused({"predict", folder / "run"}, "files is required");
  refused({"predict", folder / "run", folder / "photos", "--top", "0"}, "--top is 0");
  const Finished rest = good({"predict", folder / "run", folder / "photos", "--skip-broken", "--json"});
  EXPECT_EQ(rest.out_lines().size(), 9u);
  EXPECT_TRUE(contains(rest.err, "1 of 10 files cannot be read and are left out"));
  write("a.csv", "x,y\n1,2.5\n2,2.5\n");
  refused({"train", "table", "--data", folder / "a.csv", "--out", folder / "t"}, "--target is missing");
  refused({"train", "table", "--data", folder / "a.csv", "--target", "z", "--out", folder / "t"}, "has no column 'z'");
  refused({"train", "table", "--data", folder / "a.csv", "--target", "y", "--out", folder / "t"}, "in every row");
  EXPECT_FALSE(fs::exists(folder / "t"));
}

}  // namespace
}  // namespace heddle
#endif
