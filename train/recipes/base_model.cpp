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
                          const std::string& tokenizer) {
  check_path(path);
  BaseModel base;
  if (is_gguf(path)) {
    const Gguf file = Gguf::map(path);
    base = text_of(file, path, tokenizer);
    base.network = std::make_shared<nn::Llama>(nn::load_llama(file, path, device, weights));
  } else {
    const nn::LlamaFolder folder(path);
    base = text_of(folder, path, tokenizer);
    base.network = std::make_shared<nn::Llama>(folder.load(device));
  }
  data::check_vocabulary(*base.tokenizer, base.network->options().vocabulary);
  return base;
}

std::shared_ptr<nn::Llama> load_base_network(const std::string& path, nn::GgufWeights weights, DeviceRef device) {
  check_path(path);
  if (is_gguf(path)) return std::make_shared<nn::Llama>(nn::load_llama(Gguf::map(path), path, device, weights));
  return std::make_shared<nn::Llama>(nn::LlamaFolder(path).load(device));
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
