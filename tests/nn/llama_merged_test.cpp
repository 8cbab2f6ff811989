// Models with their adapters merged, in files: logits against base and adapter, types, names and order of rows, what
// is copied, what is refused.
#include "heddle/nn/models/llama_merged.h"

#include <cmath>
#include <cstring>
#include <filesystem>

#include "heddle/core/base/ggml_quantise.h"
#include "heddle/nn/models/llama_digest.h"
#include "heddle/nn/models/llama_gguf.h"
#include "heddle/nn/nn.h"
#include "tests/nn/llama_folder_support.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/packed_blocks.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using test::TinyLlamaFile;

nn::Lora filled_adapters(nn::Llama& model, bool dora = false) {
  Generator generator{.seed = 6};
  nn::Lora lora(model, {.rank = 3, .alpha = 4, .dora = dora, .targets = {"*_proj"}});
  const NoGradScope no_grad;
  for (auto& [name, p] : lora.state_dict()) {
    if (!name.ends_with("magnitude_vector")) Tensor(p).assign(uniform(p.shape(), -0.2, 0.3, &p.device(), &generator));
  }
  return lora;
}

Values merged_logits(nn::Llama& model, int32_t vocabulary) {
  const NoGradScope no_grad;
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 7; ++i) tokens.push_back((i * i * 7 + 3) % vocabulary);
  return model(Tensor::from_vector(tokens, {1, 7}, &model.parameters()[0].device())).to_doubles();
}

void expect_logits(const Values& found, const Values& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], wanted[i], tolerance * (1 + std::abs(wanted[i]))) << i;
}

Values values_of(const Gguf& file, const std::string& name) {
  const std::vector<float> values = file.find_tensor(name)->dequantised();
  return {values.begin(), values.end()};
}

// Root of the sum of squares, relative.
double distance(const Values& a, const Values& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) difference += (a[i] - b[i]) * (a[i] - b[i]), size += b[i] * b[i];
  return std::sqrt(difference / size);
}

class LlamaMergedTest : public DeviceTest {};

// What the device merges; logits of such files are compared below.
TEST_P(LlamaMergedTest, WeightsAreThoseOfTheReference) {
  const test::TemporaryFolder folder;
  const Gguf base = Gguf::of(FileBytes::of(TinyLlamaFile(GgmlType::q4_1).bytes()), "tiny");
  nn::Llama model = nn::load_llama(base, "tiny", device()), plain = nn::load_llama(base, "tiny", reference());
  const nn::Lora wanted = filled_adapters(plain), lora = filled_adapters(model);
  const NoGradScope no_grad;
  for (auto& [name, p] : lora.state_dict()) {
    const Tensor value = wanted.state_dict().at(name);
    Tensor(p).assign(Tensor::from_vector(value.to_vector<float>(), value.shape(), &device()));
  }
  nn::save_merged(folder / "found.gguf", base, "tiny", &lora, {.type = GgmlType::f32});
  nn::save_merged(folder / "wanted.gguf", base, "tiny", &wanted, {.type = GgmlType::f32});
  const Gguf found = Gguf::read(folder / "found.gguf"), other = Gguf::read(folder / "wanted.gguf");
  for (const GgufTensor& tensor : other.tensors())
    expect_logits(values_of(found, tensor.name), values_of(other, tensor.name), 1e-5);
}
HEDDLE_DEVICE_TESTS(LlamaMergedTest);

TEST(LlamaMerged, GgufIsBaseAndAdapter) {
  const test::TemporaryFolder folder;
  for (const bool dora : {false, true}) {
    const Gguf base = Gguf::of(FileBytes::of(TinyLlamaFile(GgmlType::q4_1, !dora).bytes()), "tiny");
    nn::Llama model = nn::load_llama(base, "tiny", reference());
    const nn::Lora lora = filled_adapters(model, dora);
    const Values wanted = merged_logits(model, 261);
    const std::pair<GgmlType, double> cases[] = {{GgmlType::f32, 1e-4}, {GgmlType::f16, 3e-3}, {GgmlType::bf16, 3e-2}};
    for (const auto& [type, tolerance] : cases) {
      const std::string path = folder / "merged.gguf";
      const nn::MergedTypes types = nn::save_merged(path, base, "tiny", &lora, {.type = type});
      const int64_t matrices = dora ? 16 : 15, norms = 5;
      EXPECT_EQ(types.at(type), type == GgmlType::f32 ? matrices + norms : matrices);
      const Gguf file = Gguf::read(path);
      EXPECT_EQ(file.find("tokenizer.ggml.merges")->texts(), base.find("tokenizer.ggml.merges")->texts());
      nn::Llama merged = nn::load_llama(file, path, reference());
      expect_logits(merged_logits(merged, 261), wanted, tolerance);
      EXPECT_EQ(nn::digest_of(merged), nn::digest_of(model));
    }
  }
}

TEST(LlamaMerged, FolderIsBaseAndAdapter) {
  for (const std::string name : {"llama", "llama3", "qwen2", "qwen3", "phi3", "gemma2", "gemma3"}) {
    const LlamaCaseFolder own = llama_case_of_gguf(name);
    own.write("tokenizer.json", "{}");
    const nn::LlamaFolder base(own / "");
    nn::Llama model = base.load(reference());
    const nn::Lora lora = filled_adapters(model);
    const auto vocabulary = static_cast<int32_t>(base.config().options.vocabulary);
    const Values wanted = merged_logits(model, vocabulary);
    const test::TemporaryFolder out;
    nn::save_merged_folder(out / "hf", base, own / "", &lora, {});
    nn::Llama merged = nn::LlamaFolder(out / "hf").load(reference());
    expect_logits(merged_logits(merged, vocabulary), wanted, 1e-4);
    EXPECT_TRUE(std::filesystem::exists(out / "hf/tokenizer.json"));
    EXPECT_FALSE(std::filesystem::exists(out / "hf/merges.txt"));
    expect_error<ValueError>([&] { nn::save_merged_folder(out / "hf", base, own / "", &lora, {}); },
                             {"no empty folder"});
    nn::save_merged_gguf(out / "m.gguf", base, &lora, {}, {.type = GgmlType::f32});
    nn::Llama turned = nn::load_llama(Gguf::read(out / "m.gguf"), "m.gguf", reference());
    expect_logits(merged_logits(turned, vocabulary), wanted, 1e-4);
  }
}

TEST(LlamaMerged, FewerBitsAreNearAndFitTheirRows) {
  const test::TemporaryFolder folder;
  const Gguf base = Gguf::of(FileBytes::of(TinyLlamaFile(GgmlType::f32, false).bytes()), "tiny");
  nn::Llama model = nn::load_llama(base, "tiny", reference());
  const nn::Lora lora = filled_adapters(model);
  nn::save_merged(folder / "wanted.gguf", base, "tiny", &lora);
  const Gguf wanted = Gguf::read(folder / "wanted.gguf");
  const std::pair<GgmlType, GgmlType> cases[] = {
      {GgmlType::q8_0, GgmlType::q8_0}, {GgmlType::q4_0, GgmlType::q4_0}, {GgmlType::q4_k, GgmlType::q4_1}};
  for (const auto& [asked, got] : cases) {
    const std::string path = folder / "merged.gguf";
    nn::save_merged(path, base, "tiny", &lora, {.type = asked});
    const Gguf file = Gguf::read(path);
    EXPECT_EQ(file.find_tensor("blk.1.attn_q.weight")->type, got);
    EXPECT_EQ(file.find_tensor("output.weight")->type, GgmlType::q8_0);  // Q6_K of rows of 256 alone
    EXPECT_EQ(file.find_tensor("output_norm.weight")->type, GgmlType::f32);
    for (const GgufTensor& tensor : file.tensors()) {
      const double most = tensor.type == GgmlType::f32 ? 0 : tensor.type == GgmlType::q8_0 ? 0.007 : 0.1;
      EXPECT_LE(distance(values_of(file, tensor.name), values_of(wanted, tensor.name)), most) << tensor.name;
    }
    nn::load_llama(file, path, reference());
  }
}

TEST(LlamaMerged, WhatIsNotAdaptedIsCopied) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "merged.gguf";
  const TinyLlamaFile tiny(GgmlType::q4_0, false);
  const Gguf base = Gguf::of(FileBytes::of(tiny.bytes()), "tiny");
  nn::Llama model = nn::load_llama(base, "tiny", reference());
  const nn::Lora lora(model, {.targets = {"*.0.self_attn.v_proj"}});
  nn::save_merged(path, base, "tiny", &lora);
  const Gguf file = Gguf::read(path);
  EXPECT_EQ(file.metadata().size(), base.metadata().size());
  for (const GgufTensor& tensor : file.tensors()) {
    EXPECT_EQ(tensor.type, tiny.tensors.at(tensor.name).type);
    if (tensor.name == "blk.0.attn_v.weight") continue;
    EXPECT_TRUE(std::ranges::equal(tensor.bytes, tiny.tensors.at(tensor.name).bytes)) << tensor.name;
  }
  // A base without adapters in its own type is the file once more.
  nn::save_merged(path, base, "tiny", nullptr);
  EXPECT_EQ(Gguf::read(path).file()->bytes().size(), base.file()->bytes().size());
}

TEST(LlamaMerged, FailedFilesLeaveNothing) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "merged.gguf";
  TinyLlamaFile tiny(GgmlType::f32);
  const float nan = std::nanf("");
  std::memcpy(tiny.tensors.at("blk.1.ffn_up.weight").bytes.data(), &nan, sizeof nan);
  const Gguf base = Gguf::of(FileBytes::of(tiny.bytes()), "tiny");
  expect_error<ValueError>([&] { nn::save_merged(path, base, "tiny", nullptr, {.type = GgmlType::q4_0}); }, {"nan"});
  EXPECT_TRUE(std::filesystem::is_empty(folder / ""));
}

}  // namespace
}  // namespace heddle::tests
