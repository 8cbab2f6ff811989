// PKWARE's APPNOTE.TXT, sections 4.3.7 (local header), 4.3.12 (central directory), 4.3.14 to 4.3.16 (its end, in 64 and
// 32 bits) and 4.5.3 (64-bit sizes of an entry).
#include "heddle/io/zip.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/inflate.h"
#include "heddle/io/read_file.h"

namespace heddle {
namespace {

using Bytes = std::span<const uint8_t>;

constexpr uint32_t local_magic = 0x04034b50, central_magic = 0x02014b50, end_magic = 0x06054b50,
                   end64_magic = 0x06064b50, locator_magic = 0x07064b50;
constexpr size_t local_bytes = 30, central_bytes = 46, end_bytes = 22, locator_bytes = 20;
constexpr uint16_t extra64 = 1;            // of an entry: what stands there in 64 bits
constexpr uint32_t in_64 = 0xFFFFFFFF;     // in place of a number that does
constexpr uint64_t most_inflation = 1032;  // deflate cannot say more in a byte
constexpr uint16_t is_stored = 0, is_deflated = 8;

}  // namespace

ZipArchive::ZipArchive(Bytes file, std::string_view who, const std::string& path)
    : file_(file), who_(who), path_(path) {
  const Directory directory = find_directory();
  uint64_t at = directory.offset, packed = 0;
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (u32(at) != central_magic) fail("its directory is corrupt");
    if ((u16(at + 8) & 1) != 0) fail("it is encrypted");
    const size_t name = u16(at + 28), extra = u16(at + 30), comment = u16(at + 32);
    const Bytes text = part(at + central_bytes, name);
    ZipEntry entry{{text.begin(), text.end()}, u16(at + 10), u32(at + 16), u32(at + 20), u32(at + 24), u32(at + 42)};
    widen(entry, at + central_bytes + name, extra);
    if (entry.packed > file_.size() - packed) fail("its entries overlap");
    packed += entry.packed;
    entries_.push_back(std::move(entry));
    at += central_bytes + name + extra + comment;
  }
}

std::vector<uint8_t> ZipArchive::contents(const ZipEntry& entry) const {
  const Bytes in = packed(entry);
  std::vector<uint8_t> out;
  if (entry.method == is_stored && entry.size == entry.packed) {
    out.assign(in.begin(), in.end());
  } else if (entry.method == is_deflated && entry.size <= most_inflation * (entry.packed + 1)) {
    Inflater(in, Inflater::Format::raw, who_, fmt::format("{}: {}", path_, shortened(entry.name)))
        .fill(out, entry.size + 1);
  } else {
    fail(fmt::format("entry '{}' is neither stored nor deflated", entry.name));
  }
  check(entry, out);
  return out;
}

Bytes ZipArchive::stored(const ZipEntry& entry) const {
  if (entry.method != is_stored || entry.size != entry.packed)
    fail(fmt::format("entry '{}' is compressed, expected one that is stored", entry.name));
  const Bytes content = packed(entry);
  check(entry, content);
  return content;
}

Bytes ZipArchive::packed(const ZipEntry& entry) const {
  if (u32(entry.offset) != local_magic) fail(fmt::format("entry '{}' is not where the directory says", entry.name));
  return part(entry.offset + local_bytes + u16(entry.offset + 26) + u16(entry.offset + 28), entry.packed);
}

void ZipArchive::check(const ZipEntry& entry, Bytes content) const {
  if (content.size() != entry.size || ::crc32_z(0, content.data(), content.size()) != entry.crc)
    fail(fmt::format("entry '{}' does not match its size and checksum", entry.name));
}

void ZipArchive::fail(const std::string& what) const {
  throw IoError(fmt::format("[{}] {}: {}", who_, path_, shortened(what, 500)));
}

Bytes ZipArchive::part(uint64_t at, uint64_t bytes) const {
  if (at > file_.size() || bytes > file_.size() - at) fail("truncated archive");
  return file_.subspan(at, bytes);
}

uint16_t ZipArchive::u16(uint64_t at) const {
  const Bytes b = part(at, 2);
  return static_cast<uint16_t>(b[0] | b[1] << 8);
}

// The end stands behind everything but a comment of at most 65,535 bytes. Where it has no room for a number, what
// locates the 64-bit end stands right before it.
ZipArchive::Directory ZipArchive::find_directory() const {
  const uint64_t end = find_end();
  const Directory directory{u16(end + 10), u32(end + 16)};
  if (directory.count != 0xFFFF && directory.offset != in_64) return directory;
  if (end < locator_bytes || u32(end - locator_bytes) != locator_magic) return directory;
  const uint64_t end64 = u64(end - locator_bytes + 8);
  if (u32(end64) != end64_magic) fail("its 64-bit directory is not where it says");
  return {u64(end64 + 32), u64(end64 + 48)};
}

uint64_t ZipArchive::find_end() const {
  for (size_t back = end_bytes; back <= std::min<size_t>(file_.size(), end_bytes + 0xFFFF); ++back) {
    const size_t at = file_.size() - back;
    if (u32(at) == end_magic && u16(at + 20) == back - end_bytes) return at;
  }
  fail("not a zip archive, or truncated");
}

// Those numbers of an entry that its extra field has in 64 bits, in this order.
void ZipArchive::widen(ZipEntry& entry, uint64_t at, uint64_t bytes) const {
  part(at, bytes);
  for (const uint64_t end = at + bytes; end - at >= 4;) {
    const uint16_t kind = u16(at), size = u16(at + 2);
    at += 4;
    if (size > end - at) fail(fmt::format("the extra field of entry '{}' is corrupt", entry.name));
    uint64_t left = kind == extra64 ? size : 0, from = at;
    for (uint64_t* number : {&entry.size, &entry.packed, &entry.offset}) {
      if (*number != in_64 || left < 8) continue;
      *number = u64(from);
      from += 8;
      left -= 8;
    }
    at += size;
  }
}

std::map<std::string, std::vector<uint8_t>> read_zip(const std::string& path, const std::string& who) {
  const std::vector<uint8_t> file = read_file(path, who);
  const ZipArchive archive(file, who, path);
  std::map<std::string, std::vector<uint8_t>> contents;
  for (const ZipEntry& entry : archive.entries()) {
    if (!contents.emplace(entry.name, archive.contents(entry)).second)
      throw IoError(fmt::format("[{}] {}: entry '{}' is there twice", who, path, shortened(entry.name)));
  }
  return contents;
}

}  // namespace heddle
