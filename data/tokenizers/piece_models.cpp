#include "heddle/data/tokenizers/piece_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <unordered_set>

#include "heddle/core/base/error.h"
#include "heddle/data/unicode.h"

namespace heddle::data::detail {
namespace {

constexpr int32_t none = -1;
constexpr size_t nowhere = static_cast<size_t>(-1);

[[noreturn]] void refuse(const std::string& what) {
  throw ValueError(fmt::format("[tokenizer] the text holds {}, for which the vocabulary has no token", what));
}

std::array<int32_t, 256> fallback_tokens(const Pipeline& p, const TokenOfPiece& token_of) {
  std::array<int32_t, 256> tokens;
  tokens.fill(none);
  for (size_t byte = 0; byte < 256 && p.byte_fallback; ++byte)
    if (const auto found = token_of.find(byte_name(static_cast<uint8_t>(byte))); found != token_of.end())
      tokens[byte] = found->second;
  return tokens;
}

void append_bytes(std::string_view text, const std::array<int32_t, 256>& fallback, std::vector<int32_t>& out) {
  for (const char c : text) out.push_back(fallback[static_cast<uint8_t>(c)]);
}

}  // namespace

TokenOfPiece tokens_by_piece(const Pipeline& p, const std::vector<std::string>& texts) {
  std::unordered_set<int32_t> special;
  for (const AddedToken& added : p.added)
    if (added.special) special.insert(added.token);
  TokenOfPiece token_of;
  const std::vector<std::string>& all = p.of_bytes() ? texts : p.names;
  token_of.reserve(all.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const auto token = static_cast<int32_t>(i);
    if (!all[i].empty() && special.count(token) == 0) token_of.try_emplace(all[i], token);
  }
  return token_of;
}

PairPieces::PairPieces(const Pipeline& pipeline, const TokenOfPiece& token_of)
    : p_(pipeline), token_of_(token_of), of_bytes_(pipeline.of_bytes()), fallback_(fallback_tokens(p_, token_of)) {
  const auto& model = std::get<PairModel>(pipeline.model);
  whole_words_ = model.whole_words;
  joins_unknown_ = model.joins_unknown;
  ranks_.reserve(model.merges.size());
  for (const auto& [left, right, result] : model.merges) ranks_.add(left, right, result);
}

bool PairPieces::append_known(std::string_view symbol, std::vector<int32_t>& out) const {
  if (const auto found = token_of_.find(std::string(symbol)); found != token_of_.end())
    out.push_back(found->second);
  else if (p_.byte_fallback)
    append_bytes(symbol, fallback_, out);
  else
    return false;
  return true;
}

std::vector<int32_t> PairPieces::symbols(std::string_view piece) const {
  std::vector<int32_t> tokens;
  tokens.reserve(piece.size());
  bool behind_unknown = false;
  for (size_t at = 0; at < piece.size();) {
    const size_t bytes = of_bytes_ ? 1 : character_at(piece, at).bytes;
    const bool known = append_known(piece.substr(at, bytes), tokens);
    if (!known && !p_.unknown)
      refuse(of_bytes_ ? fmt::format("the byte 0x{:02X}", static_cast<uint8_t>(piece[at]))
                       : describe_character(piece, at));
    if (!known && !(behind_unknown && joins_unknown_)) tokens.push_back(*p_.unknown);
    behind_unknown = !known;
    at += bytes;
  }
  return tokens;
}

void PairPieces::append(std::string_view piece, PairMerger& merger, std::vector<int32_t>& out) const {
  if (whole_words_) {
    if (const auto found = token_of_.find(std::string(piece)); found != token_of_.end())
      return out.push_back(found->second);
  }
  merger.merge(symbols(piece), out);
}

UnigramPieces::UnigramPieces(const Pipeline& pipeline, const TokenOfPiece& token_of)
    : p_(pipeline),
      token_of_(token_of),
      scores_(std::get<UnigramModel>(pipeline.model).scores),
      fallback_(fallback_tokens(p_, token_of)) {
  std::vector<PrefixIndex::Entry> entries;
  for (const auto& [name, token] : token_of)
    if (static_cast<size_t>(token) < scores_.size()) entries.push_back({name, token});
  pieces_ = PrefixIndex(std::move(entries));
  constexpr double penalty = 10;  // SentencePiece's, below the least likely token
  unknown_score_ = scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end()) - penalty;
}

// Viterbi's algorithm; of equally good ways the one that was found first.
std::vector<UnigramPieces::Arrival> UnigramPieces::best_arrivals(std::string_view piece) const {
  std::vector<Arrival> best(piece.size() + 1);
  const auto offer = [&](size_t from, size_t to, double score, int32_t token) {
    const double total = score + best[from].score;
    if (best[to].from == nowhere || total > best[to].score) best[to] = {total, from, token};
  };
  for (size_t at = 0; at < piece.size();) {
    const size_t character = character_at(piece, at).bytes;
    bool has_character = false;
    pieces_.for_each(piece.substr(at), [&](const PrefixIndex::Entry& entry) {
      offer(at, at + entry.text.size(), scores_[static_cast<size_t>(entry.value)], entry.value);
      has_character = has_character || entry.text.size() == character;
    });
    if (!has_character) offer(at, at + character, unknown_score_, none);
    at += character;
  }
  return best;
}

void UnigramPieces::append_unknown(std::string_view text, std::vector<int32_t>& out) const {
  if (const auto found = token_of_.find(std::string(text)); found != token_of_.end())
    out.push_back(found->second);
  else if (p_.byte_fallback)
    append_bytes(text, fallback_, out);
  else if (p_.unknown)
    out.push_back(*p_.unknown);
  else
    refuse(describe_character(text, 0));
}

void UnigramPieces::append(std::string_view piece, std::vector<int32_t>& out) const {
  const std::vector<Arrival> best = best_arrivals(piece);
  std::vector<std::pair<size_t, size_t>> path;  // from the end; unknown characters in a row are one
  bool behind_unknown = false;
  for (size_t end = piece.size(); end > 0; end = best[end].from) {
    const bool unknown = best[end].token == none || (p_.unknown && best[end].token == *p_.unknown);
    if (unknown && behind_unknown)
      path.back().first = best[end].from;
    else
      path.emplace_back(best[end].from, end);
    behind_unknown = unknown;
  }
  for (auto at = path.rbegin(); at != path.rend(); ++at) {
    const auto [from, end] = *at;
    const Arrival& last = best[end];
    if (last.from == from && last.token != none && !(p_.unknown && last.token == *p_.unknown))
      out.push_back(last.token);
    else
      append_unknown(piece.substr(from, end - from), out);
  }
}

}  // namespace heddle::data::detail
