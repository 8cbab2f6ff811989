// The examples of `heddle finetune`: a file's conversations, texts or pairs of answers, as a model reads them.
//
// Invariants: the same share is held out for the same seed. Errors: IoError of the file, ValueError of options and
// templates. Thread safety: pure function.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/data/chat_template.h"
#include "heddle/train/config.h"
#include "heddle/train/recipes/base_model.h"

namespace heddle::train {

struct ChatData {
  std::vector<data::ChatTokens> training = {}, validation = {};                    // of pairs: the chosen answers
  std::vector<data::ChatTokens> rejected_training = {}, rejected_validation = {};  // of pairs alone, beside those
  std::vector<int32_t> prompt = {};                                                // of a held-out example, for samples
  std::vector<std::string> remarks = {};
};
// The template is that of model.template, or the model's own; pairs where model.objective is dpo or orpo.
ChatData read_chat_data(const Config& config, const BaseModel& base);

}  // namespace heddle::train
