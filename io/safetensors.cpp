#include "heddle/io/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/little_endian.h"
#include "heddle/io/read_file.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

constexpr uint64_t max_header_bytes = 100'000'000;  // the format's own limit
constexpr std::string_view metadata_key = "__metadata__";

constexpr std::array<std::pair<std::string_view, DType>, dtype_count> dtype_names = {{{"F32", DType::f32},
                                                                                      {"F16", DType::f16},
                                                                                      {"BF16", DType::bf16},
                                                                                      {"F64", DType::f64},
                                                                                      {"I8", DType::i8},
                                                                                      {"U8", DType::u8},
                                                                                      {"I32", DType::i32},
                                                                                      {"I64", DType::i64},
                                                                                      {"BOOL", DType::boolean}}};

std::string_view file_name_of(DType dtype) {
  return std::find_if(dtype_names.begin(), dtype_names.end(), [&](const auto& row) { return row.second == dtype; })
      ->first;
}

// One file being read: where errors say they come from.
struct Reader {
  std::string path;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw IoError(fmt::format("[safetensors] {}: {}", path, fmt::format(format, std::forward<Args>(args)...)));
  }

  Json header(std::string_view text) const {
    if (text.empty() || text.front() != '{') fail("the header does not begin with '{{'; not a safetensors file");
    return parse_unique_json<Json>(text, fmt::format("[safetensors] {}: the header", path));
  }

  Metadata metadata(const Json& entry) const {
    if (!entry.is_object()) fail("{} is not an object of strings", metadata_key);
    Metadata result;
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("{} entry '{}' is not a string", metadata_key, key);
      result[key] = value.get<std::string>();
    }
    return result;
  }
};

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t begin = 0, end = 0;
};

std::optional<uint64_t> unsigned_of(const Json& value) {
  if (!value.is_number_unsigned()) return {};
  return value.get<uint64_t>();
}

Shape shape_of(const Reader& reader, const std::string& name, const Json& list) {
  if (!list.is_array()) reader.fail("tensor '{}': the shape is not a list", name);
  if (list.size() > static_cast<size_t>(Shape::max_rank))
    reader.fail("tensor '{}' has {} dimensions, at most {} are supported", name, list.size(), Shape::max_rank);
  std::vector<int64_t> dims;
  int64_t numel = 1;
  for (const Json& dim : list) {
    const std::optional<uint64_t> size = unsigned_of(dim);
    if (!size || *size > uint64_t{1} << 62)
      reader.fail("tensor '{}': impossible dimension {}", name, shortened(dim.dump()));
    dims.push_back(static_cast<int64_t>(*size));
    if (__builtin_mul_overflow(numel, dims.back(), &numel)) reader.fail("tensor '{}': the shape overflows", name);
  }
  return Shape(dims);
}

Entry entry_of(const Reader& reader, const std::string& name, const Json& json, uint64_t data_bytes) {
  if (!json.is_object() || !json.contains("dtype") || !json.contains("shape") || !json.contains("data_offsets")) {
    reader.fail("tensor '{}' needs dtype, shape and data_offsets", name);
  }
  Entry entry;
  entry.name = name;
  const Json& dtype = json["dtype"];
  const auto row = std::find_if(dtype_names.begin(), dtype_names.end(), [&](const auto& r) {
    return dtype.is_string() && dtype.get<std::string>() == r.first;
  });
  if (row == dtype_names.end()) reader.fail("tensor '{}': unknown dtype {}", name, shortened(dtype.dump()));
  entry.dtype = row->second;
  entry.shape = shape_of(reader, name, json["shape"]);
  const Json& offsets = json["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !unsigned_of(offsets[0]) || !unsigned_of(offsets[1])) {
    reader.fail("tensor '{}': data_offsets is {}, expected two non-negative numbers", name, shortened(offsets.dump()));
  }
  entry.begin = *unsigned_of(offsets[0]);
  entry.end = *unsigned_of(offsets[1]);
  if (entry.begin > entry.end || entry.end > data_bytes) {
    reader.fail("tensor '{}': offsets [{}, {}) lie outside the {} bytes of data; is the file truncated?", name,
                entry.begin, entry.end, data_bytes);
  }
  int64_t expected = 0;
  if (__builtin_mul_overflow(entry.shape.numel(), static_cast<int64_t>(size_of(entry.dtype)), &expected) ||
      static_cast<uint64_t>(expected) != entry.end - entry.begin) {
    reader.fail("tensor '{}': {} {} needs {} bytes, its offsets give {}", name, name_of(entry.dtype), entry.shape.str(),
                expected, entry.end - entry.begin);
  }
  return entry;
}

// The format asks that the data is covered without overlap and without gaps.
void check_cover(const Reader& reader, std::vector<Entry>& entries, uint64_t data_bytes) {
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin < at) reader.fail("tensor '{}' overlaps another one at byte {}", entry.name, entry.begin);
    if (entry.begin > at) reader.fail("bytes {} to {} belong to no tensor", at, entry.begin);
    at = entry.end;
  }
  if (at != data_bytes) reader.fail("{} bytes after the last tensor belong to nothing", data_bytes - at);
}

}  // namespace

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
    if (item.first == metadata_key)
      throw ValueError(fmt::format("[safetensors] '{}' cannot be the name of a tensor", item.first));
    order.push_back(&item);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return size_of(a->second.dtype) > size_of(b->second.dtype); });
  Json header = Json::object();
  if (!metadata.empty()) header[std::string(metadata_key)] = metadata;
  uint64_t at = 0;
  for (const auto* item : order) {
    const TensorBytes& tensor = item->second;
    if (static_cast<uint64_t>(tensor.shape.numel()) != tensor.bytes.size() / size_of(tensor.dtype) ||
        tensor.bytes.size() % size_of(tensor.dtype) != 0) {
      throw ValueError(fmt::format("[safetensors] tensor '{}' is {} {}, but has {} bytes", item->first,
                                   tensor.shape.str(), name_of(tensor.dtype), tensor.bytes.size()));
    }
    const auto dims = tensor.shape.dims();
    header[item->first] = {{"dtype", file_name_of(tensor.dtype)},
                           {"shape", std::vector<int64_t>(dims.begin(), dims.end())},
                           {"data_offsets", {at, at + tensor.bytes.size()}}};
    at += tensor.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const Json::exception&) {
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
  const Reader reader{path};
  SafetensorsBytes result;
  result.file = read_file(path, "safetensors");
  std::vector<uint8_t>& bytes = result.file;
  if (bytes.size() < 8) reader.fail("truncated: {} bytes, expected at least 8", bytes.size());
  const uint64_t length = little_endian({bytes.data(), 8});
  if (length > max_header_bytes)
    reader.fail("the header's length is {} bytes, at most {} are allowed; not a safetensors file?", length,
                max_header_bytes);
  if (length > bytes.size() - 8)
    reader.fail("truncated: the header's length is {} bytes, {} are there", length, bytes.size() - 8);
  const Json header = reader.header({reinterpret_cast<const char*>(bytes.data()) + 8, static_cast<size_t>(length)});
  const uint64_t data_bytes = bytes.size() - 8 - length;
  std::vector<Entry> entries;
  for (const auto& [name, json] : header.items()) {
    if (name == metadata_key) {
      result.metadata = reader.metadata(json);
    } else {
      entries.push_back(entry_of(reader, name, json, data_bytes));
    }
  }
  check_cover(reader, entries, data_bytes);
  uint8_t* data = bytes.data() + 8 + length;
  for (const Entry& entry : entries) {
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
