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
constexpr int64_t most_layers = 10'000;

GptOptions gpt_options(const nlohmann::json& json) {
  GptOptions o{.dropout = 0};
  o.vocabulary = size_in(json, "vocabulary");
  o.context = size_in(json, "context");
  o.layers = size_in(json, "layers", most_layers);
  o.heads = size_in(json, "heads");
  o.width = size_in(json, "width");
  json.at("tanh_gelu").get_to(o.tanh_gelu);
  return o;
}

RecurrentLmOptions recurrent_options(const nlohmann::json& json) {
  RecurrentLmOptions o;
  o.vocabulary = size_in(json, "vocabulary");
  o.width = size_in(json, "width");
  o.hidden = size_in(json, "hidden");
  o.layers = size_in(json, "layers", most_layers);
  const std::string cell = json.at("cell");
  if (cell != "lstm" && cell != "gru")
    throw ValueError(fmt::format("[LanguageModel] the cell is '{}'; known: lstm, gru", shortened(cell)));
  o.cell = cell == "gru" ? RecurrentCellKind::gru : RecurrentCellKind::lstm;
  json.at("tied").get_to(o.tied);
  return o;
}

}  // namespace

LanguageModel::LanguageModel(std::shared_ptr<Gpt> model) : gpt_(std::move(model)) {}
LanguageModel::LanguageModel(std::shared_ptr<RecurrentLm> model) : recurrent_(std::move(model)) {}
std::string LanguageModel::description() const {
  return gpt_ ? describe(gpt_->options()) : describe(recurrent_->options());
}
Module& LanguageModel::module() const { return gpt_ ? static_cast<Module&>(*gpt_) : *recurrent_; }
int64_t LanguageModel::vocabulary() const {
  return gpt_ ? gpt_->options().vocabulary : recurrent_->options().vocabulary;
}

std::string describe(const GptOptions& o) {
  return Json{{"type", "gpt"},    {"vocabulary", o.vocabulary}, {"context", o.context},    {"layers", o.layers},
              {"heads", o.heads}, {"width", o.width},           {"tanh_gelu", o.tanh_gelu}}
      .dump();
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
    else if (type == "recurrent")
      recurrent_ = std::make_shared<RecurrentLm>(recurrent_options(json), ParameterOptions{.device = device});
    else
      throw ValueError(fmt::format("[LanguageModel] the type is '{}'; known: gpt, recurrent", shortened(type)));
  } catch (const nlohmann::json::exception& error) {
    throw ValueError(fmt::format("[LanguageModel] not a description of a language model: {}", error.what()));
  }
  module().eval();
}

DecoderPtr LanguageModel::decoder(const DecoderOptions& o) const {
  if (o.cache) return gpt_ ? cached_decoder(*gpt_, o.batch) : cached_decoder(*recurrent_, o.batch);
  if (!gpt_) throw ValueError("[LanguageModel] a recurrent model has no cache to do without");
  return uncached_decoder(*gpt_, o.batch);
}

}  // namespace heddle::nn
