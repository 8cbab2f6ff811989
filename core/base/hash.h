// Stable 64-bit hashing for cache keys (FNV-1a over bytes with a final mix). Not for security.
// Thread safety: pure functions. The value of the same bytes is the same on every machine and in every run, so
// it may name files on disk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

constexpr uint64_t hash_string(std::string_view s, uint64_t seed = 0xcbf29ce484222325ull) {
  uint64_t h = seed;
  for (const char c : s) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  // FNV-1a changes its high bits slowly; this final mix (of MurmurHash3) spreads every input bit over all 64.
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdull;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ull;
  return h ^ (h >> 33);
}
inline uint64_t hash_bytes(const void* data, size_t bytes, uint64_t seed = 0xcbf29ce484222325ull) {
  return hash_string({static_cast<const char*>(data), bytes}, seed);
}
inline uint64_t hash_combine(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15ull + (a << 12) + (a >> 4))) * 0xff51afd7ed558ccdull;
}
// Of whole words, quick, for tables in memory whose entries are compared whole anyway.
inline uint64_t hash_words(std::span<const uint64_t> words) {
  uint64_t hash = words.size();
  for (const uint64_t word : words) {
    hash = (hash ^ word) * 0x9fb21c651e98df25ull;
    hash ^= hash >> 32;
  }
  return hash;
}
// Sixteen lower-case hexadecimal digits.
std::string hex64(uint64_t value);

}  // namespace heddle
