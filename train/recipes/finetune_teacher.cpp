#include "heddle/train/recipes/finetune_teacher.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"

namespace heddle::train {
namespace {

// What GGUF files call the rows behind a tokenizer's last token.
bool is_padding(const data::Tokenizer& tokenizer, int32_t token) {
  return tokenizer.text_of(token) == fmt::format("[PAD{}]", token);
}

void check_tokens(const std::vector<data::ChatTokens>& examples, int64_t classes, const std::string& path) {
  for (const data::ChatTokens& example : examples) {
    const auto most = std::ranges::max_element(example.tokens);
    if (most != example.tokens.end() && *most >= classes)
      throw ValueError(
          fmt::format("[finetune] --teacher {}: the examples hold token {}, of which it shares the first {}", path,
                      *most, classes));
  }
}

}  // namespace

int64_t common_tokens(const data::Tokenizer& base, const data::Tokenizer& teacher, const std::string& path) {
  const auto shorter = static_cast<int32_t>(std::min(base.size(), teacher.size()));
  int32_t same = 0;
  while (same < shorter && base.text_of(same) == teacher.text_of(same)) ++same;
  for (int32_t token = same; token < shorter; ++token) {
    const std::string &own = base.text_of(token), &other = teacher.text_of(token);
    if (own != other && !is_padding(base, token) && !is_padding(teacher, token))
      throw ValueError(fmt::format("[finetune] --teacher {} has another tokenizer: token {} is '{}', of the model '{}'",
                                   path, token, shortened(other), shortened(own)));
  }
  return same;
}

Teacher load_teacher(const std::string& path, const BaseModel& base, const ChatData& data, int64_t length,
                     DeviceRef device) {
  BaseModel read;
  if (base.tokenizer)
    read = load_base_model(path, nn::GgufWeights::packed, device);
  else
    read.network = load_base_network(path, nn::GgufWeights::packed, device);
  const nn::LlamaOptions &own = base.network->options(), &other = read.network->options();
  if (length > other.context)
    throw ValueError(
        fmt::format("[finetune] --length {}; --teacher {} reads at most {} tokens", length, path, other.context));
  read.network->requires_grad(false);
  if (!base.tokenizer) return {read.network, std::min(own.vocabulary, other.vocabulary)};
  Teacher made{read.network, common_tokens(*base.tokenizer, *read.tokenizer, path)};
  for (const auto* examples : {&data.training, &data.validation}) check_tokens(*examples, made.classes, path);
  const int64_t longer = std::max(own.vocabulary, other.vocabulary);
  if (made.classes < longer)
    made.remarks.push_back(
        fmt::format("[finetune] the first {} tokens are the same: of the model's {} logits and the teacher's {} the "
                    "others are not compared",
                    made.classes, own.vocabulary, other.vocabulary));
  return made;
}

}  // namespace heddle::train
