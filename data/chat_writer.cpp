#include "heddle/data/chat_writer.h"

#include <algorithm>
#include <utility>

#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/unicode.h"

namespace heddle::data {

std::string_view trimmed_left(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (class_of(c.code) != CharacterClass::space) break;
    at += c.bytes;
  }
  return text.substr(at);
}

std::string_view trimmed_right(std::string_view text) {
  size_t end = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    at += c.bytes;
    if (class_of(c.code) != CharacterClass::space) end = at;
  }
  return text.substr(0, end);
}

ChatWriter::ChatWriter(const Tokenizer& tokenizer)
    : tokenizer_(tokenizer), pipeline_(dynamic_cast<const PipelineTokenizer*>(&tokenizer)) {}

void ChatWriter::text(std::string_view text, bool trained) {
  if (text.empty()) return;
  if (run_.marks.empty() || run_.marks.back().trained != trained) run_.marks.push_back({run_.text.size(), trained});
  run_.text += text;
}

void ChatWriter::token(int32_t token, bool trained) {
  const AddedToken* added = added_of(token);
  if (added != nullptr && added->takes_space_left) run_.text.resize(trimmed_right(run_.text).size());
  end_run();
  put(token, trained);
  run_.trims_left = added != nullptr && added->takes_space_right;
}

ChatTokens ChatWriter::finish() {
  end_run();
  return std::move(made_);
}

void ChatWriter::put(int32_t token, bool trained) {
  made_.tokens.push_back(token);
  made_.trained.push_back(trained ? 1 : 0);
}

const AddedToken* ChatWriter::added_of(int32_t token) const {
  if (pipeline_ == nullptr) return nullptr;
  for (const AddedToken& added : pipeline_->pipeline().added)
    if (added.token == token) return &added;
  return nullptr;
}

std::vector<int32_t> ChatWriter::encoded(std::string_view text) const {
  return pipeline_ != nullptr && !made_.tokens.empty() ? pipeline_->encode_inside(text) : tokenizer_.encode(text);
}

// A token belongs to what follows a mark unless the text up to the mark has it at the same place: one that stands on
// both sides is learned as a part of the answer.
void ChatWriter::end_run() {
  size_t skipped = 0;
  if (run_.trims_left) skipped = run_.text.size() - trimmed_left(run_.text).size();
  const std::string_view text = std::string_view(run_.text).substr(skipped);
  const std::vector<int32_t> tokens = encoded(text);
  std::vector<uint8_t> trained(tokens.size(), 0);
  for (const Run::Mark& mark : run_.marks) {
    const size_t at = std::min(mark.at - std::min(mark.at, skipped), text.size());
    const std::vector<int32_t> before = at == 0 ? std::vector<int32_t>() : encoded(text.substr(0, at));
    const size_t common = std::min(before.size(), tokens.size());
    const auto differs =
        std::mismatch(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(common), before.begin());
    std::fill(trained.begin() + (differs.first - tokens.begin()), trained.end(), mark.trained ? 1 : 0);
  }
  for (size_t i = 0; i < tokens.size(); ++i) put(tokens[i], trained[i] != 0);
  run_ = {};
}

}  // namespace heddle::data
