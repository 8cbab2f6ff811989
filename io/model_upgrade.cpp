#include "heddle/io/model_upgrade.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle {

// Version 1 is the first.
std::span<const HeaderUpgrade> header_upgrades() { return {}; }

std::string upgraded_header(std::string_view header, uint32_t version, uint32_t newest,
                            std::span<const HeaderUpgrade> upgrades, std::string_view where) {
  if (version > newest)
    throw IoError(
        fmt::format("{}: its format version is {}, this Heddle reads versions up to {}; a newer Heddle is needed",
                    where, version, newest));
  std::string text(header);
  for (; version < newest; ++version) {
    const auto row =
        std::find_if(upgrades.begin(), upgrades.end(), [&](const HeaderUpgrade& u) { return u.from == version; });
    if (row == upgrades.end()) throw IoError(fmt::format("{}: there is no format version {}", where, version));
    text = row->apply(text);
  }
  return text;
}

}  // namespace heddle
