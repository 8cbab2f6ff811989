// The teacher of `heddle finetune --objective distil`: another language model with the same tokens.
//
// Errors: IoError of the file; ValueError "[finetune] --teacher ..." for one whose tokens mean something else, or that
// does not read rows of the length. Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/nn/models/llama.h"
#include "heddle/train/recipes/base_model.h"
#include "heddle/train/recipes/finetune_data.h"

namespace heddle::train {

struct Teacher {
  std::shared_ptr<nn::Llama> network;     // frozen, in evaluation mode; blocks of a GGUF file stay packed
  int64_t classes = 0;                    // the first so many tokens mean the same to both models
  std::vector<std::string> remarks = {};  // what of the vocabularies is not compared
};
// Rows have `length` tokens; `data` are the examples, whose tokens both have to know. Of a base without its tokenizer,
// which a plan has, no tokens are compared: the shorter vocabulary is taken to be the same.
Teacher load_teacher(const std::string& path, const BaseModel& base, const ChatData& data, int64_t length,
                     DeviceRef device);

// How many tokens, from the first, mean the same to both tokenizers. Models are padded to a longer vocabulary in
// different ways, so where one has no more tokens, or only such as [PAD7], the others may have any; ValueError where
// tokens that both know are different.
int64_t common_tokens(const data::Tokenizer& base, const data::Tokenizer& teacher, const std::string& path);

}  // namespace heddle::train
