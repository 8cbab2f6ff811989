// Headers of older `.heddle` files, made into those of today's version one version at a time. Internal.
//
// A version changes when the header's meaning does; what a part holds has a version of its own. A new version adds a
// row to the table and raises model_parts_version; the rows before stay as they are.
// Errors: IoError of a version that no row begins with, or that is newer than this library. Thread safety: pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// From version `from` to the next one. May throw IoError; what it gives is checked as if it stood in the file.
struct HeaderUpgrade {
  uint32_t from = 0;
  std::string (*apply)(std::string_view header) = nullptr;
};

std::span<const HeaderUpgrade> header_upgrades();

// `where` opens errors: "[model_parts] path".
std::string upgraded_header(std::string_view header, uint32_t version, uint32_t newest,
                            std::span<const HeaderUpgrade> upgrades, std::string_view where);

}  // namespace heddle
