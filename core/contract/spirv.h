// SPIR-V modules as instructions (the Khronos specification, section 2.3).
//
// Invariants: what is read lies within the words given; nothing is known of what instructions mean. Thread safety: pure
// functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace heddle {

inline constexpr uint32_t spirv_magic = 0x07230203;
inline constexpr size_t spirv_head = 5;  // words before the first instruction

struct SpirvInstruction {
  uint16_t op = 0;
  std::span<const uint32_t> operands;  // what follows its first word, in the module
  size_t words() const { return operands.size() + 1; }
};

// The one that begins at words[at]; none where it has no length or is longer than the module.
inline std::optional<SpirvInstruction> spirv_instruction(std::span<const uint32_t> words, size_t at) {
  const size_t length = at < words.size() ? words[at] >> 16 : 0;
  if (length == 0 || length > words.size() - at) return std::nullopt;
  return SpirvInstruction{static_cast<uint16_t>(words[at] & 0xffffu), words.subspan(at + 1, length - 1)};
}

// All of a module, which must stay; none where it is shorter than its head or damaged.
inline std::optional<std::vector<SpirvInstruction>> spirv_instructions(std::span<const uint32_t> words) {
  if (words.size() < spirv_head) return std::nullopt;
  std::vector<SpirvInstruction> all;
  for (size_t at = spirv_head; at < words.size(); at += all.back().words()) {
    const std::optional<SpirvInstruction> next = spirv_instruction(words, at);
    if (!next) return std::nullopt;
    all.push_back(*next);
  }
  return all;
}

}  // namespace heddle
