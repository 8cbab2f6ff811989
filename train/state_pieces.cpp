#include "heddle/train/state_pieces.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"

namespace heddle::train {
namespace {

constexpr std::string_view shape_prefix = "shape.";

struct Range {
  std::string name;
  int64_t begin = 0, end = 0;
};

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

[[noreturn]] void misfit(const std::string& what) { throw IoError(fmt::format("[checkpoint] {}", what)); }

}  // namespace

void add_piece(TensorBytesMap& tensors, Metadata& metadata, const std::string& name, const Shape& whole, int64_t begin,
               const TensorBytes& values) {
  const int64_t count = values.shape.numel();
  if (count == whole.numel()) {
    tensors.emplace(name, values);
    return;
  }
  tensors.emplace(fmt::format("{}[{}:{}]", name, begin, begin + count), values);
  metadata[std::string(shape_prefix) + name] = text_of(whole);
}

void StatePieces::take(const std::string& source, const TensorBytesMap& tensors, const Metadata& metadata) {
  for (const auto& [name, tensor] : tensors) {
    const std::optional<Range> range = range_of(name);
    if (!range) {
      take_whole(source, name, tensor);
      continue;
    }
    const auto text = metadata.find(std::string(shape_prefix) + range->name);
    const std::optional<Shape> shape = text == metadata.end() ? std::nullopt : parse_shape(text->second);
    if (!shape || tensor.shape.numel() != range->end - range->begin || range->end > shape->numel())
      misfit(fmt::format("{}: '{}' is no part of a state", source, name));
    Pieces& pieces = pieces_[range->name];
    if (pieces.by_begin.empty()) {
      pieces.shape = *shape;
      pieces.dtype = tensor.dtype;
    }
    if (pieces.shape != *shape || pieces.dtype != tensor.dtype)
      misfit(fmt::format("{}: '{}' is of another shape than in another part", source, name));
    pieces.by_begin[range->begin] = {range->end, tensor.bytes};
  }
}

void StatePieces::take_whole(const std::string& source, const std::string& name, const TensorBytes& tensor) {
  const auto [known, added] = whole_.emplace(name, tensor);
  if (!added && !std::ranges::equal(known->second.bytes, tensor.bytes))
    misfit(fmt::format("{}: '{}' is another than in another part", source, name));
}

// Room is made for what is there, whatever the shape says.
std::map<std::string, HostTensor> StatePieces::join(const std::string& source) const {
  std::map<std::string, HostTensor> all;
  for (const auto& [name, tensor] : whole_)
    all[name] = {tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
  for (const auto& [name, pieces] : pieces_) {
    HostTensor whole{pieces.dtype, pieces.shape, {}};
    int64_t at = 0;
    for (const auto& [begin, piece] : pieces.by_begin) {
      if (begin != at) break;
      whole.bytes.insert(whole.bytes.end(), piece.second.begin(), piece.second.end());
      at = piece.first;
    }
    if (at != pieces.shape.numel())
      misfit(fmt::format("{}: elements of '{}' from {} on are in no part", source, name, at));
    if (!all.emplace(name, std::move(whole)).second) misfit(fmt::format("{}: '{}' is there twice", source, name));
  }
  return all;
}

}  // namespace heddle::train
