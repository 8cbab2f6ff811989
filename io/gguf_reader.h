// From the bytes of a GGUF file to its directory (io/gguf.h). Internal.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/io/gguf.h"

namespace heddle {

// Of a value that was checked when its file was opened and begins `rest`.
uint64_t gguf_value_bytes(GgufType type, std::span<const uint8_t> rest);
// 0: of no fixed size.
uint64_t gguf_scalar_bytes(GgufType type);

class GgufReader {
 public:
  explicit GgufReader(Gguf& result) : result_(result), file_(result.file_->bytes()) {}
  void read();

 private:
  struct Extent {
    uint64_t offset, bytes;
    size_t tensor;
  };

  template <class... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw IoError(fmt::format("[gguf] {}: {}", result_.path_, fmt::format(format, std::forward<Args>(args)...)));
  }

  std::span<const uint8_t> take(uint64_t bytes);
  template <class T>
  T number();
  uint64_t count(const char* of, uint64_t least_bytes);
  std::string name(const char* of);
  GgufType value_type(const std::string& key);
  // Moves behind a value.
  void pass(GgufType type, const std::string& key, int depth);
  void pass_array(const std::string& key, int depth);

  void read_metadata(uint64_t entries);
  void read_alignment();
  void read_tensor();
  Shape read_shape(const std::string& name, const GgmlBlock* block, uint64_t& bytes);
  void refuse_types() const;
  void place_tensors();

  Gguf& result_;
  std::span<const uint8_t> file_;
  uint64_t at_ = 0;
  uint64_t nested_ = 0;  // arrays within arrays so far
  std::vector<Extent> extents_;
  std::map<std::string, uint64_t> refused_;  // types that are not read -> tensors
};

}  // namespace heddle
