#include "heddle/train/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/library.h"
#include "heddle/train/task.h"

namespace heddle::train {
namespace {

constexpr uint64_t block_bytes = 64 << 10, large_bytes = 64 << 20, blocks = 64;

[[noreturn]] void fail(const fs::path& path) {
  throw IoError(fmt::format("[fingerprint] {}: cannot be read: {}", path.string(), std::strerror(errno)));
}

uint64_t hash_block(int descriptor, const fs::path& path, uint64_t at, uint64_t bytes) {
  std::vector<char> block(bytes);
  if (!os::seek_to(descriptor, at) || read_fully(descriptor, block.data(), bytes) != static_cast<int64_t>(bytes))
    fail(path);
  return hash_bytes(block.data(), block.size());
}

// Files larger than `whole_bytes` by blocks at equal distances.
uint64_t hash_file(const fs::path& path, uint64_t whole_bytes) {
  const Descriptor in(open_file(path.string(), FileAccess::read));
  if (!in) fail(path);
  std::error_code code;
  const uint64_t size = fs::file_size(path, code);
  if (code) throw IoError(fmt::format("[fingerprint] {}: cannot be read: {}", path.string(), code.message()));
  uint64_t hash = size;
  const bool whole = size <= whole_bytes;
  const uint64_t count = whole ? (size + block_bytes - 1) / block_bytes : blocks;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at =
        whole ? i * block_bytes
              : (size - block_bytes) / (blocks - 1) * i + (i + 1 == blocks ? (size - block_bytes) % (blocks - 1) : 0);
    hash = hash_combine(hash, hash_block(in.number(), path, at, std::min(block_bytes, size - at)));
  }
  return hash;
}

constexpr int stream_examples = 16;

uint64_t hash_of(const data::Sample& example) {
  uint64_t hash = example.size();
  for (const data::Array& array : example) {
    hash = hash_combine(hash, hash_string(fmt::format("{} {}", name_of(array.dtype), array.shape.str())));
    hash = hash_combine(hash, hash_bytes(array.bytes.data(), array.bytes.size()));
  }
  return hash;
}

}  // namespace

std::string code_fingerprint() {
  static const std::string text = hex64(hash_file(os::file_of_code(reinterpret_cast<const void*>(&code_fingerprint)),
                                                  std::numeric_limits<uint64_t>::max()));
  return text;
}

std::string data_fingerprint(const std::string& path) {
  std::error_code code;
  if (!fs::exists(path, code)) throw IoError(fmt::format("[fingerprint] {}: no such file or folder", path));
  if (!fs::is_directory(path, code)) return hex64(hash_file(path, large_bytes));
  const std::vector<std::string> names = files_below(path, code);
  if (code) throw IoError(fmt::format("[fingerprint] {}: cannot be read: {}", path, code.message()));
  std::vector<fs::path> files(names.begin(), names.end());
  std::sort(files.begin(), files.end());  // by the parts of paths
  uint64_t hash = files.size();
  for (const fs::path& file : files)
    hash = hash_combine(hash_combine(hash, hash_string(file.lexically_relative(path).string())),
                        hash_file(file, large_bytes));
  return hex64(hash);
}

std::string data_fingerprint(const TrainingData& data) {
  uint64_t hash = hash_string(data.name);
  if (data.stream) {
    const std::unique_ptr<data::SampleStream> examples = data.stream->open(0);
    for (int i = 0; i < stream_examples; ++i) {
      const std::optional<data::Sample> example = examples->next();
      if (!example) break;
      hash = hash_combine(hash, hash_of(*example));
    }
    return hex64(hash);
  }
  const auto size = static_cast<uint64_t>(data.dataset->size());
  hash = hash_combine(hash, size);
  const uint64_t count = std::min<uint64_t>(size, blocks);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t at = count < 2 ? 0 : i * ((size - 1) / (count - 1)) + i * ((size - 1) % (count - 1)) / (count - 1);
    data::Random random(0, 0, at);
    hash = hash_combine(hash, hash_of(data.dataset->get(static_cast<int64_t>(at), random)));
  }
  return hex64(hash);
}

}  // namespace heddle::train
