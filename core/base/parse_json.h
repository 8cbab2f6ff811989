// JSON of any origin: files and texts that others may have written. Internal: it needs nlohmann's header.
//
// Objects are sorted by default: nlohmann::ordered_json looks through all keys for each one, 11 s for a vocabulary of
// 50,000 tokens. Invariants: what comes out is at most max_parse_depth deep (core/base/parse_limits.h), so that
// copying, printing and freeing it cannot exhaust the stack, and a message is one short line. Errors: IoError "WHAT:
// not JSON: ..."; `what` says who reads and which file: "[tokenizer] vocab.json". Thread safety: pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/shortened.h"

namespace heddle {

// Why a text is too deep to be parsed; empty when it is not.
std::string json_depth_fault(std::string_view text);
// IoError of a text that is no JSON.
[[noreturn]] void throw_not_json(std::string_view what, std::string_view reason);
[[noreturn]] void throw_duplicate_key(std::string_view what, std::string_view key);

template <class Json = nlohmann::json>
Json parse_json(std::string_view text, std::string_view what, const typename Json::parser_callback_t& watch = nullptr) {
  if (const std::string fault = json_depth_fault(text); !fault.empty()) throw_not_json(what, fault);
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const typename Json::exception& error) {
    throw_not_json(what, error.what());
  }
}

// As parse_json(), and no object may have a key twice: the parser alone keeps the last one.
template <class Json = nlohmann::json>
Json parse_unique_json(std::string_view text, std::string_view what) {
  std::vector<std::set<std::string>> seen;
  std::string duplicate;
  Json parsed = parse_json<Json>(text, what, [&](int, typename Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) seen.emplace_back();
    if (event == Json::parse_event_t::object_end) seen.pop_back();
    if (event == Json::parse_event_t::key && !seen.back().insert(value.template get<std::string>()).second)
      duplicate = value.template get<std::string>();
    return true;
  });
  if (!duplicate.empty()) throw_duplicate_key(what, duplicate);
  return parsed;
}

// Nothing for text that is no JSON, or too deep.
template <class Json = nlohmann::json>
std::optional<Json> try_parse_json(std::string_view text) {
  if (!json_depth_fault(text).empty()) return std::nullopt;
  Json json = Json::parse(text.begin(), text.end(), nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return json;
}

}  // namespace heddle
