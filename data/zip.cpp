// PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (central directory) and 4.3.16 (its end).
#include "data/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <span>

#include "core/base/error.h"
#include "io/inflate.h"
#include "io/read_file.h"

namespace heddle::data {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint32_t local_magic = 0x04034b50, central_magic = 0x02014b50, end_magic = 0x06054b50;
constexpr size_t local_bytes = 30, central_bytes = 46, end_bytes = 22;
constexpr uint64_t most_inflation = 1032;  // deflate cannot say more in a byte

struct Entry {
  std::string name;
  uint16_t method;
  uint32_t crc, packed, size, offset;
};

class Archive {
 public:
  Archive(Bytes file, std::string who, std::string path) : file_(file), who_(std::move(who)), path_(std::move(path)) {}

  std::vector<Entry> entries() const {
    const size_t end = find_end();
    const uint16_t count = u16(end + 10);
    size_t at = u32(end + 16);
    std::vector<Entry> all;
    uint64_t packed = 0;
    for (uint16_t i = 0; i < count; ++i) {
      if (u32(at) != central_magic) fail("its directory is corrupt");
      if ((u16(at + 8) & 1) != 0) fail("it is encrypted");
      if (u32(at + 20) == 0xFFFFFFFF || u32(at + 24) == 0xFFFFFFFF) fail("it is larger than 4 GB (ZIP64), which is not read");
      const size_t name = u16(at + 28), extra = u16(at + 30), comment = u16(at + 32);
      const Bytes text = part(at + central_bytes, name);
      all.push_back({{text.begin(), text.end()}, u16(at + 10), u32(at + 16), u32(at + 20), u32(at + 24), u32(at + 42)});
      packed += all.back().packed;
      at += central_bytes + name + extra + comment;
    }
    if (packed > file_.size()) fail("its entries overlap");
    return all;
  }

  std::vector<uint8_t> contents(const Entry& e) const {
    if (u32(e.offset) != local_magic) fail(fmt::format("entry '{}' is not where the directory says", e.name));
    const Bytes packed = part(size_t{e.offset} + local_bytes + u16(e.offset + 26) + u16(e.offset + 28), e.packed);
    std::vector<uint8_t> out;
    if (e.method == 0 && e.size == e.packed) {
      out.assign(packed.begin(), packed.end());
    } else if (e.method == 8 && e.size <= most_inflation * (uint64_t{e.packed} + 1)) {
      Inflater(packed, Inflater::Format::raw, who_, fmt::format("{}: {}", path_, e.name)).fill(out, size_t{e.size} + 1);
    } else {
      fail(fmt::format("entry '{}' is neither stored nor deflated", e.name));
    }
    if (out.size() != e.size || ::crc32_z(0, out.data(), out.size()) != e.crc) fail(fmt::format("entry '{}' does not match its size and checksum", e.name));
    return out;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(fmt::format("[{}] {}: {}", who_, path_, what)); }

  Bytes part(size_t at, size_t bytes) const {
    if (at > file_.size() || bytes > file_.size() - at) fail("truncated archive");
    return file_.subspan(at, bytes);
  }
  uint16_t u16(size_t at) const {
    const Bytes b = part(at, 2);
    return static_cast<uint16_t>(b[0] | b[1] << 8);
  }
  uint32_t u32(size_t at) const { return u16(at) | uint32_t{u16(at + 2)} << 16; }

  // The end stands behind everything but a comment of at most 65,535 bytes.
  size_t find_end() const {
    for (size_t back = end_bytes; back <= std::min<size_t>(file_.size(), end_bytes + 0xFFFF); ++back) {
      const size_t at = file_.size() - back;
      if (u32(at) == end_magic && u16(at + 20) == back - end_bytes) return at;
    }
    fail("not a zip archive, or truncated");
  }

  Bytes file_;
  std::string who_, path_;
};

}  // namespace

std::map<std::string, std::vector<uint8_t>> read_zip(const std::string& path, const std::string& who) {
  const std::vector<uint8_t> file = read_file(path, who);
  const Archive archive(file, who, path);
  std::map<std::string, std::vector<uint8_t>> contents;
  for (const Entry& entry : archive.entries()) {
    if (!contents.emplace(entry.name, archive.contents(entry)).second) throw IoError(fmt::format("[{}] {}: entry '{}' is there twice", who, path, entry.name));
  }
  return contents;
}

}  // namespace heddle::data
