#include "heddle/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"
#include "heddle/io/safetensors_bytes.h"
#include "heddle/io/safetensors_header.h"

namespace heddle {

void save_safetensors(const std::string& path, const TensorMap& tensors, const Metadata& metadata) {
  std::map<std::string, std::vector<uint8_t>> contents;
  TensorBytesMap views;
  for (const auto& [name, tensor] : tensors) {
    if (!tensor.defined()) throw ValueError(fmt::format("[safetensors] tensor '{}' is not defined", name));
    const std::vector<uint8_t>& bytes = contents.emplace(name, tensor.to_bytes()).first->second;
    views.emplace(name, TensorBytes{tensor.dtype(), tensor.shape(), bytes});
  }
  write_safetensors(path, views, metadata);
}

namespace {

using Item = TensorBytesMap::value_type;

// Wider elements first keeps every tensor aligned to its element, whatever the mix.
std::vector<const Item*> in_file_order(const TensorBytesMap& tensors) {
  std::vector<const Item*> order;
  for (const Item& item : tensors) {
    if (item.first == safetensors_metadata_key)
      throw ValueError(fmt::format("[safetensors] '{}' cannot be the name of a tensor", item.first));
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const Item* a, const Item* b) { return size_of(a->second.dtype) > size_of(b->second.dtype); });
  return order;
}

// What stands before the data, its length included; `source` is what errors name.
std::string beginning_of(const std::vector<const Item*>& order, const Metadata& metadata, const std::string& source) {
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[std::string(safetensors_metadata_key)] = metadata;
  uint64_t at = 0;
  for (const Item* item : order) {
    const TensorBytes& tensor = item->second;
    if (static_cast<uint64_t>(tensor.shape.numel()) != tensor.bytes.size() / size_of(tensor.dtype) ||
        tensor.bytes.size() % size_of(tensor.dtype) != 0) {
      throw ValueError(fmt::format("[safetensors] tensor '{}' is {} {}, but has {} bytes", item->first,
                                   tensor.shape.str(), name_of(tensor.dtype), tensor.bytes.size()));
    }
    const auto dims = tensor.shape.dims();
    header[item->first] = {{"dtype", safetensors_name_of(tensor.dtype)},
                           {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                           {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw ValueError(fmt::format("[safetensors] {}: a name or a metadata value is not UTF-8", source));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begins at a multiple of 8
  std::string length(8, '\0');
  for (size_t i = 0; i < length.size(); ++i) length[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i));
  return length + text;
}

}  // namespace

void write_safetensors(const std::string& path, const TensorBytesMap& tensors, const Metadata& metadata) {
  const std::vector<const Item*> order = in_file_order(tensors);
  const std::string beginning = beginning_of(order, metadata, path);
  std::vector<FilePart> parts = {{beginning.data(), beginning.size()}};
  for (const Item* item : order) parts.push_back({item->second.bytes.data(), item->second.bytes.size()});
  write_file_atomically(path, parts);
}

std::vector<uint8_t> safetensors_bytes(const TensorBytesMap& tensors, const Metadata& metadata) {
  const std::vector<const Item*> order = in_file_order(tensors);
  const std::string beginning = beginning_of(order, metadata, "in memory");
  size_t size = beginning.size();
  for (const Item* item : order) size += item->second.bytes.size();
  std::vector<uint8_t> file;
  file.reserve(size);
  file.assign(beginning.begin(), beginning.end());
  for (const Item* item : order) file.insert(file.end(), item->second.bytes.begin(), item->second.bytes.end());
  return file;
}

SafetensorsBytes read_safetensors(const std::string& path) {
  return parse_safetensors(read_file(path, "safetensors"), path);
}

SafetensorsBytes parse_safetensors(std::vector<uint8_t> file, const std::string& source) {
  SafetensorsBytes result;
  result.file = std::move(file);
  SafetensorsHeader header = safetensors_header(result.file, source);
  result.metadata = std::move(header.metadata);
  uint8_t* data = result.file.data() + header.data_begin;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.dtype == DType::boolean)
      std::transform(data + entry.begin, data + entry.end, data + entry.begin,
                     [](uint8_t b) { return static_cast<uint8_t>(b != 0); });
    result.tensors.emplace(entry.name, TensorBytes{entry.dtype, entry.shape, {data + entry.begin, data + entry.end}});
  }
  return result;
}

TensorMap SafetensorsBytes::upload(DeviceContext* device) const {
  TensorMap result;
  for (const auto& [name, tensor] : tensors)
    result.emplace(name, Tensor::from_bytes(tensor.bytes.data(), static_cast<size_t>(tensor.shape.numel()),
                                            tensor.dtype, tensor.shape, device));
  return result;
}

SafetensorsFile load_safetensors(const std::string& path, DeviceContext* device) {
  SafetensorsBytes bytes = read_safetensors(path);
  return {bytes.upload(device), std::move(bytes.metadata)};
}

}  // namespace heddle
