#include "heddle/data/tokenizer_file.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/preprocess.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

// The token that tokenizer_config.json names so: a text, or an object with the text as its content.
std::optional<int32_t> token_named(const nlohmann::json& config, const char* key, const Pipeline& pipeline,
                                   const std::string& path) {
  const auto found = config.is_object() ? config.find(key) : config.end();
  if (found == config.end() || found->is_null()) return {};
  const nlohmann::json& name = found->is_object() && found->contains("content") ? (*found)["content"] : *found;
  for (const AddedToken& added : pipeline.added)
    if (name == added.text) return added.token;
  throw IoError(fmt::format("[tokenizer] {}: {}: '{}' is no token that was added to the vocabulary", path, key,
                            shortened(name.is_string() ? name.get<std::string>() : name.dump(), 80)));
}

TokenizerPtr with_names(const PipelineTokenizer& tokenizer, const std::string& config_path) {
  const std::string text = read_text_file(config_path, "tokenizer");
  const nlohmann::json config = parse_json(text, fmt::format("[tokenizer] {}", config_path));
  Pipeline pipeline = tokenizer.pipeline();
  if (const auto begin = token_named(config, "bos_token", pipeline, config_path)) pipeline.ends.begin = begin;
  if (const auto end = token_named(config, "eos_token", pipeline, config_path)) pipeline.ends.end = end;
  return std::make_shared<PipelineTokenizer>(std::move(pipeline));
}

TokenizerPtr load_folder(const fs::path& folder) {
  const fs::path json = folder / "tokenizer.json", vocab = folder / "vocab.json",
                 config = folder / "tokenizer_config.json";
  if (!fs::exists(json) && fs::exists(vocab))
    return BpeTokenizer::load(vocab.string(), (folder / "merges.txt").string());
  TokenizerPtr tokenizer = parse_tokenizer(read_text_file(json.string(), "tokenizer"), json.string());
  const auto* pipeline = dynamic_cast<const PipelineTokenizer*>(tokenizer.get());
  return pipeline != nullptr && fs::exists(config) ? with_names(*pipeline, config.string()) : tokenizer;
}

}  // namespace

TokenizerPtr tokenizer_of(const Metadata& metadata, const std::string& path) {
  if (const auto found = metadata.find("tokenizer"); found != metadata.end())
    return parse_tokenizer(found->second, path);
  if (const auto found = metadata.find("preprocessing"); found != metadata.end()) {
    if (auto tokenizer = Preprocessing::parse(found->second, path).tokenizer) return tokenizer;
  }
  throw IoError(fmt::format("[tokenizer] {}: the file holds no tokenizer; give one with --tokenizer", path));
}

TokenizerPtr load_tokenizer(const std::string& path) {
  if (fs::is_directory(path)) return load_folder(path);
  if (fs::path(path).extension() == ".safetensors")
    return tokenizer_of(load_safetensors(path, &device("reference:0")).metadata, path);
  return parse_tokenizer(read_text_file(path, "tokenizer"), path);
}

}  // namespace heddle::data
