#include "heddle/data/preprocess.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"

namespace heddle::data {

std::string Preprocessing::str() const {
  const nlohmann::ordered_json json = {
      {"transforms", transforms}, {"mean", statistics.mean}, {"deviation", statistics.deviation}, {"classes", classes}};
  std::string text = json.dump();
  if (tokenizer) text.insert(text.size() - 1, ",\"tokenizer\":" + tokenizer->str());
  return text;
}

Preprocessing Preprocessing::parse(std::string_view text, std::string_view where) {
  const nlohmann::json json = parse_json(text, fmt::format("[preprocessing] {}", where));
  try {
    Preprocessing p;
    json.at("transforms").get_to(p.transforms);
    json.at("mean").get_to(p.statistics.mean);
    json.at("deviation").get_to(p.statistics.deviation);
    json.at("classes").get_to(p.classes);
    if (json.contains("tokenizer")) p.tokenizer = parse_tokenizer(json.at("tokenizer").dump(), where);
    p.make_transforms();  // as a check
    return p;
  } catch (const nlohmann::json::exception& error) {
    throw IoError(
        fmt::format("[preprocessing] {}: not what preprocessing is stored as: {}", where, shortened(error.what())));
  } catch (const ValueError& error) {
    throw IoError(fmt::format("[preprocessing] {}: {}", where, shortened(error.what())));
  }
}

std::vector<Transform> Preprocessing::make_geometry() const {
  std::vector<Transform> made;
  for (const std::string& text : transforms) made.push_back(parse_transform(text));
  return made;
}

std::vector<Transform> Preprocessing::make_normalisation() const {
  if (statistics.mean.empty() && statistics.deviation.empty()) return {};
  return {normalise(statistics.mean, statistics.deviation)};
}

std::vector<Transform> Preprocessing::make_transforms() const {
  std::vector<Transform> made = make_geometry();
  made.push_back(to_float());
  for (Transform& transform : make_normalisation()) made.push_back(std::move(transform));
  return made;
}

}  // namespace heddle::data
