#include "heddle/data/tokenizers/cut.h"

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/unicode.h"

namespace heddle::data::detail {
namespace {

using Piece = std::function<void(std::string_view)>;

class Cutter {
 public:
  Cutter(const std::vector<Cut>& cuts, const Piece& f) : cuts_(cuts), f_(f) {}

  void run(size_t stage, std::string_view text, bool starts) const {
    if (text.empty()) return;
    if (stage == cuts_.size()) return f_(text);
    std::visit([&](const auto& cut) { apply(cut, stage, text, starts); }, cuts_[stage]);
  }

 private:
  // Hands on the part that ends at `end`.
  struct Parts {
    const Cutter& of;
    size_t stage;
    std::string_view text;
    bool starts;
    size_t begin = 0;
    void end_at(size_t end) {
      if (end > begin) of.run(stage + 1, text.substr(begin, end - begin), starts && begin == 0);
      begin = end;
    }
  };

  void apply(const CutWords& cut, size_t stage, std::string_view text, bool starts) const {
    Parts parts{*this, stage, text, starts};
    for_each_word(text, cut.rule, [&](std::string_view word) { parts.end_at(parts.begin + word.size()); });
  }

  void apply(const CutAt& cut, size_t stage, std::string_view text, bool starts) const {
    Parts parts{*this, stage, text, starts};
    cut_at(cut.text, cut.how, parts);
  }

  // Of places in a row only the one beside other text joins it.
  static void cut_at(std::string_view place, Found how, Parts& parts) {
    size_t behind_last = std::string_view::npos;
    for (size_t at = parts.text.find(place); at != std::string_view::npos;) {
      const size_t behind = at + place.size();
      const bool first_in_row = at != behind_last;
      if (how == Found::apart || (how == Found::with_previous && !first_in_row)) parts.end_at(at);
      if (how == Found::with_next) parts.end_at(at);
      if (how != Found::with_next) parts.end_at(behind);
      behind_last = behind;
      at = parts.text.find(place, behind);
    }
    parts.end_at(parts.text.size());
  }

  void apply(const CutDigits& cut, size_t stage, std::string_view text, bool starts) const {
    Parts parts{*this, stage, text, starts};
    for (size_t at = 0; at < text.size();) {
      const Digit digit = first_digit(text.substr(at));
      const size_t begin = at + digit.at;
      if (digit.at > 0) {
        parts.end_at(at);
        parts.end_at(begin);
      }
      at = begin + digit.bytes;
      if (cut.each) parts.end_at(at);
    }
    parts.end_at(text.size());
  }

  void apply(const CutBytes& cut, size_t stage, std::string_view text, bool starts) const {
    std::string longer;
    if (cut.space_in_front && text[0] != ' ') {
      longer = ' ';
      text = longer.append(text);
    }
    if (!cut.words) return run(stage + 1, text, starts);
    for_each_word(text, [&](std::string_view word) { run(stage + 1, word, false); });
  }

  void apply(const CutSpaces& cut, size_t stage, std::string_view text, bool starts) const {
    std::string marked(text);
    replace_all(marked, " ", cut.mark);
    const bool wants = cut.in_front == MarkInFront::always || (cut.in_front == MarkInFront::first && starts);
    if (wants && !marked.starts_with(cut.mark)) marked.insert(0, cut.mark);
    if (!cut.cut) return run(stage + 1, marked, starts);
    Parts parts{*this, stage, marked, starts};
    cut_at(cut.mark, Found::with_next, parts);
  }

  const std::vector<Cut>& cuts_;
  const Piece& f_;
};

}  // namespace

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  size_t done = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done == 0) return;
  text = out.append(text, done);
}

std::string normalised(std::string_view text, const std::vector<Normaliser>& stages) {
  constexpr size_t most_growth = 64, free_growth = 4096;
  std::string result(text);
  for (const Normaliser& stage : stages) {
    if (std::holds_alternative<ToNfc>(stage)) result = composed(result);
    if (const auto* prepend = std::get_if<Prepend>(&stage); prepend && !result.empty()) result.insert(0, prepend->text);
    if (const auto* replace = std::get_if<Replace>(&stage)) replace_all(result, replace->from, replace->to);
    if (result.size() > text.size() * most_growth + free_growth)
      throw ValueError("[tokenizer] the normaliser makes the text more than 64 times as long");
  }
  return result;
}

void for_each_piece(std::string_view text, bool starts, const std::vector<Cut>& cuts, const Piece& f) {
  Cutter(cuts, f).run(0, text, starts);
}

}  // namespace heddle::data::detail
