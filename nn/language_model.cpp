#include "nn/language_model.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "nn/init.h"

namespace heddle::nn {
namespace {

using Json = nlohmann::ordered_json;

GptOptions gpt_options(const Json& json) {
  GptOptions o{.dropout = 0};
  json.at("vocabulary").get_to(o.vocabulary);
  json.at("context").get_to(o.context);
  json.at("layers").get_to(o.layers);
  json.at("heads").get_to(o.heads);
  json.at("width").get_to(o.width);
  json.at("tanh_gelu").get_to(o.tanh_gelu);
  return o;
}

RecurrentLmOptions recurrent_options(const Json& json) {
  RecurrentLmOptions o;
  json.at("vocabulary").get_to(o.vocabulary);
  json.at("width").get_to(o.width);
  json.at("hidden").get_to(o.hidden);
  json.at("layers").get_to(o.layers);
  const std::string cell = json.at("cell");
  if (cell != "lstm" && cell != "gru") throw ValueError(fmt::format("[LanguageModel] the cell is '{}'; known: lstm, gru", cell));
  o.cell = cell == "gru" ? RecurrentCellKind::gru : RecurrentCellKind::lstm;
  json.at("tied").get_to(o.tied);
  return o;
}

}  // namespace

std::string describe(const GptOptions& o) {
  return Json{{"type", "gpt"}, {"vocabulary", o.vocabulary}, {"context", o.context}, {"layers", o.layers}, {"heads", o.heads}, {"width", o.width}, {"tanh_gelu", o.tanh_gelu}}.dump();
}

std::string describe(const RecurrentLmOptions& o) {
  return Json{{"type", "recurrent"}, {"vocabulary", o.vocabulary}, {"width", o.width}, {"hidden", o.hidden}, {"layers", o.layers}, {"cell", o.cell == RecurrentCellKind::gru ? "gru" : "lstm"}, {"tied", o.tied}}
      .dump();
}

LanguageModel::LanguageModel(const std::string& description, DeviceContext* device) {
  const init::SkipScope skip;
  try {
    const Json json = Json::parse(description);
    const std::string type = json.at("type");
    if (type == "gpt") gpt_ = std::make_shared<Gpt>(gpt_options(json), device);
    else if (type == "recurrent") recurrent_ = std::make_shared<RecurrentLm>(recurrent_options(json), device);
    else throw ValueError(fmt::format("[LanguageModel] the type is '{}'; known: gpt, recurrent", type));
  } catch (const Json::exception& error) {
    throw ValueError(fmt::format("[LanguageModel] not a description of a language model: {}", error.what()));
  }
  module().eval();
}

DecoderPtr LanguageModel::decoder(int64_t batch, bool cache) const {
  if (cache) return gpt_ ? cached_decoder(*gpt_, batch) : cached_decoder(*recurrent_, batch);
  if (!gpt_) throw ValueError("[LanguageModel] a recurrent model has no cache to do without");
  return uncached_decoder(*gpt_, batch);
}

}  // namespace heddle::nn
