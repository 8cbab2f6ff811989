#include "heddle/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"
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

void write_safetensors(const std::string& path, const TensorBytesMap& tensors, const Metadata& metadata) {
  // Wider elements first keeps every tensor aligned to its element, whatever the mix.
  std::vector<const TensorBytesMap::value_type*> order;
  for (const auto& item : tensors) {
    if (item.first == safetensors_metadata_key)
      throw ValueError(fmt::format("[safetensors] '{}' cannot be the name of a tensor", item.first));
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return size_of(a->second.dtype) > size_of(b->second.dtype); });
  nlohmann::json header = nlohmann::json::object();
  if (!metadata.empty()) header[std::string(safetensors_metadata_key)] = metadata;
  uint64_t at = 0;
  for (const auto* item : order) {
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
    throw ValueError(fmt::format("[safetensors] {}: a name or a metadata value is not UTF-8", path));
  }
  text.resize((text.size() + 7) / 8 * 8, ' ');  // data begins at a multiple of 8
  std::array<uint8_t, 8> length{};
  for (size_t i = 0; i < 8; ++i) length[i] = static_cast<uint8_t>(uint64_t{text.size()} >> (8 * i));
  std::vector<FilePart> parts = {{length.data(), length.size()}, {text.data(), text.size()}};
  for (const auto* item : order) parts.push_back({item->second.bytes.data(), item->second.bytes.size()});
  write_file_atomically(path, parts);
}

SafetensorsBytes read_safetensors(const std::string& path) {
  SafetensorsBytes result;
  result.file = read_file(path, "safetensors");
  SafetensorsHeader header = safetensors_header(result.file, path);
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
