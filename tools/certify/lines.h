// Text in lines, for the parsers of this folder; words are those of core/dialect/words.h. Thread safety: pure.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/lines.h"
#include "heddle/core/dialect/words.h"
#include "tools/certify/listing.h"

namespace heddle::tools::certify {

inline bool begins(std::string_view text, std::string_view with) { return text.substr(0, with.size()) == with; }
inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// Calls visit(line) for each, trimmed.
template <class F>
void for_each_line(std::string_view text, const F& visit) {
  while (!text.empty()) visit(trim(take_line(text)));
}

// Labels may be used before they stand; the parsers note names, and this turns them into indices.
class Labels {
 public:
  void define(std::string_view name, size_t at) { places_.insert_or_assign(std::string(name), at); }
  void use(std::string_view name, size_t instruction) { uses_.emplace_back(std::string(name), instruction); }
  void resolve(Listing& listing) const {
    for (const auto& [name, at] : uses_) {
      if (const auto place = places_.find(name); place != places_.end()) listing[at].target = place->second;
    }
  }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::pair<std::string, size_t>> uses_;
};

inline void require_instructions(const Listing& listing, const char* what) {
  if (listing.empty()) throw ValueError(std::string("[certify] no instruction in what ") + what + " printed");
}

}  // namespace heddle::tools::certify
