#include "tools/export_language.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/data/tokenizer_gguf.h"
#include "heddle/nn/lora_files.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/nn/models/llama_gguf.h"
#include "heddle/nn/models/llama_merged.h"
#include "heddle/train/recipes/base_model.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

using train::is_gguf;

std::string lower_case(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return made;
}

nn::MergedForm form_of(const LanguageExport& o) {
  if (o.type.empty()) return {};
  std::vector<std::string> names;
  for (const GgmlBlock& block : ggml_blocks()) {
    names.push_back(lower_case(block.name));
    if (names.back() == lower_case(o.type)) return {block.type};
  }
  throw ValueError(fmt::format("[export] --type {} is none of {}", o.type, fmt::join(names, ", ")));
}

std::optional<nn::Lora> adapters_of(const LanguageExport& o, const nn::Llama& model) {
  if (o.adapter.empty()) return {};
  return nn::load_peft(o.adapter, model);
}

nn::MergedTypes of_gguf(const LanguageExport& o, DeviceContext& device) {
  if (!is_gguf(o.output))
    throw ValueError(fmt::format("[export] {}: a GGUF file is written as a .gguf file", o.output));
  const Gguf base = Gguf::map(o.model);
  const nn::Llama model = nn::load_llama(base, o.model, device);
  const std::optional<nn::Lora> adapters = adapters_of(o, model);
  return nn::save_merged(o.output, base, o.model, adapters ? &*adapters : nullptr, form_of(o));
}

nn::MergedTypes of_folder(const LanguageExport& o, DeviceContext& device, std::string& note) {
  const nn::LlamaFolder base(o.model);
  const nn::Llama model = base.load(device);
  const std::optional<nn::Lora> adapters = adapters_of(o, model);
  const nn::Lora* merged = adapters ? &*adapters : nullptr;
  if (!is_gguf(o.output)) return nn::save_merged_folder(o.output, base, o.model, merged, form_of(o));
  GgufWriter writer;
  note = data::add_tokenizer(writer, *data::load_tokenizer(o.model), base.config().options.vocabulary);
  if (const std::string chat = data::chat_template_of_folder(o.model); !chat.empty())
    writer.add("tokenizer.chat_template", chat);
  return nn::save_merged_gguf(o.output, base, merged, std::move(writer), form_of(o));
}

}  // namespace

void export_language_model(const LanguageExport& o) {
  if (fs::path(o.output).extension() == ".onnx")
    throw ValueError(fmt::format("[export] {}: a language model is written as a .gguf file or a folder", o.output));
  std::error_code code;
  if (fs::exists(o.output, code) && fs::canonical(o.model, code) == fs::canonical(o.output, code))
    throw ValueError(fmt::format("[export] {} is the model itself; name another output", o.output));
  form_of(o);
  DeviceContext& device = open_device(o.device, true);
  std::string note;
  const nn::MergedTypes types = is_gguf(o.model) ? of_gguf(o, device) : of_folder(o, device, note);
  Json counts = Json::object();
  std::vector<std::string> said;
  for (const auto& [type, count] : types) {
    counts[std::string(block_of(type).name)] = count;
    said.push_back(fmt::format("{} {}", count, block_of(type).name));
  }
  if (o.json) {
    Json line = {{"event", "exported"}, {"file", o.output}, {"tensors", counts}};
    if (!note.empty()) line["note"] = note;
    return print_json(line);
  }
  fmt::print("{}: tensors: {}\n", o.output, fmt::join(said, ", "));
  if (!note.empty()) fmt::print("{}: tokenizer: {}\n", o.output, note);
}

}  // namespace heddle::tools
