// ModelParts: a `.heddle` file, which is named parts of bytes: a graph, weights, images for devices, and what belongs
// to them. What the parts hold is known to their own readers.
//
// Layout, all numbers little-endian: 64 bytes of head (the text "HDLPARTS"; u32 format version; u32 zero; u64 length of
// the header; zeros; SHA-256 of the header in the last 32), the header (JSON, spaces up to a multiple of 64), then the
// parts in the order of the header, each at a multiple of 64 with zeros before it. The header is
//   {"metadata": {text: text}, "parts": [{"name", "kind", "offset", "bytes", "sha256", "target"?, "bucket"?,
//    "attributes"?: {text: text}}]}
// with offsets from the header's end. Since it holds the hash of every part, its own hash is the file's identity.
//
// Invariants: before anything is allocated on the word of the file, the header is checked: lengths against the file's
// size, offsets that overlap, leave gaps, are not aligned or lie outside, duplicate names, unknown kinds and keys. A
// part's hash is checked before anybody sees its bytes; of a mapped file the weights' are not, until verify(). Files of
// older versions are upgraded while they are read (io/model_upgrade.h), newer ones refused. A file is written whole or
// not at all (io/write_model_parts.h). Errors: IoError "[model_parts] path: ..." in one line. Thread safety: reading is
// const.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/io/file_bytes.h"
#include "heddle/io/sha256.h"

namespace heddle {

enum class PartKind : uint8_t { graph, weights, image, preprocessing, labels, tokenizer, metrics, lineage, golden };
inline constexpr int part_kind_count = 9;
std::string_view name_of(PartKind kind);  // as in the file: "graph", ...

inline constexpr uint32_t model_parts_version = 1;
inline constexpr uint64_t part_alignment = 64;  // of each part, from the file's first byte
inline constexpr uint64_t max_parts_header_bytes = uint64_t{1} << 22;
inline constexpr size_t max_part_count = 16384;
inline constexpr size_t max_part_name_bytes = 255;

using PartAttributes = std::map<std::string, std::string>;

// What the header says of a part.
struct PartEntry {
  std::string name;  // unique in its file; UTF-8, not empty
  PartKind kind = PartKind::graph;
  std::string target, bucket;  // of an image: "vulkan", "cuda:sm_80"; "N=8". Others have none; a bucket may be empty
  PartAttributes attributes;   // whatever its writer wants to say
  uint64_t offset = 0, bytes = 0;  // from the file's first byte
  Sha256Digest sha256{};
};
// Why no file may have such an entry; empty when one may.
std::string fault_of(const PartEntry& entry);

class ModelParts {
 public:
  // A copy in memory; all hashes are checked.
  static ModelParts read(const std::string& path);
  // Mapped; read io/file_bytes.h first.
  static ModelParts map(const std::string& path);
  // A file that lies in memory, checked as read() does; `path` stands in errors.
  static ModelParts of(FileBytes file, const std::string& path);

  const std::vector<PartEntry>& entries() const { return entries_; }
  const PartAttributes& metadata() const { return metadata_; }
  // SHA-256 of the header: the same for the same content, another for any other.
  const Sha256Digest& identity() const { return identity_; }

  // Null where there is none.
  const PartEntry* find(std::string_view name) const;
  const PartEntry* find_image(std::string_view target, std::string_view bucket) const;  // the first of them
  // IoError that names the kind and how many there are, unless there is exactly one.
  const PartEntry& only(PartKind kind) const;

  // Of an entry of this file; they live as long as it does.
  std::span<const uint8_t> bytes(const PartEntry& entry) const;
  std::string_view text(const PartEntry& entry) const;

  // IoError that names the first part whose bytes are not those that were written.
  void verify() const;
  void verify(const PartEntry& entry) const;

 private:
  void check_hashes();

  std::string path_;
  FileBytes file_;
  std::vector<PartEntry> entries_;
  std::map<std::string, size_t, std::less<>> by_name_;
  PartAttributes metadata_;
  Sha256Digest identity_{};
};

}  // namespace heddle
