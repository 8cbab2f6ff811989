#include "heddle/train/checked_file.h"

#include <fmt/format.h>
#include <zlib.h>

#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/io/safetensors_bytes.h"
#include "heddle/train/state_pieces.h"

namespace heddle::train {
namespace {

// Entries of the metadata: one for each tensor, and one for all that is not an element of a tensor.
constexpr std::string_view tensor_crc = "crc32.", header_crc = "crc32";

std::string crc_of(const void* data, size_t bytes) {
  return fmt::format("{:08x}", ::crc32_z(0, static_cast<const Bytef*>(data), bytes));
}

// Everything that a file says beside the elements, in one text. Lengths stand before names, so that no two files have
// the same text.
std::string header_text(const TensorBytesMap& tensors, const Metadata& metadata) {
  std::string text;
  for (const auto& [key, value] : metadata) {
    if (key != header_crc) text += fmt::format("{}:{}={}:{};", key.size(), key, value.size(), value);
  }
  for (const auto& [name, tensor] : tensors)
    text += fmt::format("{}:{} {} {};", name.size(), name, name_of(tensor.dtype), tensor.shape.str());
  return text;
}

std::string add_checksums(const TensorBytesMap& tensors, Metadata& metadata) {
  for (const auto& [name, tensor] : tensors)
    metadata[std::string(tensor_crc) + name] = crc_of(tensor.bytes.data(), tensor.bytes.size());
  const std::string text = header_text(tensors, metadata);
  return metadata[std::string(header_crc)] = crc_of(text.data(), text.size());
}

// What is left of the metadata is the caller's own.
std::string check_and_strip(const std::string& path, const TensorBytesMap& tensors, Metadata& metadata) {
  const auto expect = [&](const std::string& key, const std::string& found, const std::string& what) {
    const auto stored = metadata.find(key);
    if (stored == metadata.end())
      throw IoError(
          fmt::format("[checkpoint] {}: {} has no checksum; not a checkpoint of heddle train, or damaged", path, what));
    if (stored->second != found)
      throw IoError(fmt::format("[checkpoint] {}: {} does not match its checksum; the file is damaged", path, what));
  };
  const std::string text = header_text(tensors, metadata);
  const std::string checksum = crc_of(text.data(), text.size());
  expect(std::string(header_crc), checksum, "its header");
  for (const auto& [name, tensor] : tensors) {
    const std::string key = std::string(tensor_crc) + name;
    expect(key, crc_of(tensor.bytes.data(), tensor.bytes.size()), fmt::format("tensor '{}'", name));
    metadata.erase(key);
  }
  metadata.erase(std::string(header_crc));
  return checksum;
}

}  // namespace

Snapshot::Snapshot(const TensorMap& tensors, const Metadata& metadata) : metadata_(metadata) {
  for (const auto& [key, value] : metadata) {
    if (key == header_crc || key.starts_with(tensor_crc))
      throw ValueError(fmt::format("[checkpoint] metadata '{}' is a checksum's name; give it another", key));
  }
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) throw ValueError(fmt::format("[checkpoint] tensor '{}' is not defined", name));
    contents_.push_back(tensor.to_bytes());
    tensors_.emplace(name, TensorBytes{tensor.dtype(), tensor.shape(), contents_.back()});
  }
}

void Snapshot::add_piece(const std::string& name, const Shape& whole, int64_t begin, const Tensor& values) {
  contents_.push_back(values.to_bytes());
  train::add_piece(tensors_, metadata_, name, whole, begin, {values.dtype(), values.shape(), contents_.back()});
}

std::vector<uint8_t> Snapshot::bytes() const { return safetensors_bytes(tensors_, metadata_); }

std::string Snapshot::write(const std::string& path) {
  std::string checksum = add_checksums(tensors_, metadata_);
  write_safetensors(path, tensors_, metadata_);
  return checksum;
}

CheckedFile read_checked(const std::string& path) {
  CheckedFile checked{read_safetensors(path), {}};
  checked.checksum = check_and_strip(path, checked.file.tensors, checked.file.metadata);
  return checked;
}

}  // namespace heddle::train
