// Blocks with arbitrary contents and small scales, and tiny GGUF files of Llamas made of them.
//
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/base/shape.h"

namespace heddle::test {

// Whole blocks of that many elements; the same for a seed.
std::vector<uint8_t> random_blocks(GgmlType type, int64_t elements, uint32_t seed);

// A Llama of two blocks, width 64, 4 heads and 2 of keys, and a tokenizer of bytes and three merges; what a test wants
// otherwise it changes before bytes().
struct TinyLlamaFile {
  struct Entry {
    GgmlType type;
    Shape shape;
    std::vector<uint8_t> bytes;
  };
  // Of projections; norms are f32. Not tied: with an "output.weight".
  explicit TinyLlamaFile(GgmlType type = GgmlType::q8_0, bool tied = true);
  std::vector<uint8_t> bytes() const;
  void write(const std::string& path) const;

  std::map<std::string, uint32_t> numbers;
  std::map<std::string, float> reals;
  std::map<std::string, std::string> texts;
  std::vector<std::string> tokens, merges;
  std::vector<int32_t> types;
  std::map<std::string, Entry> tensors;
};

}  // namespace heddle::test
