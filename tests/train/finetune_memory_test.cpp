// What a fine-tuning run chooses for the memory that there is, on a null device of any size.
#include "heddle/train/recipes/finetune_memory.h"

#include <gtest/gtest.h>

#include <memory>

#include "heddle/core/base/error.h"
#include "heddle/core/device/null_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/recipe.h"
#include "heddle/train/recipes/finetune_choices.h"
#include "heddle/train/recipes/finetune_need.h"
#include "tests/support/expect_error.h"
#include "tests/support/packed_blocks.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

using tests::expect_error;

// Of that memory; 0: it does not say.
DeviceContext card(uint64_t bytes) {
  Caps caps = NullDevice::null_caps();
  caps.memory_bytes = bytes;
  DeviceInfo info;
  info.id = "null:9";
  return {std::make_unique<NullDevice>(caps), info};
}

class FinetuneMemory : public testing::Test {
 protected:
  FinetuneMemory() {
    test::TinyLlamaFile(GgmlType::q8_0).write(folder / "tiny.gguf");
    config.set("model.base", folder / "tiny.gguf");
    config.set("model.length", "96");
    config.training.batch = batch;
  }
  uint64_t need(const char* recompute) {
    Config c = config;
    c.set("model.recompute", recompute);
    DeviceContext device = card(0);
    return finetune_need(c, device).peak;
  }
  // The word that stands in the configuration afterwards.
  Text settled(Config& c, uint64_t memory) {
    DeviceContext device = card(memory);
    remarks = settle_memory(c, device);
    return c.model_value<Text>("recompute");
  }
  static uint64_t with_usable(uint64_t bytes) { return bytes / 9 * 10 + 100; }

  static constexpr int64_t batch = 64;  // so that a step needs more than an evaluation
  test::TemporaryFolder folder;
  Config config = recipe_config("finetune");
  std::vector<std::string> remarks;
};

TEST_F(FinetuneMemory, BlocksAreComputedAgainOnlyWhereTheyMust) {
  const uint64_t kept = need("off"), again = need("on");
  ASSERT_LT(again, kept);
  Config c = config;
  EXPECT_EQ(settled(c, with_usable(kept)), "off");
  EXPECT_EQ(remarks.size(), 1u);
  c = config;
  EXPECT_EQ(settled(c, with_usable((kept + again) / 2)), "on");
  EXPECT_EQ(c.training.memory_budget, 0);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_NE(remarks[0].find("blocks are computed again"), std::string::npos) << remarks[0];
  c = config;
  EXPECT_EQ(settled(c, 0), "off") << "a device that does not say";
}

TEST_F(FinetuneMemory, ABudgetIsTheMemoryThatThereIs) {
  const uint64_t kept = need("off"), again = need("on");
  Config c = config;
  c.training.memory_budget = static_cast<int64_t>((kept + again) / 2);
  EXPECT_EQ(settled(c, uint64_t{8} << 30), "on");
  EXPECT_EQ(c.training.memory_budget, static_cast<int64_t>((kept + again) / 2));
  c = config;
  c.training.memory_budget = 1024;
  expect_error<BudgetError>([&] { settled(c, uint64_t{8} << 30); },
                            {"--memory-budget allows", "at least are needed", "are missing", "a smaller batch"});
}

TEST_F(FinetuneMemory, EvaluationsThatDoNotFitAreRefusedToo) {
  config.training.batch = 2;  // so that they need more than a step
  const uint64_t again = need("on");
  Config c = config;
  expect_error<BudgetError>([&] { settled(c, again / 10 * 9); }, {"a run may hold", "at least are needed", "missing"});
}

TEST_F(FinetuneMemory, WhatIsSaidIsDone) {
  for (const char* word : {"on", "off"}) {
    Config c = config;
    c.set("model.recompute", word);
    EXPECT_EQ(settled(c, 4096), word);
    EXPECT_TRUE(remarks.empty());
  }
  Config c = config;
  c.set("model.recompute", "perhaps");
  expect_error<ValueError>([&] { settled(c, 4096); }, {"model.recompute is perhaps"});
  c = config;
  c.set("model.offload", "true");
  EXPECT_EQ(settled(c, 4096), "on");
  c.set("model.recompute", "off");
  expect_error<ValueError>([&] { settled(c, 4096); }, {"--offload moves what --recompute keeps"});
  c = config;
  expect_error<BudgetError>([&] { settled(c, 4096); }, {"[finetune] a run may hold", "null:9", "are missing"});
}

// Adapters begin with the values that they have without a plan.
TEST_F(FinetuneMemory, ThePlanDrawsNothingOfTheRuns) {
  manual_seed(static_cast<uint64_t>(config.run.seed));
  const std::vector<float> expected = uniform({8}, 0, 1, &device("reference:0")).to_vector<float>();
  Config c = config;
  settled(c, uint64_t{8} << 30);
  EXPECT_EQ(uniform({8}, 0, 1, &device("reference:0")).to_vector<float>(), expected);
}

TEST_F(FinetuneMemory, ThePlanPrefersWhatIsFasterAndKeepsWhatIsSaid) {
  DeviceContext device = card(uint64_t{8} << 30);
  const FinetunePlan roomy = plan_finetune(config, device);
  ASSERT_EQ(roomy.choices.size(), 4u);
  ASSERT_EQ(roomy.best, size_t{0});
  EXPECT_EQ(roomy.choices[0].config.model_value<Text>("method"), "lora");
  EXPECT_EQ(roomy.choices[0].config.model_value<Text>("recompute"), "off");
  Config c = config;
  c.set("model.method", "qlora");
  c.set("model.recompute", "on");
  c.set("training.batch", "64");
  const FinetunePlan said = plan_finetune(c, device);
  ASSERT_EQ(said.choices.size(), 1u);
  EXPECT_EQ(said.best, size_t{0});
  // Smaller batches make the same update in parts.
  const uint64_t again = said.choices[0].need.peak;
  const FinetunePlan tight = plan_finetune(config, device, with_usable(again - again / 8));
  ASSERT_TRUE(tight.best);
  const Config& best = tight.choices[*tight.best].config;
  EXPECT_LT(best.training.batch, batch);
  EXPECT_EQ(best.training.batch * best.training.accumulate, batch);
}

TEST_F(FinetuneMemory, WhereNothingFitsShorterRowsAreLookedAt) {
  DeviceContext device = card(uint64_t{8} << 30);
  Config c = config;
  c.set("model.method", "qlora");
  c.set("model.recompute", "on");
  c.set("training.batch", "64");
  const uint64_t whole = plan_finetune(c, device).choices[0].need.peak;
  const FinetunePlan tight = plan_finetune(c, device, with_usable(whole * 3 / 5));
  EXPECT_FALSE(tight.best);
  ASSERT_TRUE(tight.shorter);
  EXPECT_EQ(tight.shorter->config.model_value<Integer>("length"), 48);
  EXPECT_LE(tight.shorter->need.peak, tight.limit);
}

TEST_F(FinetuneMemory, WhereNothingFitsTheLeastIsKnown) {
  DeviceContext device = card(0);
  expect_error<ValueError>([&] { plan_finetune(config, device); }, {"[plan] null:9", "--memory"});
  const FinetunePlan none = plan_finetune(config, device, 4096);
  EXPECT_FALSE(none.best);
  EXPECT_FALSE(none.shorter);
  ASSERT_TRUE(none.least());
  EXPECT_GT(*none.least(), none.limit);
}

}  // namespace
}  // namespace heddle::train
