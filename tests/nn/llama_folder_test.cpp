// Folders of Hugging Face: shards, 16-bit weights, both forms of rotary settings, and what is refused in one line.
#include "heddle/nn/models/llama_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include "heddle/core/base/ggml_quantise.h"
#include "heddle/nn/models/llama_weights.h"
#include "heddle/nn/nn.h"
#include "tests/nn/llama_folder_support.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

nn::LlamaOptions read_options(const Json& config) { return nn::llama_config(config.dump(), "config.json").options; }

void expect_refused(const LlamaCaseFolder& folder, std::initializer_list<const char*> why) {
  expect_error<IoError>([&] { nn::LlamaFolder(folder.path()).load(reference()); }, why);
}

// Two files and an index, in the place of one.
void cut(const LlamaCaseFolder& folder, const std::string& second = "model-00002-of-00002.safetensors") {
  const std::string first = "model-00001-of-00002.safetensors";
  TensorMap parts[2];
  Json map = Json::object();
  size_t i = 0;
  for (const auto& [name, tensor] : folder.weights) {
    const size_t part = i++ % 2;
    parts[part][name] = tensor;
    map[name] = part == 0 ? first : second;
  }
  save_safetensors(folder / first, parts[0]);
  save_safetensors(folder / "model-00002-of-00002.safetensors", parts[1]);
  folder.write("model.safetensors.index.json", Json{{"weight_map", map}}.dump());
  std::filesystem::remove(folder / "model.safetensors");
}

class LlamaFolderTest : public DeviceTest {
 protected:
  Tensor text() const { return Tensor::from_vector<int32_t>({3, 14, 7, 7, 0, 28, 5}, {1, 7}, &device()); }
};

TEST_P(LlamaFolderTest, ShardsAreOneModel) {
  const NoGradScope no_grad;
  for (const char* name : {"qwen2", "phi3"}) {
    const LlamaCaseFolder folder(name);
    nn::Llama whole = nn::LlamaFolder(folder.path()).load(device());
    const Values expected = whole(text()).to_doubles();
    cut(folder);
    nn::Llama shards = nn::LlamaFolder(folder.path()).load(device());
    EXPECT_EQ(shards(text()).to_doubles(), expected) << name;
  }
}

TEST_P(LlamaFolderTest, WeightsOf16BitsStayAsTheyAre) {
  const NoGradScope no_grad;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    LlamaCaseFolder folder("gemma3"), rounded("gemma3");
    for (auto& [name, tensor] : folder.weights) {
      tensor = cast(tensor, dtype);
      rounded.weights[name] = cast(tensor, DType::f32);
    }
    folder.save();
    rounded.save();
    nn::Llama model = nn::LlamaFolder(folder.path()).load(device());
    nn::Llama plain = nn::LlamaFolder(rounded.path()).load(device());
    EXPECT_EQ(model.state_dict().at("model.layers.1.mlp.up_proj.weight").dtype(), dtype);
    const Values expected = plain(text()).to_doubles(), found = model(text()).to_doubles();
    for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 5e-2) << name_of(dtype) << " at " << i;
  }
}

// A case whose matrices are whole blocks.
LlamaCaseFolder in_whole_blocks(const char* name) {
  Json row = llama_case(name);
  row["config"]["hidden_size"] = 64;
  row["config"]["intermediate_size"] = 128;
  row["shapes"] = Json::object();
  const nn::LlamaConfig config = nn::llama_config(row["config"].dump(), "config.json");
  for (const auto& [asked, stored] : nn::stored_weights(config.options, config.fused)) {
    const auto sizes = stored.shape.dims();
    row["shapes"][stored.name] = std::vector<int64_t>(sizes.begin(), sizes.end());
  }
  return LlamaCaseFolder(row);
}

// As the model whose weights the host packed and unpacked.
TEST_P(LlamaFolderTest, MatricesOfLayersArePacked) {
  const NoGradScope no_grad;
  for (const char* name : {"qwen2", "phi3"}) {
    for (const GgmlType type : {GgmlType::nf4, GgmlType::q8_0, GgmlType::q4_0}) {
      LlamaCaseFolder folder = in_whole_blocks(name);
      const nn::LlamaFolder files(folder.path());
      nn::Llama packed = files.load(device(), type);
      const Values found = packed(text()).to_doubles(), exact = files.load(device())(text()).to_doubles();
      EXPECT_EQ(packed.state_dict().at("model.layers.1.self_attn.k_proj.weight").dtype(), DType::u8);
      EXPECT_EQ(packed.state_dict().at("model.embed_tokens.weight").dtype(), DType::f32);
      for (auto& [weight, tensor] : folder.weights) {
        if (tensor.rank() != 2 || weight.find(".layers.") == std::string::npos) continue;
        std::vector<float> values = tensor.to_vector<float>();
        dequantise(type, quantise(type, values), values);
        tensor = Tensor::from_vector(values, tensor.shape(), &reference());
      }
      folder.save();
      const Values expected = nn::LlamaFolder(folder.path()).load(device())(text()).to_doubles();
      EXPECT_NE(found, exact);
      double size = 0;
      for (const double logit : expected) size = std::max(size, std::abs(logit));
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(found[i], expected[i], 2e-5 * size) << name << " " << block_of(type).name << " at " << i;
    }
  }
}
HEDDLE_DEVICE_TESTS(LlamaFolderTest);

TEST(LlamaFolder, PacksWholeBlocksOfNumbersAlone) {
  LlamaCaseFolder folder = in_whole_blocks("qwen2");
  expect_error<ValueError>(
      [&] { nn::LlamaFolder(folder.path()).load(reference(), GgmlType::q4_k); },
      {"[llama_folder] rows of model.layers.0.", "have 64 elements, no whole blocks of 256 in Q4_K"});
  std::vector<float> values = folder.weights["model.layers.1.mlp.down_proj.weight"].to_vector<float>();
  values[7] = std::numeric_limits<float>::infinity();
  folder.weights["model.layers.1.mlp.down_proj.weight"] = Tensor::from_vector(values, {64, 128}, &reference());
  folder.save();
  expect_error<ValueError>([&] { nn::LlamaFolder(folder.path()).load(reference(), GgmlType::nf4); },
                           {"[llama_folder] model.layers.1.mlp.down_proj.weight", "a value is inf"});
}

// As files on the hub have them, before transformers 5.
TEST(LlamaFolder, ReadsOlderForms) {
  const auto same = [](const char* name, auto change) {
    Json config = llama_case(name)["config"];
    const std::string expected = nn::describe(read_options(config));
    change(config);
    EXPECT_EQ(nn::describe(read_options(config)), expected) << name;
  };
  same("llama3", [](Json& c) {
    c["rope_scaling"] = c["rope_parameters"];
    c["rope_scaling"].erase("rope_theta");
    c["rope_theta"] = c["rope_parameters"]["rope_theta"];
    c.erase("rope_parameters");
  });
  same("linear", [](Json& c) {
    c["rope_scaling"] = {{"type", "linear"}, {"factor", 3.0}};
    c["rope_theta"] = 50;
    c.erase("rope_parameters");
    c["head_dim"] = nullptr;
  });
  same("phi3", [](Json& c) {
    c["rope_theta"] = 50;
    c["rope_scaling"] = nullptr;
    c["partial_rotary_factor"] = 0.5;
    c.erase("rope_parameters");
  });
  same("gemma3", [](Json& c) {
    c["rope_theta"] = 900;
    c["rope_local_base_freq"] = 40;
    c["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 2.0}};
    c["sliding_window_pattern"] = 2;
    for (const char* key : {"rope_parameters", "layer_types", "tie_word_embeddings", "_sliding_window_pattern"})
      c.erase(key);
  });
  same("gemma2", [](Json& c) { c.erase("layer_types"), c.erase("tie_word_embeddings"); });
  same("qwen2", [](Json& c) { c.erase("layer_types"); });
}

TEST(LlamaFolder, FamiliesHaveDefaults) {
  Json gemma2 = llama_case("gemma2")["config"];
  gemma2.erase("attn_logit_softcapping");
  gemma2["final_logit_softcapping"] = nullptr;
  EXPECT_EQ(read_options(gemma2).score_cap, 50);
  EXPECT_EQ(read_options(gemma2).logit_cap, 0);
  Json gemma3 = llama_case("gemma3")["config"];
  for (const char* key : {"rope_parameters", "layer_types", "head_dim", "query_pre_attn_scalar"}) gemma3.erase(key);
  gemma3["num_hidden_layers"] = 7;
  const nn::LlamaOptions o = read_options(gemma3);
  EXPECT_EQ(o.windowed, (std::vector<bool>{true, true, true, true, true, false, true}));
  EXPECT_EQ(o.rope_base, 1e6);
  EXPECT_EQ(o.window_rope_base, 1e4);
  EXPECT_EQ(o.head_size, 256);
  EXPECT_EQ(o.score_scale, 1.0 / 16);
  Json mistral = llama_case("mistral")["config"];
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(read_options(mistral).window, 0);
}

TEST(LlamaFolder, SaysWhereTextsEnd) {
  LlamaCaseFolder folder("llama3");
  EXPECT_EQ(nn::LlamaFolder(folder.path()).config().begin, 1);
  EXPECT_EQ(nn::LlamaFolder(folder.path()).config().ends, (std::vector<int32_t>{2, 5}));
  folder.write("generation_config.json", R"({"eos_token_id": 7})");
  EXPECT_EQ(nn::LlamaFolder(folder.path()).config().ends, std::vector<int32_t>{7});
  folder.write("generation_config.json", R"({"eos_token_id": "</s>"})");
  expect_refused(folder, {"generation_config.json: eos_token_id is", "expected a token or a list of them"});
}

TEST(LlamaFolder, LeavesOutWhatOldFilesHave) {
  LlamaCaseFolder folder("qwen3");
  folder.weights["lm_head.weight"] = folder.weights.at("model.embed_tokens.weight");
  folder.weights["model.layers.1.self_attn.rotary_emb.inv_freq"] = zeros({5}, DType::f32, &reference());
  folder.save();
  EXPECT_FALSE(nn::LlamaFolder(folder.path()).load(reference()).state_dict().contains("lm_head.weight"));
}

TEST(LlamaFolder, RefusesConfigurations) {
  const auto refused = [](const char* name, auto change, const char* why) {
    Json config = llama_case(name)["config"];
    change(config);
    expect_error<IoError>([&] { read_options(config); }, {"[config] config.json: ", why});
  };
  refused(
      "llama", [](Json& c) { c["model_type"] = "rwkv"; },
      "the model_type is 'rwkv'; read are gemma2, gemma3_text, llama, mistral, phi3, qwen2, qwen3");
  refused(
      "llama", [](Json& c) { c["model_type"] = "mixtral"; }, "'mixtral' (it is a mixture of experts); read are");
  refused(
      "llama", [](Json& c) { c.erase("model_type"); }, "it has no model_type");
  refused(
      "llama", [](Json& c) { c.erase("hidden_size"); }, "it has no hidden_size");
  refused(
      "llama", [](Json& c) { c["hidden_size"] = "24"; }, "hidden_size is \"24\", expected 1 to");
  refused(
      "llama", [](Json& c) { c["num_hidden_layers"] = 1e9; }, "num_hidden_layers is");
  refused(
      "llama", [](Json& c) { c["num_attention_heads"] = 3; }, "2 heads of keys do not divide 3 heads");
  refused(
      "llama", [](Json& c) { c["head_dim"] = 7; }, "heads have 7 elements");
  refused(
      "llama", [](Json& c) { c["head_dim"] = 100000; }, "the size of a head is 100000; expected 1 to 65536");
  refused(
      "llama", [](Json& c) { c["num_attention_heads"] = c["num_key_value_heads"] = 1 << 30; }, "are too many");
  refused(
      "phi3", [](Json& c) { c["rope_parameters"]["partial_rotary_factor"] = 1e300; }, "partial_rotary_factor is");
  refused(
      "phi3", [](Json& c) { c["rope_parameters"]["partial_rotary_factor"] = 0.1; }, "is 0.1, of heads of 8");
  refused(
      "phi3", [](Json& c) { c["rope_parameters"]["partial_rotary_factor"] = 0.4; }, "3 elements; rotary positions");
  refused(
      "llama", [](Json& c) { c["rms_norm_eps"] = "1"; }, "rms_norm_eps is \"1\", expected a number");
  refused(
      "llama", [](Json& c) { c["attention_bias"] = true; }, "attention_bias is true");
  refused(
      "llama", [](Json& c) { c["hidden_act"] = "gelu"; }, "hidden_act is 'gelu'; read is silu");
  refused(
      "gemma2", [](Json& c) { c["hidden_activation"] = "silu"; }, "read is gelu_pytorch_tanh");
  refused(
      "gemma3", [](Json& c) { c["use_bidirectional_attention"] = true; }, "use_bidirectional_attention");
  refused(
      "llama", [](Json& c) { c["quantization_config"] = Json::object(); }, "quantization_config");
  refused(
      "llama3", [](Json& c) { c["rope_parameters"]["rope_type"] = "yarn"; }, "scaled as 'yarn'; read are linear");
  refused(
      "llama3", [](Json& c) { c["rope_parameters"]["high_freq_factor"] = 1; }, "above low_freq_factor");
  refused(
      "linear", [](Json& c) { c["rope_parameters"]["factor"] = 0; }, "the factor of rotary positions is 0");
  refused(
      "linear", [](Json& c) { c["rope_parameters"] = 5; }, "rope_parameters is 5, expected an object");
  refused(
      "qwen2", [](Json& c) { c["layer_types"] = {"full_attention"}; }, "layer_types are 1, num_hidden_layers is 2");
  refused(
      "qwen2", [](Json& c) { c["layer_types"][0] = "chunked_attention"; }, "layer_types has 'chunked_attention'");
  refused(
      "gemma2", [](Json& c) { c["query_pre_attn_scalar"] = 0; }, "query_pre_attn_scalar is 0");
  expect_error<IoError>([] { nn::llama_config("[1]", "config.json"); }, {"it is no JSON object"});
  expect_error<IoError>([] { nn::llama_config("{", "config.json"); }, {"[config] config.json", "not JSON"});
}

TEST(LlamaFolder, NamesAllTensorsThatDoNotFit) {
  LlamaCaseFolder folder("phi3");
  folder.weights.erase("model.norm.weight");
  folder.weights.erase("model.layers.1.self_attn.qkv_proj.weight");
  folder.weights["model.layers.0.mlp.down_proj.weight"] = zeros({32, 21}, DType::f32, &reference());
  folder.weights["model.layers.2.mlp.down_proj.weight"] = zeros({32, 20}, DType::f32, &reference());
  folder.save();
  expect_refused(folder, {"tensors are missing: model.layers.1.self_attn.qkv_proj.weight, model.norm.weight",
                          "do not fit config.json: model.layers.0.mlp.down_proj.weight (32, 21) instead of (32, 20)",
                          "no such model has: model.layers.2.mlp.down_proj.weight"});
  LlamaCaseFolder deep("llama");
  deep.config["num_hidden_layers"] = 100;
  deep.save();
  expect_refused(deep, {"tensors are missing: model.layers.10.", "and 782 more"});
  LlamaCaseFolder integers("llama");
  integers.weights["model.norm.weight"] = zeros({24}, DType::i32, &reference());
  integers.save();
  expect_refused(integers, {"tensors are no f32, f16 or bf16: model.norm.weight i32"});
}

TEST(LlamaFolder, RefusesFilesElsewhere) {
  const LlamaCaseFolder folder("llama");
  for (const char* name : {"../model-00002-of-00002.safetensors", "/tmp/a.safetensors", "a/b.safetensors", "..",
                           "a\\b.safetensors", "c:a.safetensors", ".safetensors", "a.bin", ""}) {
    folder.save();
    cut(folder, name);
    expect_refused(folder, {"model.safetensors.index.json: the file of model.embed_tokens.weight is",
                            "expected the plain name of a .safetensors file"});
  }
  cut(folder);
  const std::string second = folder / "model-00002-of-00002.safetensors";
  std::filesystem::rename(second, folder / "other.safetensors");
  expect_refused(folder, {"model-00002-of-00002.safetensors"});
  std::filesystem::create_symlink(folder / "other.safetensors", second);
  expect_refused(folder, {"model-00002-of-00002.safetensors is a link, which is not followed"});
}

TEST(LlamaFolder, RefusesIndexesThatDoNotFit) {
  const LlamaCaseFolder folder("llama");
  cut(folder);
  const std::string path = folder / "model.safetensors.index.json";
  const Json index = Json::parse(std::ifstream(path));
  const auto refused = [&](const Json& changed, const char* why) {
    folder.write("model.safetensors.index.json", changed.dump());
    expect_refused(folder, {why});
  };
  Json moved = index;
  const bool first = index["weight_map"]["model.norm.weight"] == "model-00001-of-00002.safetensors";
  moved["weight_map"]["model.norm.weight"] = fmt::format("model-0000{}-of-00002.safetensors", first ? 2 : 1);
  refused(moved, "names tensors that are not there: model.norm.weight in model-0000");
  refused(Json::object(), "it has no object weight_map");
  refused(Json{{"weight_map", 3}}, "it has no object weight_map");
  save_safetensors(folder / "model-00002-of-00002.safetensors", folder.weights);
  refused(index, "is in two files");
  std::filesystem::remove(path);
  expect_refused(folder, {"it has neither model.safetensors nor model.safetensors.index.json"});
  std::filesystem::remove(folder / "config.json");
  expect_refused(folder, {"config.json"});
  EXPECT_FALSE(nn::is_llama_folder(folder.path()));
}

TEST(LlamaFolder, RefusesDamagedFiles) {
  const LlamaCaseFolder folder("llama");
  std::filesystem::resize_file(folder / "model.safetensors", 500);
  expect_refused(folder, {"model.safetensors"});
  folder.write("model.safetensors", "");
  expect_refused(folder, {"model.safetensors"});
}

}  // namespace
}  // namespace heddle::tests
