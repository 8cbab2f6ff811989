#include "heddle/core/base/cache_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <tuple>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/base/system/machine.h"

namespace heddle {
namespace {

constexpr char entry_magic[8] = {'H', 'D', 'L', 'C', 'A', 'C', 'H', 'E'};
constexpr char pack_magic[8] = {'H', 'D', 'L', 'P', 'A', 'C', 'K', '1'};
constexpr uint32_t entry_format = 2;
// A second hash with its own seed guards against two identities that share a file name.
constexpr uint64_t check_seed = 0x9ae16a3b2f90404full;
constexpr double stale_seconds = 3600;

struct PackHeader {
  char magic[8];
  uint64_t version;
  uint64_t entries;
  uint64_t bytes;  // of what follows
  uint64_t hash;   // of what follows
};

std::string error_text(int code) { return std::strerror(code); }

std::vector<uint8_t> read_file(const std::string& path) {
  std::vector<uint8_t> bytes;
  if (!read_contents(path, bytes)) bytes.clear();
  return bytes;
}

bool payload_fits(const CacheHeader& header, const std::vector<uint8_t>& file) {
  const size_t size = file.size() - sizeof header;
  return header.payload_bytes == size && header.payload_hash == hash_bytes(file.data() + sizeof header, size);
}

bool is_entry(const CacheHeader& header) {
  return std::memcmp(header.magic, entry_magic, sizeof entry_magic) == 0 && header.format == entry_format &&
         header.header_bytes == sizeof(CacheHeader);
}

std::string label_of(const CacheHeader& header) {
  const auto* const end = std::find(std::begin(header.label), std::end(header.label), '\0');
  return {std::begin(header.label), end};
}

// What is known of one file; none when it is not an entry.
std::optional<CacheEntry> describe(const fs::path& path, bool verify) {
  const std::optional<os::FileFacts> facts = os::facts_of(path.string());
  if (!facts || !facts->regular) return std::nullopt;
  CacheHeader header{};
  const Descriptor in(open_file(path.string(), FileAccess::read));
  const int64_t got = in ? read_fully(in.number(), &header, sizeof header) : -1;
  const bool begins = std::memcmp(header.magic, entry_magic, sizeof entry_magic) == 0;
  if (got < static_cast<int64_t>(sizeof entry_magic) || !begins) return std::nullopt;
  CacheEntry entry;
  entry.kind = path.parent_path().filename().string();
  entry.file = path.filename().string();
  entry.bytes = facts->bytes;
  entry.idle_seconds = std::max(0.0, facts->used);
  if (got != static_cast<int64_t>(sizeof header) || !is_entry(header))
    return entry;  // cut, or of another format: an entry nobody can use
  entry.label = label_of(header);
  entry.owner = header.owner;
  entry.current = header.version == cache_version();
  entry.intact = verify && payload_fits(header, read_file(path.string()));
  return entry;
}

// Calls visit(path) for each regular file in the sub-folders of `root`; other processes may change them meanwhile.
template <class F>
void each_file(const std::string& root, F&& visit) {
  std::error_code ignored;
  for (const std::string& kind : names_in(root, ignored)) {
    const fs::path folder = fs::path(root) / kind;
    for (const std::string& file : names_in(folder.string(), ignored)) visit(folder / file);
  }
}

bool is_stale_temporary(const fs::path& path) {
  if (path.extension() != ".tmp") return false;
  const std::optional<os::FileFacts> facts = os::facts_of(path.string());
  return facts && facts->modified > stale_seconds;
}

template <class T>
void append(std::vector<uint8_t>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

void append(std::vector<uint8_t>& out, const std::string& text) {
  append(out, static_cast<uint32_t>(text.size()));
  out.insert(out.end(), text.begin(), text.end());
}

// Takes a pack's body apart; every length is compared with what is left before it is believed.
class PackReader {
 public:
  PackReader(const uint8_t* data, size_t bytes, const std::string& path) : data_(data), left_(bytes), path_(path) {}

  uint64_t number(size_t width) {
    uint64_t value = 0;
    std::memcpy(&value, take(width), width);
    return value;
  }
  std::string text() {
    const size_t size = number(sizeof(uint32_t));
    return std::string(reinterpret_cast<const char*>(take(size)), size);
  }
  std::vector<uint8_t> bytes() {
    const size_t size = number(sizeof(uint64_t));
    const uint8_t* from = take(size);
    return {from, from + size};
  }

 private:
  const uint8_t* take(size_t bytes) {
    if (bytes > left_) throw IoError(fmt::format("[cache unpack] {}: an entry ends beyond the file", path_));
    const uint8_t* from = data_;
    data_ += bytes;
    left_ -= bytes;
    return from;
  }

  const uint8_t* data_;
  size_t left_;
  const std::string& path_;
};

// A pack comes from elsewhere: its names must not lead out of the cache folder.
bool is_plain_name(const std::string& name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_'; };
  return !name.empty() && name.size() < 100 && std::all_of(name.begin(), name.end(), plain);
}

// Kinds whose entries are sources, or code that no machine runs as it is.
bool is_compiled_here(const std::string& kind) { return kind == "spirv" || kind == "launch"; }

struct PackedFile {
  std::string kind, name;
  std::vector<uint8_t> data;
};

std::vector<PackedFile> packed_files(PackReader reader, uint64_t count, const std::string& path) {
  std::vector<PackedFile> files;
  for (uint64_t i = 0; i < count; ++i) {
    PackedFile f;
    f.kind = reader.text();
    f.name = reader.text();
    f.data = reader.bytes();
    if (!is_plain_name(f.kind) || !is_plain_name(f.name))
      throw IoError(
          fmt::format("[cache unpack] {}: '{}/{}' is no name of an entry", path, shortened(f.kind), shortened(f.name)));
    CacheHeader inner{};
    if (f.data.size() >= sizeof inner) std::memcpy(&inner, f.data.data(), sizeof inner);
    if (!is_entry(inner) || !payload_fits(inner, f.data))
      throw IoError(fmt::format("[cache unpack] {}: '{}/{}' is damaged", path, f.kind, f.name));
    files.push_back(std::move(f));
  }
  return files;
}

}  // namespace

uint64_t cache_version() {
  static const uint64_t hash = hash_string(HEDDLE_VERSION);
  return hash;
}

CacheHeader cache_header(uint64_t owner, std::string_view identity, const void* data, size_t bytes,
                         std::string_view label) {
  CacheHeader h{};
  std::memcpy(h.magic, entry_magic, sizeof entry_magic);
  h.format = entry_format;
  h.header_bytes = sizeof(CacheHeader);
  h.version = cache_version();
  h.owner = owner;
  h.identity_bytes = identity.size();
  h.identity_hash = hash_string(identity, check_seed);
  h.payload_bytes = bytes;
  h.payload_hash = hash_bytes(data, bytes);
  label.copy(h.label, sizeof h.label - 1);
  return h;
}

bool same_entry(const CacheHeader& a, const CacheHeader& b) {
  return std::memcmp(&a, &b, offsetof(CacheHeader, label)) == 0;
}

std::string write_cache_file(const std::string& path, std::span<const std::pair<const void*, size_t>> parts) {
  static std::atomic<uint64_t> counter{0};
  const std::string temporary = fmt::format("{}.{}.{}.tmp", path, os::process_id(), counter++);
  const int descriptor = open_file(temporary, FileAccess::create_own);
  if (descriptor < 0) return error_text(errno);
  std::string reason;
  for (const auto& [data, bytes] : parts) {
    if (reason.empty() && !write_fully(descriptor, data, bytes)) reason = error_text(errno);
  }
  if (!os::close_file(descriptor) && reason.empty()) reason = error_text(errno);
  if (reason.empty() && !os::replace_file(temporary, path)) reason = error_text(errno);
  if (!reason.empty()) os::remove_file(temporary);
  return reason;
}

std::vector<CacheEntry> list_cache(const std::string& root, bool verify) {
  std::vector<CacheEntry> entries;
  each_file(root, [&](const fs::path& path) {
    if (path.extension() == ".tmp") return;
    if (std::optional<CacheEntry> entry = describe(path, verify)) entries.push_back(std::move(*entry));
  });
  std::sort(entries.begin(), entries.end(), [](const CacheEntry& a, const CacheEntry& b) {
    return std::tie(a.idle_seconds, a.kind, a.file) < std::tie(b.idle_seconds, b.kind, b.file);
  });
  return entries;
}

CacheTotals trim_cache(const std::string& root, uint64_t limit) {
  CacheTotals removed;
  std::error_code error;
  each_file(root, [&](const fs::path& path) {
    if (is_stale_temporary(path)) fs::remove(path, error);
  });
  std::vector<CacheEntry> entries = list_cache(root, false);
  uint64_t total = 0;
  for (const CacheEntry& entry : entries) total += entry.bytes;
  while (total > limit && !entries.empty()) {
    const CacheEntry& oldest = entries.back();
    fs::remove(fs::path(root) / oldest.kind / oldest.file, error);
    total -= oldest.bytes;
    removed.bytes += oldest.bytes;
    ++removed.files;
    entries.pop_back();
  }
  return removed;
}

CacheTotals clear_cache(const std::string& root, const std::string& kind) {
  CacheTotals removed;
  std::error_code error;
  for (const CacheEntry& entry : list_cache(root, false)) {
    if (!kind.empty() && entry.kind != kind) continue;
    if (!fs::remove(fs::path(root) / entry.kind / entry.file, error)) continue;
    removed.bytes += entry.bytes;
    ++removed.files;
  }
  return removed;
}

std::vector<CacheEntry> pack_cache(const std::string& root, const std::string& path) {
  std::vector<CacheEntry> packed;
  std::vector<uint8_t> body;
  for (const CacheEntry& entry : list_cache(root, true)) {
    if (!entry.current || !entry.intact) continue;
    const std::vector<uint8_t> file = read_file((fs::path(root) / entry.kind / entry.file).string());
    if (file.size() != entry.bytes) continue;  // another process replaced it
    append(body, entry.kind);
    append(body, entry.file);
    append(body, static_cast<uint64_t>(file.size()));
    body.insert(body.end(), file.begin(), file.end());
    packed.push_back(entry);
  }
  PackHeader header{};
  std::memcpy(header.magic, pack_magic, sizeof pack_magic);
  header.version = cache_version();
  header.entries = packed.size();
  header.bytes = body.size();
  header.hash = hash_bytes(body.data(), body.size());
  const std::pair<const void*, size_t> parts[] = {{&header, sizeof header}, {body.data(), body.size()}};
  const std::string reason = write_cache_file(path, parts);
  if (!reason.empty()) throw IoError(fmt::format("[cache pack] {}: {}", path, reason));
  return packed;
}

Unpacked unpack_cache(const std::string& path, const std::string& root, NativeCode native) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) throw IoError(fmt::format("[cache unpack] {} is not a file", path));
  const std::vector<uint8_t> file = read_file(path);
  PackHeader header{};
  if (file.size() < sizeof header)
    throw IoError(fmt::format("[cache unpack] {} is no pack of heddle: it has {} bytes", path, file.size()));
  std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.magic, pack_magic, sizeof pack_magic) != 0)
    throw IoError(fmt::format("[cache unpack] {} is no pack of heddle", path));
  if (header.version != cache_version()) {
    throw IoError(fmt::format("[cache unpack] {} was made by another version of heddle than {}; make it anew with that",
                              path, HEDDLE_VERSION));
  }
  const uint8_t* body = file.data() + sizeof header;
  const size_t bytes = file.size() - sizeof header;
  if (header.bytes != bytes || header.hash != hash_bytes(body, bytes))
    throw IoError(fmt::format("[cache unpack] {} is damaged or cut short", path));
  Unpacked unpacked;
  std::vector<PackedFile> files = packed_files(PackReader(body, bytes, path), header.entries, path);
  if (native == NativeCode::refused)
    unpacked.refused = std::erase_if(files, [](const PackedFile& f) { return !is_compiled_here(f.kind); });
  for (const PackedFile& f : files) {
    const fs::path target = fs::path(root) / f.kind / f.name;
    fs::create_directories(target.parent_path(), error);
    const std::pair<const void*, size_t> parts[] = {{f.data.data(), f.data.size()}};
    const std::string reason = error ? error.message() : write_cache_file(target.string(), parts);
    if (!reason.empty()) throw IoError(fmt::format("[cache unpack] {}: {}", target.string(), reason));
    if (std::optional<CacheEntry> entry = describe(target, true)) unpacked.entries.push_back(std::move(*entry));
  }
  return unpacked;
}

}  // namespace heddle
