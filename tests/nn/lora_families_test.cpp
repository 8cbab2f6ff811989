// Adapters on eight configurations of families against PEFT (lora_families_values.py): logits, the loss that
// `heddle finetune` computes, and the gradients of all adapters. Differences count beside the largest magnitude of each
// tensor.
#include <algorithm>
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/nn/linear_cross_entropy.h"
#include "heddle/nn/lora.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/nn/nn.h"
#include "tests/nn/llama_folder_support.h"
#include "tests/nn/lora_support.h"
#include "tests/nn/support.h"
#include "tests/support/coverage.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

constexpr double bound = 1e-4;
constexpr int64_t texts = 2, length = 13;

const Json& cases() {
  static const Json all =
      Json::parse(std::ifstream(std::string(HEDDLE_SOURCE_DIR) + "/tests/nn/lora_families_values.json"));
  return all.at("cases");
}

void expect_close(const Values& found, const Values& expected, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], bound * largest) << what << " at " << i;
}

// Values of names, as lora_families_values.py has them; lengths of DoRA's rows are one more.
void fill(const nn::Lora& lora) {
  const NoGradScope no_grad;
  for (const auto& [name, tensor] : lora.state_dict()) {
    std::vector<float> values = weight_of_name(name, tensor.shape());
    if (name.ends_with("magnitude_vector")) std::ranges::for_each(values, [](float& v) { v += 1; });
    Tensor(tensor).assign(Tensor::from_vector(values, tensor.shape(), &tensor.device()));
  }
}

// As Finetune::loss_of(): without logits, where these are not capped.
Tensor loss_of(nn::Llama& model, const Tensor& all, const Tensor& tokens) {
  const Tensor targets = slice(tokens, 1, {.start = 1});
  const Tensor features = slice(all, 1, {.stop = -1});
  if (model.options().logit_cap == 0) return nn::linear_cross_entropy(features, model.head(), targets);
  const Tensor logits = model.projected(features);
  return cross_entropy(reshape(logits, {-1, logits.dim(2)}), flatten(targets));
}

class LoraFamiliesTest : public DeviceTest {};

TEST_P(LoraFamiliesTest, LogitsLossAndGradientsArePefts) {
  std::vector<int32_t> flat;
  for (const Json& text : llama_families()["texts"]) {
    for (const int32_t token : text) flat.push_back(token);
  }
  const Tensor tokens = Tensor::from_vector(flat, {texts, length}, &device());
  ASSERT_EQ(cases().size(), 8u);
  size_t number = 0;
  for (const Json& c : cases()) {
    if (!takes_case(GetParam(), "", number++)) continue;
    const std::string name = c.at("name");
    SCOPED_TRACE(name);
    const LlamaCaseFolder folder(llama_case(name));
    nn::Llama model = nn::LlamaFolder(folder.path()).load(device());
    model.eval();
    const nn::Lora lora(model, options_of(c));
    fill(lora);
    const Tensor features = model.features(tokens), logits = model.projected(slice(features, 1, {.start = -1}));
    const Tensor loss = loss_of(model, features, tokens);
    expect_close(logits.to_doubles(), c.at("logits"), "logits");
    EXPECT_NEAR(loss.item(), c.at("loss").get<double>(), bound * c.at("loss").get<double>());
    backward(loss);
    EXPECT_EQ(lora.state_dict().size(), c.at("gradients").size());
    for (const auto& [path, p] : lora.named_parameters()) {
      ASSERT_TRUE(p.grad().defined()) << path;
      expect_close(p.grad().to_doubles(), c.at("gradients").at(path), path);
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(LoraFamiliesTest);
INSTANTIATE_TEST_SUITE_P(Devices, LoraFamiliesTest, testing::ValuesIn(test::value_devices()), device_test_name);

}  // namespace
}  // namespace heddle::tests
