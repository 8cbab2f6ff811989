// Adapters in files: PEFT's names, shapes and configuration as stored by lora_values.py; GGUF adapters; broken folders.
#include "heddle/nn/lora_files.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/io/atomic_file.h"
#include "heddle/io/gguf.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/nn.h"
#include "tests/nn/lora_support.h"
#include "tests/nn/support.h"
#include "tests/support/temporary_folder.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;

const Json& stored(const std::string& name) {
  static const Json all = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/nn/lora_values.json"));
  for (const Json& c : all.at("cases")) {
    if (c.at("name") == name) return c;
  }
  throw ValueError("no case");
}

nn::Llama make() {
  Generator generator{.seed = 5};
  nn::Llama model(tiny, {.device = reference(), .generator = &generator});
  model.eval();
  return model;
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(LoraFiles, AreThoseOfPeft) {
  const nn::LoraOptions options[] = {{.rank = 3, .alpha = 5, .targets = {"*.q_proj", "*.v_proj"}},
                                     {.rank = 4, .alpha = 3, .rank_stabilised = true, .targets = {"*_proj"}},
                                     {.rank = 2, .alpha = 4, .dora = true, .targets = {"*.o_proj", "*.down_proj"}}};
  const char* names[] = {"lora", "rslora", "dora"};
  for (int i = 0; i < 3; ++i) {
    const Json& c = stored(names[i]);
    const test::TemporaryFolder folder;
    const std::string path = folder / "adapter";
    nn::Llama model = make();
    const nn::Lora lora = adapters(model, options[i]);
    nn::save_peft(path, lora, "some/base");
    const SafetensorsBytes saved = read_safetensors(path + "/adapter_model.safetensors");
    EXPECT_EQ(saved.tensors.size(), c.at("saved").size());
    for (const auto& [name, shape] : c.at("saved").items())
      EXPECT_EQ(saved.tensors.at(name).shape, Shape(shape.get<std::vector<int64_t>>())) << name;
    const Json config = Json::parse(text_of(path + "/adapter_config.json")), &theirs = c.at("config");
    for (const auto& [key, value] : config.items()) {
      ASSERT_TRUE(theirs.contains(key)) << key;
      if (key == "target_modules") {
        EXPECT_EQ(value.get<std::set<std::string>>(), theirs.at(key).get<std::set<std::string>>());
      } else if (key != "base_model_name_or_path") {
        EXPECT_EQ(value, theirs.at(key)) << key;
      }
    }
    EXPECT_EQ(config.at("base_model_name_or_path"), "some/base");

    // PEFT's own configuration, with these tensors.
    write_file_atomically(path + "/adapter_config.json", theirs.dump());
    nn::Llama other = make();
    const nn::Lora loaded = nn::load_peft(path, other);
    EXPECT_EQ(logits(other), logits(model)) << names[i];
    EXPECT_EQ(loaded.paths().size(), lora.paths().size());
    EXPECT_EQ(loaded.options().dora, options[i].dora);
    EXPECT_EQ(loaded.scale(), lora.scale());
  }
}

TEST(LoraFiles, NameWholePathsWhereLastNamesSayTooMuch) {
  const test::TemporaryFolder folder;
  nn::Llama model = make();
  nn::save_peft(folder / "a", adapters(model, {.targets = {"*.1.self_attn.q_proj"}}));
  EXPECT_EQ(Json::parse(text_of(folder / "a/adapter_config.json")).at("target_modules"),
            Json({"model.layers.1.self_attn.q_proj"}));
}

TEST(LoraFiles, OfSixteenBitsAreRead) {
  const test::TemporaryFolder folder;
  nn::Llama model = make();
  const nn::Lora lora = adapters(model, {});
  nn::save_peft(folder / "a", lora);
  TensorMap half;
  for (const auto& [name, p] : lora.state_dict()) half[name] = cast(p, DType::bf16);
  save_safetensors(folder / "a/adapter_model.safetensors", half);
  nn::Llama other = make();
  const nn::Lora loaded = nn::load_peft(folder / "a", other);
  for (const auto& [name, p] : loaded.state_dict()) {
    EXPECT_EQ(p.dtype(), DType::f32);
    EXPECT_EQ(p.to_doubles(), half.at(name).to_doubles());
  }
}

TEST(LoraFiles, BrokenFoldersLeaveTheModelAlone) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "a";
  nn::Llama model = make();
  const Values before = logits(model);
  nn::Llama donor = make();
  const nn::Lora lora = adapters(donor, {.rank = 3, .targets = {"*.q_proj"}});
  const auto refused = [&](const char* why) {
    expect_error<IoError>([&] { nn::load_peft(path, model); }, {why});
    EXPECT_EQ(logits(model), before);
    for (const Tensor& p : model.parameters()) EXPECT_TRUE(p.requires_grad());
  };
  refused("[peft]");  // nothing there
  nn::save_peft(path, lora);
  const std::string config_path = path + "/adapter_config.json", weights_path = path + "/adapter_model.safetensors";
  const std::string config = text_of(config_path), weights = text_of(weights_path);
  const auto with = [&](const char* key, const Json& value, const char* why) {
    Json changed = Json::parse(config);
    changed[key] = value;
    write_file_atomically(config_path, changed.dump());
    refused(why);
  };
  with("peft_type", "LOHA", "peft_type is \"LOHA\"; read is LORA");
  with("peft_type", nullptr, "peft_type is missing");
  with("r", 0, "r is 0; expected a number from 1");
  with("r", 2.5, "r is no whole number");
  with("r", "3", "r is \"3\"");
  with("r", 4, "lora_A.weight is (3, 24) f32; expected (4, 24)");
  with("lora_alpha", Json(true), "lora_alpha is true");
  with("lora_dropout", 1, "lora_dropout is 1");
  with("bias", "all", "trained biases");
  with("use_dora", 1, "use_dora is neither true nor false");
  with("use_dora", true, "lora_magnitude_vector is missing");
  with("rank_pattern", Json{{"q_proj", 3}}, "rank_pattern is {\"q_proj\":3}");
  with("modules_to_save", Json{"lm_head"}, "modules_to_save is [\"lm_head\"]");
  with("fan_in_fan_out", true, "fan_in_fan_out is true");
  for (const char* broken : {"", "[]", "{\"r\": 1, \"r\": 2}", "{\"peft_type\": \"LORA\""}) {
    write_file_atomically(config_path, broken);
    refused("[peft]");
  }
  write_file_atomically(config_path, config);
  for (const size_t length : {size_t{0}, size_t{7}, weights.size() / 2, weights.size() - 1}) {
    write_file_atomically(weights_path, std::string_view(weights).substr(0, length));
    refused("adapter_model.safetensors");
  }
  const auto tensors = [&](const std::function<void(TensorMap&)>& change, const char* why) {
    const nn::StateDict state = lora.state_dict();
    TensorMap map(state.begin(), state.end());
    change(map);
    save_safetensors(weights_path, map);
    refused(why);
  };
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj";
  tensors([](TensorMap& m) { m.clear(); }, "it has no tensors");
  tensors([&](TensorMap& m) { m.erase(q + ".lora_B.weight"); }, "q_proj.lora_B.weight is missing");
  tensors([&](TensorMap& m) { m["other"] = m.at(q + ".lora_B.weight"); }, "it has a tensor 'other'");
  tensors([&](TensorMap& m) { m[q + ".lora_C"] = m.at(q + ".lora_B.weight"); }, "lora_C', which no adapter has");
  tensors([&](TensorMap& m) { m["base_model.model.model.norm.lora_A.weight"] = m.at(q + ".lora_A.weight"); },
          "it adapts 'model.norm', which is no linear layer");
  tensors(
      [&](TensorMap& m) {
        m[q + ".lora_A.weight"] = zeros({3, 24}, DType::i32, &reference());
      },
      "is (3, 24) i32; expected (3, 24) of floats");
}

TEST(LoraFiles, GgufAdaptersHaveItsNamesAndOrder) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "adapter.gguf";
  nn::Llama model = make();
  const nn::Lora lora =
      adapters(model, {.rank = 4, .alpha = 3, .rank_stabilised = true, .targets = {"*_proj", "lm_head"}});
  nn::save_gguf_adapter(path, lora, tiny);
  const Gguf file = Gguf::read(path);
  EXPECT_EQ(file.at("general.architecture").as_text(), "llama");
  EXPECT_EQ(file.at("general.type").as_text(), "adapter");
  EXPECT_EQ(file.at("adapter.type").as_text(), "lora");
  EXPECT_EQ(file.at("adapter.lora.alpha").as_number() / 4, lora.scale());  // llama.cpp divides by the rank
  EXPECT_EQ(file.tensors().size(), 2u * (2 * 7 + 1));
  const nn::StateDict state = lora.state_dict();
  const auto values = [&](const char* name) { return file.find_tensor(name)->dequantised(); };
  const auto ours = [&](const char* name) {
    return state.at(std::string("base_model.model.") + name).to_vector<float>();
  };
  EXPECT_EQ(file.find_tensor("blk.1.ffn_down.weight.lora_a")->shape, (Shape{4, 20}));
  EXPECT_EQ(file.find_tensor("blk.1.ffn_down.weight.lora_b")->shape, (Shape{24, 4}));
  EXPECT_EQ(values("blk.1.ffn_down.weight.lora_a"), ours("model.layers.1.mlp.down_proj.lora_A.weight"));
  EXPECT_EQ(values("blk.0.attn_v.weight.lora_b"), ours("model.layers.0.self_attn.v_proj.lora_B.weight"));
  EXPECT_EQ(values("output.weight.lora_b"), ours("lm_head.lora_B.weight"));
  EXPECT_EQ(values("blk.0.attn_k.weight.lora_a"), ours("model.layers.0.self_attn.k_proj.lora_A.weight"));
  for (const auto& [theirs, name] :
       {std::pair("blk.0.attn_q.weight.lora_b", "model.layers.0.self_attn.q_proj.lora_B.weight"),
        std::pair("blk.1.attn_k.weight.lora_b", "model.layers.1.self_attn.k_proj.lora_B.weight")}) {
    const std::vector<float> turned = values(theirs), rows = ours(name);
    ASSERT_EQ(turned.size(), rows.size());
    for (size_t row = 0; row < turned.size() / 4; ++row) {  // heads of 6 rows: pairs there, halves here
      const size_t head = row / 6, s = row % 6 / 3, i = row % 3;
      for (size_t k = 0; k < 4; ++k) EXPECT_EQ(turned[(head * 6 + 2 * i + s) * 4 + k], rows[row * 4 + k]) << row;
    }
  }
}

// The others' rows lie in GGUF as they do here.
TEST(LoraFiles, GgufAdaptersOfOtherFamiliesKeepTheirRows) {
  const test::TemporaryFolder folder;
  nn::Llama model = make();
  const nn::Lora lora = adapters(model, {.rank = 4, .targets = {"*.q_proj", "*.k_proj"}});
  const nn::StateDict state = lora.state_dict();
  for (const char* architecture : {"qwen2", "qwen3", "gemma2", "gemma3"}) {
    nn::save_gguf_adapter(folder / "a.gguf", lora, tiny, architecture);
    const Gguf file = Gguf::read(folder / "a.gguf");
    EXPECT_EQ(file.at("general.architecture").as_text(), architecture);
    for (const auto& [theirs, name] : {std::pair("blk.0.attn_q.weight.lora_b", "layers.0.self_attn.q_proj"),
                                       std::pair("blk.1.attn_k.weight.lora_b", "layers.1.self_attn.k_proj")}) {
      EXPECT_EQ(file.find_tensor(theirs)->dequantised(),
                state.at(std::string("base_model.model.model.") + name + ".lora_B.weight").to_vector<float>());
    }
  }
  expect_error<ValueError>([&] { nn::save_gguf_adapter(folder / "b.gguf", lora, tiny, "phi3"); }, {"Phi 3"});
}

TEST(LoraFiles, GgufAdaptersRefuseWhatLlamaCppHasNot) {
  const test::TemporaryFolder folder;
  nn::Llama model = make();
  expect_error<ValueError>([&] { nn::save_gguf_adapter(folder / "a.gguf", adapters(model, {.dora = true}), tiny); },
                           {"DoRA"});
  expect_error<ValueError>(
      [&] { nn::save_gguf_adapter(folder / "a.gguf", adapters(model, {.targets = {"*embed_tokens"}}), tiny); },
      {"model.embed_tokens is adapted"});
  EXPECT_FALSE(std::filesystem::exists(folder / "a.gguf"));
}

}  // namespace
}  // namespace heddle::tests
