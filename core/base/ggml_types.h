// GGML's element types, numbers in blocks with a scale, as GGUF files hold them; and NF4, which no such file has.
//
// A block is a stretch of a tensor's innermost axis:
//   Q4_0, Q4_1: 32 elements of 4 bits with a scale (and a minimum); Q8_0: 32 elements of 8 bits with a scale;
//   Q4_K: 256 of 4 bits in 8 groups, whose scales and minima have 6 bits under two scales of the block;
//   Q6_K: 256 of 6 bits in 16 groups, whose scales have 8 bits under the block's;
//   NF4: 64 of 4 bits, each one of sixteen levels times the block's scale, its largest magnitude (Dettmers et al. 2023,
//   "QLoRA: Efficient Finetuning of Quantized LLMs", section 3 and appendix E). The scale is f16: 4.25 bits an element,
//   where theirs, in two stages, are 4.127. The bytes of elements 0 to 31 and of 32 to 63 each lie as Q4_0's.
// Purpose: sizes for readers, and values on the host: the oracle of kernels that read packed blocks.
// Errors: ValueError for bytes or values that do not fit. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace heddle {

// The numbers are those of the files; NF4's is far above those that GGML gives.
enum class GgmlType : uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q8_0 = 8,
  q4_k = 12,
  q6_k = 14,
  bf16 = 30,
  nf4 = 1000
};

struct GgmlBlock {
  GgmlType type;
  std::string_view name;  // "Q4_K"
  uint32_t elements, bytes;
};

// All that are read from files, by number: not NF4.
std::span<const GgmlBlock> ggml_blocks();
const GgmlBlock& block_of(GgmlType type);
// Null for a number that is not read from files.
const GgmlBlock* find_block(uint32_t number);
// By name, "Q4_K" or "q4_k"; NF4 as well. Null for a name that is none.
const GgmlBlock* find_block(std::string_view name);
// The levels of NF4, ascending.
std::span<const float, 16> nf4_levels();
// Of any number that ggml has given a type, read or not: "IQ2_XS"; "type 99" for none.
std::string ggml_type_name(uint32_t number);

// Whole blocks to as many values as they hold.
void dequantise(GgmlType type, std::span<const uint8_t> blocks, std::span<float> values);

}  // namespace heddle
