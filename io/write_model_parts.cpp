#include "heddle/io/write_model_parts.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/atomic_file.h"

namespace heddle {
namespace {

using OrderedJson = nlohmann::ordered_json;

void check(std::span<const ModelPart> parts) {
  if (parts.size() > max_part_count)
    throw ValueError(fmt::format("[write_model_parts] {} parts, at most {} fit a file", parts.size(), max_part_count));
  std::set<std::string_view> names;
  for (const ModelPart& part : parts) {
    const bool first = names.insert(part.name).second;
    const std::string fault =
        first ? fault_of({part.name, part.kind, part.target, part.bucket, {}, 0, 0, {}}) : "is there twice";
    if (!fault.empty()) throw ValueError(fmt::format("[write_model_parts] part '{}' {}", shortened(part.name), fault));
  }
}

OrderedJson entry_of(const ModelPart& part, uint64_t offset) {
  OrderedJson entry = {{"name", part.name},
                       {"kind", name_of(part.kind)},
                       {"offset", offset},
                       {"bytes", part.bytes.size()},
                       {"sha256", hex_of(sha256(part.bytes))}};
  if (!part.target.empty()) entry["target"] = part.target;
  if (!part.bucket.empty()) entry["bucket"] = part.bucket;
  if (!part.attributes.empty()) entry["attributes"] = part.attributes;
  return entry;
}

// Head and header.
std::string front_of(std::span<const ModelPart> parts, const PartAttributes& metadata) {
  OrderedJson header = {{"metadata", metadata.empty() ? OrderedJson::object() : OrderedJson(metadata)},
                        {"parts", OrderedJson::array()}};
  uint64_t at = 0;
  for (const ModelPart& part : parts) {
    at = round_up(at, part_alignment);
    header["parts"].push_back(entry_of(part, at));
    at += part.bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const OrderedJson::exception&) {
    throw ValueError("[write_model_parts] a name, an attribute or a value of the metadata is not UTF-8");
  }
  text.resize(round_up(text.size(), part_alignment), ' ');
  if (text.size() > max_parts_header_bytes)
    throw ValueError(fmt::format("[write_model_parts] names and attributes of the parts take {} bytes, at most {} fit",
                                 text.size(), max_parts_header_bytes));
  std::string head = "HDLPARTS";
  const auto put = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) head.push_back(static_cast<char>(value >> (8 * i)));
  };
  put(model_parts_version, 4);
  put(0, 4);
  put(text.size(), 8);
  put(0, 8);
  const Sha256Digest digest = sha256(text);
  head.append(digest.begin(), digest.end());
  return head + text;
}

constexpr std::array<uint8_t, part_alignment> zeros{};

// Calls put(bytes) for each piece of the file in its order.
template <class Put>
void write_all(std::span<const ModelPart> parts, const PartAttributes& metadata, const Put& put) {
  check(parts);
  put(bytes_of(front_of(parts, metadata)));
  size_t at = 0;
  for (const ModelPart& part : parts) {
    put(std::span(zeros).first(round_up(at, part_alignment) - at));
    put(part.bytes);
    at = round_up(at, part_alignment) + part.bytes.size();
  }
}

}  // namespace

void write_model_parts(const std::string& path, std::span<const ModelPart> parts, const PartAttributes& metadata) {
  check(parts);
  AtomicFile file(path);
  write_all(parts, metadata, [&](std::span<const uint8_t> bytes) { file.write({bytes.data(), bytes.size()}); });
  file.publish();
}

std::vector<uint8_t> model_parts_bytes(std::span<const ModelPart> parts, const PartAttributes& metadata) {
  std::vector<uint8_t> all;
  write_all(parts, metadata,
            [&](std::span<const uint8_t> bytes) { all.insert(all.end(), bytes.begin(), bytes.end()); });
  return all;
}

}  // namespace heddle
