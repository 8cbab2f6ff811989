#include "heddle/io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/io/little_endian.h"

namespace heddle {
namespace {

using Json = nlohmann::json;
using Entry = SafetensorsEntry;

constexpr uint64_t max_header_bytes = 100'000'000;  // the format's own limit

constexpr std::array<std::pair<std::string_view, DType>, dtype_count> dtype_names = {{{"F32", DType::f32},
                                                                                      {"F16", DType::f16},
                                                                                      {"BF16", DType::bf16},
                                                                                      {"F64", DType::f64},
                                                                                      {"I8", DType::i8},
                                                                                      {"U8", DType::u8},
                                                                                      {"I32", DType::i32},
                                                                                      {"I64", DType::i64},
                                                                                      {"BOOL", DType::boolean}}};

// One file being read: where errors say they come from.
struct HeaderReader {
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
    if (!entry.is_object()) fail("{} is not an object of strings", safetensors_metadata_key);
    Metadata result;
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) fail("{} entry '{}' is not a string", safetensors_metadata_key, key);
      result[key] = value.get<std::string>();
    }
    return result;
  }
};

std::optional<uint64_t> unsigned_of(const Json& value) {
  if (!value.is_number_unsigned()) return {};
  return value.get<uint64_t>();
}

Shape shape_of(const HeaderReader& reader, const std::string& name, const Json& list) {
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

Entry entry_of(const HeaderReader& reader, const std::string& name, const Json& json, uint64_t data_bytes) {
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
void check_cover(const HeaderReader& reader, std::vector<Entry>& entries, uint64_t data_bytes) {
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

std::string_view safetensors_name_of(DType dtype) {
  return std::find_if(dtype_names.begin(), dtype_names.end(), [&](const auto& row) { return row.second == dtype; })
      ->first;
}

SafetensorsHeader safetensors_header(std::span<const uint8_t> file, const std::string& path) {
  const HeaderReader reader{path};
  if (file.size() < 8) reader.fail("truncated: {} bytes, expected at least 8", file.size());
  const uint64_t length = little_endian(file.first(8));
  if (length > max_header_bytes)
    reader.fail("the header's length is {} bytes, at most {} are allowed; not a safetensors file?", length,
                max_header_bytes);
  if (length > file.size() - 8)
    reader.fail("truncated: the header's length is {} bytes, {} are there", length, file.size() - 8);
  const Json header = reader.header({reinterpret_cast<const char*>(file.data()) + 8, static_cast<size_t>(length)});
  SafetensorsHeader result;
  result.data_begin = 8 + length;
  const uint64_t data_bytes = file.size() - result.data_begin;
  for (const auto& [name, json] : header.items()) {
    if (name == safetensors_metadata_key) {
      result.metadata = reader.metadata(json);
    } else {
      result.entries.push_back(entry_of(reader, name, json, data_bytes));
    }
  }
  check_cover(reader, result.entries, data_bytes);
  return result;
}

}  // namespace heddle
