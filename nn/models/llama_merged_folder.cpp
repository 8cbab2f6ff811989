// Folders of Hugging Face with adapters in their weights (nn/models/llama_merged.h).
#include <fmt/format.h>

#include <array>
#include <list>
#include <string_view>

#include "heddle/core/base/error.h"
#include "heddle/core/base/ggml_quantise.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/path.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/models/llama_merged.h"
#include "heddle/nn/models/llama_merged_rows.h"

namespace heddle::nn {
namespace {

// What a folder has besides weights and config.json, as far as tokenizers and chats need it.
constexpr std::array beside = {"generation_config.json",  "tokenizer.json",    "tokenizer_config.json",
                               "tokenizer.model",         "vocab.json",        "merges.txt",
                               "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                               "chat_template.json"};

std::string in(const std::string& folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).string();
}

DType dtype_of(const MergedForm& form, DType own) {
  if (!form.type) return own;
  switch (*form.type) {
    case GgmlType::f32:
      return DType::f32;
    case GgmlType::f16:
      return DType::f16;
    case GgmlType::bf16:
      return DType::bf16;
    default:
      throw ValueError(fmt::format("[export] a folder's weights are f32, f16 or bf16; {} is for a .gguf file",
                                   block_of(*form.type).name));
  }
}

void copy_file(const std::string& from, const std::string& to) {
  std::error_code code;
  if (!fs::exists(from, code)) return;
  const std::vector<uint8_t> bytes = read_file(from, "export");
  write_file_atomically(to, std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

// config.json with the dtype that the weights have now.
std::string config_of(const std::string& path, const MergedForm& form) {
  nlohmann::ordered_json config =
      nlohmann::ordered_json::parse(read_text_file(path, "export"), nullptr, false);  // checked when it was opened
  if (form.type) {
    const DType dtype = dtype_of(form, DType::f32);
    const char* name = dtype == DType::f32 ? "float32" : dtype == DType::f16 ? "float16" : "bfloat16";
    config[config.contains("dtype") ? "dtype" : "torch_dtype"] = name;
  }
  return config.dump(2) + "\n";
}

void make_empty_folder(const std::string& folder) {
  std::error_code code;
  if (fs::exists(folder, code) &&
      (!fs::is_directory(folder, code) || fs::directory_iterator(fs::path(folder), code) != fs::directory_iterator()))
    throw ValueError(fmt::format("[export] {} is there already and is no empty folder; name another", folder));
  require_writable_folder(folder);
}

}  // namespace

MergedTypes save_merged_folder(const std::string& folder, const LlamaFolder& base, const std::string& base_path,
                               const Lora* adapters, const MergedForm& form) {
  const LlamaConfig& config = base.config();
  std::list<std::vector<uint8_t>> made;  // live until the file is written
  TensorBytesMap tensors;
  MergedTypes types;
  for (const auto& [name, own] : parts_of(config.options, config.fused)) {
    const TensorBytes& stored = base.stored(name);
    TensorBytes& tensor = tensors[name] = {dtype_of(form, stored.dtype), stored.shape, stored.bytes};
    ++types[ggml_type_of(tensor.dtype)];
    if (tensor.dtype == stored.dtype && !is_adapted(own, adapters)) continue;
    std::vector<float> values(static_cast<size_t>(stored.shape.numel()));
    dequantise(ggml_type_of(stored.dtype), stored.bytes, values);
    put_merged(own, adapters, config.options, false, values);
    tensor.bytes = made.emplace_back(quantise(ggml_type_of(tensor.dtype), values));
  }
  make_empty_folder(folder);
  for (const char* name : beside) copy_file(in(base_path, name), in(folder, name));
  write_safetensors(in(folder, "model.safetensors"), tensors, {{"format", "pt"}});
  write_file_atomically(in(folder, "config.json"), config_of(in(base_path, "config.json"), form));
  return types;
}

}  // namespace heddle::nn
