// Architectures of GGUF files: the same weights in a folder of Hugging Face, which llama_families_test.cpp holds
// against transformers, and in a GGUF file as llama.cpp's converter writes it give the same logits.
#include <cmath>
#include <cstring>
#include <list>
#include <regex>

#include "heddle/io/write_gguf.h"
#include "heddle/nn/models/llama_digest.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/nn/models/llama_gguf.h"
#include "heddle/nn/nn.h"
#include "tests/nn/llama_folder_support.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

// Names of gguf-py's table, by pattern.
std::string name_in_gguf(const std::string& name, bool gemma) {
  static const std::vector<std::pair<std::regex, std::string>> table = {
      {std::regex("model\\.embed_tokens"), "token_embd"},
      {std::regex("model\\.norm"), "output_norm"},
      {std::regex("lm_head"), "output"},
      {std::regex("model\\.layers\\.([0-9]+)\\."), "blk.$1."},
      {std::regex("self_attn\\.([qkv])_(proj|norm)"), "attn_$1@$2"},
      {std::regex("@proj"), ""},
      {std::regex("@norm"), "_norm"},
      {std::regex("self_attn\\.qkv_proj"), "attn_qkv"},
      {std::regex("self_attn\\.o_proj"), "attn_output"},
      {std::regex("mlp\\.gate_up_proj"), "ffn_up"},
      {std::regex("mlp\\.(gate|up|down)_proj"), "ffn_$1"},
      {std::regex("input_layernorm"), "attn_norm"},
      {std::regex("pre_feedforward_layernorm"), "ffn_norm"},
      {std::regex("post_feedforward_layernorm"), "post_ffw_norm"},
  };
  std::string made =
      std::regex_replace(name, std::regex("post_attention_layernorm"), gemma ? "post_attention_norm" : "ffn_norm");
  for (const auto& [pattern, by] : table) made = std::regex_replace(made, pattern, by);
  return made;
}

// Rows of heads whose pairs of rows turn together, as the converter puts them.
std::vector<float> in_pairs(const std::vector<float>& rows, int64_t heads, int64_t width) {
  std::vector<float> turned(rows.size());
  const auto size = static_cast<int64_t>(rows.size()) / width / heads;
  for (int64_t row = 0; row < heads * size; ++row) {
    const int64_t head = row / size, half = row % size / (size / 2), i = row % (size / 2);
    std::copy_n(rows.begin() + row * width, width, turned.begin() + (head * size + 2 * i + half) * width);
  }
  return turned;
}

class GgufOfCase {
 public:
  GgufOfCase(const std::string& architecture, const LlamaCaseFolder& folder)
      : architecture_(architecture), config_(folder.config) {
    writer.add("general.architecture", architecture);
    sizes();
    for (const auto& [name, tensor] : folder.weights) add(name, tensor);
  }
  template <class T>
  void set(const std::string& key, const T& value) {
    writer.add(architecture_ + "." + key, value);
  }
  void add_floats(const std::string& name, const Shape& shape, const std::vector<float>& values) {
    std::vector<uint8_t>& own = bytes_.emplace_back(values.size() * 4);
    std::memcpy(own.data(), values.data(), own.size());
    writer.add_tensor(name, GgmlType::f32, shape, own);
  }
  Gguf opened() const { return Gguf::of(FileBytes::of(writer.bytes()), "case"); }

  GgufWriter writer;

 private:
  uint32_t size(const char* key) const { return config_[key].get<uint32_t>(); }
  void sizes() {
    set("context_length", size("max_position_embeddings"));
    set("block_count", size("num_hidden_layers"));
    set("attention.head_count", size("num_attention_heads"));
    set("attention.head_count_kv", size("num_key_value_heads"));
    set("embedding_length", size("hidden_size"));
    set("feed_forward_length", size("intermediate_size"));
    set("attention.layer_norm_rms_epsilon", config_["rms_norm_eps"].get<float>());
    if (!config_.contains("head_dim")) return;
    set("attention.key_length", size("head_dim"));
    set("attention.value_length", size("head_dim"));
  }
  void add(const std::string& name, const Tensor& tensor) {
    const bool gemma = architecture_.starts_with("gemma");
    const Values doubles = tensor.to_doubles();
    std::vector<float> values(doubles.begin(), doubles.end());
    if (architecture_ == "llama" && name.ends_with("q_proj.weight"))
      values = in_pairs(values, size("num_attention_heads"), size("hidden_size"));
    if (architecture_ == "llama" && name.ends_with("k_proj.weight"))
      values = in_pairs(values, size("num_key_value_heads"), size("hidden_size"));
    if (gemma && name.ends_with("norm.weight")) {
      for (float& v : values) v += 1;
    }
    add_floats(name_in_gguf(name, gemma), tensor.shape(), values);
  }

  std::string architecture_;
  Json config_;
  std::list<std::vector<uint8_t>> bytes_;
};

class LlamaGgufFamiliesTest : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }
  void expect_same(const LlamaCaseFolder& folder, const GgufOfCase& file) const {
    const NoGradScope no_grad;
    nn::Llama expected = nn::LlamaFolder(folder.path()).load(where());
    nn::Llama found = nn::load_llama(file.opened(), "case", where());
    EXPECT_EQ(nn::digest_of(found), nn::digest_of(expected));
    const std::vector<int32_t> tokens{3, 14, 7, 7, 0, 28, 5, 11, 2, 19, 8};
    const Tensor text = Tensor::from_vector(tokens, {1, 11}, &where());
    const Tensor whole = expected(text), same = found(text);
    const Values all = whole.to_doubles(), others = same.to_doubles();
    for (size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(others[i], all[i], 1e-4) << i;
  }
};

TEST_P(LlamaGgufFamiliesTest, Llama) {
  const LlamaCaseFolder folder("llama");
  GgufOfCase file("llama", folder);
  file.set("rope.freq_base", 50.0F);
  expect_same(folder, file);
}

TEST_P(LlamaGgufFamiliesTest, StretchedLlama) {
  const LlamaCaseFolder linear("linear");
  GgufOfCase scaled("llama", linear);
  scaled.set("rope.freq_base", 50.0F);
  scaled.set("rope.scaling.type", "linear");
  scaled.set("rope.scaling.factor", 3.0F);
  expect_same(linear, scaled);

  const LlamaCaseFolder folder("llama3");
  GgufOfCase file("llama", folder);
  file.set("rope.freq_base", 50.0F);
  std::vector<float> factors;
  for (int i = 0; i < 5; ++i) {  // as the converter computes them
    const double wave = 2 * M_PI * std::pow(50, i / 5.0), smooth = (40 / wave - 1) / (4 - 1);
    factors.push_back(static_cast<float>(wave < 10 ? 1 : wave > 40 ? 8 : 1 / ((1 - smooth) / 8 + smooth)));
  }
  file.add_floats("rope_freqs.weight", {5}, factors);
  expect_same(folder, file);
}

TEST_P(LlamaGgufFamiliesTest, Qwen) {
  const LlamaCaseFolder qwen2 = llama_case_of_gguf("qwen2");
  GgufOfCase second("qwen2", qwen2);
  second.set("rope.freq_base", 50.0F);
  expect_same(qwen2, second);
  const LlamaCaseFolder qwen3("qwen3");
  GgufOfCase third("qwen3", qwen3);
  third.set("rope.freq_base", 50.0F);
  expect_same(qwen3, third);
}

TEST_P(LlamaGgufFamiliesTest, Phi3) {
  const LlamaCaseFolder folder("phi3");
  GgufOfCase file("phi3", folder);
  file.set("rope.freq_base", 50.0F);
  file.set("rope.dimension_count", 4U);
  file.set("attention.sliding_window", 6U);
  expect_same(folder, file);
}

TEST_P(LlamaGgufFamiliesTest, Gemma2) {
  const LlamaCaseFolder folder = llama_case_of_gguf("gemma2");
  GgufOfCase file("gemma2", folder);
  file.set("rope.freq_base", 50.0F);
  file.set("attention.sliding_window", 4U);
  file.set("attn_logit_softcapping", 2.0F);
  file.set("final_logit_softcapping", 9.0F);
  expect_same(folder, file);
}

TEST_P(LlamaGgufFamiliesTest, Gemma3) {
  LlamaCaseFolder folder = llama_case_of_gguf("gemma3");
  folder.config["rope_parameters"]["sliding_attention"]["rope_theta"] = 1e4;  // files that do not say mean this
  folder.save();
  GgufOfCase file("gemma3", folder);
  file.set("rope.freq_base", 900.0F);
  file.set("rope.scaling.type", "linear");
  file.set("rope.scaling.factor", 2.0F);
  file.set("attention.sliding_window", 5U);
  expect_same(folder, file);
}

INSTANTIATE_TEST_SUITE_P(Devices, LlamaGgufFamiliesTest, testing::ValuesIn(test::value_devices()), device_test_name);

// Rows of blocks that are cut: Phi 3's one below the other.
TEST(LlamaGgufFamilies, PackedRowsAreCut) {
  const NoGradScope no_grad;
  const LlamaCaseFolder folder("phi3");
  GgufWriter writer;
  const Gguf plain = GgufOfCase("phi3", folder).opened();
  for (const auto& [key, value] : plain.metadata()) writer.add(key, value);
  std::list<std::vector<uint8_t>> blocks;
  uint32_t seed = 1;
  for (const GgufTensor& tensor : plain.tensors()) {
    const bool packs = tensor.shape.rank() == 2 && tensor.shape[1] % 32 == 0;
    const auto& own = packs ? blocks.emplace_back(test::random_blocks(GgmlType::q8_0, tensor.shape.numel(), seed++))
                            : blocks.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    writer.add_tensor(tensor.name, packs ? GgmlType::q8_0 : tensor.type, tensor.shape, own);
  }
  const Gguf file = Gguf::of(FileBytes::of(writer.bytes()), "case");
  nn::Llama packed = nn::load_llama(file, "case", reference());
  nn::Llama unpacked = nn::load_llama(file, "case", reference(), nn::GgufWeights::unpacked);
  EXPECT_EQ(packed.state_dict().at("model.layers.1.self_attn.k_proj.weight").dtype(), DType::u8);
  const Tensor text = Tensor::from_vector<int32_t>({3, 14, 7, 28, 5}, {1, 5}, &reference());
  const Values expected = unpacked(text).to_doubles(), found = packed(text).to_doubles();
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 1e-4) << i;
}

}  // namespace
}  // namespace heddle::tests
