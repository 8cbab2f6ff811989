// Writing tokenizer.json, as Hugging Face's library reads it.
#include <nlohmann/json.hpp>

#include "heddle/data/tokenizers/pipeline_json.h"

namespace heddle::data::detail {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson as_pattern(const char* kind, std::string_view text) { return {{kind, text}}; }

OrderedJson stage(const ToNfc&) { return {{"type", "NFC"}}; }
OrderedJson stage(const Prepend& s) { return {{"type", "Prepend"}, {"prepend", s.text}}; }
OrderedJson stage(const Replace& s) {
  return {{"type", "Replace"}, {"pattern", as_pattern("String", s.from)}, {"content", s.to}};
}

OrderedJson split(OrderedJson pattern, const char* behaviour) {
  return {{"type", "Split"}, {"pattern", std::move(pattern)}, {"behavior", behaviour}, {"invert", false}};
}
OrderedJson stage(const CutWords& s) { return split(as_pattern("Regex", pattern_of(s.rule)), "Isolated"); }
OrderedJson stage(const CutAt& s) {
  return split(as_pattern("String", s.text), s.how == Found::apart           ? "Isolated"
                                             : s.how == Found::with_previous ? "MergedWithPrevious"
                                                                             : "MergedWithNext");
}
OrderedJson stage(const CutDigits& s) { return {{"type", "Digits"}, {"individual_digits", s.each}}; }
OrderedJson byte_level(bool space_in_front, bool words) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", space_in_front}, {"trim_offsets", true}, {"use_regex", words}};
}
OrderedJson stage(const CutBytes& s) { return byte_level(s.space_in_front, s.words); }
OrderedJson metaspace(const std::string& mark, const char* scheme, bool cut) {
  return {{"type", "Metaspace"}, {"replacement", mark}, {"prepend_scheme", scheme}, {"split", cut}};
}
OrderedJson stage(const CutSpaces& s) {
  return metaspace(s.mark,
                   s.in_front == MarkInFront::always  ? "always"
                   : s.in_front == MarkInFront::first ? "first"
                                                      : "never",
                   s.cut);
}

OrderedJson stage(const FromBytes&) { return byte_level(true, true); }
OrderedJson stage(const ByteNames&) { return {{"type", "ByteFallback"}}; }
OrderedJson stage(const FuseText&) { return {{"type", "Fuse"}}; }
OrderedJson stage(const StripStart& s) { return {{"type", "Strip"}, {"content", s.text}, {"start", 1}, {"stop", 0}}; }
OrderedJson stage(const FromMarks& s) { return metaspace(s.mark, s.drop_first ? "always" : "never", true); }

// Null for none, one for itself, several in a sequence.
template <class Stage>
OrderedJson stages(const std::vector<Stage>& all, const char* name) {
  OrderedJson list = OrderedJson::array();
  for (const Stage& one : all) list.push_back(std::visit([](const auto& s) { return stage(s); }, one));
  if (list.size() < 2) return list.empty() ? OrderedJson() : list[0];
  return {{"type", "Sequence"}, {name, list}};
}

OrderedJson added_tokens(const Pipeline& p) {
  OrderedJson list = OrderedJson::array();
  for (const AddedToken& a : p.added)
    list.push_back({{"id", a.token},
                    {"content", a.text},
                    {"single_word", false},
                    {"lstrip", a.takes_space_left},
                    {"rstrip", a.takes_space_right},
                    {"normalized", a.normalised},
                    {"special", a.special}});
  return list;
}

OrderedJson post_processor(const Pipeline& p) {
  if (p.ends.before.empty() && p.ends.after.empty()) return {};
  const auto text = [](const char* id, int type) { return OrderedJson{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  OrderedJson single = OrderedJson::array(), special = OrderedJson::object();
  const auto put = [&](const std::vector<int32_t>& tokens) {
    for (const int32_t token : tokens) {
      const std::string& name = p.names[static_cast<size_t>(token)];
      single.push_back({{"SpecialToken", {{"id", name}, {"type_id", 0}}}});
      special[name] = {{"id", name}, {"ids", OrderedJson::array({token})}, {"tokens", OrderedJson::array({name})}};
    }
  };
  put(p.ends.before);
  single.push_back(text("A", 0));
  put(p.ends.after);
  return {{"type", "TemplateProcessing"},
          {"single", single},
          {"pair", OrderedJson::array({text("A", 0), text("B", 1)})},
          {"special_tokens", special}};
}

OrderedJson unknown_name(const Pipeline& p) {
  return p.unknown ? OrderedJson(p.names[static_cast<size_t>(*p.unknown)]) : OrderedJson();
}

OrderedJson model(const Pipeline& p, const PairModel& pairs) {
  OrderedJson vocab = OrderedJson::object();
  // Names differ, so each goes to the end: operator[] would compare it with all before it.
  OrderedJson::object_t::Container& entries = vocab.get_ref<OrderedJson::object_t&>();
  for (size_t i = 0; i < p.names.size(); ++i)
    if (!p.names[i].empty()) entries.emplace_back(p.names[i], i);
  OrderedJson merges = OrderedJson::array();
  for (const auto& [left, right, result] : pairs.merges)
    merges.push_back({p.names[static_cast<size_t>(left)], p.names[static_cast<size_t>(right)]});
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown_name(p)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", pairs.joins_unknown},
          {"byte_fallback", p.byte_fallback},
          {"ignore_merges", pairs.whole_words},
          {"vocab", std::move(vocab)},
          {"merges", std::move(merges)}};
}

// Tokens without a score are added ones, which stand in their own list.
OrderedJson model(const Pipeline& p, const UnigramModel& unigram) {
  OrderedJson vocab = OrderedJson::array();
  for (size_t i = 0; i < unigram.scores.size(); ++i) vocab.push_back({p.names[i], unigram.scores[i]});
  return {{"type", "Unigram"},
          {"unk_id", p.unknown ? OrderedJson(*p.unknown) : OrderedJson()},
          {"vocab", std::move(vocab)},
          {"byte_fallback", p.byte_fallback}};
}

}  // namespace

std::string pipeline_to_json(const Pipeline& p) {
  OrderedJson json = {
      {"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}, {"added_tokens", added_tokens(p)}};
  json["normalizer"] = stages(p.normalisers, "normalizers");
  json["pre_tokenizer"] = stages(p.cuts, "pretokenizers");
  json["post_processor"] = post_processor(p);
  json["decoder"] = stages(p.decoding, "decoders");
  json["model"] = std::visit([&](const auto& m) { return model(p, m); }, p.model);
  return json.dump();
}

}  // namespace heddle::data::detail
