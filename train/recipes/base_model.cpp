#include "heddle/train/recipes/base_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/data/tokenizer_gguf.h"
#include "heddle/nn/models/llama_folder.h"

namespace heddle::train {
namespace {

void check_path(const std::string& path) {
  if (is_base_model(path)) return;
  throw IoError(
      fmt::format("[model] {}: neither a GGUF file (.gguf) nor a folder with config.json of a language model", path));
}

BaseModel text_of(const Gguf& file, const std::string& path, const std::string& tokenizer) {
  const data::GgufTokenizer read = data::tokenizer_of(file, path);
  BaseModel base{.network = nullptr,
                 .tokenizer = tokenizer.empty() ? read.tokenizer : data::load_tokenizer(tokenizer),
                 .chat_template = data::chat_template_of(file),
                 .before = read.tokenizer->ends().before,
                 .ends = {},
                 .architecture = std::string(file.at("general.architecture").as_text())};
  if (read.end) base.ends.push_back(*read.end);
  return base;
}

BaseModel text_of(const nn::LlamaFolder& folder, const std::string& path, const std::string& tokenizer) {
  BaseModel base{.network = nullptr,
                 .tokenizer = data::load_tokenizer(tokenizer.empty() ? path : tokenizer),
                 .chat_template = data::chat_template_of_folder(path),
                 .before = {},
                 .ends = folder.config().ends,
                 .architecture = folder.config().architecture};
  base.before = base.tokenizer->ends().before;
  return base;
}

}  // namespace

bool is_gguf(const std::string& path) { return fs::path(path).extension() == ".gguf"; }

bool is_base_model(const std::string& path) { return is_gguf(path) || nn::is_llama_folder(path); }

BaseModel read_base_text(const std::string& path) {
  check_path(path);
  return is_gguf(path) ? text_of(Gguf::map(path), path, {}) : text_of(nn::LlamaFolder(path), path, {});
}

BaseModel load_base_model(const std::string& path, nn::GgufWeights weights, DeviceRef device,
                          const std::string& tokenizer, std::optional<GgmlType> blocks) {
  check_path(path);
  BaseModel base;
  if (is_gguf(path)) {
    const Gguf file = Gguf::map(path);
    base = text_of(file, path, tokenizer);
    base.network = std::make_shared<nn::Llama>(nn::load_llama(file, path, device, weights));
  } else {
    const nn::LlamaFolder folder(path);
    base = text_of(folder, path, tokenizer);
    base.network = std::make_shared<nn::Llama>(folder.load(device, blocks));
  }
  data::check_vocabulary(*base.tokenizer, base.network->options().vocabulary);
  return base;
}

std::shared_ptr<nn::Llama> load_base_network(const std::string& path, nn::GgufWeights weights, DeviceRef device,
                                             std::optional<GgmlType> blocks) {
  check_path(path);
  if (is_gguf(path)) return std::make_shared<nn::Llama>(nn::load_llama(Gguf::map(path), path, device, weights));
  return std::make_shared<nn::Llama>(nn::LlamaFolder(path).load(device, blocks));
}

std::optional<GgmlType> blocks_of_base(const std::string& quantise, const std::string& method,
                                       const std::string& path) {
  const bool folder = nn::is_llama_folder(path), packs = method == "qlora";
  if (quantise.empty()) {
    if (!packs || !folder) return {};
    throw ValueError(
        fmt::format("[finetune] {} is in floating point: --method qlora packs it with --quantise nf4, q4_0, q4_1, "
                    "q8_0, q4_k or q6_k",
                    path));
  }
  const GgmlBlock* const block = find_block(quantise);
  if (block == nullptr || block->elements == 1)
    throw ValueError(fmt::format("[finetune] --quantise {} is none of nf4, q4_0, q4_1, q8_0, q4_k, q6_k", quantise));
  if (!packs) throw ValueError(fmt::format("[finetune] --quantise is for --method qlora; it is {}", method));
  if (!folder)
    throw ValueError(fmt::format("[finetune] --quantise is for a folder in floating point; {} is none", path));
  return block->type;
}

data::ChatTemplate template_of(const BaseModel& base, const std::string& name) {
  if (!name.empty()) return data::ChatTemplate::named(name);
  if (const auto own = data::ChatTemplate::recognised(base.chat_template)) return *own;
  throw ValueError(
      fmt::format("[chat template] the model {}; give --template, one of {}",
                  base.chat_template.empty() ? "brings no chat template" : "has a chat template that is unknown",
                  fmt::join(data::ChatTemplate::names(), ", ")));
}

}  // namespace heddle::train
