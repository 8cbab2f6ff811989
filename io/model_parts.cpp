#include "heddle/io/model_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/base/json_walk.h"
#include "heddle/core/base/shortened.h"
#include "heddle/io/little_endian.h"
#include "heddle/io/model_upgrade.h"

namespace heddle {
namespace {

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

  std::string text(JsonWalk& json, const std::string& where) const {
    if (json.next() != JsonWalk::Kind::text) fail("{} is {}, expected a text", where, shortened(json.raw()));
    return json.text();
  }
  uint64_t number(JsonWalk& json, const std::string& where) const {
    const std::string_view raw = json.raw();
    const std::optional<uint64_t> value = JsonWalk::whole(raw);
    if (!value) fail("{} is {}, expected a whole number", where, shortened(raw));
    return *value;
  }
  PartAttributes texts(JsonWalk& json, const std::string& where) const {
    if (json.next() != JsonWalk::Kind::object) fail("{} is no object of texts", where);
    PartAttributes result;
    json.object([&](const std::string& key) { result[key] = text(json, where + " entry"); });
    return result;
  }
  [[noreturn]] void unknown(const std::string& key, const std::string& where) const {
    fail("{} has '{}', which format version {} does not know", where, shortened(key), model_parts_version);
  }

  PartKind kind(const std::string& name, const std::string& where) const {
    const auto known = std::find(kind_names.begin(), kind_names.end(), name);
    if (known == kind_names.end()) fail("{} is of kind '{}', which is none", where, shortened(name));
    return static_cast<PartKind>(known - kind_names.begin());
  }
  Sha256Digest hash(const std::string& text, const std::string& where) const {
    const std::optional<Sha256Digest> digest = parse_sha256(text);
    if (!digest) fail("{} has no SHA-256 of 64 lower-case digits", where);
    return *digest;
  }

  PartEntry entry(JsonWalk& json, size_t number_of_part) const {
    const std::string where = fmt::format("part {}", number_of_part);
    if (json.next() != JsonWalk::Kind::object) fail("{} is no object", where);
    PartEntry result;
    std::set<std::string> seen;
    json.object([&](const std::string& key) {
      seen.insert(key);
      if (key == "name")
        result.name = text(json, where + "'s name");
      else if (key == "kind")
        result.kind = kind(text(json, where + "'s kind"), where);
      else if (key == "offset")
        result.offset = number(json, where + "'s offset");
      else if (key == "bytes")
        result.bytes = number(json, where + "'s length");
      else if (key == "sha256")
        result.sha256 = hash(text(json, where + "'s hash"), where);
      else if (key == "target")
        result.target = text(json, where + "'s target");
      else if (key == "bucket")
        result.bucket = text(json, where + "'s bucket");
      else if (key == "attributes")
        result.attributes = texts(json, where + "'s attributes");
      else
        unknown(key, where);
    });
    const std::string name = seen.contains("name") ? fmt::format("part '{}'", shortened(result.name)) : where;
    for (const char* needed : {"name", "kind", "offset", "bytes", "sha256"}) {
      if (!seen.contains(needed)) fail("{} has no '{}'", name, needed);
    }
    if (const std::string fault = fault_of(result); !fault.empty()) fail("{} {}", name, fault);
    return result;
  }

  // The list "parts".
  std::vector<PartEntry> entries(JsonWalk& json) const {
    const auto refuse = [&] { fail("'parts' is no list of at most {} parts", max_part_count); };
    if (json.next() != JsonWalk::Kind::list) refuse();
    std::vector<PartEntry> result;
    json.list([&] {
      if (result.size() == max_part_count) refuse();
      result.push_back(entry(json, result.size()));
    });
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
  const std::string what = where + ": the header";
  JsonWalk::check(text, what);
  JsonWalk json(text, what);
  if (json.next() != JsonWalk::Kind::object) reader.fail("the header is no object");
  bool has_metadata = false, has_parts = false;
  json.object([&](const std::string& key) {
    if (key == "metadata")
      has_metadata = true, result.metadata_ = reader.texts(json, "the metadata");
    else if (key == "parts")
      has_parts = true, result.entries_ = reader.entries(json);
    else
      reader.unknown(key, "the header");
  });
  if (!has_metadata || !has_parts) reader.fail("the header has no '{}'", has_parts ? "metadata" : "parts");
  for (const PartEntry& entry : result.entries_) {
    if (!result.by_name_.emplace(entry.name, result.by_name_.size()).second)
      reader.fail("part '{}' is there twice", shortened(entry.name));
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
