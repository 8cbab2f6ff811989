// A tokenizer into a GGUF file's metadata (data/tokenizer_gguf.h).
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/tokenizer_gguf.h"
#include "heddle/data/tokenizers/cut.h"
#include "heddle/data/tokenizers/gguf_kinds.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/tokenizers/scored_merges.h"

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
  for (const Cut& cut : p.cuts) {
    if (const auto* words = std::get_if<CutWords>(&cut))
      wanted.words = words->rule;
    else if (const auto* digits = std::get_if<CutDigits>(&cut); digits != nullptr && digits->each)
      wanted.digits_apart = true;
    else if (const auto* level = std::get_if<CutBytes>(&cut); level == nullptr || level->space_in_front)
      fail("cuts texts in another way than files name");
  }
  wanted.whole_words = std::get<PairModel>(p.model).whole_words;
  const auto found = std::ranges::find_if(byte_kinds, [&](const ByteKind& kind) {
    return kind.words == wanted.words && kind.digits_apart == wanted.digits_apart && kind.composed == wanted.composed &&
           kind.whole_words == wanted.whole_words;
  });
  if (found == byte_kinds.end()) fail("has stages that no name of a file stands for");
  return found->name;
}

// Tokens as a file lists them.
struct Tokens {
  std::vector<std::string> names;
  std::vector<TokenType> types;
};

Tokens tokens_of(const Pipeline& p, int64_t vocabulary) {
  Tokens made{.names = p.names};
  made.names.resize(std::max(p.names.size(), static_cast<size_t>(vocabulary)));
  made.types.resize(made.names.size(), TokenType::normal);
  for (const AddedToken& token : p.added)
    made.types.at(static_cast<size_t>(token.token)) = token.special ? TokenType::control : TokenType::user_defined;
  for (size_t i = 0; i < made.names.size(); ++i) {
    if (!made.names[i].empty()) continue;
    made.names[i] = fmt::format("[PAD{}]", i);
    made.types[i] = TokenType::unused;
  }
  return made;
}

void add_tokens(GgufWriter& writer, const Tokens& tokens) {
  if (std::set<std::string_view>(tokens.names.begin(), tokens.names.end()).size() != tokens.names.size())
    fail("has tokens that a file calls alike");
  std::vector<int32_t> types;
  for (const TokenType type : tokens.types) types.push_back(static_cast<int32_t>(type));
  writer.add("tokenizer.ggml.tokens", std::span<const std::string>(tokens.names));
  writer.add("tokenizer.ggml.token_type", std::span<const int32_t>(types));
}

void add_byte_pairs(GgufWriter& writer, const Pipeline& p, int64_t vocabulary) {
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.pre", kind_of(p));
  add_tokens(writer, tokens_of(p, vocabulary));
  std::vector<std::string> merges;
  for (const PairModel::Merge& merge : std::get<PairModel>(p.model).merges)
    merges.push_back(
        fmt::format("{} {}", p.names[static_cast<size_t>(merge.left)], p.names[static_cast<size_t>(merge.right)]));
  writer.add("tokenizer.ggml.merges", std::span<const std::string>(merges));
}

bool marks_spaces(const Normaliser& stage) {
  const auto* replace = std::get_if<Replace>(&stage);
  return replace != nullptr && replace->from == " " && replace->to == space_mark;
}

// What stands in front of a text, of the two ways to say it: normalisers (Llama 2, Phi 3, Gemma), or one cut that does
// not cut (Mistral).
MarkInFront mark_in_front(const Pipeline& p) {
  const auto* prepend = p.normalisers.empty() ? nullptr : std::get_if<Prepend>(&p.normalisers[0]);
  const size_t replace = prepend != nullptr ? 1 : 0;
  const auto is_idle = [](const Cut& cut) {  // no space is left behind the normalisers
    const auto* at = std::get_if<CutAt>(&cut);
    return at != nullptr && at->text == " ";
  };
  if (p.normalisers.size() == replace + 1 && marks_spaces(p.normalisers[replace]) &&
      (prepend == nullptr || prepend->text == space_mark) && std::ranges::all_of(p.cuts, is_idle))
    return prepend != nullptr ? MarkInFront::always : MarkInFront::never;
  const auto* spaces = p.cuts.size() == 1 ? std::get_if<CutSpaces>(&p.cuts[0]) : nullptr;
  if (!p.normalisers.empty() || spaces == nullptr || spaces->cut || spaces->mark != space_mark)
    fail("changes or cuts texts otherwise than SentencePiece");
  return spaces->in_front;
}

void check_decoding(const Pipeline& p, bool in_front) {
  const auto marks = [](const Decoding& stage) {
    const auto* replace = std::get_if<Replace>(&stage);
    return replace != nullptr && replace->from == space_mark && replace->to == " ";
  };
  const auto strips = [](const Decoding& stage) {
    const auto* strip = std::get_if<StripStart>(&stage);
    return strip != nullptr && strip->text == " ";
  };
  const std::vector<Decoding>& d = p.decoding;
  const bool as_sentence_piece = d.size() == (in_front ? 4 : 3) && marks(d[0]) &&
                                 std::holds_alternative<ByteNames>(d[1]) && std::holds_alternative<FuseText>(d[2]) &&
                                 (!in_front || strips(d[3]));
  if (!as_sentence_piece) fail("makes texts of tokens otherwise than SentencePiece");
}

Tokens sentence_pieces_of(const Pipeline& p, int64_t vocabulary) {
  Tokens made = tokens_of(p, vocabulary);
  if (p.unknown) made.types[static_cast<size_t>(*p.unknown)] = TokenType::unknown;
  std::set<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.insert(byte_name(static_cast<uint8_t>(byte)));
  for (size_t i = 0; i < made.names.size(); ++i) {
    if (made.types[i] == TokenType::normal && bytes.contains(made.names[i])) made.types[i] = TokenType::byte;
    if (made.types[i] == TokenType::user_defined) detail::replace_all(made.names[i], space_mark, " ");
  }
  return made;
}

// Metaspace's rule has exceptions that SentencePiece's has not.
std::string difference_of(const Pipeline& p) {
  const auto* spaces = p.cuts.empty() ? nullptr : std::get_if<CutSpaces>(&p.cuts[0]);
  if (spaces == nullptr || spaces->in_front == MarkInFront::never) return {};
  return fmt::format("a text that begins with a space{} gets one more in front, as SentencePiece has it",
                     spaces->in_front == MarkInFront::first ? ", or stands behind a token that was found," : "");
}

void add_sentence_pieces(GgufWriter& writer, const Pipeline& p, int64_t vocabulary) {
  const auto& model = std::get<PairModel>(p.model);
  if (!p.byte_fallback) fail("has no bytes for characters without a token");
  if (model.whole_words) fail("keeps pieces that are tokens whole");
  const bool in_front = mark_in_front(p) != MarkInFront::never;
  check_decoding(p, in_front);
  const Tokens tokens = sentence_pieces_of(p, vocabulary);
  std::vector<bool> mergeable;
  for (const TokenType type : tokens.types) mergeable.push_back(type == TokenType::normal);
  std::vector<float> scores;
  if (const std::string why = detail::scores_of_merges(tokens.names, model.merges, mergeable, scores); !why.empty())
    fail(fmt::format("merges in an order of no scores ({})", why));
  writer.add("tokenizer.ggml.model", "llama");
  writer.add("tokenizer.ggml.pre", "default");
  add_tokens(writer, tokens);
  writer.add("tokenizer.ggml.scores", std::span<const float>(scores));
  writer.add("tokenizer.ggml.add_space_prefix", in_front);
  if (p.unknown) writer.add("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(*p.unknown));
}

void add_ends(GgufWriter& writer, const TextEnds& ends) {
  const auto is = [](const std::vector<int32_t>& around, const std::optional<int32_t>& token) {
    return around.empty() || (token && around == std::vector{*token});
  };
  if (!is(ends.before, ends.begin) || !is(ends.after, ends.end)) fail("puts several tokens around a text");
  if (ends.begin) writer.add("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(*ends.begin));
  writer.add("tokenizer.ggml.add_bos_token", !ends.before.empty());
  writer.add("tokenizer.ggml.add_eos_token", !ends.after.empty());
}

}  // namespace

std::string add_tokenizer(GgufWriter& writer, const Tokenizer& tokenizer, int64_t vocabulary) {
  const auto* pipeline = dynamic_cast<const PipelineTokenizer*>(&tokenizer);
  if (pipeline == nullptr || !std::holds_alternative<PairModel>(pipeline->pipeline().model))
    fail("is not one of pairs that a tokenizer.json of Hugging Face describes");
  const Pipeline& p = pipeline->pipeline();
  if (p.of_bytes())
    add_byte_pairs(writer, p, vocabulary);
  else
    add_sentence_pieces(writer, p, vocabulary);
  add_ends(writer, tokenizer.ends());
  return difference_of(p);
}

}  // namespace heddle::data
