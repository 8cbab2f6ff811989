// Folders of Hugging Face as GGUF files: of each family the file gives the folder's logits, which
// llama_families_test.cpp holds against transformers; what its architecture cannot say is refused by name.
#include <cmath>
#include <filesystem>

#include "heddle/nn/models/llama_digest.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/nn/models/llama_gguf.h"
#include "heddle/nn/models/llama_gguf_options.h"
#include "heddle/nn/models/llama_merged.h"
#include "heddle/nn/nn.h"
#include "tests/nn/llama_folder_support.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

Values logits_on(nn::Llama& model, DeviceContext& device) {
  const NoGradScope no_grad;
  const std::vector<int32_t> tokens{3, 14, 7, 7, 0, 28, 5, 11, 2, 19, 8};
  return model(Tensor::from_vector(tokens, {1, 11}, &device)).to_doubles();
}

class LlamaFolderToGgufTest : public DeviceTest {};

TEST_P(LlamaFolderToGgufTest, SaysTheSame) {
  const std::map<std::string, std::string> architectures = {
      {"llama", "llama"}, {"llama3", "llama"}, {"linear", "llama"},  {"mistral", "llama"}, {"qwen2", "qwen2"},
      {"qwen3", "qwen3"}, {"phi3", "phi3"},    {"gemma2", "gemma2"}, {"gemma3", "gemma3"}};
  for (const auto& [name, architecture] : architectures) {
    const LlamaCaseFolder folder = llama_case_of_gguf(name);
    const nn::LlamaFolder base(folder.path());
    const std::string path = folder / "m.gguf";
    nn::save_merged_gguf(path, base, nullptr, {}, {.type = GgmlType::f32});
    const Gguf file = Gguf::read(path);
    EXPECT_EQ(file.at("general.architecture").as_text(), architecture);
    nn::Llama wanted = base.load(reference()), found = nn::load_llama(file, path, device());
    EXPECT_EQ(nn::digest_of(found), nn::digest_of(wanted)) << name;
    const Values all = logits_on(wanted, reference()), others = logits_on(found, device());
    for (size_t i = 0; i < all.size(); ++i) ASSERT_NEAR(others[i], all[i], 1e-4) << name << " " << i;
  }
}
HEDDLE_DEVICE_TESTS(LlamaFolderToGgufTest);

TEST(LlamaFolderToGguf, MetadataAreTheArchitectures) {
  const auto written = [](const std::string& name) {
    const LlamaCaseFolder folder = llama_case_of_gguf(name);
    nn::save_merged_gguf(folder / "m.gguf", nn::LlamaFolder(folder.path()), nullptr, {});
    return Gguf::read(folder / "m.gguf");
  };
  const Gguf phi3 = written("phi3"), gemma2 = written("gemma2"), gemma3 = written("gemma3"), linear = written("linear");
  EXPECT_EQ(phi3.at("phi3.rope.dimension_count").as_unsigned(), 4u);
  EXPECT_EQ(phi3.at("phi3.attention.sliding_window").as_unsigned(), 6u);
  EXPECT_EQ(phi3.find_tensor("blk.1.attn_qkv.weight")->shape, (Shape{64, 32}));
  EXPECT_EQ(phi3.find_tensor("blk.1.ffn_up.weight")->shape, (Shape{40, 32}));
  EXPECT_EQ(gemma2.at("gemma2.attn_logit_softcapping").as_number(), 2);
  EXPECT_EQ(gemma2.at("gemma2.final_logit_softcapping").as_number(), 9);
  EXPECT_EQ(gemma2.at("gemma2.attention.sliding_window").as_unsigned(), 4u);
  EXPECT_EQ(gemma3.at("gemma3.rope.scaling.factor").as_number(), 2);
  EXPECT_EQ(gemma3.at("gemma3.rope.freq_base").as_number(), 900);
  EXPECT_EQ(gemma3.at("gemma3.rope.freq_base_swa").as_number(), 40);
  EXPECT_EQ(gemma3.find("gemma3.attn_logit_softcapping"), nullptr);
  EXPECT_EQ(linear.at("llama.rope.scaling.type").as_text(), "linear");
  EXPECT_EQ(linear.find_tensor(nn::gguf_rope_factors), nullptr);
  // The 1 of 1 + w, in f32 whatever the matrices are in.
  const std::string norm = "model.layers.1.self_attn.q_norm.weight";
  const GgufTensor& stored = *gemma3.find_tensor("blk.1.attn_q_norm.weight");
  EXPECT_EQ(stored.type, GgmlType::f32);
  EXPECT_FLOAT_EQ(stored.dequantised()[3], 1 + weight_of_name(norm, {10})[3]);
}

TEST(LlamaFolderToGguf, WhatAnArchitectureCannotSayIsRefused) {
  const auto refused = [](const std::string& name, auto change, const char* why, const char* besides = "") {
    LlamaCaseFolder folder = llama_case_of_gguf(name);
    change(folder);
    folder.save();
    expect_error<ValueError>(
        [&] { nn::save_merged_gguf(folder / "m.gguf", nn::LlamaFolder(folder.path()), nullptr, {}); },
        {"[export] GGUF files of", why, besides});
    EXPECT_FALSE(std::filesystem::exists(folder / "m.gguf"));
  };
  const Json stretched = {{"rope_type", "llama3"},   {"rope_theta", 50.0},
                          {"factor", 8.0},           {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 40}};
  refused(
      "mistral", [](auto& f) { f.config["sliding_window"] = 5; }, "llama do not say", "a window of 5 positions");
  refused(
      "qwen2", [](auto& f) { f.config["use_sliding_window"] = true; }, "qwen2 do not say", "window of 4");
  refused(
      "gemma2", [](auto& f) { f.config["query_pre_attn_scalar"] = 12; }, "scores that are multiplied by 0.2886");
  refused(
      "gemma2", [](auto& f) { f.config["attn_logit_softcapping"] = nullptr; }, "a cap of 0 of scores");
  refused(
      "gemma2", [](auto& f) { f.config["final_logit_softcapping"] = nullptr; }, "logits without a cap");
  refused(
      "gemma2", [](auto& f) { f.config["sliding_window"] = nullptr; }, "a window of 0 positions");
  refused(
      "gemma3", [](auto& f) { f.config["attn_logit_softcapping"] = 3.0; }, "a cap of 3 of scores");
  refused(
      "gemma3", [](auto& f) { f.config["_sliding_window_pattern"] = 3; }, "a window of 5 positions");
  refused(
      "phi3", [&](auto& f) { f.config["rope_parameters"].update(stretched); }, "a factor each");
  refused(
      "qwen3", [](auto& f) { f.config["rope_parameters"]["partial_rotary_factor"] = 0.4; }, "turn in part");
  refused(
      "gemma2",
      [](auto& f) {
        f.config["tie_word_embeddings"] = false;
        f.config["query_pre_attn_scalar"] = 12;
        f.weights["lm_head.weight"] = f.weights["model.embed_tokens.weight"];
      },
      "multiplied by 0.2886", "is not the embedding");
  // A window that never hides a key is none.
  LlamaCaseFolder wide = llama_case_of_gguf("mistral");
  wide.config["sliding_window"] = 64;
  wide.save();
  EXPECT_NO_THROW(nn::save_merged_gguf(wide / "m.gguf", nn::LlamaFolder(wide.path()), nullptr, {}));
}

// Names of tensors that no such model has have none in a file.
TEST(GgufNames, UnknownOnesAreEmpty) {
  for (const char* name : {"", "model.layers.0", "model.layers.0.weight", "model.layers.0.mlp.other.weight",
                           "transformer.h.0.attn.weight", "lm_head", "model.layers."})
    EXPECT_EQ(nn::gguf_name(name, {}), "") << name;
  EXPECT_EQ(nn::gguf_name("model.layers.12.self_attn.o_proj.weight", {}), "blk.12.attn_output.weight");
  EXPECT_EQ(nn::gguf_name("lm_head.weight", {}), "output.weight");
}

// A window of 0 in a file is none, as converters write it for Phi 4.
TEST(LlamaFolderToGguf, AWindowOfNothingIsNone) {
  LlamaCaseFolder folder = llama_case_of_gguf("phi3");
  folder.config["sliding_window"] = nullptr;
  folder.save();
  GgufWriter writer;
  writer.add("phi3.attention.sliding_window", uint32_t{0});
  nn::save_merged_gguf(folder / "m.gguf", nn::LlamaFolder(folder.path()), nullptr, std::move(writer));
  EXPECT_EQ(nn::llama_options(Gguf::read(folder / "m.gguf"), "m.gguf").window, 0);
}

}  // namespace
}  // namespace heddle::tests
