// GGML's element types: numbers in blocks with a scale, as GGUF files hold them.
//
// A block is a stretch of a tensor's innermost axis:
//   Q4_0, Q4_1: 32 elements of 4 bits with a scale (and a minimum); Q8_0: 32 elements of 8 bits with a scale;
//   Q4_K: 256 of 4 bits in 8 groups, whose scales and minima have 6 bits under two scales of the block;
//   Q6_K: 256 of 6 bits in 16 groups, whose scales have 8 bits under the block's.
// Purpose: sizes for readers, and values on the host: the oracle of kernels that read packed blocks.
// Errors: ValueError for bytes or values that do not fit. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// The numbers are those of the files.
enum class GgmlType : uint32_t { f32 = 0, f16 = 1, q4_0 = 2, q4_1 = 3, q8_0 = 8, q4_k = 12, q6_k = 14, bf16 = 30 };

struct GgmlBlock {
  GgmlType type;
  std::string_view name;  // "Q4_K"
  uint32_t elements, bytes;
};

// All that are read, by number.
std::span<const GgmlBlock> ggml_blocks();
const GgmlBlock& block_of(GgmlType type);
// Null for a number that is not read.
const GgmlBlock* find_block(uint32_t number);
// Of any number that ggml has given a type, read or not: "IQ2_XS"; "type 99" for none.
std::string ggml_type_name(uint32_t number);

// Whole blocks to as many values as they hold.
void dequantise(GgmlType type, std::span<const uint8_t> blocks, std::span<float> values);

}  // namespace heddle
