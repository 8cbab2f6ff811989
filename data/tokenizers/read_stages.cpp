#include "heddle/data/tokenizers/read_stages.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "heddle/data/tokenizers/json_fields.h"

namespace heddle::data::detail {
namespace {

using Json = nlohmann::json;

// One stage, or a sequence of them under `list`: f(fields, type) for each.
template <class F>
void for_each_stage(const Json& json, const std::string& path, const char* list, std::string_view where, const F& f) {
  JsonFields fields(json, path, where);
  const std::string type = fields.text("type");
  if (type != "Sequence") {
    f(fields, type);
    return fields.done();
  }
  size_t number = 0;
  for (const Json& stage : fields.list(list)) {
    JsonFields inner(stage, fmt::format("{}.{}[{}]", path, list, number++), where);
    f(inner, inner.text("type"));
    inner.done();
  }
  fields.done();
}

[[noreturn]] void refuse_type(const JsonFields& fields, std::string_view type, std::string_view known) {
  fields.fail("type", fmt::format("'{}' is not known; read are {}", shortened(type, 80), known));
}

// {"String": ...} or {"Regex": ...}; nothing where it is the other one.
std::optional<std::string> pattern(JsonFields& fields, const char* kind) {
  const Json& json = fields.need("pattern");
  if (!json.is_object() || json.size() != 1 || !json.begin()->is_string() ||
      (json.begin().key() != "String" && json.begin().key() != "Regex"))
    fields.fail("pattern", "expected a String or a Regex");
  if (json.begin().key() != kind) return {};
  return json.begin()->get<std::string>();
}

Replace read_replace(JsonFields& fields) {
  const auto from = pattern(fields, "String");
  if (!from)
    fields.fail("pattern", fmt::format("the expression '{}' is not known; read are texts as they stand",
                                       shortened(*pattern(fields, "Regex"), 120)));
  return {*from, fields.text("content")};
}

Found read_behaviour(JsonFields& fields) {
  const std::string name = fields.text("behavior");
  if (name == "Isolated") return Found::apart;
  if (name == "MergedWithPrevious") return Found::with_previous;
  if (name == "MergedWithNext") return Found::with_next;
  fields.fail("behavior", fmt::format("'{}' is not known; read are Isolated, MergedWithPrevious, MergedWithNext",
                                      shortened(name, 80)));
}

Cut read_split(JsonFields& fields) {
  const Found how = read_behaviour(fields);
  fields.refuse("invert");
  if (auto text = pattern(fields, "String")) return CutAt{std::move(*text), how};
  const std::string expression = *pattern(fields, "Regex");
  const auto rule = rule_of_pattern(expression);
  if (!rule) fields.fail("pattern", fmt::format("the expression '{}' is not known", shortened(expression, 120)));
  if (how != Found::apart) fields.fail("behavior", "of a known expression only Isolated is read");
  return CutWords{*rule};
}

CutSpaces read_metaspace(JsonFields& fields) {
  CutSpaces spaces{.mark = fields.text("replacement"), .cut = fields.flag("split", true)};
  fields.ignore("str_rep");
  const bool in_front = fields.flag("add_prefix_space", true);  // of files before prepend_scheme
  const std::string scheme = fields.find("prepend_scheme") != nullptr ? fields.text("prepend_scheme")
                             : in_front                               ? "always"
                                                                      : "never";
  if (scheme != "always" && scheme != "first" && scheme != "never")
    fields.fail("prepend_scheme", fmt::format("'{}' is not known", shortened(scheme, 80)));
  spaces.in_front = scheme == "always"  ? MarkInFront::always
                    : scheme == "first" ? MarkInFront::first
                                        : MarkInFront::never;
  return spaces;
}

Cut read_cut(JsonFields& fields, const std::string& type) {
  if (type == "Split") return read_split(fields);
  if (type == "Digits") return CutDigits{fields.flag("individual_digits", false)};
  if (type == "Metaspace") return read_metaspace(fields);
  if (type != "ByteLevel") refuse_type(fields, type, "ByteLevel, Split, Digits, Metaspace, Sequence");
  fields.ignore("trim_offsets");
  return CutBytes{fields.flag("add_prefix_space", true), fields.flag("use_regex", true)};
}

Decoding read_decoding_stage(JsonFields& fields, const std::string& type) {
  if (type == "Replace") return read_replace(fields);
  if (type == "ByteFallback") return ByteNames{};
  if (type == "Fuse") return FuseText{};
  if (type == "Metaspace") {
    const CutSpaces spaces = read_metaspace(fields);
    return FromMarks{spaces.mark, spaces.in_front != MarkInFront::never};
  }
  if (type == "ByteLevel") {
    for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.ignore(key);
    return FromBytes{};
  }
  if (type != "Strip") refuse_type(fields, type, "ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, Sequence");
  if (fields.need("start") != 1 || fields.need("stop") != 0)
    fields.fail("", "of Strip only one character at the start is known");
  return StripStart{fields.text("content")};
}

// Tokens in front of the text and behind it.
TextEnds read_template(JsonFields& fields) {
  TextEnds ends;
  bool behind = false;
  const Json& special = fields.need("special_tokens");
  for (const Json& item : fields.list("single")) {
    if (item.is_object() && item.contains("Sequence")) {
      if (std::exchange(behind, true)) fields.fail("single", "the text is there twice");
      continue;
    }
    const Json* ids = nullptr;
    if (item.is_object() && item.contains("SpecialToken") && item["SpecialToken"].is_object() &&
        item["SpecialToken"].contains("id") && item["SpecialToken"]["id"].is_string()) {
      const auto found = special.find(item["SpecialToken"]["id"].get<std::string>());
      if (found != special.end() && found->is_object() && found->contains("ids")) ids = &(*found)["ids"];
    }
    if (ids == nullptr || !ids->is_array())
      fields.fail("single", fmt::format("{} is neither the text nor a special token", shortened(item.dump(), 80)));
    for (const Json& id : *ids) (behind ? ends.after : ends.before).push_back(fields.token_of(id, "special_tokens"));
  }
  if (!behind) fields.fail("single", "the text is not there");
  fields.ignore("pair");
  return ends;
}

}  // namespace

std::vector<Normaliser> read_normalisers(const Json& json, std::string_view where) {
  std::vector<Normaliser> stages;
  for_each_stage(json, "normalizer", "normalizers", where, [&](JsonFields& fields, const std::string& type) {
    if (type == "NFC")
      stages.emplace_back(ToNfc{});
    else if (type == "Prepend")
      stages.emplace_back(Prepend{fields.text("prepend")});
    else if (type == "Replace")
      stages.emplace_back(read_replace(fields));
    else
      refuse_type(fields, type, "NFC, Prepend, Replace, Sequence");
  });
  return stages;
}

std::vector<Cut> read_cuts(const Json& json, std::string_view where) {
  std::vector<Cut> cuts;
  for_each_stage(json, "pre_tokenizer", "pretokenizers", where,
                 [&](JsonFields& fields, const std::string& type) { cuts.push_back(read_cut(fields, type)); });
  return cuts;
}

TextEnds read_ends(const Json& json, std::string_view where) {
  TextEnds ends;
  for_each_stage(json, "post_processor", "processors", where, [&](JsonFields& fields, const std::string& type) {
    if (type == "TemplateProcessing") {
      if (!ends.before.empty() || !ends.after.empty()) fields.fail("type", "TemplateProcessing is there twice");
      ends = read_template(fields);
    } else if (type == "ByteLevel") {  // of offsets, which nobody asks for here
      for (const char* key : {"add_prefix_space", "trim_offsets", "use_regex"}) fields.ignore(key);
    } else {
      refuse_type(fields, type, "TemplateProcessing, ByteLevel, Sequence");
    }
  });
  return ends;
}

std::vector<Decoding> read_decoding(const Json& json, std::string_view where) {
  std::vector<Decoding> stages;
  for_each_stage(json, "decoder", "decoders", where, [&](JsonFields& fields, const std::string& type) {
    stages.push_back(read_decoding_stage(fields, type));
  });
  return stages;
}

}  // namespace heddle::data::detail
