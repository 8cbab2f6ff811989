#include "core/base/cache_dir.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/hash.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

constexpr char magic[8] = {'H', 'D', 'L', 'C', 'A', 'C', 'H', 'E'};
constexpr uint32_t format = 1;
// A second hash with its own seed guards against two identities that share a file name.
constexpr uint64_t check_seed = 0x9ae16a3b2f90404full;

struct Header {
  char magic[8];
  uint32_t format;
  uint32_t header_bytes;
  uint64_t owner;
  uint64_t identity_bytes;
  uint64_t identity_hash;
  uint64_t payload_bytes;
  uint64_t payload_hash;
};

Header header_of(uint64_t owner, std::string_view identity, const void* data, size_t bytes) {
  Header h{};
  std::memcpy(h.magic, magic, sizeof magic);
  h.format = format;
  h.header_bytes = sizeof(Header);
  h.owner = owner;
  h.identity_bytes = identity.size();
  h.identity_hash = hash_string(identity, check_seed);
  h.payload_bytes = bytes;
  h.payload_hash = hash_bytes(data, bytes);
  return h;
}

}  // namespace

std::string cache_dir() {
  if (const char* dir = std::getenv("HEDDLE_CACHE_DIR")) return dir;
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg && *xdg) return std::string(xdg) + "/heddle";
  const char* home = std::getenv("HOME");
  return home && *home ? std::string(home) + "/.cache/heddle" : std::string();
}

DiskCache::DiskCache(std::string_view kind, uint64_t owner) : owner_(owner) {
  std::string root = cache_dir();
  if (!root.empty()) folder_ = root + "/" + std::string(kind);
}

std::string DiskCache::path(std::string_view identity) const {
  if (folder_.empty()) return {};
  return folder_ + "/" + hex64(hash_combine(owner_, hash_string(identity)));
}

std::optional<std::vector<uint8_t>> DiskCache::load(std::string_view identity) const {
  std::string file = path(identity);
  if (file.empty()) return std::nullopt;
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in) return std::nullopt;
  auto size = static_cast<int64_t>(in.tellg());
  if (size < static_cast<int64_t>(sizeof(Header))) return std::nullopt;
  Header found;
  in.seekg(0);
  in.read(reinterpret_cast<char*>(&found), sizeof found);
  if (!in || found.payload_bytes != static_cast<uint64_t>(size) - sizeof found) return std::nullopt;
  std::vector<uint8_t> payload(found.payload_bytes);
  in.read(reinterpret_cast<char*>(payload.data()), static_cast<std::streamsize>(payload.size()));
  if (!in) return std::nullopt;
  Header expected = header_of(owner_, identity, payload.data(), payload.size());
  if (std::memcmp(&found, &expected, sizeof found) != 0) return std::nullopt;
  return payload;
}

void DiskCache::store(std::string_view identity, const void* data, size_t bytes) const {
  static std::atomic<uint64_t> counter{0};
  std::string file = path(identity);
  if (file.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) return;
  std::string temporary = file + "." + std::to_string(::getpid()) + "." + std::to_string(counter++) + ".tmp";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    Header h = header_of(owner_, identity, data, bytes);
    out.write(reinterpret_cast<const char*>(&h), sizeof h);
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
    out.flush();
    if (!out) {
      out.close();
      fs::remove(temporary, error);
      return;
    }
  }
  fs::rename(temporary, file, error);
  if (error) fs::remove(temporary, error);
}

}  // namespace heddle
