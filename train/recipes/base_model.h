// The language model that a run begins with: its network, its tokenizer, and how it is talked to.
//
// Errors: IoError of the files, ValueError where tokenizer and network do not fit. Thread safety: none.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/device/device_ref.h"
#include "heddle/data/chat_template.h"
#include "heddle/data/tokenizer.h"
#include "heddle/nn/models/llama.h"
#include "heddle/nn/models/llama_gguf.h"

namespace heddle::train {

struct BaseModel {
  std::shared_ptr<nn::Llama> network;  // in evaluation mode
  data::TokenizerPtr tokenizer;
  std::string chat_template;    // the model's own text; empty: it has none
  std::vector<int32_t> before;  // tokens in front of a text
  std::vector<int32_t> ends;    // tokens each of which ends an answer
  std::string architecture;     // its name in GGUF
};

// Whether the name is that of a GGUF file (.gguf).
bool is_gguf(const std::string& path);
// Whether it is a GGUF file (.gguf), or a folder of Hugging Face with a config.json.
bool is_base_model(const std::string& path);

// The blocks that the matrices of a model in floating point become, as --quantise names them beside --method; none
// where it names none. ValueError: for what is no type of blocks, beside another method than qlora, for a GGUF file,
// and for qlora of a folder without it.
std::optional<GgmlType> blocks_of_base(const std::string& quantise, const std::string& method, const std::string& path);

// A GGUF file, whose blocks are as `weights` says, or a folder of Hugging Face with config.json, safetensors and
// tokenizer.json, whose weights keep their dtype. `tokenizer`: path of one to take instead of the model's own.
// `blocks`: of a folder alone, how the matrices of its layers are packed (nn/models/llama_folder.h).
BaseModel load_base_model(const std::string& path, nn::GgufWeights weights, DeviceRef device = {},
                          const std::string& tokenizer = {}, std::optional<GgmlType> blocks = {});

// Its network alone.
std::shared_ptr<nn::Llama> load_base_network(const std::string& path, nn::GgufWeights weights, DeviceRef device = {},
                                             std::optional<GgmlType> blocks = {});

// The same without its network: for those who look at data alone.
BaseModel read_base_text(const std::string& path);

// The chat template of that name, or where it is empty the model's own. ValueError that lists the names where the
// model has none, or one that is unknown.
data::ChatTemplate template_of(const BaseModel& base, const std::string& name);

}  // namespace heddle::train
