// Losses of next tokens: batches without a target, and what tokenizers of a teacher and a student share.
#include "heddle/train/recipes/next_tokens.h"

#include <gtest/gtest.h>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/train/recipes/finetune_teacher.h"
#include "tests/support/device_test.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

class NextTokensTest : public testing::TestWithParam<std::string> {
 protected:
  nn::Llama model(uint64_t seed) const {
    Generator generator{.seed = seed};
    return nn::Llama(
        {.vocabulary = 19, .context = 16, .layers = 1, .heads = 2, .key_heads = 1, .width = 16, .hidden = 20},
        {.device = device(GetParam()), .generator = &generator});
  }
  std::vector<Tensor> rows(const std::vector<int32_t>& targets) const {
    const std::vector<int32_t> tokens{3, 14, 7, 7, 0, 18};
    return {Tensor::from_vector(tokens, {2, 3}, &device(GetParam())),
            Tensor::from_vector(targets, {2, 3}, &device(GetParam()))};
  }
};

TEST_P(NextTokensTest, WhereNothingCountsLossAndGradientsAre0) {
  nn::Llama student = model(5), teacher = model(6);
  const std::vector<Tensor> none = rows({-100, -100, -100, -100, -100, -100}), some = rows({14, -100, 7, -100, 18, 1});
  for (const bool dense : {false, true}) {
    SCOPED_TRACE(dense);
    const auto sum_of_gradients = [&](const std::vector<Tensor>& batch) {
      student.zero_grad();
      const NextTokens said(student, batch, dense), taught(teacher, batch, dense);
      const Tensor hard = said.cross_entropy(0.1, Reduction::mean), soft = said.divergence(taught, {.temperature = 2});
      backward(hard + soft);
      double total = 0;
      for (const Tensor& p : student.parameters()) total += sum(abs(p.grad())).item();
      return std::array{hard.item(), soft.item(), total};
    };
    EXPECT_EQ(sum_of_gradients(none), (std::array<double, 3>{0, 0, 0}));
    const auto [hard, soft, total] = sum_of_gradients(some);
    EXPECT_GT(hard, 1);
    EXPECT_GT(soft, 0);
    EXPECT_GT(total, 0);
    const Tensor each = token_losses(student, some, dense, 0.1, Reduction::none);
    EXPECT_NEAR(hard, sum(each).item() / 4, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, NextTokensTest, testing::ValuesIn(test::value_devices()), tests::device_test_name);

// A tokenizer that has nothing but its tokens.
class Listed final : public data::Tokenizer {
 public:
  explicit Listed(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}
  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  const std::string& text_of(int32_t token) const override { return tokens_.at(static_cast<size_t>(token)); }
  const std::map<std::string, int32_t>& special() const override { return special_; }
  std::string str() const override { return {}; }

 private:
  std::vector<int32_t> tokens_of(std::string_view, data::SpecialTokens) const override { return {}; }
  std::vector<std::string> tokens_;
  std::map<std::string, int32_t> special_;
};

TEST(CommonTokens, PaddingMayDifferAndNothingElse) {
  const Listed base({"a", "b", "c"});
  EXPECT_EQ(common_tokens(base, Listed({"a", "b", "c"}), "t"), 3);
  EXPECT_EQ(common_tokens(base, Listed({"a", "b", "c", "[PAD3]"}), "t"), 3);
  EXPECT_EQ(common_tokens(base, Listed({"a", "b"}), "t"), 2);
  EXPECT_EQ(common_tokens(base, Listed({"a", "b", "[PAD2]"}), "t"), 2);
  EXPECT_EQ(common_tokens(Listed({"a", "[PAD1]", "[PAD2]"}), Listed({"a", "<x>", "[PAD2]"}), "t"), 1);
  tests::expect_error<ValueError>(
      [&] {
        common_tokens(base, Listed({"a", "x", "c"}), "t.gguf");
      },
      {"--teacher t.gguf has another tokenizer: token 1 is 'x', of the model 'b'"});
  tests::expect_error<ValueError>([&] { common_tokens(base, Listed({"a", "b", "[PAD7]"}), "t"); }, {"token 2"});
}

}  // namespace
}  // namespace heddle::train
