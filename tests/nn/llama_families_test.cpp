// Families of language models against transformers: folders that it would have written give its logits and gradients,
// whole, and one token at a time.
#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/nn/nn.h"
#include "tests/nn/llama_folder_support.h"
#include "tests/nn/support.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

void expect_close(const Values& found, const Values& expected, double tolerance, const std::string& what) {
  ASSERT_EQ(found.size(), expected.size()) << what;
  double largest = 0;
  for (const double v : expected) largest = std::max(largest, std::abs(v));
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], tolerance * largest) << what << " at " << i;
}

using CaseOnDevice = std::tuple<std::string, std::string>;

class LlamaFamiliesTest : public testing::TestWithParam<CaseOnDevice> {
 protected:
  DeviceContext& where() const { return device(std::get<1>(GetParam())); }
  Json row() const { return llama_case(std::get<0>(GetParam())); }
  Tensor texts() const {
    std::vector<int32_t> all;
    for (const Json& text : llama_families()["texts"]) {
      for (const Json& token : text) all.push_back(token);
    }
    return Tensor::from_vector(all, {2, static_cast<int64_t>(all.size()) / 2}, &where());
  }
};

TEST_P(LlamaFamiliesTest, LogitsAreThoseOfTransformers) {
  const NoGradScope no_grad;
  const LlamaCaseFolder folder(row());
  nn::Llama model = nn::LlamaFolder(folder.path()).load(where());
  const Tensor logits = model(texts());
  expect_close(logits.to_doubles(), row()["logits"], 1e-4, "forward");
  // Read so much of it, then one token at a time: before and behind the windows' ends.
  for (const int64_t prompt : {9, 2}) {
    const nn::DecoderPtr decoder = nn::cached_decoder(model, 2, 16);
    Tensor next = decoder->read(slice(texts(), 1, {.start = 0, .stop = prompt}));
    for (int64_t t = prompt; t < texts().dim(1); ++t) {
      expect_close(next.to_doubles(), select(logits, 1, t - 1).to_doubles(), 1e-4, "step " + std::to_string(t));
      next = decoder->step(select(texts(), 1, t));
    }
    expect_close(next.to_doubles(), select(logits, 1, -1).to_doubles(), 1e-4, "the last step");
  }
}

TEST_P(LlamaFamiliesTest, ComesBackFromItsDescription) {
  const NoGradScope no_grad;
  const LlamaCaseFolder folder(row());
  nn::Llama model = nn::LlamaFolder(folder.path()).load(where());
  const nn::LanguageModel again(nn::describe(model.options()), where());
  EXPECT_EQ(again.description(), nn::describe(model.options()));
  again.module().load_state_dict(model.state_dict());
  EXPECT_EQ(again.module()(texts()).to_doubles(), model(texts()).to_doubles());
}

class LlamaGradientsTest : public LlamaFamiliesTest {};

TEST_P(LlamaGradientsTest, AreThoseOfTransformers) {
  const Json expected = row()["gradients"];
  const LlamaCaseFolder folder(row());
  nn::Llama model = nn::LlamaFolder(folder.path()).load(where());
  const Tensor logits = model(texts());
  const Tensor waves = sin(arange(1, static_cast<double>(logits.numel()) + 1, 1, DType::f32, &where()) * 0.5);
  const Tensor loss = mean(logits * reshape(waves, logits.shape()));
  backward(loss);
  EXPECT_NEAR(loss.item(), row()["loss"].get<double>(), 1e-5);
  std::map<std::string, Values> found;
  for (const auto& [name, p] : model.named_parameters()) found[name] = p.grad().to_doubles();
  for (const auto& [name, values] : expected.items()) {
    const std::string fused = "qkv_proj.weight", path = name.substr(0, name.size() - fused.size());
    Values all;
    const bool cut = name.ends_with(fused);
    for (const char* part : {"q_proj.weight", "k_proj.weight", "v_proj.weight"}) {
      const Values& own = found[cut ? path + part : name];
      if (cut || all.empty()) all.insert(all.end(), own.begin(), own.end());
    }
    expect_close(all, values, 1e-3, name);
  }
}

std::vector<std::string> names(bool with_gradients = false) {
  std::vector<std::string> all;
  for (const Json& row : llama_families()["cases"]) {
    if (!with_gradients || !row["gradients"].empty()) all.push_back(row["name"]);
  }
  return all;
}
std::string name_of_case(const testing::TestParamInfo<CaseOnDevice>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
}
std::vector<CaseOnDevice> families_on_devices() {
  std::vector<CaseOnDevice> all;
  for (const std::string& id : test::value_devices()) {
    size_t number = 0;
    for (const std::string& name : names()) {
      if (takes_case(id, "", number++)) all.emplace_back(name, id);
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, LlamaFamiliesTest, testing::ValuesIn(families_on_devices()), name_of_case);
INSTANTIATE_TEST_SUITE_P(Cases, LlamaGradientsTest,
                         testing::Combine(testing::ValuesIn(names(true)), testing::Values("reference:0")),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Devices, LlamaGradientsTest,
                         testing::Combine(testing::Values("gemma3"), testing::ValuesIn(test::kernel_devices())),
                         name_of_case);

}  // namespace
}  // namespace heddle::tests
