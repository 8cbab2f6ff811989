#include "heddle/io/model_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/io/little_endian.h"
#include "heddle/io/model_upgrade.h"

namespace heddle {
namespace {

using Json = nlohmann::json;

constexpr std::string_view magic = "HDLPARTS";
constexpr uint64_t head_bytes = 64;
constexpr std::array<std::string_view, part_kind_count> kind_names = {
    "graph", "weights", "image", "preprocessing", "labels", "tokenizer", "metrics", "lineage", "golden"};

bool all_zero(std::span<const uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t b) { return b == 0; });
}

// One file being read: where errors say they come from.
struct Reader {
  std::string path;

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw IoError(fmt::format("[model_parts] {}: {}", path, fmt::format(format, std::forward<Args>(args)...)));
  }

  // The length of the header, which lies in the file and is the one that was written.
  uint64_t check_front(std::span<const uint8_t> file) const {
    if (file.size() < head_bytes || !std::equal(magic.begin(), magic.end(), file.begin()))
      fail("it does not begin with {}; not a .heddle file, or truncated", magic);
    const uint64_t length = little_endian(file.subspan(16, 8));
    if (length > max_parts_header_bytes)
      fail("the header's length is {} bytes, at most {} are allowed", length, max_parts_header_bytes);
    if (length % part_alignment != 0 || !all_zero(file.subspan(12, 4)) || !all_zero(file.subspan(24, 8)))
      fail("its first 64 bytes are damaged");
    if (length > file.size() - head_bytes)
      fail("truncated: the header's length is {} bytes, {} are there", length, file.size() - head_bytes);
    const Sha256Digest digest = sha256(file.subspan(head_bytes, length));
    if (!std::equal(digest.begin(), digest.end(), file.begin() + 32)) fail("the header is damaged (SHA-256)");
    return length;
  }

  const Json& member(const Json& object, const char* key, const std::string& where) const {
    const auto found = object.find(key);
    if (found == object.end()) fail("{} has no '{}'", where, key);
    return *found;
  }
  std::string text(const Json& value, const std::string& where) const {
    if (!value.is_string()) fail("{} is {}, expected a text", where, shortened(value.dump()));
    return value.get<std::string>();
  }
  uint64_t number(const Json& value, const std::string& where) const {
    if (!value.is_number_unsigned()) fail("{} is {}, expected a whole number", where, shortened(value.dump()));
    return value.get<uint64_t>();
  }
  PartAttributes texts(const Json& value, const std::string& where) const {
    if (!value.is_object()) fail("{} is no object of texts", where);
    PartAttributes result;
    for (const auto& [key, item] : value.items()) result[key] = text(item, where + " entry");
    return result;
  }
  void check_keys(const Json& object, std::initializer_list<std::string_view> known, const std::string& where) const {
    if (!object.is_object()) fail("{} is no object", where);
    for (const auto& [key, item] : object.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail("{} has '{}', which format version {} does not know", where, shortened(key), model_parts_version);
    }
  }

  PartEntry entry(const Json& json, size_t number_of_part) const {
    std::string where = fmt::format("part {}", number_of_part);
    check_keys(json, {"name", "kind", "offset", "bytes", "sha256", "target", "bucket", "attributes"}, where);
    PartEntry result;
    result.name = text(member(json, "name", where), where + "'s name");
    where = fmt::format("part '{}'", shortened(result.name));
    const std::string kind = text(member(json, "kind", where), where + "'s kind");
    const auto known = std::find(kind_names.begin(), kind_names.end(), kind);
    if (known == kind_names.end()) fail("{} is of kind '{}', which is none", where, shortened(kind));
    result.kind = static_cast<PartKind>(known - kind_names.begin());
    result.offset = number(member(json, "offset", where), where + "'s offset");
    result.bytes = number(member(json, "bytes", where), where + "'s length");
    const std::optional<Sha256Digest> digest = parse_sha256(text(member(json, "sha256", where), where + "'s hash"));
    if (!digest) fail("{} has no SHA-256 of 64 lower-case digits", where);
    result.sha256 = *digest;
    if (json.contains("target")) result.target = text(json["target"], where + "'s target");
    if (json.contains("bucket")) result.bucket = text(json["bucket"], where + "'s bucket");
    if (json.contains("attributes")) result.attributes = texts(json["attributes"], where + "'s attributes");
    if (const std::string fault = fault_of(result); !fault.empty()) fail("{} {}", where, fault);
    return result;
  }

  // Each part begins at the next multiple of 64, with zeros before it, and the last one ends the file.
  void check_cover(std::vector<PartEntry>& entries, std::span<const uint8_t> data, uint64_t data_begin) const {
    uint64_t at = 0;
    for (PartEntry& entry : entries) {
      const uint64_t expected = round_up(at, part_alignment);
      const std::string name = shortened(entry.name);
      if (entry.offset > data.size() || entry.bytes > data.size() - entry.offset)
        fail("part '{}': {} bytes from {} lie outside the {} bytes of parts; is the file truncated?", name, entry.bytes,
             entry.offset, data.size());
      if (entry.offset < at) fail("part '{}' overlaps the one before at byte {}", name, entry.offset);
      if (entry.offset % part_alignment != 0) fail("part '{}' begins at {}, no multiple of 64", name, entry.offset);
      if (entry.offset != expected || !all_zero(data.subspan(at, expected - at)))
        fail("bytes {} to {}, before part '{}', belong to no part", at, entry.offset, name);
      at = entry.offset + entry.bytes;
      entry.offset += data_begin;
    }
    if (at != data.size()) fail("{} bytes after the last part belong to nothing", data.size() - at);
  }
};

}  // namespace

std::string_view name_of(PartKind kind) { return kind_names[static_cast<size_t>(kind)]; }

std::string fault_of(const PartEntry& entry) {
  const bool image = entry.kind == PartKind::image, plain = entry.target.empty() && entry.bucket.empty();
  if (entry.name.empty() || entry.name.size() > max_part_name_bytes)
    return fmt::format("needs a name of 1 to {} bytes", max_part_name_bytes);
  if (std::any_of(entry.name.begin(), entry.name.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; }))
    return "has a control character in its name";
  if (image && entry.target.empty()) return "is an image and needs a target";
  return image || plain ? "" : "has a target or a bucket and is no image";
}

ModelParts ModelParts::read(const std::string& path) { return of(FileBytes::read(path, "model_parts"), path); }
ModelParts ModelParts::map(const std::string& path) { return of(FileBytes::map(path, "model_parts"), path); }

ModelParts ModelParts::of(FileBytes file, const std::string& path) {
  const Reader reader{path};
  ModelParts result;
  result.path_ = path;
  result.file_ = std::move(file);
  const std::span<const uint8_t> bytes = result.file_.bytes();
  const uint64_t length = reader.check_front(bytes), data_begin = head_bytes + length;
  std::copy_n(bytes.begin() + 32, result.identity_.size(), result.identity_.begin());
  const std::string where = fmt::format("[model_parts] {}", path);
  const std::string text = upgraded_header({reinterpret_cast<const char*>(bytes.data()) + head_bytes, length},
                                           static_cast<uint32_t>(little_endian(bytes.subspan(8, 4))),
                                           model_parts_version, header_upgrades(), where);
  const Json header = parse_unique_json<Json>(text, where + ": the header");
  reader.check_keys(header, {"metadata", "parts"}, "the header");
  result.metadata_ = reader.texts(reader.member(header, "metadata", "the header"), "the metadata");
  const Json& parts = reader.member(header, "parts", "the header");
  if (!parts.is_array() || parts.size() > max_part_count)
    reader.fail("'parts' is no list of at most {} parts", max_part_count);
  for (const Json& part : parts) {
    result.entries_.push_back(reader.entry(part, result.entries_.size()));
    const std::string& name = result.entries_.back().name;
    if (!result.by_name_.emplace(name, result.entries_.size() - 1).second)
      reader.fail("part '{}' is there twice", shortened(name));
  }
  reader.check_cover(result.entries_, bytes.subspan(data_begin), data_begin);
  result.check_hashes();
  return result;
}

void ModelParts::check_hashes() {
  for (const PartEntry& entry : entries_) {
    if (!file_.is_mapped() || entry.kind != PartKind::weights) verify(entry);
  }
}

const PartEntry* ModelParts::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

const PartEntry* ModelParts::find_image(std::string_view target, std::string_view bucket) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const PartEntry& entry) {
    return entry.kind == PartKind::image && entry.target == target && entry.bucket == bucket;
  });
  return found == entries_.end() ? nullptr : &*found;
}

const PartEntry& ModelParts::only(PartKind kind) const {
  const auto of_kind = [&](const PartEntry& entry) { return entry.kind == kind; };
  const auto count = std::count_if(entries_.begin(), entries_.end(), of_kind);
  if (count != 1) Reader{path_}.fail("it has {} parts of kind '{}', expected one", count, name_of(kind));
  return *std::find_if(entries_.begin(), entries_.end(), of_kind);
}

std::span<const uint8_t> ModelParts::bytes(const PartEntry& entry) const {
  return file_.bytes().subspan(static_cast<size_t>(entry.offset), static_cast<size_t>(entry.bytes));
}

std::string_view ModelParts::text(const PartEntry& entry) const {
  const std::span<const uint8_t> part = bytes(entry);
  return {reinterpret_cast<const char*>(part.data()), part.size()};
}

void ModelParts::verify(const PartEntry& entry) const {
  if (sha256(bytes(entry)) != entry.sha256)
    Reader{path_}.fail("part '{}' is damaged: its bytes do not match their SHA-256", shortened(entry.name));
}

void ModelParts::verify() const {
  for (const PartEntry& entry : entries_) verify(entry);
}

}  // namespace heddle
