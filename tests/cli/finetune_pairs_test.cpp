// `heddle finetune --objective dpo|orpo` end to end on the small drawn model of the fixture.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/base/path.h"
#include "tests/cli/finetune_fixture.h"
#include "tests/cli/user_error.h"

namespace heddle {
namespace {

using test::contains;
using test::expect_user_error;
using test::Finished;

class FinetunePairs : public test::FinetuneCommand {
 protected:
  // Pairs whose answers are preferred for what they say; every other one as messages.
  void write_pairs() {
    std::string lines;
    for (int i = 0; i < 24; ++i) {
      const std::string question = fmt::format("what follows {}?", i), good = fmt::format("{} follows {}.", i + 1, i);
      const std::string bad = "what follows? what?";
      Json pair{{"prompt", question}, {"chosen", good}, {"rejected", bad}};
      if (i % 2 == 1) {
        const auto turn = [](const char* role, const std::string& text) {
          return Json{{"role", role}, {"content", text}};
        };
        pair = {{"prompt", Json::array({turn("user", question)})},
                {"chosen", Json::array({turn("assistant", good)})},
                {"rejected", Json::array({turn("assistant", bad)})}};
      }
      lines += pair.dump() + "\n";
    }
    data = write("pairs.jsonl", lines);
    length = "48";
  }
};

TEST_F(FinetunePairs, DpoPrefersChosenAnswers) {
  write_pairs();
  for (const Words& how : {Words{"--label-smoothing", "0.1", "--beta", "0.5"}, Words{"--targets", "*.v_proj,lm_head"},
                           Words{"--method", "full", "--set", "optimizer.lr=2e-3"}}) {
    Words all = how;
    all.insert(all.end(), {"--objective", "dpo"});
    SCOPED_TRACE(how[0]);
    const Json done = trained("dpo" + how[0], all).back();
    EXPECT_NEAR(done["validation_loss_before"].get<double>(), std::log(2.0), 1e-5);
    EXPECT_LT(done["validation_loss"].get<double>(), std::log(2.0) - 0.02);
    EXPECT_GT(done["validation_reward_margin"].get<double>(), 0.05);
    EXPECT_EQ(done["validation_reward_accuracy"].get<double>(), 1);
  }
}

TEST_F(FinetunePairs, OrpoLearnsAndPrefersChosenAnswers) {
  write_pairs();
  const std::vector<Json> run = trained("orpo", {"--objective", "orpo", "--beta", "0.5"});
  EXPECT_EQ(run[0]["tokens"], 2 * 2 * 48);
  const Json& done = run.back();
  EXPECT_LT(done["validation_loss"].get<double>(), done["validation_loss_before"].get<double>() - 0.1);
  EXPECT_TRUE(done.contains("validation_reward_margin"));
}

TEST_F(FinetunePairs, ARunOfDpoThatGoesOnRepeatsTheLosses) {
  write_pairs();
  const Words how{"--objective", "dpo", "--method", "full"};
  expect_repeated(trained("whole", how), how);
}

TEST_F(FinetunePairs, PreviewShowsBothAnswers) {
  write_pairs();
  const Finished run = test::run_heddle(command("none", {"--objective", "dpo", "--preview", "1"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* what : {"example 1, chosen", "example 1, rejected", "[[what follows? what?"})
    EXPECT_TRUE(contains(run.out, what)) << run.out;
}

TEST_F(FinetunePairs, BadPairsAreOneLine) {
  const auto refused = [&](Words more, const std::string& text) {
    expect_user_error(command("bad", std::move(more)), text);
    EXPECT_FALSE(fs::exists(folder / "bad"));
  };
  refused({"--objective", "dpo"}, "line 1: there is no 'chosen'");
  refused({"--objective", "ppo"}, "none of sft, distil, dpo, orpo");
  refused({"--beta", "0.3"}, "--beta 0.3 is for --objective distil, dpo and orpo");
  write_pairs();
  refused({}, "'completion'");
  refused({"--objective", "dpo", "--beta", "0"}, "--beta is 0; it must be above 0");
  refused({"--objective", "dpo", "--all-tokens"}, "--all-tokens is for --objective sft and distil");
  refused({"--objective", "dpo", "--label-smoothing", "0.5"}, "it is below 0.5");
  refused({"--objective", "orpo", "--label-smoothing", "0.1"}, "is for --objective sft, distil and dpo");
  Words all = command("bad", {"--objective", "dpo"});
  *(std::ranges::find(all, std::string("--length")) + 1) = "2";
  expect_user_error(all, "has two answers within 2");
}

}  // namespace
}  // namespace heddle
