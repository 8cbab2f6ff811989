#include "heddle/core/base/ggml_types.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"

namespace heddle {
namespace {

constexpr std::array<GgmlBlock, 8> blocks = {{{GgmlType::f32, "F32", 1, 4},
                                              {GgmlType::f16, "F16", 1, 2},
                                              {GgmlType::q4_0, "Q4_0", 32, 18},
                                              {GgmlType::q4_1, "Q4_1", 32, 20},
                                              {GgmlType::q8_0, "Q8_0", 32, 34},
                                              {GgmlType::q4_k, "Q4_K", 256, 144},
                                              {GgmlType::q6_k, "Q6_K", 256, 210},
                                              {GgmlType::bf16, "BF16", 1, 2}}};

constexpr GgmlBlock nf4_block{GgmlType::nf4, "NF4", 64, 34};

// Appendix E.
constexpr std::array<float, 16> levels = {-1.0F,
                                          -0.6961928009986877F,
                                          -0.5250730514526367F,
                                          -0.39491748809814453F,
                                          -0.28444138169288635F,
                                          -0.18477343022823334F,
                                          -0.09105003625154495F,
                                          0.0F,
                                          0.07958029955625534F,
                                          0.16093020141124725F,
                                          0.24611230194568634F,
                                          0.33791524171829224F,
                                          0.44070982933044434F,
                                          0.5626170039176941F,
                                          0.7229568362236023F,
                                          1.0F};

// By number; empty for numbers that are no longer given.
constexpr std::array<std::string_view, 42> ggml_names = {
    "F32",   "F16",    "Q4_0",  "Q4_1", "",     "",        "Q5_0",   "Q5_1",    "Q8_0",  "Q8_1",   "Q2_K",
    "Q3_K",  "Q4_K",   "Q5_K",  "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S",
    "IQ2_S", "IQ4_XS", "I8",    "I16",  "I32",  "I64",     "F64",    "IQ1_M",   "BF16",  "",       "",
    "",      "TQ1_0",  "TQ2_0", "",     "",     "",        "MXFP4",  "NVFP4",   "Q1_0"};

uint16_t u16(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }
float half(const uint8_t* at) { return f16_to_f32(u16(at)); }

void plain32(const uint8_t* block, float* out) { std::memcpy(out, block, sizeof *out); }
void plain16(const uint8_t* block, float* out) { *out = half(block); }
void brain16(const uint8_t* block, float* out) { *out = bf16_to_f32(u16(block)); }

// The low halves of 16 bytes are the first 16 elements, the high halves the others.
void unpack_q4_0(const uint8_t* block, float* out) {
  const float scale = half(block);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>((block[2 + i] & 15) - 8);
    out[i + 16] = scale * static_cast<float>((block[2 + i] >> 4) - 8);
  }
}

void unpack_q4_1(const uint8_t* block, float* out) {
  const float scale = half(block), least = half(block + 2);
  for (size_t i = 0; i < 16; ++i) {
    out[i] = scale * static_cast<float>(block[4 + i] & 15) + least;
    out[i + 16] = scale * static_cast<float>(block[4 + i] >> 4) + least;
  }
}

void unpack_q8_0(const uint8_t* block, float* out) {
  const float scale = half(block);
  for (size_t i = 0; i < 32; ++i) out[i] = scale * static_cast<float>(static_cast<int8_t>(block[2 + i]));
}

// 16 numbers of 6 bits in 12 bytes: 8 scales, 8 minima. The first four of each lie whole in bytes 0 to 3 and 4 to 7;
// of the others, the low four bits share bytes 8 to 11, and the high two lie above the first four's.
struct GroupScales {
  uint8_t scale, least;
};
GroupScales group_scales(const uint8_t* packed, size_t group) {
  if (group < 4) return {static_cast<uint8_t>(packed[group] & 63), static_cast<uint8_t>(packed[group + 4] & 63)};
  const uint8_t low = packed[group + 4];
  return {static_cast<uint8_t>((low & 15) | packed[group - 4] >> 6 << 4),
          static_cast<uint8_t>(low >> 4 | packed[group] >> 6 << 4)};
}

// Scale, scale of minima, 12 bytes of both by group, 128 bytes: 32 of them are two groups.
void unpack_q4_k(const uint8_t* block, float* out) {
  const float scale = half(block), scale_of_least = half(block + 2);
  for (size_t group = 0; group < 8; ++group) {
    const GroupScales own = group_scales(block + 4, group);
    const float step = scale * static_cast<float>(own.scale), least = scale_of_least * static_cast<float>(own.least);
    const uint8_t* const packed = block + 16 + 32 * (group / 2);
    for (size_t i = 0; i < 32; ++i) {
      const int q = group % 2 == 0 ? packed[i] & 15 : packed[i] >> 4;
      out[32 * group + i] = step * static_cast<float>(q) - least;
    }
  }
}

// 128 bytes of low 4 bits, 64 of high 2 bits, 16 scales of groups, the scale. Of each half of 128 elements, quarter k
// has its low bits in bytes 32 * (k % 2) and up, in their low (k < 2) or high parts, and its high bits at 2 * k.
void unpack_q6_k(const uint8_t* block, float* out) {
  const float scale = half(block + 208);
  for (size_t part = 0; part < 8; ++part) {
    const size_t h = part / 4, k = part % 4;
    const uint8_t* const low = block + 64 * h + 32 * (k % 2);
    const uint8_t* const high = block + 128 + 32 * h;
    for (size_t i = 0; i < 32; ++i) {
      const int q = (k < 2 ? low[i] & 15 : low[i] >> 4) | (high[i] >> (2 * k) & 3) << 4;
      const auto group = static_cast<int8_t>(block[192 + 8 * h + 2 * k + i / 16]);
      out[32 * part + i] = scale * static_cast<float>(group) * static_cast<float>(q - 32);
    }
  }
}

void unpack_nf4(const uint8_t* block, float* out) {
  const float scale = half(block);
  for (size_t i = 0; i < 32; ++i) {
    const size_t at = i < 16 ? i : i + 16;
    out[at] = scale * levels[block[2 + i] & 15];
    out[at + 16] = scale * levels[block[2 + i] >> 4];
  }
}

auto unpacker_of(GgmlType type) -> void (*)(const uint8_t*, float*) {
  switch (type) {
    case GgmlType::f32:
      return plain32;
    case GgmlType::f16:
      return plain16;
    case GgmlType::bf16:
      return brain16;
    case GgmlType::q4_0:
      return unpack_q4_0;
    case GgmlType::q4_1:
      return unpack_q4_1;
    case GgmlType::q8_0:
      return unpack_q8_0;
    case GgmlType::q4_k:
      return unpack_q4_k;
    case GgmlType::nf4:
      return unpack_nf4;
    default:
      return unpack_q6_k;
  }
}

}  // namespace

std::span<const GgmlBlock> ggml_blocks() { return blocks; }

const GgmlBlock* find_block(uint32_t number) {
  const auto found = std::find_if(blocks.begin(), blocks.end(),
                                  [&](const GgmlBlock& block) { return static_cast<uint32_t>(block.type) == number; });
  return found == blocks.end() ? nullptr : &*found;
}

const GgmlBlock* find_block(std::string_view name) {
  const auto is_named = [&](const GgmlBlock& block) {
    return std::ranges::equal(block.name, name, {}, ascii_lower, ascii_lower);
  };
  if (is_named(nf4_block)) return &nf4_block;
  const auto found = std::find_if(blocks.begin(), blocks.end(), is_named);
  return found == blocks.end() ? nullptr : &*found;
}

std::span<const float, 16> nf4_levels() { return levels; }

const GgmlBlock& block_of(GgmlType type) {
  if (type == GgmlType::nf4) return nf4_block;
  const GgmlBlock* const found = find_block(static_cast<uint32_t>(type));
  if (found == nullptr) throw ValueError(fmt::format("[ggml] there is no type {}", static_cast<uint32_t>(type)));
  return *found;
}

std::string ggml_type_name(uint32_t number) {
  if (number < ggml_names.size() && !ggml_names[number].empty()) return std::string(ggml_names[number]);
  return fmt::format("type {}", number);
}

void dequantise(GgmlType type, std::span<const uint8_t> packed, std::span<float> values) {
  const GgmlBlock& block = block_of(type);
  const size_t count = packed.size() / block.bytes;
  if (packed.size() % block.bytes != 0 || values.size() % block.elements != 0 ||
      values.size() / block.elements != count)
    throw ValueError(fmt::format("[dequantise] {} bytes of {} are not {} elements: {} of them take {} bytes",
                                 packed.size(), block.name, values.size(), block.elements, block.bytes));
  const auto unpack = unpacker_of(type);
  for (size_t i = 0; i < count; ++i) unpack(packed.data() + i * block.bytes, values.data() + i * block.elements);
}

}  // namespace heddle
