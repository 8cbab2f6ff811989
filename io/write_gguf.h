// GgufWriter: a GGUF file (version 3) from metadata and tensors whose blocks are packed already.
//
// Invariants: what it writes, Gguf reads; tensors and keys in the order of the calls; the file appears whole or not at
// all. Errors: ValueError for a name that is there or that no file may have, and for blocks that do not fit their
// shape; IoError where it cannot be written. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/io/gguf.h"

namespace heddle {

class GgufWriter {
 public:
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, const char* text) { add(key, std::string_view(text)); }
  void add(std::string_view key, bool value);
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, uint64_t value);
  void add(std::string_view key, int32_t value);
  void add(std::string_view key, int64_t value);
  void add(std::string_view key, float value);
  void add(std::string_view key, double value);
  void add(std::string_view key, std::span<const std::string> texts);
  void add(std::string_view key, std::span<const int32_t> values);
  void add(std::string_view key, std::span<const float> values);
  // As another file has it.
  void add(std::string_view key, const GgufValue& value);

  // `blocks` must live until the file is written.
  void add_tensor(std::string_view name, GgmlType type, const Shape& shape, std::span<const uint8_t> blocks);

  // The same of blocks that are made when the file is written, and let go behind it.
  using MakeBlocks = std::function<std::vector<uint8_t>()>;
  void add_made_tensor(std::string_view name, GgmlType type, const Shape& shape, MakeBlocks make);

  std::vector<uint8_t> bytes() const;
  void write(const std::string& path) const;

 private:
  void add_raw(std::string_view key, GgufType type, std::span<const uint8_t> raw);
  template <class T>
  void add_number(std::string_view key, GgufType type, T value);
  std::vector<uint8_t> front() const;
  template <class Put>
  void write_all(const Put& put) const;

  struct Tensor {
    std::string name;
    GgmlType type;
    Shape shape;
    std::span<const uint8_t> blocks;
    MakeBlocks make;  // null: `blocks`
    uint64_t bytes = 0;
  };
  void append(Tensor tensor);
  std::vector<uint8_t> metadata_;
  uint64_t entries_ = 0;
  std::set<std::string, std::less<>> keys_, names_;
  std::vector<Tensor> tensors_;
  uint64_t alignment_ = 32;
};

}  // namespace heddle
