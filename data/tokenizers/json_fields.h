// The keys of one JSON object, each read once; what nobody read is refused by name. Internal: it needs nlohmann's
// header.
//
// Errors: IoError "[tokenizer] WHERE: key.key: what is wrong". Thread safety: none.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"

namespace heddle::data::detail {

class JsonFields {
 public:
  using Json = nlohmann::json;

  // `path`: the keys that lead to the object, "" for the file itself. The object outlives this.
  JsonFields(const Json& object, std::string path, std::string_view where)
      : object_(object), path_(std::move(path)), where_(where) {
    if (!object.is_object()) fail("", "expected an object");
  }

  [[noreturn]] void fail(std::string_view key, std::string_view what) const {
    const std::string at = path_of(key);
    throw IoError(
        fmt::format("[tokenizer] {}: {}{}{}", where_, shortened(at), at.empty() ? "" : ": ", shortened(what)));
  }
  std::string path_of(std::string_view key) const {
    return key.empty() ? path_ : path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  }

  // Null where the key is missing, or its value is null.
  const Json* find(const char* key) {
    read_.insert(key);
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  const Json& need(const char* key) {
    const Json* found = find(key);
    if (found == nullptr) fail(key, "it is missing");
    return *found;
  }
  const Json& list(const char* key) {
    const Json& found = need(key);
    if (!found.is_array()) fail(key, "expected a list");
    return found;
  }
  std::string text(const char* key) {
    const Json& found = need(key);
    if (!found.is_string()) fail(key, "expected a text");
    return found.get<std::string>();
  }
  bool flag(const char* key, bool otherwise) {
    const Json* found = find(key);
    if (found == nullptr) return otherwise;
    if (!found->is_boolean()) fail(key, "expected true or false");
    return found->get<bool>();
  }
  int32_t token(const char* key) { return token_of(need(key), key); }
  int32_t token_of(const Json& value, const char* key) const {
    constexpr uint64_t most = 1 << 24;
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= most)
      fail(key, fmt::format("expected a token's number below {}, got {}", most, value.dump()));
    return value.get<int32_t>();
  }
  // A key of which only one meaning is known: null, false, or a text that is empty.
  void refuse(const char* key) {
    const Json* found = find(key);
    const bool harmless = found == nullptr || (found->is_boolean() && !found->get<bool>()) ||
                          (found->is_string() && found->get_ref<const std::string&>().empty());
    if (!harmless) fail(key, fmt::format("{} is not known", shortened(found->dump(), 80)));
  }
  // A key that changes nothing here.
  void ignore(const char* key) { read_.insert(key); }
  void done() const {
    for (const auto& [key, value] : object_.items())
      if (read_.count(key) == 0) fail(key, "the key is not known");
  }

 private:
  const Json& object_;
  std::string path_;
  std::string where_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace heddle::data::detail
