// Reading tokenizer.json: the vocabulary, its model, and what stands around a text.
#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "heddle/data/tokenizers/json_fields.h"
#include "heddle/data/tokenizers/pipeline_json.h"
#include "heddle/data/tokenizers/read_stages.h"

namespace heddle::data::detail {
namespace {

using Json = nlohmann::json;

class Reader {
 public:
  Reader(const Json& json, std::string_view where) : where_(where), file_(json, "", where_) {}

  Pipeline run() {
    if (const Json* version = file_.find("version"); version != nullptr && *version != "1.0")
      file_.fail("version", fmt::format("{} is not known; read is \"1.0\"", version->dump()));
    file_.refuse("truncation");
    file_.refuse("padding");
    const Json* added = file_.find("added_tokens");
    if (added != nullptr && !added->is_array()) file_.fail("added_tokens", "expected a list");
    most_ += added != nullptr ? added->size() : 0;
    model();
    if (added != nullptr) added_tokens(*added);
    if (const Json* json = file_.find("normalizer")) p_.normalisers = read_normalisers(*json, where_);
    if (const Json* json = file_.find("pre_tokenizer")) p_.cuts = read_cuts(*json, where_);
    if (const Json* json = file_.find("post_processor")) p_.ends = read_ends(*json, where_);
    if (!p_.ends.before.empty()) p_.ends.begin = p_.ends.before.front();
    p_.decoding = read_decoding(file_.need("decoder"), where_);
    file_.done();
    return std::move(p_);
  }

 private:
  void model() {
    JsonFields model(file_.need("model"), "model", where_);
    const std::string type = model.find("type") == nullptr ? "BPE" : model.text("type");  // old files do not name it
    if (type == "BPE")
      pairs(model);
    else if (type == "Unigram")
      unigram(model);
    else
      model.fail("type", fmt::format("'{}' is not known; read are BPE and Unigram", shortened(type)));
    model.done();
  }

  void pairs(JsonFields& model) {
    for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) model.refuse(key);
    PairModel pairs;
    pairs.joins_unknown = model.flag("fuse_unk", false);
    pairs.whole_words = model.flag("ignore_merges", false);
    p_.byte_fallback = model.flag("byte_fallback", false);
    vocabulary(model);
    if (model.find("unk_token") != nullptr) p_.unknown = token_of(model, "unk_token", model.text("unk_token"));
    const Json& merges = model.list("merges");
    pairs.merges.reserve(merges.size());
    for (const Json& merge : merges) pairs.merges.push_back(merge_of(model, merge));
    p_.model = std::move(pairs);
  }

  void vocabulary(JsonFields& model) {
    const Json& vocab = model.need("vocab");
    if (!vocab.is_object()) model.fail("vocab", "expected an object of tokens and numbers");
    most_ += 2 * vocab.size();
    for (const auto& [name, number] : vocab.items()) put(model, "vocab", name, model.token_of(number, "vocab"));
  }

  // Numbers may leave gaps; but a file of a few bytes may not ask for millions of tokens.
  void put(const JsonFields& fields, const char* key, const std::string& name, int32_t token) {
    const auto place = static_cast<size_t>(token);
    if (name.empty()) fields.fail(key, fmt::format("token {} is empty", token));
    if (place > most_)
      fields.fail(key, fmt::format("token '{}' has the number {}, far beyond the others", shortened(name, 80), token));
    if (place >= p_.names.size()) p_.names.resize(place + 1);
    if (!p_.names[place].empty() || !token_of_.emplace(name, token).second)
      fields.fail(key, fmt::format("token '{}', number {}, is there twice", shortened(name, 80), token));
    p_.names[place] = name;
  }

  int32_t token_of(const JsonFields& fields, const char* key, const std::string& name) const {
    const auto found = token_of_.find(name);
    if (found == token_of_.end())
      fields.fail(key, fmt::format("token '{}' is not in the vocabulary", shortened(name, 80)));
    return found->second;
  }

  // "left right", or ["left", "right"].
  PairModel::Merge merge_of(const JsonFields& model, const Json& json) const {
    std::string left, right;
    if (json.is_string()) {
      const auto& line = json.get_ref<const std::string&>();
      const size_t space = line.find(' ');
      if (space != std::string::npos && line.find(' ', space + 1) == std::string::npos)
        left = line.substr(0, space), right = line.substr(space + 1);
    } else if (json.is_array() && json.size() == 2 && json[0].is_string() && json[1].is_string()) {
      left = json[0], right = json[1];
    }
    if (left.empty() || right.empty())
      model.fail("merges", fmt::format("{} is not two tokens", shortened(json.dump(), 80)));
    return {token_of(model, "merges", left), token_of(model, "merges", right), token_of(model, "merges", left + right)};
  }

  void unigram(JsonFields& model) {
    p_.byte_fallback = model.flag("byte_fallback", false);
    UnigramModel unigram;
    most_ += model.list("vocab").size();
    for (const Json& entry : model.list("vocab")) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        model.fail("vocab", fmt::format("{} is not a token and its score", shortened(entry.dump(), 80)));
      put(model, "vocab", entry[0].get<std::string>(), static_cast<int32_t>(p_.names.size()));
      unigram.scores.push_back(entry[1].get<double>());
    }
    if (model.find("unk_id") != nullptr) p_.unknown = model.token("unk_id");
    p_.model = std::move(unigram);
  }

  void added_tokens(const Json& list) {
    size_t number = 0;
    for (const Json& json : list) {
      JsonFields fields(json, fmt::format("added_tokens[{}]", number++), where_);
      AddedToken added;
      added.text = fields.text("content");
      added.token = fields.token("id");
      added.special = fields.flag("special", false);
      added.takes_space_left = fields.flag("lstrip", false);
      added.takes_space_right = fields.flag("rstrip", false);
      added.normalised = fields.flag("normalized", !added.special);
      fields.refuse("single_word");
      fields.done();
      add(fields, std::move(added));
    }
  }

  void add(const JsonFields& fields, AddedToken added) {
    const auto found = token_of_.find(added.text);
    if (found == token_of_.end())
      put(fields, "content", added.text, added.token);
    else if (found->second != added.token)
      fields.fail("id", fmt::format("'{}' is token {} here and {} in the vocabulary", shortened(added.text, 80),
                                    added.token, found->second));
    p_.added.push_back(std::move(added));
  }

  std::string where_;
  JsonFields file_;
  Pipeline p_;
  size_t most_ = 100'000;  // the largest number of a token
  std::unordered_map<std::string, int32_t> token_of_;
};

}  // namespace

bool is_tokenizer_json(const Json& json) {
  return json.is_object() && json.contains("model") && !json.contains("type");
}

Pipeline pipeline_from_json(const Json& json, std::string_view where) { return Reader(json, where).run(); }

Pipeline pipeline_from_stored(const Json& json, std::string_view where) {
  JsonFields fields(json, "", where);
  fields.ignore("type");
  Pipeline pipeline = pipeline_from_json(fields.need("tokenizer"), where);
  pipeline.ends.begin = pipeline.ends.end = std::nullopt;
  if (fields.find("begin") != nullptr) pipeline.ends.begin = fields.token("begin");
  if (fields.find("end") != nullptr) pipeline.ends.end = fields.token("end");
  fields.done();
  return pipeline;
}

}  // namespace heddle::data::detail
