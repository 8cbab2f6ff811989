// A tokenizer into a GGUF file's metadata (data/tokenizer_gguf.h).
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/tokenizer_gguf.h"
#include "heddle/data/tokenizers/gguf_kinds.h"
#include "heddle/data/tokenizers/pipeline.h"

namespace heddle::data {
namespace {

[[noreturn]] void fail(std::string_view what) {
  throw ValueError(fmt::format("[gguf] the tokenizer {}, which is not written; save a folder instead", what));
}

// By which of "tokenizer.ggml.pre" these stages are done.
std::string_view kind_of(const Pipeline& p) {
  ByteKind wanted;
  for (const Normaliser& stage : p.normalisers) {
    if (!std::holds_alternative<ToNfc>(stage)) fail("changes texts before it cuts them");
    wanted.composed = true;
  }
  bool bytes = false;
  for (const Cut& cut : p.cuts) {
    if (const auto* words = std::get_if<CutWords>(&cut))
      wanted.words = words->rule;
    else if (const auto* digits = std::get_if<CutDigits>(&cut); digits != nullptr && digits->each)
      wanted.digits_apart = true;
    else if (const auto* level = std::get_if<CutBytes>(&cut); level != nullptr && !level->space_in_front)
      bytes = true;
    else
      fail("cuts texts in another way than files name");
  }
  if (!bytes) fail("is of no pairs of bytes");
  wanted.whole_words = std::get<PairModel>(p.model).whole_words;
  const auto found = std::ranges::find_if(byte_kinds, [&](const ByteKind& kind) {
    return kind.words == wanted.words && kind.digits_apart == wanted.digits_apart && kind.composed == wanted.composed &&
           kind.whole_words == wanted.whole_words;
  });
  if (found == byte_kinds.end()) fail("has stages that no name of a file stands for");
  return found->name;
}

void add_tokens(GgufWriter& writer, const Pipeline& p, int64_t vocabulary) {
  std::vector<std::string> names = p.names;
  names.resize(std::max(names.size(), static_cast<size_t>(vocabulary)));
  std::vector<int32_t> types(names.size(), static_cast<int32_t>(TokenType::normal));
  for (const AddedToken& token : p.added)
    types.at(static_cast<size_t>(token.token)) =
        static_cast<int32_t>(token.special ? TokenType::control : TokenType::user_defined);
  for (size_t i = 0; i < names.size(); ++i) {
    if (!names[i].empty()) continue;
    names[i] = fmt::format("[PAD{}]", i);
    types[i] = static_cast<int32_t>(TokenType::unused);
  }
  writer.add("tokenizer.ggml.tokens", std::span<const std::string>(names));
  writer.add("tokenizer.ggml.token_type", std::span<const int32_t>(types));
}

}  // namespace

void add_tokenizer(GgufWriter& writer, const Tokenizer& tokenizer, int64_t vocabulary) {
  const auto* pipeline = dynamic_cast<const PipelineTokenizer*>(&tokenizer);
  if (pipeline == nullptr || !std::holds_alternative<PairModel>(pipeline->pipeline().model))
    fail("is not one of pairs that a tokenizer.json of Hugging Face describes");
  const Pipeline& p = pipeline->pipeline();
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", kind_of(p));
  add_tokens(writer, p, vocabulary);
  std::vector<std::string> merges;
  for (const PairModel::Merge& merge : std::get<PairModel>(p.model).merges)
    merges.push_back(
        fmt::format("{} {}", p.names[static_cast<size_t>(merge.left)], p.names[static_cast<size_t>(merge.right)]));
  writer.add("tokenizer.ggml.merges", std::span<const std::string>(merges));
  const TextEnds& ends = tokenizer.ends();
  const auto is = [](const std::vector<int32_t>& around, const std::optional<int32_t>& token) {
    return around.empty() || (token && around == std::vector{*token});
  };
  if (!is(ends.before, ends.begin) || !is(ends.after, ends.end)) fail("puts several tokens around a text");
  if (ends.begin) writer.add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*ends.begin));
  writer.add("tokenizer.ggml.add_bos_token", !ends.before.empty());
  writer.add("tokenizer.ggml.add_eos_token", !ends.after.empty());
}

}  // namespace heddle::data
