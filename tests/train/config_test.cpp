// train/config.h: the table of options as members, TOML and command line.
#include "heddle/train/config.h"

#include <gtest/gtest.h>

#include <set>

#include "heddle/core/base/error.h"
#include "heddle/io/atomic_file.h"
#include "heddle/train/toml.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using test::contains;
using test::thrown_text;

std::string refusal(std::string_view toml) {
  Config config;
  const std::string text = thrown_text<ValueError>([&] { config.parse(toml, "run.toml"); });
  EXPECT_EQ(config.str(), Config().str()) << "a refused text changes nothing";
  EXPECT_EQ(text.find('\n'), std::string::npos) << text;
  return text;
}

TEST(Config, EveryRowIsReachableAndWrittenBack) {
  const Config config;
  const std::vector<TomlEntry> written = read_toml(config.str(), "itself");
  ASSERT_EQ(written.size(), config_rows().size());
  std::set<std::string> flags;
  for (size_t i = 0; i < written.size(); ++i) {
    const ConfigRow& row = config_rows()[i];
    EXPECT_EQ(written[i].key, row.key);
    EXPECT_EQ(toml_text(written[i].value), toml_text(row.initial)) << row.key;
    EXPECT_TRUE(row.check.accepts(row.initial)) << row.key;
    EXPECT_FALSE(row.help.empty()) << row.key;
    EXPECT_TRUE(row.flag.empty() || flags.insert(row.flag).second) << row.flag << " twice";
  }
}

TEST(Config, RoundTripsOddValues) {
  Config config;
  config.run.recipe = "a \"quoted\" \\ name # with\ttab, Grüße and 'both'";
  config.run.out = "two\nlines";
  config.run.freeze = {"encoder.*", "", "a,b"};
  config.schedule.milestones = {1, 1000000007};
  config.optimizer.lr = 0.1 + 0.2;
  config.optimizer.eps = 1e-300;
  config.run.seed = 9223372036854775807;
  config.model = {
      {"layers", Integer(4)}, {"dropout", 0.0}, {"tied", true}, {"norm", Text("rms")}, {"odd key", Integer(-1)}};
  Config again;
  again.parse(config.str(), "itself");
  EXPECT_EQ(again.differences(config), std::vector<std::string>());
  EXPECT_EQ(again.str(), config.str());
}

TEST(Config, FileOverInitialValuesAndCommandLineOverFile) {
  const test::TemporaryFolder folder;
  write_file_atomically(folder / "a.toml",
                        "[optimizer]\nlr = 1\nname = \"lion\"\n[run]\nfreeze = []\n[training]\nmemory_budget = "
                        "\"2KiB\"\n[model]\nwidth = 96\n");
  Config config = Config::load(folder / "a.toml");
  EXPECT_EQ(config.optimizer.lr, 1.0);  // an integer serves as a number
  EXPECT_EQ(config.optimizer.name, "lion");
  EXPECT_EQ(config.training.memory_budget, 2048);
  EXPECT_EQ(config.training.batch, 32);
  config.set("optimizer.lr", "3e-4");
  config.set("schedule.milestones", "10,20");
  config.set("run.freeze", "a.*,b");
  config.set("checkpoint.keep_best", "false");
  config.set("training.memory_budget", "1.5 MiB");
  config.set("model.depth", "3");
  EXPECT_EQ(config.differences(Config::load(folder / "a.toml")),
            (std::vector<std::string>{"run.freeze", "optimizer.lr", "schedule.milestones", "training.memory_budget",
                                      "checkpoint.keep_best", "model.depth"}));
  EXPECT_EQ(config.schedule.milestones, (Integers{10, 20}));
  EXPECT_EQ(config.training.memory_budget, 1572864);
  const std::string missing = thrown_text<IoError>([&] { Config::load(folder / "none.toml"); });
  EXPECT_TRUE(contains(missing, "none.toml"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { Config::load(folder.path()); }), folder.path()));
}

TEST(Config, RefusalsNameTheLine) {
  EXPECT_EQ(refusal("[optimizer]\nlearning_rate = 1"),
            "[config] run.toml:2: unknown key 'optimizer.learning_rate'; did you mean optimizer.lr?");
  EXPECT_EQ(refusal("[optimizer]\n\nlrr = 1"),
            "[config] run.toml:3: unknown key 'optimizer.lrr'; did you mean optimizer.lr?");
  EXPECT_TRUE(
      contains(refusal("[run]\nbatch = 1"), "run.toml:2: unknown key 'run.batch'; did you mean training.batch?"));
  EXPECT_EQ(refusal("[optimizer]\nlr = \"fast\""),
            "[config] run.toml:2: optimizer.lr is \"fast\", expected a number above 0");
  EXPECT_EQ(refusal("optimizer.lr = nan"), "[config] run.toml:1: optimizer.lr is nan, expected a number above 0");
  EXPECT_EQ(refusal("training.epochs = 2.5"),
            "[config] run.toml:1: training.epochs is 2.5, expected an integer of at least 1");
  EXPECT_EQ(refusal("optimizer.beta1 = 1"),
            "[config] run.toml:1: optimizer.beta1 is 1, expected a number from 0 to below 1");
  EXPECT_TRUE(contains(refusal("optimizer.name = \"adm\""), "optimizer.name is \"adm\", expected one of sgd, rmsprop"));
  EXPECT_EQ(refusal("schedule.milestones = [1, 0]"),
            "[config] run.toml:1: schedule.milestones is [1, 0], expected a list of integers of at least 1");
  EXPECT_TRUE(
      contains(refusal("schedule.milestones = [1, true]"), "run.toml:1: schedule.milestones is neither a number"));
  EXPECT_TRUE(contains(refusal("run.device = 1979-05-27"), "run.device is neither a number"));
  EXPECT_TRUE(contains(refusal("[run]\nrecipe = \"x\"\nrecipe = \"y\""), "run.toml:3: "));
  EXPECT_TRUE(contains(refusal("[run"), "run.toml:1: "));
  EXPECT_TRUE(contains(refusal("recipe = \"x\""), "unknown key 'recipe'; did you mean run.recipe?"));
}

TEST(Config, RefusalsOfTheCommandLineNameTheFlag) {
  Config config;
  const auto set = [&](const char* key, const char* value, const char* flag) {
    return thrown_text<ValueError>([&] { config.set(key, value, flag); });
  };
  EXPECT_EQ(set("optimizer.lr", "-1", "--lr"), "[config] --lr is '-1', expected a number above 0");
  EXPECT_EQ(set("optimizer.lr", "0", "--lr"), "[config] --lr is '0', expected a number above 0");
  EXPECT_EQ(set("optimizer.lr", "1e", "--lr"), "[config] --lr is '1e', expected a number above 0");
  EXPECT_EQ(set("run.seed", "99999999999999999999", "--seed"),
            "[config] --seed is '99999999999999999999', expected an integer of at least 0");
  EXPECT_EQ(set("training.memory_budget", "lots", ""),
            "[config] training.memory_budget is 'lots', expected a number of bytes, e.g. 512MiB");
  EXPECT_EQ(set("optimizer.nesterov", "maybe", ""), "[config] optimizer.nesterov is 'maybe', expected true or false");
  EXPECT_EQ(set("schedule.milestones", "1,,2", ""),
            "[config] schedule.milestones is '1,,2', expected a list of integers of at least 1");
  EXPECT_EQ(set("training.btch", "1", ""),
            "[config] the command line: unknown key 'training.btch'; did you mean training.batch?");
  EXPECT_EQ(config.str(), Config().str());
}

TEST(Config, TheModelsOptionsAreDeclaredByItsRecipe) {
  const std::vector<ModelOption> options = {
      {"layers", Integer(4), "blocks"}, {"dropout", 0.1, "share"}, {"norm", Text("layer"), "kind"}};
  Config config;
  config.run.recipe = "char-gpt";
  config.parse("[model]\nlayers = 6\ndropout = 0", "run.toml");
  config.declare_model(options);
  EXPECT_EQ(config.model_value<Integer>("layers"), 6);
  EXPECT_EQ(config.model_value<Number>("dropout"), 0.0);
  EXPECT_EQ(config.model_value<Text>("norm"), "layer");
  config.set("model.layer", "2");
  EXPECT_EQ(thrown_text<ValueError>([&] { config.declare_model(options); }),
            "[config] model.layer: no option of the model of char-gpt; did you mean layers?");
  config.model = {{"layers", Text("many")}};
  EXPECT_EQ(thrown_text<ValueError>([&] { config.declare_model(options); }),
            "[config] model.layers is \"many\", expected an integer");
  config.model = {{"x", true}};
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { config.declare_model({}); }), "it has none"));
}

}  // namespace
}  // namespace heddle::train
