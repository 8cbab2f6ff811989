#include "heddle/train/recipes/base_model.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/tokenizer_file.h"
#include "heddle/data/tokenizer_gguf.h"
#include "heddle/nn/models/llama_folder.h"
#include "heddle/nn/models/llama_gguf.h"

namespace heddle::train {
namespace {

bool is_gguf(const std::string& path) { return fs::path(path).extension() == ".gguf"; }

void check_path(const std::string& path) {
  if (is_gguf(path) || nn::is_llama_folder(path)) return;
  throw IoError(fmt::format(
      "[finetune] {}: neither a GGUF file (.gguf) nor a folder with config.json of a language model", path));
}

BaseModel text_of(const Gguf& file, const std::string& path) {
  const data::GgufTokenizer read = data::tokenizer_of(file, path);
  BaseModel base{nullptr,
                 read.tokenizer,
                 data::chat_template_of(file),
                 {},
                 std::string(file.at("general.architecture").as_text())};
  if (read.end) base.ends.push_back(*read.end);
  return base;
}

BaseModel text_of(const nn::LlamaFolder& folder, const std::string& path) {
  return {nullptr, data::load_tokenizer(path), data::chat_template_of_folder(path), folder.config().ends,
          folder.config().architecture};
}

}  // namespace

BaseModel read_base_text(const std::string& path) {
  check_path(path);
  return is_gguf(path) ? text_of(Gguf::map(path), path) : text_of(nn::LlamaFolder(path), path);
}

BaseModel load_base_model(const std::string& path, bool packed, DeviceRef device) {
  check_path(path);
  BaseModel base;
  if (is_gguf(path)) {
    const Gguf file = Gguf::map(path);
    base = text_of(file, path);
    const auto how = packed ? nn::GgufWeights::packed : nn::GgufWeights::unpacked;
    base.network = std::make_shared<nn::Llama>(nn::load_llama(file, path, device, how));
  } else if (packed) {
    throw ValueError(fmt::format("[finetune] {}: only blocks of a GGUF file stay packed; use --method lora", path));
  } else {
    const nn::LlamaFolder folder(path);
    base = text_of(folder, path);
    base.network = std::make_shared<nn::Llama>(folder.load(device));
  }
  data::check_vocabulary(*base.tokenizer, base.network->options().vocabulary);
  return base;
}

}  // namespace heddle::train
