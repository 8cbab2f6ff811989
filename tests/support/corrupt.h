// Every corruption of a small file that a reader has to survive.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace heddle::test {

// Reads the file cut short and with one bit flipped, at every place near its beginning and end and at a hundred
// between: read() may only give a result or an IoError that names the path, and does refuse some, but not the whole
// file. Leaves the good file behind.
inline void survive_corruption(const std::string& path, const std::function<void()>& read) {
  const std::vector<uint8_t> good = read_bytes(path);
  size_t refused = 0;
  const auto attempt = [&](const std::vector<uint8_t>& bytes) {
    write_bytes(path, bytes);
    try {
      read();
    } catch (const IoError& error) {
      EXPECT_TRUE(contains(error.what(), path)) << error.what();
      ++refused;
    }
  };
  constexpr size_t near = 100;
  for (size_t at = 0; at < good.size(); at += at < near || at + near >= good.size() ? 1 : 1 + good.size() / near) {
    attempt({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(at)});
    std::vector<uint8_t> bad = good;
    bad[at] ^= static_cast<uint8_t>(1u << at % 8);
    attempt(bad);
  }
  EXPECT_GT(refused, 0u);
  write_bytes(path, good);
  EXPECT_NO_THROW(read());
}

}  // namespace heddle::test
