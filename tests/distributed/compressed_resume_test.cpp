// Runs whose gradients travel compressed go on with any number of ranks, any format of factors and any other way: what
// ranks had kept is not in checkpoints, everything else is.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "heddle/train/replicas.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/temporary_folder.h"

namespace heddle::train {
namespace {

constexpr size_t before = 6, behind = 6;  // updates, of a checkpoint

Config thin(const std::string& factors) {
  Config c = small_config();
  c.training.steps = static_cast<int64_t>(before + behind);
  c.training.compress = "powersgd";
  c.training.compress_factors = factors;
  return c;
}

class CompressedResume : public testing::Test {
 protected:
  // Of a run that two ranks began.
  void begin(Config c) {
    c.training.limit_steps = static_cast<int64_t>(before);
    std::filesystem::remove_all(folder_ / "begun");
    (void)train(c, 2, folder_ / "begun", false);
  }
  static std::vector<Ran> train(const Config& c, size_t ranks, const std::string& path, bool resume) {
    return train_ranks(c, std::vector<std::string>(ranks, "reference:0"),
                       {.folder = path, .resume = resume, .make = wide_task});
  }
  // From a copy of it.
  std::vector<Ran> go_on(const Config& c, size_t ranks) const {
    const std::string path = folder_ / "copy";
    std::filesystem::remove_all(path);
    std::filesystem::copy(folder_ / "begun", path, std::filesystem::copy_options::recursive);
    return train(c, ranks, path, true);
  }
  // The first loss is of the checkpoint's weights, so it is that of a run which sends gradients as they are; later ones
  // stay near it. All ranks have the same bits, in every run.
  void expect_goes_on(const Config& c, size_t ranks) const {
    const std::vector<Ran> ran = go_on(c, ranks), again = go_on(c, ranks);
    for (const Ran& rank : ran) EXPECT_EQ(rank.weights, ran[0].weights);
    EXPECT_EQ(again[0].weights, ran[0].weights);
    ASSERT_EQ(ran[0].losses.size(), behind);
    EXPECT_NEAR(ran[0].losses.front() / plain_.losses.front(), 1, 1e-5);
    EXPECT_NE(ran[0].losses.back(), plain_.losses.back());
    EXPECT_NEAR(ran[0].losses.back() / plain_.losses.back(), 1, 0.1);
  }
  void go_on_plainly(Config c) {
    c.training.compress = "none";
    plain_ = go_on(c, 2).front();
  }

  test::TemporaryFolder folder_;
  Ran plain_;
};

TEST_F(CompressedResume, FactorsInBytesByAnyNumberOfRanks) {
  const Config c = thin("int8");
  begin(c);
  go_on_plainly(c);
  for (const size_t ranks : {2, 3, 5}) {
    SCOPED_TRACE(ranks);
    expect_goes_on(c, ranks);
  }
}

TEST_F(CompressedResume, OtherFactorsAndOtherWays) {
  for (const std::string first : {"int8", "bf16"}) {
    SCOPED_TRACE(first);
    const Config c = thin(first);
    begin(c);
    go_on_plainly(c);
    expect_goes_on(thin(first == "int8" ? "bf16" : "int8"), 2);
    expect_goes_on(thin(first == "int8" ? "bf16" : "int8"), 3);
    Config other = c;
    other.training.compress_rank = 2;
    expect_goes_on(other, 2);
    for (const std::string kind : {"topk", "int8"}) {
      SCOPED_TRACE(kind);
      other = c;
      other.training.compress = kind;
      expect_goes_on(other, 3);
    }
  }
}

}  // namespace
}  // namespace heddle::train
