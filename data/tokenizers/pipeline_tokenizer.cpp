#include "heddle/data/pipeline_tokenizer.h"

#include <fmt/format.h>

#include <optional>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/data/bpe_text.h"
#include "heddle/data/tokenizers/cut.h"
#include "heddle/data/tokenizers/piece_models.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/tokenizers/pipeline_json.h"
#include "heddle/data/unicode.h"

namespace heddle::data {
namespace {

bool is_space_at(std::string_view text, size_t at, uint8_t& bytes) {
  const Character c = character_at(text, at);
  bytes = c.bytes;
  return class_of(c.code) == CharacterClass::space;
}

// Where the white space begins that ends at `end`, not before `least`.
size_t space_begin(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t at = end - 1;
    while (at > least && end - at < 4 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
    uint8_t bytes = 0;
    if (!is_space_at(text, at, bytes) || at + bytes != end) break;
    end = at;
  }
  return end;
}

size_t space_end(std::string_view text, size_t at) {
  uint8_t bytes = 0;
  while (at < text.size() && is_space_at(text, at, bytes)) at += bytes;
  return at;
}

// Added tokens that are looked for in one kind of text: all, and those that are not special.
struct AddedIndex {
  detail::PrefixIndex all, plain;  // places in Pipeline::added

  AddedIndex(const Pipeline& p, bool in_normalised) {
    std::vector<detail::PrefixIndex::Entry> entries, without_special;
    for (size_t i = 0; i < p.added.size(); ++i) {
      const AddedToken& added = p.added[i];
      if (added.normalised != in_normalised) continue;
      const std::string text = in_normalised ? detail::normalised(added.text, p.normalisers) : added.text;
      if (text.empty()) continue;
      entries.push_back({text, static_cast<int32_t>(i)});
      if (!added.special) without_special.push_back(entries.back());
    }
    all = detail::PrefixIndex(std::move(entries));
    plain = detail::PrefixIndex(std::move(without_special));
  }
};

// "<0x0A>" as that byte; nothing for other names.
std::optional<char> byte_of_name(std::string_view name) {
  if (name.size() != 6 || !name.starts_with("<0x") || name.back() != '>') return {};
  const auto number = parse_number<uint8_t>(name.substr(3, 2), 16);
  return number ? std::optional(static_cast<char>(*number)) : std::nullopt;
}

std::string decoded(const Pipeline& p, std::string name) {
  constexpr size_t most_growth = 64;
  const size_t most = name.size() * most_growth;
  for (const Decoding& stage : p.decoding) {
    if (const auto* replace = std::get_if<Replace>(&stage)) detail::replace_all(name, replace->from, replace->to);
    if (const auto* marks = std::get_if<FromMarks>(&stage)) detail::replace_all(name, marks->mark, " ");
    if (name.size() > most) throw ValueError("[tokenizer] the decoder makes a token more than 64 times as long");
    if (!std::holds_alternative<ByteNames>(stage)) continue;
    if (const auto byte = byte_of_name(name)) name.assign(1, *byte);
  }
  return name;
}

std::vector<std::string> texts_of(const Pipeline& p) {
  std::vector<bool> is_added(p.names.size(), false);
  for (const AddedToken& added : p.added) is_added[static_cast<size_t>(added.token)] = true;
  std::vector<std::string> texts;
  for (size_t i = 0; i < p.names.size(); ++i) {
    if (!p.of_bytes()) {
      texts.push_back(decoded(p, p.names[i]));
      continue;
    }
    std::optional<std::string> bytes = is_added[i] ? p.names[i] : detail::bytes_of_printable(p.names[i]);
    if (!bytes) throw ValueError(fmt::format("[tokenizer] token '{}' stands for no bytes", p.names[i]));
    texts.push_back(std::move(*bytes));
  }
  return texts;
}

}  // namespace

struct PipelineTokenizer::Lookup {
  AddedIndex raw, normalised;
  detail::TokenOfPiece token_of;
  std::optional<detail::PairPieces> pairs;
  std::optional<detail::UnigramPieces> unigram;

  Lookup(const Pipeline& p, const std::vector<std::string>& texts)
      : raw(p, false), normalised(p, true), token_of(detail::tokens_by_piece(p, texts)) {
    if (std::holds_alternative<PairModel>(p.model))
      pairs.emplace(p, token_of);
    else
      unigram.emplace(p, token_of);
  }
};

// One call of encode().
class PipelineTokenizer::Encoder {
 public:
  Encoder(const Pipeline& p, const Lookup& lookup, SpecialTokens how, bool begins = true)
      : p_(p), lookup_(lookup), special_(how == SpecialTokens::recognised), begins_(begins) {
    if (lookup.pairs) merger_.emplace(lookup.pairs->ranks());
  }

  std::vector<int32_t> run(std::string_view text) {
    out_.reserve(text.size() / 3);
    walk(text, lookup_.raw, [&](std::string_view part, bool starts) {
      const std::string normalised = detail::normalised(part, p_.normalisers);
      walk(normalised, lookup_.normalised, [&](std::string_view inner, bool inner_starts) {
        detail::for_each_piece(inner, begins_ && starts && inner_starts, p_.cuts,
                               [&](std::string_view piece) { append(piece); });
      });
    });
    return std::move(out_);
  }

 private:
  // Added tokens from left to right, of several at one place the longest; f(part, whether it begins the text) between.
  template <class F>
  void walk(std::string_view text, const AddedIndex& index, F&& f) {
    const detail::PrefixIndex& names = special_ ? index.all : index.plain;
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const auto* found = names.longest(text.substr(at));
      if (found == nullptr) {
        ++at;
        continue;
      }
      const AddedToken& added = p_.added[static_cast<size_t>(found->value)];
      const size_t begin = added.takes_space_left ? space_begin(text, done, at) : at;
      if (begin > done) f(text.substr(done, begin - done), done == 0);
      out_.push_back(added.token);
      at += found->text.size();  // a token of white space is found even where one before it takes that too
      done = added.takes_space_right ? space_end(text, at) : at;
    }
    if (done < text.size()) f(text.substr(done), done == 0);
  }

  // Pieces that were seen are copied from where their tokens stand; long ones hardly come twice.
  void append(std::string_view piece) {
    constexpr size_t longest_kept = 64;
    if (piece.size() > longest_kept) return append_new(piece);
    const auto [found, is_new] = seen_.try_emplace(std::string(piece), Place{out_.size(), 0});
    auto& [at, count] = found->second;
    if (is_new) {
      append_new(piece);
      count = out_.size() - at;
    } else {
      for (size_t i = 0; i < count; ++i) out_.push_back(out_[at + i]);
    }
  }
  void append_new(std::string_view piece) {
    if (lookup_.pairs)
      lookup_.pairs->append(piece, *merger_, out_);
    else
      lookup_.unigram->append(piece, out_);
  }

  struct Place {
    size_t at, count;
  };
  const Pipeline& p_;
  const Lookup& lookup_;
  bool special_, begins_;
  std::optional<detail::PairMerger> merger_;
  std::unordered_map<std::string, Place> seen_;
  std::vector<int32_t> out_;
};

PipelineTokenizer::PipelineTokenizer(Pipeline pipeline) {
  check_pipeline(pipeline);
  pipeline_ = std::make_shared<const Pipeline>(std::move(pipeline));
  texts_ = texts_of(*pipeline_);
  lookup_ = std::make_shared<const Lookup>(*pipeline_, texts_);
  for (const AddedToken& added : pipeline_->added)
    if (added.special) special_.emplace(added.text, added.token);
}

std::vector<int32_t> PipelineTokenizer::tokens_of(std::string_view text, SpecialTokens how) const {
  return Encoder(*pipeline_, *lookup_, how).run(text);
}

std::vector<int32_t> PipelineTokenizer::encode_inside(std::string_view text) const {
  return Encoder(*pipeline_, *lookup_, SpecialTokens::as_text, false).run(text);
}

const std::string& PipelineTokenizer::text_of(int32_t token) const {
  if (token < 0 || token >= size())
    throw ValueError(fmt::format("[tokenizer] there is no token {} among {}", token, size()));
  return texts_[static_cast<size_t>(token)];
}

std::string PipelineTokenizer::text_at_start(int32_t token) const {
  std::string text = text_of(token);
  for (const Decoding& stage : pipeline_->decoding) {
    if (const auto* marks = std::get_if<FromMarks>(&stage); marks && marks->drop_first) {
      text = pipeline_->names[static_cast<size_t>(token)];
      detail::replace_all(text, marks->mark, "");
    }
    if (const auto* strip = std::get_if<StripStart>(&stage); strip && text.starts_with(strip->text))
      text.erase(0, strip->text.size());
  }
  return text;
}

const TextEnds& PipelineTokenizer::ends() const { return pipeline_->ends; }

std::string PipelineTokenizer::tokenizer_json() const { return detail::pipeline_to_json(*pipeline_); }

std::string PipelineTokenizer::str() const {
  std::string text = R"({"type":"pipeline")";
  const auto put = [&](const char* key, std::optional<int32_t> token) {
    if (token) text += fmt::format(R"(,"{}":{})", key, *token);
  };
  put("begin", pipeline_->ends.begin);
  put("end", pipeline_->ends.end);
  return text + R"(,"tokenizer":)" + tokenizer_json() + "}";
}

}  // namespace heddle::data
