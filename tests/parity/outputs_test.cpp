// States in the form of torchvision and Hugging Face, saved, loaded into nn/models, and their outputs against those of
// these libraries (tools/parity/make_outputs.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "checks/formula.h"
#include "heddle/core/device/context.h"
#include "heddle/io/safetensors.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

namespace formula = checks::formula;

DeviceContext& reference() { return device("reference:0"); }

std::vector<double> stored(const char* name) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/parity/outputs.json");
  return nlohmann::json::parse(file).at(name).get<std::vector<double>>();
}

// `like` with values by the formula.
nn::StateDict filled(const nn::StateDict& like) {
  nn::StateDict state;
  uint32_t number = 0;
  for (const auto& [name, tensor] : like)
    state.emplace(name, formula::value_of(name, number++, tensor.shape(), reference()));
  return state;
}

nn::StateDict through_a_file(const nn::StateDict& state) {
  const test::TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", state);
  return load_safetensors(folder / "model.safetensors", &reference()).tensors;
}

void expect_outputs(const Tensor& y, const char* name) {
  const std::vector<double> found = y.to_doubles(), expected = stored(name);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5) << i;
}

// A network that torchvision calls by the same names.
void expect_as_torchvision(nn::Module& model, const char* name, int64_t size) {
  nn::StateDict state = filled(model.state_dict());
  state.emplace("bn1.num_batches_tracked", zeros({}, DType::i64, &reference()));  // as torchvision saves
  model.load_state_dict(nn::from_torchvision(state));
  model.eval();
  expect_outputs(model(formula::images(0, 1, {3, size, size}, 10, reference()).x), name);
}

TEST(Outputs, ResNetAsTorchvisions) {
  nn::ResNet model({.blocks = {1, 2, 1, 1}, .classes = 10}, {.device = reference()});
  expect_as_torchvision(model, "resnet", 17);
}

TEST(Outputs, BottlenecksAsTorchvisions) {
  nn::ResNet model({.blocks = {1, 1, 1, 1}, .bottleneck = true, .classes = 10}, {.device = reference()});
  expect_as_torchvision(model, "bottleneck", 17);
}

TEST(Outputs, MobileNetV2AsTorchvisions) {
  nn::MobileNetV2 model({.classes = 10, .width = 0.25}, {.device = reference()});
  expect_as_torchvision(model, "mobilenetv2", 33);
}

TEST(Outputs, VitAsTorchvisions) {
  nn::Vit model({.size = 32, .patch = 8, .layers = 2, .heads = 2, .width = 16, .mlp_width = 24, .classes = 10},
                {.device = reference()});
  expect_as_torchvision(model, "vit", 32);
}

nn::Gpt small_gpt2() {
  return nn::Gpt({.vocabulary = 29, .context = 12, .layers = 2, .heads = 2, .width = 16}, {.device = reference()});
}

TEST(Outputs, Gpt2AsHuggingFaces) {
  nn::Gpt model = small_gpt2();
  nn::StateDict state = through_a_file(filled(nn::to_gpt2(model.state_dict())));
  EXPECT_EQ(state.at("h.0.attn.c_attn.weight").shape(), (Shape{16, 48}));
  model.load_state_dict(nn::from_gpt2(state));
  model.eval();
  const Tensor tokens = formula::text(0, 2, 9, 29, reference()).x;
  const Tensor y = model(tokens);
  expect_outputs(y, "gpt2");

  // As GPT2LMHeadModel saves it, and as nanoGPT does.
  nn::StateDict headed, turned;
  for (const auto& [name, tensor] : state) headed.emplace("transformer." + name, tensor);
  headed.emplace("transformer.h.0.attn.bias", zeros({1, 1, 12, 12}, DType::boolean, &reference()));
  headed.emplace("lm_head.weight", state.at("wte.weight"));
  for (const auto& [name, tensor] : model.state_dict()) turned.emplace("transformer." + name, tensor);
  turned.emplace("lm_head.weight", state.at("wte.weight"));
  for (const nn::StateDict& form : {headed, turned}) {
    nn::Gpt other = small_gpt2();
    other.load_state_dict(nn::from_gpt2(form));
    other.eval();
    EXPECT_EQ(other(tokens).to_doubles(), y.to_doubles());
  }
}

}  // namespace
}  // namespace heddle::tests
