// Zip archives in memory, as .npz files and PyTorch's are: entries that are stored or deflated, each under its CRC-32,
// with 32-bit or 64-bit sizes (ZIP64). Nothing is ever written where an entry's name says.
//
// Invariants: entries are those of the central directory, together no longer than the file. Errors: IoError "[who]
// path: ..." for anything else. Thread safety: reading is const.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle {

struct ZipEntry {
  std::string name;
  uint16_t method = 0;
  uint32_t crc = 0;
  uint64_t packed = 0, size = 0, offset = 0;
};

class ZipArchive {
 public:
  // The bytes must live as long as the archive.
  ZipArchive(std::span<const uint8_t> file, std::string_view who, const std::string& path);

  const std::vector<ZipEntry>& entries() const { return entries_; }
  std::vector<uint8_t> contents(const ZipEntry& entry) const;
  // Of an entry that is stored: a view. IoError of one that is deflated.
  std::span<const uint8_t> stored(const ZipEntry& entry) const;

 private:
  struct Directory {
    uint64_t count, offset;
  };

  [[noreturn]] void fail(const std::string& what) const;
  std::span<const uint8_t> part(uint64_t at, uint64_t bytes) const;
  std::span<const uint8_t> packed(const ZipEntry& entry) const;
  void check(const ZipEntry& entry, std::span<const uint8_t> content) const;
  uint16_t u16(uint64_t at) const;
  uint32_t u32(uint64_t at) const { return u16(at) | uint32_t{u16(at + 2)} << 16; }
  uint64_t u64(uint64_t at) const { return u32(at) | uint64_t{u32(at + 4)} << 32; }
  Directory find_directory() const;
  uint64_t find_end() const;
  void widen(ZipEntry& entry, uint64_t at, uint64_t bytes) const;

  std::span<const uint8_t> file_;
  std::string who_, path_;
  std::vector<ZipEntry> entries_;
};

// Contents by name.
std::map<std::string, std::vector<uint8_t>> read_zip(const std::string& path, const std::string& who);

}  // namespace heddle
