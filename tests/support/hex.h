// Bytes that stored files of tests write as hexadecimal digits. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle::test {

// Two digits a byte.
inline std::vector<uint8_t> bytes_of_hex(const std::string& hex) {
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<uint8_t>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace heddle::test
