// States in the form of torchvision and Hugging Face, saved, loaded into nn/models, and their outputs against those of these libraries (tools/parity/make_outputs.py).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/device/context.h"
#include "io/safetensors.h"
#include "tests/parity/formula.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

DeviceContext& reference() { return device("reference:0"); }

std::vector<double> stored(const char* name) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/parity/outputs.json");
  return nlohmann::json::parse(file).at(name).get<std::vector<double>>();
}

// `like` with values by the formula, through a file.
nn::StateDict saved(const nn::StateDict& like) {
  nn::StateDict state;
  uint32_t number = 0;
  for (const auto& [name, tensor] : like) state.emplace(name, formula::value_of(name, number++, tensor.shape(), reference()));
  const test::TemporaryFolder folder;
  save_safetensors(folder / "model.safetensors", state);
  return load_safetensors(folder / "model.safetensors", &reference()).tensors;
}

void expect_outputs(const Tensor& y, const char* name, double scale) {
  const std::vector<double> found = y.to_doubles(), expected = stored(name);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-5 * scale) << i;
}

// A network that torchvision calls by the same names.
void expect_as_torchvision(nn::Module& model, const char* name, int64_t size) {
  nn::StateDict state = saved(model.state_dict());
  state.emplace("bn1.num_batches_tracked", zeros({}, DType::i64, &reference()));  // as torchvision saves
  model.load_state_dict(nn::from_torchvision(state));
  model.eval();
  expect_outputs(model(formula::images(0, 2, {3, size, size}, 10, reference()).x), name, 1);
}

TEST(Outputs, ResNet18AsTorchvisions) {
  nn::ResNet model(nn::resnet18(10), &reference());
  expect_as_torchvision(model, "resnet18", 33);
}

TEST(Outputs, ResNet50AsTorchvisions) {
  nn::ResNet model(nn::resnet50(10), &reference());
  expect_as_torchvision(model, "resnet50", 33);
}

TEST(Outputs, MobileNetV2AsTorchvisions) {
  nn::MobileNetV2 model({.classes = 10, .width = 0.25}, &reference());
  expect_as_torchvision(model, "mobilenetv2", 33);
}

TEST(Outputs, VitAsTorchvisions) {
  nn::Vit model({.size = 32, .patch = 8, .layers = 2, .heads = 2, .width = 16, .mlp_width = 24, .classes = 10}, &reference());
  expect_as_torchvision(model, "vit", 32);
}

nn::Gpt small_gpt2() { return nn::Gpt({.vocabulary = 29, .context = 12, .layers = 2, .heads = 2, .width = 16}, &reference()); }

TEST(Outputs, Gpt2AsHuggingFaces) {
  nn::Gpt model = small_gpt2();
  nn::StateDict state = saved(nn::to_gpt2(model.state_dict()));
  EXPECT_EQ(state.at("h.0.attn.c_attn.weight").shape(), (Shape{16, 48}));
  model.load_state_dict(nn::from_gpt2(state));
  model.eval();
  const Tensor tokens = formula::text(0, 2, 9, 29, reference()).x;
  const Tensor y = model(tokens);
  expect_outputs(y, "gpt2", 1);

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
