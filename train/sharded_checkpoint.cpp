#include "heddle/train/sharded_checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"
#include "heddle/train/checked_file.h"
#include "heddle/train/prefix.h"

namespace heddle::train {
namespace {

constexpr std::string_view file_ending = ".safetensors", rank_mark = ".rank-";
constexpr const char *count_key = "shards", *step_key = "step";
constexpr std::string_view shape_prefix = "shape.";

std::string manifest_key(int64_t rank) { return fmt::format("shard.{}", rank); }

uint64_t size_of_file(const std::string& path) {
  std::error_code code;
  const uint64_t bytes = fs::file_size(path, code);
  if (code) throw IoError(fmt::format("[checkpoint] {}: a rank's part is missing: {}", path, code.message()));
  return bytes;
}

// ---- names of elements

struct Range {
  std::string name;
  int64_t begin = 0, end = 0;
};

std::string ranged(const std::string& name, int64_t begin, int64_t end) {
  return fmt::format("{}[{}:{}]", name, begin, end);
}

// "NAME[begin:end]"; nothing for a whole state.
std::optional<Range> range_of(const std::string& text) {
  const size_t open = text.rfind('['), colon = text.rfind(':');
  if (!text.ends_with(']') || open == std::string::npos || colon == std::string::npos || colon < open)
    return std::nullopt;
  const auto begin = parse_number<int64_t>(text.substr(open + 1, colon - open - 1));
  const auto end = parse_number<int64_t>(text.substr(colon + 1, text.size() - colon - 2));
  if (!begin || !end || *begin < 0 || *end <= *begin) return std::nullopt;
  return Range{text.substr(0, open), *begin, *end};
}

std::string text_of(const Shape& shape) {
  return fmt::format("{}", fmt::join(std::vector<int64_t>(shape.begin(), shape.end()), "x"));
}

std::optional<Shape> parse_shape(std::string_view text) {
  std::vector<int64_t> dims;
  while (!text.empty()) {
    const size_t x = text.find('x');
    const auto dim = parse_number<int64_t>(text.substr(0, x));
    if (!dim || *dim < 1 || dims.size() == Shape::max_rank) return std::nullopt;
    dims.push_back(*dim);
    text = x == std::string_view::npos ? std::string_view() : text.substr(x + 1);
  }
  return Shape(std::span<const int64_t>(dims));
}

// ---- reading

// Elements of one state from all files.
struct Pieces {
  Shape shape;
  DType dtype = DType::f32;
  std::map<int64_t, std::pair<int64_t, std::span<const uint8_t>>> by_begin;  // end, and the elements
};

// The shards of one checkpoint, and what is put together from them.
class Joiner {
 public:
  Joiner(const std::string& path, WholeCheckpoint& checkpoint) : path_(path), checkpoint_(checkpoint) {}

  void read(int64_t ranks) {
    for (int64_t rank = 0; rank < ranks; ++rank) read_one(rank, ranks);
    for (const auto& [name, pieces] : pieces_) join(name, pieces);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const { throw IoError(fmt::format("[checkpoint] {}", what)); }

  void read_one(int64_t rank, int64_t ranks) {
    const std::string part = shard_path(path_, rank, ranks);
    const uint64_t bytes = size_of_file(part);
    const auto expected = checkpoint_.file.metadata.find(manifest_key(rank));
    if (expected == checkpoint_.file.metadata.end()) fail(fmt::format("{}: nothing is said of rank {}", path_, rank));
    CheckedFile checked = read_checked(part);
    const std::string step = checked.file.metadata[step_key], own = checkpoint_.file.metadata[step_key];
    if (step != own) fail(fmt::format("{}: it is of step {}, its checkpoint of step {}", part, step, own));
    if (expected->second != fmt::format("{} {}", bytes, checked.checksum))
      fail(fmt::format("{}: it has not the length or the checksum that its checkpoint names", part));
    for (const auto& [name, tensor] : checked.file.tensors) take(part, checked.file.metadata, name, tensor);
    files_.push_back(std::move(checked.file));
  }

  void take(const std::string& part, const Metadata& metadata, const std::string& name, const TensorBytes& tensor) {
    const std::optional<Range> range = range_of(name);
    if (!range) return take_whole(part, name, tensor);
    const auto text = metadata.find(std::string(shape_prefix) + range->name);
    const std::optional<Shape> shape = text == metadata.end() ? std::nullopt : parse_shape(text->second);
    if (!shape || tensor.shape.numel() != range->end - range->begin || range->end > shape->numel())
      fail(fmt::format("{}: '{}' is no part of a state", part, name));
    Pieces& pieces = pieces_[range->name];
    if (pieces.by_begin.empty()) {
      pieces.shape = *shape;
      pieces.dtype = tensor.dtype;
    }
    if (pieces.shape != *shape || pieces.dtype != tensor.dtype)
      fail(fmt::format("{}: '{}' is of another shape than in another part", part, name));
    pieces.by_begin[range->begin] = {range->end, tensor.bytes};
  }

  void take_whole(const std::string& part, const std::string& name, const TensorBytes& tensor) {
    std::vector<uint8_t>& copy = checkpoint_.joined.emplace_back(tensor.bytes.begin(), tensor.bytes.end());
    const auto [known, added] = checkpoint_.file.tensors.emplace(name, TensorBytes{tensor.dtype, tensor.shape, copy});
    if (!added && !std::ranges::equal(known->second.bytes, tensor.bytes))
      fail(fmt::format("{}: '{}' is another than in another part", part, name));
  }

  // Room is made for what is there, whatever the shape says.
  void join(const std::string& name, const Pieces& pieces) {
    std::vector<uint8_t> whole;
    int64_t at = 0;
    for (const auto& [begin, piece] : pieces.by_begin) {
      if (begin != at) break;
      whole.insert(whole.end(), piece.second.begin(), piece.second.end());
      at = piece.first;
    }
    if (at != pieces.shape.numel())
      fail(fmt::format("{}: elements of '{}' from {} on are in no part", path_, name, at));
    const std::vector<uint8_t>& kept = checkpoint_.joined.emplace_back(std::move(whole));
    if (!checkpoint_.file.tensors.emplace(name, TensorBytes{pieces.dtype, pieces.shape, kept}).second)
      fail(fmt::format("{}: '{}' is there twice", path_, name));
  }

  const std::string& path_;
  WholeCheckpoint& checkpoint_;
  std::vector<SafetensorsBytes> files_;  // that pieces_ points into
  std::map<std::string, Pieces> pieces_;
};

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
  TensorMap tensors;
  Metadata metadata{{step_key, std::to_string(step)}};
  for (const Optimizers::ShardState& state : states) {
    const std::string name = std::string(optimizer_prefix) + state.name;
    if (state.end - state.begin == state.whole.numel()) {
      tensors.emplace(name, state.values);
      continue;
    }
    tensors.emplace(ranged(name, state.begin, state.end), state.values);
    metadata[std::string(shape_prefix) + name] = text_of(state.whole);
  }
  return {tensors, metadata};
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
  if (read) Joiner(path, checkpoint).read(*ranks);
  for (int64_t rank = 0; rank < *ranks; ++rank) metadata.erase(manifest_key(rank));
  metadata.erase(count_key);
}

}  // namespace heddle::train
