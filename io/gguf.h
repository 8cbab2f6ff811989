// GGUF files: models of llama.cpp and its like: metadata, and tensors whose blocks stay packed.
//
// Layout (GGUF specification, versions 2 and 3, little-endian): "GGUF", u32 version, u64 tensors, u64 metadata; the
// metadata (text key, u32 type, value); of each tensor its name, u32 number of dimensions, the dimensions with the
// innermost first, u32 type, u64 offset; then, from a multiple of the alignment, the tensors' blocks.
//
// Invariants: everything is a view into the file, and nothing is allocated on its word: counts, lengths and offsets are
// compared with its size first; tensors may not overlap or leave gaps, names and keys are unique. Shapes are row-major,
// the innermost axis last. Tensors of types that are not read are named, all of them, when the file is opened.
// Errors: IoError "[gguf] path: ..." in one line. Thread safety: reading is const.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/base/shape.h"
#include "heddle/io/file_bytes.h"

namespace heddle {

// The numbers are those of the files.
enum class GgufType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };
inline constexpr uint32_t gguf_type_count = 13;
std::string_view name_of(GgufType type);

// A value of the metadata; a view.
class GgufValue {
 public:
  GgufValue() = default;
  GgufValue(GgufType type, std::span<const uint8_t> raw) : type_(type), raw_(raw) {}

  GgufType type() const { return type_; }
  // Integers that fit; numbers of any type but bool; ValueError "[gguf] ..." that names the type otherwise.
  uint64_t as_unsigned() const;
  int64_t as_signed() const;
  double as_number() const;
  bool as_bool() const;
  std::string_view as_text() const;
  // Of an array: what its elements are, how many, and they themselves.
  GgufType element_type() const;
  uint64_t size() const;
  std::vector<GgufValue> elements() const;
  std::vector<std::string_view> texts() const;
  std::vector<double> numbers() const;

  // The value as the file has it, without its type.
  std::span<const uint8_t> raw() const { return raw_; }

 private:
  [[noreturn]] void refuse(const char* wanted) const;

  GgufType type_ = GgufType::u8;
  std::span<const uint8_t> raw_;
};

struct GgufTensor {
  std::string name;
  GgmlType type = GgmlType::f32;
  Shape shape;
  std::span<const uint8_t> bytes;  // whole blocks

  std::vector<float> dequantised() const;
};

class Gguf {
 public:
  static constexpr int max_array_depth = 8;
  static constexpr uint64_t max_entries = 65536;  // of metadata, of tensors, and of arrays within arrays
  static constexpr uint64_t max_name_bytes = 1024;

  static Gguf read(const std::string& path);
  // Mapped; read io/file_bytes.h first.
  static Gguf map(const std::string& path);
  static Gguf of(FileBytes file, const std::string& path);

  uint32_t version() const { return version_; }
  uint64_t alignment() const { return alignment_; }
  using Metadata = std::map<std::string, GgufValue, std::less<>>;
  const Metadata& metadata() const { return metadata_; }
  // Null where there is none; at() throws IoError that names the key.
  const GgufValue* find(std::string_view key) const;
  const GgufValue& at(std::string_view key) const;
  // What all views are into; who keeps them keeps it.
  const std::shared_ptr<const FileBytes>& file() const { return file_; }
  // In the order of the file.
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  const GgufTensor* find_tensor(std::string_view name) const;

 private:
  friend class GgufReader;

  std::string path_;
  std::shared_ptr<const FileBytes> file_;
  uint32_t version_ = 0;
  uint64_t alignment_ = 32;
  Metadata metadata_;
  std::vector<GgufTensor> tensors_;
  std::map<std::string, size_t, std::less<>> by_name_;
};

}  // namespace heddle
