// SHA-256 (FIPS 180-4): by which parts of files, and whole files, are recognised.
//
// Errors: IoError of sha256_of_file(). Thread safety: one thread drives a Sha256; the functions are pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

using Sha256Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  void update(std::span<const uint8_t> bytes);
  // Of all bytes so far, which stay: more may follow.
  Sha256Digest digest() const;

 private:
  void finish_block();

  std::array<uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<uint8_t, 64> block_{};
  size_t filled_ = 0;
  uint64_t bytes_ = 0;
};

Sha256Digest sha256(std::span<const uint8_t> bytes);
Sha256Digest sha256(std::string_view text);
// Read piece by piece; `who` asks, as in read_file().
Sha256Digest sha256_of_file(const std::string& path, std::string_view who);

// 64 lower-case digits, and back.
std::string hex_of(const Sha256Digest& digest);
std::optional<Sha256Digest> parse_sha256(std::string_view hex);

}  // namespace heddle
