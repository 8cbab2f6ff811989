#include "tools/plan_model.h"

#include <fmt/format.h>

#include <map>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/transformer.h"
#include "heddle/io/read_file.h"
#include "heddle/nn/models/llama_families.h"
#include "tools/recorded_layers.h"
#include "tools/toml_values.h"

namespace heddle::tools {
namespace {

using distributed::TransformerConfig;
using train::TomlEntry;

const std::map<std::string, int64_t TransformerConfig::*>& sizes() {
  static const std::map<std::string, int64_t TransformerConfig::*> keys = {
      {"layers", &TransformerConfig::layers},
      {"width", &TransformerConfig::width},
      {"heads", &TransformerConfig::heads},
      {"vocabulary", &TransformerConfig::vocabulary},
      {"sequence", &TransformerConfig::sequence},
      {"key_heads", &TransformerConfig::key_heads},
      {"feed_forward", &TransformerConfig::feed_forward}};
  return keys;
}

const std::map<std::string, bool TransformerConfig::*>& flags() {
  static const std::map<std::string, bool TransformerConfig::*> keys = {
      {"gated", &TransformerConfig::gated},
      {"biases", &TransformerConfig::biases},
      {"tied", &TransformerConfig::tied},
      {"positions", &TransformerConfig::positions},
      {"dropout", &TransformerConfig::dropout},
      {"keeps_scores", &TransformerConfig::keeps_scores},
      {"recomputes", &TransformerConfig::recomputes},
      {"sequence_parallel", &TransformerConfig::sequence_parallel}};
  return keys;
}

DType precision_of(const TomlValues& file, const TomlEntry& entry) {
  const std::string name = file.text(entry);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
    if (name == name_of(dtype)) return dtype;
  file.refuse(entry, "must be f32, f16 or bf16");
}

TransformerConfig read_transformer(const std::string& path) {
  const TomlValues file("plan", path);
  TransformerConfig config{.name = path};
  for (const TomlEntry& entry : file.entries()) {
    if (const auto size = sizes().find(entry.key); size != sizes().end())
      config.*size->second = file.integer(entry);
    else if (const auto flag = flags().find(entry.key); flag != flags().end())
      config.*flag->second = file.flag(entry);
    else if (entry.key == "precision")
      config.dtype = precision_of(file, entry);
    else
      file.refuse(entry, "is no key of a transformer");
  }
  return config;
}

TransformerConfig read_folder_config(const std::string& path) {
  const nn::LlamaOptions o = nn::llama_config(read_text_file(path, "plan"), path).options;
  if (o.size_of_head() * o.heads != o.width)
    throw ValueError(
        fmt::format("[plan] {}: heads of {} do not make up the width {}", path, o.size_of_head(), o.width));
  return {.name = path,
          .layers = o.layers,
          .width = o.width,
          .heads = o.heads,
          .vocabulary = o.vocabulary,
          .sequence = o.context,
          .key_heads = o.key_heads,
          .feed_forward = o.hidden,
          .gated = true,
          .biases = false,
          .tied = o.tied,
          .positions = false,
          .dropout = false};
}

}  // namespace

PlannedModel read_planned_model(const std::string& text) {
  if (text.ends_with(".toml")) return {.layers = transformer_layers(read_transformer(text)), .step = ""};
  if (text.ends_with(".json")) return {.layers = transformer_layers(read_folder_config(text)), .step = ""};
  RecordedLayers recorded = record_layers(text);
  return {.layers = std::move(recorded.layers),
          .batch = recorded.batch,
          .parts = recorded.parts,
          .step = text,
          .in_parts = recorded.in_parts};
}

}  // namespace heddle::tools
