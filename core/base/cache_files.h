// The files of the disk cache as things: their header, listing, eviction, clearing, and packing into one file.
//
// Purpose: what `heddle cache` and the size limit need to know of a cache folder without knowing what an entry is for.
// Invariants: only files that Heddle made are ever removed: those in the known sub-folders that begin with the cache's
// magic, or end in ".tmp". A pack is taken apart only when its own hash fits, and each entry only when its own does.
// Thread safety: as the functions of cache_dir.h; a file that another process removes or replaces meanwhile is skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

// The first bytes of every entry.
struct CacheHeader {
  char magic[8];
  uint32_t format;
  uint32_t header_bytes;
  uint64_t version;  // hash of Heddle's version
  uint64_t owner;
  uint64_t identity_bytes;
  uint64_t identity_hash;
  uint64_t payload_bytes;
  uint64_t payload_hash;
  char label[64];  // zero-terminated; not part of what must fit
};
CacheHeader cache_header(uint64_t owner, std::string_view identity, const void* data, size_t bytes,
                         std::string_view label);
// Everything but the label is equal.
bool same_entry(const CacheHeader& a, const CacheHeader& b);
// Hash of the version of this library.
uint64_t cache_version();

// Writes a file that appears whole or not at all. Empty text: done; else the system's reason.
std::string write_cache_file(const std::string& path, std::span<const std::pair<const void*, size_t>> parts);

struct CacheEntry {
  std::string kind;  // sub-folder
  std::string file;  // name in it
  std::string label;
  uint64_t bytes = 0;  // of the file
  uint64_t owner = 0;
  double idle_seconds = 0;  // since it was last used
  bool current = false;     // made by this version of Heddle
  bool intact = false;      // the header fits the file's contents (known only where `verify` was asked for)
};
// Every entry below `root`, most recently used first.
std::vector<CacheEntry> list_cache(const std::string& root, bool verify);

struct CacheTotals {
  uint64_t files = 0;
  uint64_t bytes = 0;
};
// Removes the least recently used entries until at most `limit` bytes are left, and temporary files that a killed
// process left an hour ago or earlier. Returns what was removed.
CacheTotals trim_cache(const std::string& root, uint64_t limit);
// Removes all entries, or those of one kind. Returns what was removed.
CacheTotals clear_cache(const std::string& root, const std::string& kind = {});

// All intact entries of this version of Heddle, in one file. Returns what it holds. IoError when it cannot be written.
std::vector<CacheEntry> pack_cache(const std::string& root, const std::string& path);
// Nothing says who made a pack, and a driver runs machine code as it finds it: such entries (all kinds but "spirv" and
// "launch", which are compiled here) are left out unless the caller vouches for the file. What is taken is still code
// (docs/threats.md).
enum class NativeCode : uint8_t { refused, trusted };
struct Unpacked {
  std::vector<CacheEntry> entries;  // what was taken
  uint64_t refused = 0;             // entries of machine code that were left out
};
// Puts a pack's entries into the folder, replacing what is there. All of it is checked before anything is written.
// IoError when it is no pack, is damaged, was made by another version of Heddle, or the folder cannot be written.
Unpacked unpack_cache(const std::string& path, const std::string& root, NativeCode native = NativeCode::refused);

}  // namespace heddle
