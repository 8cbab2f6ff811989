#include "heddle/nn/language_model.h"

#include <fmt/format.h>

#include "heddle/core/base/parse_json.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/init.h"

namespace heddle::nn {
namespace {

using Json = nlohmann::ordered_json;

// A description comes from a file: what cannot be meant is refused before parameters are made of it.
int64_t size_in(const nlohmann::json& json, const char* key, int64_t most = int64_t{1} << 24) {
  const nlohmann::json& number = json.at(key);
  const int64_t value = number.is_number_integer() ? number.get<int64_t>() : 0;  // nlohmann casts 1e300 as it is
  if (value < 1 || value > most)
    throw ValueError(fmt::format("[LanguageModel] {} is {}, expected 1 to {}", key, shortened(number.dump()), most));
  return value;
}
constexpr int64_t most_described_layers = 10'000;

GptOptions gpt_options(const nlohmann::json& json) {
  GptOptions o{.dropout = 0};
  o.vocabulary = size_in(json, "vocabulary");
  o.context = size_in(json, "context");
  o.layers = size_in(json, "layers", most_described_layers);
  o.heads = size_in(json, "heads");
  o.width = size_in(json, "width");
  json.at("tanh_gelu").get_to(o.tanh_gelu);
  if (!json.contains("experts")) return o;
  o.experts = size_in(json, "experts");
  o.top_k = size_in(json, "top_k");
  return o;
}

// What descriptions of a Llama have since families differ; others are as Llama has it.
void more_llama_options(const nlohmann::json& json, LlamaOptions& o) {
  const auto get = [&](const char* key, auto& value) {
    if (json.contains(key)) json.at(key).get_to(value);
  };
  const auto get_size = [&](const char* key, int64_t& value) {
    if (json.contains(key)) value = size_in(json, key, int64_t{1} << 31);
  };
  get_size("head_size", o.head_size);
  get_size("window", o.window);
  get_size("rope_size", o.rope_size);
  get("qkv_bias", o.qkv_bias);
  get("head_norms", o.head_norms);
  get("norms_behind", o.norms_behind);
  get("norm_around_one", o.norm_around_one);
  get("gelu", o.gelu);
  get("embedding_scale", o.embedding_scale);
  get("score_scale", o.score_scale);
  get("score_cap", o.score_cap);
  get("logit_cap", o.logit_cap);
  get("windowed", o.windowed);
  get("rope_factors", o.rope_factors);
  get("window_rope_base", o.window_rope_base);
}

LlamaOptions llama_options(const nlohmann::json& json) {
  LlamaOptions o;
  o.vocabulary = size_in(json, "vocabulary");
  o.context = size_in(json, "context");
  o.layers = size_in(json, "layers", most_described_layers);
  o.heads = size_in(json, "heads");
  o.key_heads = size_in(json, "key_heads");
  o.width = size_in(json, "width");
  o.hidden = size_in(json, "hidden");
  json.at("eps").get_to(o.eps);
  json.at("rope_base").get_to(o.rope_base);
  json.at("tied").get_to(o.tied);
  more_llama_options(json, o);
  return o;
}

RecurrentLmOptions recurrent_options(const nlohmann::json& json) {
  RecurrentLmOptions o;
  o.vocabulary = size_in(json, "vocabulary");
  o.width = size_in(json, "width");
  o.hidden = size_in(json, "hidden");
  o.layers = size_in(json, "layers", most_described_layers);
  const std::string cell = json.at("cell");
  if (cell != "lstm" && cell != "gru")
    throw ValueError(fmt::format("[LanguageModel] the cell is '{}'; known: lstm, gru", shortened(cell)));
  o.cell = cell == "gru" ? RecurrentCellKind::gru : RecurrentCellKind::lstm;
  json.at("tied").get_to(o.tied);
  return o;
}

}  // namespace

LanguageModel::LanguageModel(std::shared_ptr<Gpt> model) : gpt_(std::move(model)) {}
LanguageModel::LanguageModel(std::shared_ptr<Llama> model) : llama_(std::move(model)) {}
LanguageModel::LanguageModel(std::shared_ptr<RecurrentLm> model) : recurrent_(std::move(model)) {}
std::string LanguageModel::description() const {
  if (gpt_) return describe(gpt_->options());
  return llama_ ? describe(llama_->options()) : describe(recurrent_->options());
}
Module& LanguageModel::module() const {
  if (gpt_) return *gpt_;
  return llama_ ? static_cast<Module&>(*llama_) : *recurrent_;
}
int64_t LanguageModel::vocabulary() const {
  if (gpt_) return gpt_->options().vocabulary;
  return llama_ ? llama_->options().vocabulary : recurrent_->options().vocabulary;
}

std::string describe(const GptOptions& o) {
  Json json{{"type", "gpt"},    {"vocabulary", o.vocabulary}, {"context", o.context},    {"layers", o.layers},
            {"heads", o.heads}, {"width", o.width},           {"tanh_gelu", o.tanh_gelu}};
  if (o.experts > 0) {
    json["experts"] = o.experts;
    json["top_k"] = o.top_k;  // places of experts are counted in training alone
  }
  return json.dump();
}

// What is as Llama has it is left out.
std::string describe(const LlamaOptions& o) {
  Json json{{"type", "llama"},  {"vocabulary", o.vocabulary}, {"context", o.context}, {"layers", o.layers},
            {"heads", o.heads}, {"key_heads", o.key_heads},   {"width", o.width},     {"hidden", o.hidden},
            {"eps", o.eps},     {"rope_base", o.rope_base},   {"tied", o.tied}};
  const auto add = [&](const char* key, const auto& value, const auto& usual) {
    if (value != usual) json[key] = value;
  };
  const LlamaOptions usual;
  add("head_size", o.head_size, usual.head_size);
  add("qkv_bias", o.qkv_bias, usual.qkv_bias);
  add("head_norms", o.head_norms, usual.head_norms);
  add("norms_behind", o.norms_behind, usual.norms_behind);
  add("norm_around_one", o.norm_around_one, usual.norm_around_one);
  add("gelu", o.gelu, usual.gelu);
  add("embedding_scale", o.embedding_scale, usual.embedding_scale);
  add("score_scale", o.score_scale, usual.score_scale);
  add("score_cap", o.score_cap, usual.score_cap);
  add("logit_cap", o.logit_cap, usual.logit_cap);
  add("window", o.window, usual.window);
  add("windowed", o.windowed, usual.windowed);
  add("rope_size", o.rope_size, usual.rope_size);
  add("rope_factors", o.rope_factors, usual.rope_factors);
  add("window_rope_base", o.window_rope_base, usual.window_rope_base);
  return json.dump();
}

std::string describe(const RecurrentLmOptions& o) {
  return Json{{"type", "recurrent"}, {"vocabulary", o.vocabulary},
              {"width", o.width},    {"hidden", o.hidden},
              {"layers", o.layers},  {"cell", o.cell == RecurrentCellKind::gru ? "gru" : "lstm"},
              {"tied", o.tied}}
      .dump();
}

LanguageModel::LanguageModel(const std::string& description, DeviceRef device) {
  const init::SkipScope skip;
  const nlohmann::json json = parse_json(description, "[LanguageModel] the description");
  try {
    const std::string type = json.at("type");
    if (type == "gpt")
      gpt_ = std::make_shared<Gpt>(gpt_options(json), ParameterOptions{.device = device});
    else if (type == "llama")
      llama_ = std::make_shared<Llama>(llama_options(json), ParameterOptions{.device = device});
    else if (type == "recurrent")
      recurrent_ = std::make_shared<RecurrentLm>(recurrent_options(json), ParameterOptions{.device = device});
    else
      throw ValueError(fmt::format("[LanguageModel] the type is '{}'; known: gpt, llama, recurrent", shortened(type)));
  } catch (const nlohmann::json::exception& error) {
    throw ValueError(fmt::format("[LanguageModel] not a description of a language model: {}", error.what()));
  }
  module().eval();
}

DecoderPtr LanguageModel::decoder(const DecoderOptions& o) const {
  if (recurrent_ && !o.cache) throw ValueError("[LanguageModel] a recurrent model has no cache to do without");
  if (recurrent_) return cached_decoder(*recurrent_, o.batch);
  if (llama_) return o.cache ? cached_decoder(*llama_, o.batch, o.context) : uncached_decoder(*llama_, o.batch);
  return o.cache ? cached_decoder(*gpt_, o.batch) : uncached_decoder(*gpt_, o.batch);
}

}  // namespace heddle::nn
