#include "heddle/io/gguf_reader.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <tuple>

#include "heddle/core/base/integers.h"
#include "heddle/core/base/shortened.h"

namespace heddle {
namespace {

constexpr uint64_t most_alignment = 65536;
constexpr int most_dims = 4;  // ggml's own
constexpr uint64_t least_entry = 8 + 4 + 1, least_tensor = 8 + 4 + 4 + 8;

uint64_t u64(const uint8_t* at) {
  uint64_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint32_t u32(const uint8_t* at) {
  uint32_t value = 0;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

uint64_t gguf_scalar_bytes(GgufType type) {
  constexpr std::array<uint8_t, gguf_type_count> bytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return bytes[static_cast<size_t>(type)];
}

uint64_t gguf_value_bytes(GgufType type, std::span<const uint8_t> rest) {
  if (const uint64_t fixed = gguf_scalar_bytes(type); fixed > 0) return fixed;
  if (type == GgufType::text) return 8 + u64(rest.data());
  const auto element = static_cast<GgufType>(u32(rest.data()));
  const uint64_t count = u64(rest.data() + 4), fixed = gguf_scalar_bytes(element);
  if (fixed > 0) return 12 + fixed * count;
  uint64_t at = 12;
  for (uint64_t i = 0; i < count; ++i) at += gguf_value_bytes(element, rest.subspan(static_cast<size_t>(at)));
  return at;
}

std::span<const uint8_t> GgufReader::take(uint64_t bytes) {
  if (bytes > file_.size() - at_) fail("truncated: {} bytes from {} on, of {} in all", bytes, at_, file_.size());
  const std::span<const uint8_t> taken = file_.subspan(static_cast<size_t>(at_), static_cast<size_t>(bytes));
  at_ += bytes;
  return taken;
}

template <class T>
T GgufReader::number() {
  T value;
  std::memcpy(&value, take(sizeof value).data(), sizeof value);
  return value;
}

// Of things that take `least_bytes` each at the least.
uint64_t GgufReader::count(const char* of, uint64_t least_bytes) {
  const auto value = number<uint64_t>();
  if (value > Gguf::max_entries) fail("{} {}, at most {} are read", value, of, Gguf::max_entries);
  if (value > file_.size() / least_bytes) fail("{} {} do not fit {} bytes", value, of, file_.size());
  return value;
}

std::string GgufReader::name(const char* of) {
  const auto length = number<uint64_t>();
  if (length == 0 || length > Gguf::max_name_bytes)
    fail("{} at byte {} has {} bytes, 1 to {} are allowed", of, at_ - 8, length, Gguf::max_name_bytes);
  const std::span<const uint8_t> bytes = take(length);
  if (std::any_of(bytes.begin(), bytes.end(), [](uint8_t c) { return c < 0x20 || c > 0x7e; }))
    fail("{} at byte {} is not of printable ASCII", of, at_ - length);
  return {bytes.begin(), bytes.end()};
}

GgufType GgufReader::value_type(const std::string& key) {
  const auto type = number<uint32_t>();
  if (type >= gguf_type_count) fail("'{}' has a value of type {}, which is none", shortened(key), type);
  return static_cast<GgufType>(type);
}

void GgufReader::pass(GgufType type, const std::string& key, int depth) {
  if (type == GgufType::array) return pass_array(key, depth);
  if (type == GgufType::text) {
    take(number<uint64_t>());
    return;
  }
  const std::span<const uint8_t> value = take(gguf_scalar_bytes(type));
  if (type == GgufType::boolean && value[0] > 1) fail("'{}' is a bool of {}", shortened(key), value[0]);
}

void GgufReader::pass_array(const std::string& key, int depth) {
  if (depth >= Gguf::max_array_depth) fail("arrays of '{}' are more than {} deep", shortened(key), depth);
  const GgufType element = value_type(key);
  const auto count = number<uint64_t>();
  const uint64_t fixed = gguf_scalar_bytes(element), least = fixed > 0 ? fixed : element == GgufType::text ? 8 : 12;
  if (count > (file_.size() - at_) / least)
    fail("truncated: the {} elements of '{}' do not fit {} bytes", count, shortened(key), file_.size() - at_);
  if (element == GgufType::array && (nested_ += count) > Gguf::max_entries)
    fail("'{}' holds arrays within arrays, more than {} in all", shortened(key), Gguf::max_entries);
  if (fixed > 0 && element != GgufType::boolean) {
    take(fixed * count);
    return;
  }
  for (uint64_t i = 0; i < count; ++i) pass(element, key, depth + 1);
}

void GgufReader::read() {
  if (file_.size() < 24 || std::memcmp(file_.data(), "GGUF", 4) != 0)
    fail("it does not begin with GGUF; not a GGUF file, or truncated");
  at_ = 4;
  result_.version_ = number<uint32_t>();
  if (result_.version_ != 0 && (result_.version_ & 0xffff) == 0) fail("it is big-endian, which is not read");
  if (result_.version_ != 2 && result_.version_ != 3)
    fail("its version is {}; versions 2 and 3 are read", result_.version_);
  const uint64_t tensors = count("tensors", least_tensor), entries = count("entries of metadata", least_entry);
  read_metadata(entries);
  read_alignment();
  for (uint64_t i = 0; i < tensors; ++i) read_tensor();
  refuse_types();
  place_tensors();
}

void GgufReader::read_metadata(uint64_t entries) {
  for (uint64_t i = 0; i < entries; ++i) {
    const std::string key = name("a key");
    const GgufType type = value_type(key);
    const uint64_t begin = at_;
    pass(type, key, 0);
    const GgufValue value(type, file_.subspan(static_cast<size_t>(begin), static_cast<size_t>(at_ - begin)));
    if (!result_.metadata_.emplace(key, value).second) fail("the key '{}' is there twice", shortened(key));
  }
}

void GgufReader::read_alignment() {
  const GgufValue* const value = result_.find("general.alignment");
  if (value == nullptr) return;
  if (value->type() != GgufType::u32) fail("general.alignment is of type {}, expected u32", name_of(value->type()));
  result_.alignment_ = value->as_unsigned();
  if (result_.alignment_ == 0 || result_.alignment_ % 8 != 0 || result_.alignment_ > most_alignment)
    fail("general.alignment is {}, expected a multiple of 8 up to {}", result_.alignment_, most_alignment);
}

Shape GgufReader::read_shape(const std::string& name, const GgmlBlock* block, uint64_t& bytes) {
  const auto dims = number<uint32_t>();
  if (dims > most_dims) fail("tensor '{}' has {} dimensions, at most {} are read", name, dims, most_dims);
  std::vector<int64_t> shape(dims);
  int64_t numel = 1;
  for (uint32_t i = 0; i < dims; ++i) {
    const auto dim = number<uint64_t>();
    shape[dims - 1 - i] = static_cast<int64_t>(dim);
    if (dim > uint64_t{1} << 62 || __builtin_mul_overflow(numel, static_cast<int64_t>(dim), &numel))
      fail("tensor '{}': its dimensions overflow", name);
  }
  if (block == nullptr) return Shape(shape);
  const int64_t inner = dims > 0 ? shape.back() : 1;
  if (inner % block->elements != 0)
    fail("tensor '{}': rows of {} elements are no whole blocks of {}, which have {}", name, inner, block->name,
         block->elements);
  if (__builtin_mul_overflow(static_cast<uint64_t>(numel) / block->elements, uint64_t{block->bytes}, &bytes))
    fail("tensor '{}': its dimensions overflow", name);
  return Shape(shape);
}

void GgufReader::read_tensor() {
  GgufTensor tensor;
  tensor.name = name("a tensor's name");
  // The dimensions stand before the type that says how they are stored.
  const uint64_t shape_at = at_;
  take(uint64_t{8} * std::min(number<uint32_t>(), uint32_t{most_dims + 1}));
  const auto type = number<uint32_t>();
  const GgmlBlock* const block = find_block(type);
  const uint64_t after = at_;
  at_ = shape_at;
  Extent extent{0, 0, result_.tensors_.size()};
  tensor.shape = read_shape(shortened(tensor.name), block, extent.bytes);
  at_ = after;
  extent.offset = number<uint64_t>();
  if (block != nullptr)
    tensor.type = block->type;
  else
    ++refused_[ggml_type_name(type)];
  if (!result_.by_name_.emplace(tensor.name, extent.tensor).second)
    fail("the tensor '{}' is there twice", shortened(tensor.name));
  extents_.push_back(extent);
  result_.tensors_.push_back(std::move(tensor));
}

// All of them in one line; no more than a few dozen types exist, but a file may claim others.
void GgufReader::refuse_types() const {
  if (refused_.empty()) return;
  std::string types, known;
  for (const auto& [type, tensors] : refused_)
    types += fmt::format("{}{} ({})", types.empty() ? "" : ", ", type, tensors);
  for (const GgmlBlock& block : ggml_blocks()) known += fmt::format("{}{}", known.empty() ? "" : ", ", block.name);
  fail("tensors are of types that are not read: {}; {} are", shortened(types, 500), known);
}

// Blocks begin at a multiple of the alignment, the first at 0, each behind the one before without a gap.
void GgufReader::place_tensors() {
  const uint64_t alignment = result_.alignment_, begin = std::min<uint64_t>(round_up(at_, alignment), file_.size());
  const std::span<const uint8_t> data = file_.subspan(static_cast<size_t>(begin));
  std::sort(extents_.begin(), extents_.end(), [](const Extent& a, const Extent& b) {
    return std::tie(a.offset, a.bytes, a.tensor) < std::tie(b.offset, b.bytes, b.tensor);
  });
  uint64_t at = 0;
  for (const Extent& extent : extents_) {
    GgufTensor& tensor = result_.tensors_[extent.tensor];
    const std::string name = shortened(tensor.name);
    if (extent.offset > data.size() || extent.bytes > data.size() - extent.offset)
      fail("tensor '{}': {} bytes from {} lie outside the {} bytes of data; is the file truncated?", name, extent.bytes,
           extent.offset, data.size());
    if (extent.offset < at) fail("tensor '{}' overlaps another one at byte {}", name, extent.offset);
    if (extent.offset % alignment != 0)
      fail("tensor '{}' begins at byte {}, no multiple of {}", name, extent.offset, alignment);
    if (extent.offset != round_up(at, alignment))
      fail("bytes {} to {}, before tensor '{}', belong to no tensor", at, extent.offset, name);
    tensor.bytes = data.subspan(static_cast<size_t>(extent.offset), static_cast<size_t>(extent.bytes));
    at = extent.offset + extent.bytes;
  }
  if (data.size() - at >= alignment) fail("{} bytes after the last tensor belong to nothing", data.size() - at);
}

}  // namespace heddle
