// `heddle finetune --objective distil` end to end: the small drawn model of the fixture learns from another one.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "heddle/core/base/path.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "tests/cli/finetune_fixture.h"
#include "tests/cli/user_error.h"
#include "tests/data/sentence_piece_file.h"

namespace heddle {
namespace {

using test::contains;
using test::expect_user_error;
using test::Finished;

class FinetuneDistil : public test::FinetuneCommand {
 protected:
  // A wider model with the same tokenizer, whose vocabulary is padded further; large norms make it sure of itself.
  void SetUp() override {
    FinetuneCommand::SetUp();
    length = "48";
    teacher = other_model("teacher", 300, 64);
  }
  std::string other_model(const std::string& name, int64_t vocabulary, int64_t reads) {
    std::filesystem::copy(fs::path(model), folder / name);
    const std::string own = std::exchange(model, folder / name);
    const int64_t before = std::exchange(context, reads);
    write_model(vocabulary, "llama", 48, 20);
    context = before;
    return std::exchange(model, own);
  }
  Words distilled(Words more = {}) const {
    more.insert(more.end(), {"--objective", "distil", "--teacher", teacher});
    return more;
  }

  std::string teacher;
};

TEST_F(FinetuneDistil, ApproachesTheTeacher) {
  for (const Words& how : {Words{"--temperature", "2"}, Words{"--targets", "*.v_proj,lm_head", "--no-pack"},
                           Words{"--divergence", "reverse", "--method", "full", "--set", "optimizer.lr=2e-3"},
                           Words{"--divergence", "jensen-shannon", "--label-smoothing", "0.1"}}) {
    SCOPED_TRACE(how[0] + how[1]);
    const Json done = trained("run" + how[1], distilled(how)).back();
    EXPECT_LT(done["validation_loss"].get<double>(), done["validation_loss_before"].get<double>() - 0.02);
    EXPECT_GT(done["validation_divergence"].get<double>(), 0);
    EXPECT_GT(done["validation_perplexity"].get<double>(), 1);
  }
}

TEST_F(FinetuneDistil, BetaIsTheTeachersShare) {
  const auto first = [&](const std::string& out, Words more) {
    more.insert(more.end(), {"--limit-steps", "1"});
    return trained(out, std::move(more)).front()["loss"].get<double>();
  };
  const double alone = first("alone", distilled({"--beta", "1"})), none = first("none", {});
  EXPECT_GT(alone, 0);
  EXPECT_NEAR(first("half", distilled()), (alone + none) / 2, 1e-5);
  EXPECT_NEAR(first("tenth", distilled({"--beta", "0.1"})), 0.1 * alone + 0.9 * none, 1e-5);
  // Of logits, which an adapter beside the last projection takes.
  EXPECT_NEAR(first("head", distilled({"--beta", "1", "--targets", "lm_head"})), alone, 1e-5);
}

TEST_F(FinetuneDistil, OfTheLongerVocabularyTheEndIsNotCompared) {
  const Finished run = test::run_heddle(command("run", distilled({"--limit-steps", "1"})));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "the first 280 tokens are the same: of the model's 280 logits and the teacher's 300"))
      << run.err;
}

// A model's own blocks of 8 bits are at no distance from it, and stay packed.
TEST_F(FinetuneDistil, TeachesFromAGgufFile) {
  const auto tokenizer = test::SentencePieceFile().read().tokenizer;
  write("hf/tokenizer.json", dynamic_cast<const data::PipelineTokenizer&>(*tokenizer).tokenizer_json());
  write_model(tokenizer->size(), "llama", 32, 1, 64);  // rows of whole blocks
  length = "96";
  teacher = folder / "own.gguf";
  json({"export", model, "--type", "q8_0", "-o", teacher, "--device", "reference:0"});
  const std::vector<Json> run = trained("run", distilled({"--beta", "1", "--limit-steps", "1"}));
  EXPECT_LT(run.back()["validation_loss_before"].get<double>(), 1e-3);
}

TEST_F(FinetuneDistil, ARunThatGoesOnRepeatsTheLosses) {
  const Words how = distilled({"--temperature", "1.5"});
  expect_repeated(trained("whole", how), how);
}

TEST_F(FinetuneDistil, BadInputIsOneLine) {
  const auto refused = [&](Words more, const std::string& text) {
    expect_user_error(command("bad", std::move(more)), text);
    EXPECT_FALSE(fs::exists(folder / "bad"));
  };
  refused({"--objective", "distil"}, "learns from --teacher MODEL, which is missing");
  refused({"--teacher", teacher}, "is for --objective distil");
  refused({"--temperature", "2"}, "--temperature 2 is for --objective distil");
  refused({"--divergence", "reverse"}, "--divergence reverse is for --objective distil");
  refused(distilled({"--temperature", "0"}), "--temperature is 0; it must be above 0");
  refused(distilled({"--divergence", "sideways"}), "none of forward, reverse, jensen-shannon");
  refused(distilled({"--beta", "-1"}), "--beta is -1; it must be above 0");
  refused(distilled({"--beta", "0"}), "--beta is 0; it must be above 0");
  refused(distilled({"--beta", "1.5"}), "--beta is 1.5; of distil it is a share, at most 1");
  refused(distilled({"--beta", "1", "--label-smoothing", "0.1"}), "count nothing with --beta 1");
  teacher = folder / "nowhere.gguf";
  refused(distilled(), "nowhere.gguf");
  teacher = folder / "nowhere";
  refused(distilled(), "neither a GGUF file");
}

TEST_F(FinetuneDistil, ATeacherThatDoesNotFitIsOneLine) {
  const auto refused = [&](const std::string& text) {
    expect_user_error(command("bad", distilled()), text);
    EXPECT_FALSE(fs::exists(folder / "bad"));
  };
  teacher = other_model("short", 280, 32);
  refused("reads at most 32 tokens");
  teacher = other_model("small", 270, 64);
  refused("270");
  teacher = other_model("foreign", 280, 64);
  json({"tokenize", "train", write("other.txt", std::string(60, 'q') + " zebras and zithers, zithers and zebras"),
        "--vocabulary", "270", "--out", teacher});
  refused("has another tokenizer: token 25");
}

}  // namespace
}  // namespace heddle
