// Whole files into memory.
//
// Errors: IoError "[who] path: reason" for what is missing, a folder, or cannot be read; `who` is the reader that asks.
// Thread safety: may be called from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

std::vector<uint8_t> read_file(const std::string& path, std::string_view who);
std::string read_text_file(const std::string& path, std::string_view who);

}  // namespace heddle
