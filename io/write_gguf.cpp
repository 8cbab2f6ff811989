#include "heddle/io/write_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/atomic_file.h"

namespace heddle {
namespace {

using ByteVector = std::vector<uint8_t>;

template <class T>
void put(ByteVector& out, T value) {
  const size_t before = out.size();
  out.resize(before + sizeof value);
  std::memcpy(out.data() + before, &value, sizeof value);
}

void put_text(ByteVector& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  out.insert(out.end(), text.begin(), text.end());
}

ByteVector array_of(GgufType element, size_t count) {
  ByteVector raw;
  put(raw, static_cast<uint32_t>(element));
  put(raw, uint64_t{count});
  return raw;
}

void check_name(std::string_view name, std::set<std::string, std::less<>>& names) {
  const bool good = !name.empty() && name.size() <= Gguf::max_name_bytes &&
                    std::all_of(name.begin(), name.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (!good) throw ValueError(fmt::format("[GgufWriter] '{}' is no name of printable ASCII", shortened(name)));
  if (!names.emplace(name).second) throw ValueError(fmt::format("[GgufWriter] '{}' is there twice", shortened(name)));
}

}  // namespace

void GgufWriter::add_raw(std::string_view key, GgufType type, std::span<const uint8_t> raw) {
  check_name(key, keys_);
  put_text(metadata_, key);
  put(metadata_, static_cast<uint32_t>(type));
  metadata_.insert(metadata_.end(), raw.begin(), raw.end());
  ++entries_;
}

template <class T>
void GgufWriter::add_number(std::string_view key, GgufType type, T value) {
  add_raw(key, type, {reinterpret_cast<const uint8_t*>(&value), sizeof value});
}

void GgufWriter::add(std::string_view key, std::string_view text) {
  ByteVector raw;
  put_text(raw, text);
  add_raw(key, GgufType::text, raw);
}
void GgufWriter::add(std::string_view key, bool value) {
  add_number(key, GgufType::boolean, static_cast<uint8_t>(value ? 1 : 0));
}
void GgufWriter::add(std::string_view key, uint32_t value) {
  if (key == "general.alignment") {
    if (value == 0 || value % 8 != 0 || value > 65536)
      throw ValueError(
          fmt::format("[GgufWriter] general.alignment is {}, expected a multiple of 8 up to 65536", value));
    alignment_ = value;
  }
  add_number(key, GgufType::u32, value);
}
void GgufWriter::add(std::string_view key, uint64_t value) { add_number(key, GgufType::u64, value); }
void GgufWriter::add(std::string_view key, int32_t value) { add_number(key, GgufType::i32, value); }
void GgufWriter::add(std::string_view key, int64_t value) { add_number(key, GgufType::i64, value); }
void GgufWriter::add(std::string_view key, float value) { add_number(key, GgufType::f32, value); }
void GgufWriter::add(std::string_view key, double value) { add_number(key, GgufType::f64, value); }

void GgufWriter::add(std::string_view key, std::span<const std::string> texts) {
  ByteVector raw = array_of(GgufType::text, texts.size());
  for (const std::string& text : texts) put_text(raw, text);
  add_raw(key, GgufType::array, raw);
}
void GgufWriter::add(std::string_view key, std::span<const int32_t> values) {
  ByteVector raw = array_of(GgufType::i32, values.size());
  for (const int32_t value : values) put(raw, value);
  add_raw(key, GgufType::array, raw);
}
void GgufWriter::add(std::string_view key, std::span<const float> values) {
  ByteVector raw = array_of(GgufType::f32, values.size());
  for (const float value : values) put(raw, value);
  add_raw(key, GgufType::array, raw);
}
void GgufWriter::add(std::string_view key, const GgufValue& value) {
  if (key == "general.alignment") return add(key, static_cast<uint32_t>(value.as_unsigned()));
  add_raw(key, value.type(), value.raw());
}

void GgufWriter::add_tensor(std::string_view name, GgmlType type, const Shape& shape, std::span<const uint8_t> blocks) {
  append({std::string(name), type, shape, blocks, {}, blocks.size()});
}

void GgufWriter::add_made_tensor(std::string_view name, GgmlType type, const Shape& shape, MakeBlocks make) {
  const GgmlBlock& block = block_of(type);
  const uint64_t bytes = static_cast<uint64_t>(shape.numel()) / block.elements * block.bytes;
  append({std::string(name), type, shape, {}, std::move(make), bytes});
}

void GgufWriter::append(Tensor tensor) {
  const auto& [name, type, shape, blocks, make, bytes] = tensor;
  const GgmlBlock& block = block_of(type);
  if (find_block(static_cast<uint32_t>(type)) == nullptr)
    throw ValueError(fmt::format("[GgufWriter] tensor '{}': no file has blocks of {}", shortened(name), block.name));
  const int64_t inner = shape.rank() > 0 ? shape.dim(-1) : 1;
  const auto numel = static_cast<uint64_t>(shape.numel());
  if (shape.rank() > 4 || inner % block.elements != 0 || bytes % block.bytes != 0 ||
      bytes / block.bytes != numel / block.elements)
    throw ValueError(fmt::format("[GgufWriter] tensor '{}': {} bytes are not {} of {}", shortened(name), bytes,
                                 shape.str(), block.name));
  check_name(name, names_);
  tensors_.push_back(std::move(tensor));
}

// All before the blocks.
ByteVector GgufWriter::front() const {
  ByteVector out = {'G', 'G', 'U', 'F'};
  put(out, uint32_t{3});
  put(out, uint64_t{tensors_.size()});
  put(out, entries_);
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  uint64_t at = 0;
  for (const Tensor& tensor : tensors_) {
    put_text(out, tensor.name);
    put(out, static_cast<uint32_t>(tensor.shape.rank()));
    for (int axis = tensor.shape.rank(); axis-- > 0;) put(out, static_cast<uint64_t>(tensor.shape[axis]));
    put(out, static_cast<uint32_t>(tensor.type));
    put(out, at);
    at = round_up(at + tensor.bytes, alignment_);
  }
  out.resize(round_up(out.size(), static_cast<size_t>(alignment_)));
  return out;
}

// Calls put(bytes) for each piece of the file in its order.
template <class Put>
void GgufWriter::write_all(const Put& put) const {
  put(std::span<const uint8_t>(front()));
  const ByteVector zeros(static_cast<size_t>(alignment_));
  for (const Tensor& tensor : tensors_) {
    const ByteVector made = tensor.make ? tensor.make() : ByteVector{};
    const std::span<const uint8_t> blocks = tensor.make ? made : tensor.blocks;
    const uint64_t bytes = tensor.bytes;
    if (blocks.size() != bytes)
      throw ValueError(fmt::format("[GgufWriter] tensor '{}': {} bytes were made, expected {}", shortened(tensor.name),
                                   blocks.size(), bytes));
    put(blocks);
    put(std::span(zeros).first(static_cast<size_t>(round_up(bytes, alignment_) - bytes)));
  }
}

ByteVector GgufWriter::bytes() const {
  ByteVector all;
  write_all([&](std::span<const uint8_t> piece) { all.insert(all.end(), piece.begin(), piece.end()); });
  return all;
}

void GgufWriter::write(const std::string& path) const {
  AtomicFile file(path);
  write_all([&](std::span<const uint8_t> piece) { file.write({piece.data(), piece.size()}); });
  file.publish();
}

}  // namespace heddle
