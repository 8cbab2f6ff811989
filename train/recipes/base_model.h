// The language model that a run begins with: its network, its tokenizer, and how it is talked to.
//
// Errors: IoError of the files, ValueError where tokenizer and network do not fit. Thread safety: none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/core/device/device_ref.h"
#include "heddle/data/tokenizer.h"
#include "heddle/nn/models/llama.h"

namespace heddle::train {

struct BaseModel {
  std::shared_ptr<nn::Llama> network;  // in evaluation mode
  data::TokenizerPtr tokenizer;
  std::string chat_template;  // the model's own text; empty: it has none
  std::vector<int32_t> ends;  // tokens each of which ends an answer
  std::string architecture;   // its name in GGUF
};

// A GGUF file, or a folder of Hugging Face with config.json, safetensors and tokenizer.json. `packed`: blocks of a GGUF
// file stay as they are; otherwise they become f32.
BaseModel load_base_model(const std::string& path, bool packed, DeviceRef device = {});

// The same without its network: for those who look at data alone.
BaseModel read_base_text(const std::string& path);

}  // namespace heddle::train
