// Zip archives, as far as .npz needs them. Internal.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace heddle::data {

// Contents by name: entries that are stored or deflated, each under its CRC-32, with 32-bit or 64-bit sizes (ZIP64).
// IoError "[who] path: ..." for anything else.
std::map<std::string, std::vector<uint8_t>> read_zip(const std::string& path, const std::string& who);

}  // namespace heddle::data
