#include "heddle/train/sharded_checkpoint.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/train/checked_file.h"
#include "heddle/train/prefix.h"
#include "heddle/train/state_pieces.h"

namespace heddle::train {
namespace {

constexpr std::string_view file_ending = ".safetensors", rank_mark = ".rank-";
constexpr const char *count_key = "shards", *step_key = "step";

std::string manifest_key(int64_t rank) { return fmt::format("shard.{}", rank); }

uint64_t size_of_file(const std::string& path) {
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  if (code) throw IoError(fmt::format("[checkpoint] {}: a rank's part is missing: {}", path, code.message()));
  return bytes;
}

// ---- reading

[[noreturn]] void fail(const std::string& what) { throw IoError(fmt::format("[checkpoint] {}", what)); }

// The file of one of `ranks`, which has to be the one that the checkpoint of that path names.
SafetensorsBytes read_part(const std::string& path, Metadata& metadata, int64_t rank, int64_t ranks) {
  const std::string part = shard_path(path, rank, ranks);
  const uint64_t bytes = size_of_file(part);
  const auto expected = metadata.find(manifest_key(rank));
  if (expected == metadata.end()) fail(fmt::format("{}: nothing is said of rank {}", path, rank));
  CheckedFile checked = read_checked(part);
  const std::string step = checked.file.metadata[step_key], own = metadata[step_key];
  if (step != own) fail(fmt::format("{}: it is of step {}, its checkpoint of step {}", part, step, own));
  if (expected->second != fmt::format("{} {}", bytes, checked.checksum))
    fail(fmt::format("{}: it has not the length or the checksum that its checkpoint names", part));
  return std::move(checked.file);
}

void read_parts(const std::string& path, int64_t ranks, WholeCheckpoint& checkpoint) {
  std::vector<SafetensorsBytes> files;  // that the pieces point into
  StatePieces pieces;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    files.push_back(read_part(path, checkpoint.file.metadata, rank, ranks));
    pieces.take(shard_path(path, rank, ranks), files.back().tensors, files.back().metadata);
  }
  for (auto& [name, whole] : pieces.join(path)) {
    const std::vector<uint8_t>& kept = checkpoint.joined.emplace_back(std::move(whole.bytes));
    if (!checkpoint.file.tensors.emplace(name, TensorBytes{whole.dtype, whole.shape, kept}).second)
      fail(fmt::format("{}: '{}' is there twice", path, name));
  }
}

}  // namespace

std::string shard_path(const std::string& checkpoint, int64_t rank, int64_t ranks) {
  const std::string stem = checkpoint.substr(0, checkpoint.size() - file_ending.size());
  return fmt::format("{}{}{}-of-{}{}", stem, rank_mark, rank, ranks, file_ending);
}

std::string checkpoint_of_shard(std::string_view name) {
  const size_t mark = name.find(rank_mark);
  if (mark == std::string_view::npos || !name.ends_with(file_ending)) return {};
  return std::string(name.substr(0, mark)) + std::string(file_ending);
}

Snapshot snapshot_of_shards(int64_t step, const std::vector<Optimizers::ShardState>& states) {
  Snapshot snapshot({}, {{step_key, std::to_string(step)}});
  for (const Optimizers::ShardState& state : states)
    snapshot.add_piece(std::string(optimizer_prefix) + state.name, state.whole, state.begin, state.values);
  return snapshot;
}

ShardFile write_shard(Snapshot& part, const std::string& path) {
  const std::string checksum = part.write(path);
  return {static_cast<int64_t>(size_of_file(path)), static_cast<int64_t>(std::stoull(checksum, nullptr, 16))};
}

Metadata manifest_of(const std::vector<ShardFile>& files) {
  Metadata manifest{{count_key, std::to_string(files.size())}};
  for (size_t rank = 0; rank < files.size(); ++rank)
    manifest[manifest_key(static_cast<int64_t>(rank))] =
        fmt::format("{} {:08x}", files[rank].bytes, files[rank].checksum);
  return manifest;
}

void join_shards(const std::string& path, WholeCheckpoint& checkpoint, bool read) {
  Metadata& metadata = checkpoint.file.metadata;
  const auto count = metadata.find(count_key);
  if (count == metadata.end()) return;
  const auto ranks = parse_number<int64_t>(count->second);
  if (!ranks || *ranks < 1 || *ranks > static_cast<int64_t>(metadata.size()))
    throw IoError(fmt::format("[checkpoint] {}: '{}' is no number of ranks", path, count->second));
  if (read) read_parts(path, *ranks, checkpoint);
  for (int64_t rank = 0; rank < *ranks; ++rank) metadata.erase(manifest_key(rank));
  metadata.erase(count_key);
}

}  // namespace heddle::train
