#include "heddle/core/base/cache_dir.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "heddle/core/base/cache_files.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/system/machine.h"

namespace heddle {
namespace {

void warn_once(const std::string& folder, const std::string& reason) {
  static std::mutex mutex;
  static std::set<std::string>& warned = *new std::set<std::string>;
  const std::lock_guard guard(mutex);
  if (!warned.insert(folder).second) return;
  print_error(
      "heddle: warning: the cache folder {} cannot be written ({}): kernels are compiled anew in every process; "
      "HEDDLE_CACHE_DIR names another folder\n",
      folder, reason);
}

// How full each folder is, as far as this process knows: counted at its first store, then followed; counted anew when
// that says "full", since other processes write and remove as well.
void keep_within_limit(const std::string& root, uint64_t added) {
  static std::mutex mutex;
  static std::map<std::string, uint64_t>& known = *new std::map<std::string, uint64_t>;
  const std::lock_guard guard(mutex);
  const auto [at, fresh] = known.try_emplace(root, 0);
  if (fresh) {
    for (const CacheEntry& entry : list_cache(root, false)) at->second += entry.bytes;
  } else {
    at->second += added;
  }
  const uint64_t limit = cache_limit_bytes();
  if (at->second <= limit) return;
  trim_cache(root, limit - limit / 8);  // some room, so that not every store has to look through the folder
  at->second = 0;
  for (const CacheEntry& entry : list_cache(root, false)) at->second += entry.bytes;
}

// An open file, read whole.
std::optional<std::vector<uint8_t>> read_all(int descriptor) {
  const std::optional<os::FileFacts> facts = os::facts_of(descriptor);
  if (!facts || !facts->regular) return std::nullopt;
  std::vector<uint8_t> bytes(static_cast<size_t>(facts->bytes));
  if (read_fully(descriptor, bytes.data(), bytes.size()) != static_cast<int64_t>(bytes.size())) return std::nullopt;
  return bytes;
}

}  // namespace

std::string cache_dir() {
  if (std::optional<std::string> asked = os::variable("HEDDLE_CACHE_DIR")) return *std::move(asked);
  const std::string folder = os::user_cache_folder();
  return folder.empty() ? folder : folder + "/heddle";
}

uint64_t cache_limit_bytes() {
  uint64_t megabytes = 1024;
  if (const char* text = std::getenv("HEDDLE_CACHE_MB")) std::from_chars(text, text + std::strlen(text), megabytes);
  return megabytes << 20;
}

DiskCache::DiskCache(std::string_view kind, uint64_t owner) : root_(cache_dir()), owner_(owner) {
  if (!root_.empty()) folder_ = root_ + "/" + std::string(kind);
}

std::string DiskCache::path(std::string_view identity) const {
  if (root_.empty()) return {};
  return folder_ + "/" + hex64(hash_combine(hash_combine(owner_, cache_version()), hash_string(identity)));
}

std::optional<std::vector<uint8_t>> DiskCache::load(std::string_view identity) const {
  const std::string file = path(identity);
  if (file.empty()) return std::nullopt;
  const Descriptor in(open_file(file, FileAccess::read));
  if (!in) return std::nullopt;
  std::optional<std::vector<uint8_t>> bytes = read_all(in.number());
  std::optional<std::vector<uint8_t>> payload;
  if (bytes && bytes->size() >= sizeof(CacheHeader)) {
    CacheHeader found;
    std::memcpy(&found, bytes->data(), sizeof found);
    const uint8_t* data = bytes->data() + sizeof found;
    const size_t size = bytes->size() - sizeof found;
    if (same_entry(found, cache_header(owner_, identity, data, size, {}))) payload.emplace(data, data + size);
  }
  if (payload) os::note_use(in.number());
  return payload;
}

void DiskCache::store(std::string_view identity, const void* data, size_t bytes, std::string_view label) const {
  const std::string file = path(identity);
  if (file.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return warn_once(root_, error.message());
  const CacheHeader header = cache_header(owner_, identity, data, bytes, label);
  const std::pair<const void*, size_t> parts[] = {{&header, sizeof header}, {data, bytes}};
  const std::string reason = write_cache_file(file, parts);
  if (!reason.empty()) return warn_once(root_, reason);
  keep_within_limit(root_, sizeof header + bytes);
}

}  // namespace heddle
