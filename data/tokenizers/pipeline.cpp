#include "heddle/data/tokenizers/pipeline.h"

#include <fmt/format.h>

#include <cmath>
#include <unordered_set>

#include "heddle/core/base/error.h"
#include "heddle/data/unicode.h"

namespace heddle::data {
namespace {

// What no tokenizer of a language model reaches; a file that does would make texts grow without bounds.
constexpr size_t most_stages = 16, longest_mark = 64;

[[noreturn]] void fail(const std::string& what) { throw ValueError("[tokenizer] " + what); }

void check_text(std::string_view text, const char* stage) {
  if (text.empty() || text.size() > longest_mark)
    fail(fmt::format("{}: its text has {} bytes, expected 1 to {}", stage, text.size(), longest_mark));
}

class Check {
 public:
  explicit Check(const Pipeline& p) : p_(p) {}

  void run() const {
    names();
    added();
    if (p_.normalisers.size() > most_stages || p_.cuts.size() > most_stages || p_.decoding.size() > most_stages)
      fail(fmt::format("more than {} stages of one kind", most_stages));
    for (const Normaliser& stage : p_.normalisers) normaliser(stage);
    cuts();
    decoding();
    token(p_.unknown, "the unknown token");
    token(p_.ends.begin, "the first token of a text");
    token(p_.ends.end, "the last token of a text");
    for (const auto* list : {&p_.ends.before, &p_.ends.after})
      for (const int32_t t : *list) token(t, "a token around a text");
    model();
  }

 private:
  bool known(int32_t t) const {
    return t >= 0 && static_cast<size_t>(t) < p_.names.size() && !p_.names[static_cast<size_t>(t)].empty();
  }
  void token(std::optional<int32_t> t, const char* what) const {
    if (t && !known(*t)) fail(fmt::format("{} is token {}, which there is not", what, *t));
  }

  void names() const {
    if (p_.names.empty()) fail("there are no tokens");
    std::unordered_set<std::string_view> seen;
    for (size_t i = 0; i < p_.names.size(); ++i) {
      const std::string& name = p_.names[i];
      if (valid_utf8(name) != name) fail(fmt::format("token {} is no UTF-8", i));
      if (!name.empty() && !seen.insert(name).second) fail(fmt::format("the token '{}' is there twice", name));
    }
    if (!p_.byte_fallback) return;
    for (int byte = 0; byte < 256; ++byte)
      if (seen.count(byte_name(static_cast<uint8_t>(byte))) == 0)
        fail(fmt::format("byte_fallback: there is no token '{}'", byte_name(static_cast<uint8_t>(byte))));
  }

  void added() const {
    std::unordered_set<int32_t> seen;
    for (const AddedToken& a : p_.added) {
      if (!known(a.token) || p_.names[static_cast<size_t>(a.token)] != a.text || !seen.insert(a.token).second)
        fail(fmt::format("the added token '{}' is not token {}, or there twice", a.text, a.token));
    }
  }

  static void normaliser(const Normaliser& stage) {
    if (const auto* prepend = std::get_if<Prepend>(&stage)) check_text(prepend->text, "Prepend");
    if (const auto* replace = std::get_if<Replace>(&stage)) check_replace(*replace);
  }
  static void check_replace(const Replace& stage) {
    check_text(stage.from, "Replace");
    if (stage.to.size() > longest_mark) check_text(stage.to, "Replace");
  }

  void cuts() const {
    size_t marks = 0;
    for (size_t i = 0; i < p_.cuts.size(); ++i) {
      const Cut& cut = p_.cuts[i];
      if (const auto* at = std::get_if<CutAt>(&cut)) check_text(at->text, "Split");
      if (std::holds_alternative<CutBytes>(cut) && i + 1 < p_.cuts.size()) fail("ByteLevel is not the last stage");
      const auto* spaces = std::get_if<CutSpaces>(&cut);
      if (spaces == nullptr) continue;
      check_text(spaces->mark, "Metaspace");
      if (++marks > 1) fail("Metaspace is there twice");
    }
  }

  void decoding() const {
    const bool of_bytes = !p_.decoding.empty() && std::holds_alternative<FromBytes>(p_.decoding[0]);
    if (of_bytes != p_.of_bytes() || (of_bytes && p_.decoding.size() > 1))
      fail(fmt::format("the decoder does not undo the pre-tokenizer: pieces are {}bytes", p_.of_bytes() ? "" : "no "));
    int before = 0;
    for (const Decoding& stage : p_.decoding) {
      const int place = place_of(stage);
      if (place < before || (place == before && place > 1))
        fail("the decoder's stages stand in another order than Replace or Metaspace, ByteFallback, Fuse, Strip");
      if (place == 4 && before != 3) fail("the decoder's Strip has no Fuse in front of it");
      before = place;
      if (const auto* replace = std::get_if<Replace>(&stage)) check_replace(*replace);
      if (const auto* strip = std::get_if<StripStart>(&stage)) check_text(strip->text, "Strip");
      if (const auto* marks = std::get_if<FromMarks>(&stage)) check_text(marks->mark, "Metaspace");
    }
  }
  static int place_of(const Decoding& stage) {
    if (std::holds_alternative<ByteNames>(stage)) return 2;
    if (std::holds_alternative<FuseText>(stage)) return 3;
    return std::holds_alternative<StripStart>(stage) ? 4 : 1;
  }

  void model() const {
    if (p_.of_bytes() && p_.byte_fallback) fail("byte_fallback: pieces are bytes already");
    if (const auto* unigram = std::get_if<UnigramModel>(&p_.model)) {
      if (p_.of_bytes()) fail("Unigram over bytes is not known");
      if (unigram->scores.size() > p_.names.size()) fail("there are more scores than tokens");
      for (const double score : unigram->scores)
        if (!std::isfinite(score)) fail("a score is not finite");
      return;
    }
    const std::vector<PairModel::Merge>& merges = std::get<PairModel>(p_.model).merges;
    for (size_t i = 0; i < merges.size(); ++i) {
      const auto [left, right, result] = merges[i];
      const auto name = [&](int32_t t) -> const std::string& { return p_.names[static_cast<size_t>(t)]; };
      if (!known(left) || !known(right) || !known(result) || name(result) != name(left) + name(right))
        fail(fmt::format("merge {} does not join two tokens to a third", i));
    }
  }

  const Pipeline& p_;
};

}  // namespace

std::string byte_name(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

bool Pipeline::of_bytes() const { return !cuts.empty() && std::holds_alternative<CutBytes>(cuts.back()); }

void check_pipeline(const Pipeline& pipeline) { Check(pipeline).run(); }

}  // namespace heddle::data
