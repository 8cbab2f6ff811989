// ConfigReader: typed values of a config.json that others wrote. Internal to nn/models: it needs nlohmann's header.
//
// Invariants: null is as good as absent. Errors: IoError "[config] path: KEY is ...". Thread safety: reading is const.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/nn/sizes.h"

namespace heddle::nn {

class ConfigReader {
 public:
  // The object must outlive the reader.
  ConfigReader(const nlohmann::json& object, std::string path) : json_(object), path_(std::move(path)) {}

  [[noreturn]] void fail(std::string_view what) const;
  bool has(const char* key) const;
  bool names(const char* key) const { return json_.contains(key); }  // null too
  // Null where there is none.
  const nlohmann::json* find(const char* key) const;

  // From `least` on; without `otherwise` it must be there.
  int64_t size(const char* key, std::optional<int64_t> otherwise = {}, int64_t most = most_size,
               int64_t least = 1) const;
  double number(const char* key, std::optional<double> otherwise = {}) const;
  bool flag(const char* key, bool otherwise) const;
  std::string text(const char* key, const std::string& otherwise) const;
  std::vector<std::string> texts(const char* key) const;
  // One number or a list of them.
  std::vector<int32_t> tokens(const char* key) const;
  // Another object of the same file; `key` must be one.
  ConfigReader inside(const char* key) const;

 private:
  const nlohmann::json& at(const char* key) const;
  [[noreturn]] void refuse(const char* key, std::string_view expected) const;

  const nlohmann::json& json_;
  std::string path_;
};

}  // namespace heddle::nn
