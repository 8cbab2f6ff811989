#include "heddle/backend_vulkan/float_controls.h"

#include <set>
#include <string_view>

#include "heddle/core/contract/spirv.h"

namespace heddle::vulkan {
namespace {

constexpr uint32_t op_extension = 10, op_entry_point = 15, op_execution_mode = 16, op_capability = 17;
constexpr uint32_t op_type_first = 19, op_type_last = 39, op_decorate = 71, op_dot = 148;
constexpr uint32_t op_fadd = 129, op_fsub = 131, op_fmul = 133;
constexpr uint32_t signed_zero_inf_nan_preserve = 4466;       // the capability
constexpr uint32_t signed_zero_inf_nan_preserve_mode = 4461;  // the execution mode
constexpr uint32_t no_contraction = 42;                       // the decoration

constexpr uint32_t first_word(uint32_t op, uint32_t words) { return words << 16 | op; }

void append(std::vector<uint32_t>& out, const SpirvInstruction& i) {
  out.push_back(first_word(i.op, static_cast<uint32_t>(i.words())));
  out.insert(out.end(), i.operands.begin(), i.operands.end());
}

// "SPV_KHR_float_controls" as a literal: four characters a word, the first in the lowest byte, and a 0 at the end.
void append_extension(std::vector<uint32_t>& out) {
  constexpr std::string_view name = "SPV_KHR_float_controls";
  constexpr uint32_t words = static_cast<uint32_t>(name.size()) / 4 + 1;
  out.push_back(first_word(op_extension, words + 1));
  const size_t at = out.size();
  out.resize(at + words, 0);
  for (size_t i = 0; i < name.size(); ++i) out[at + i / 4] |= static_cast<uint32_t>(name[i]) << (8 * (i % 4));
}

bool contracts(uint16_t op) { return op == op_fadd || op == op_fsub || op == op_fmul || op == op_dot; }
bool is_type(uint16_t op) { return op >= op_type_first && op <= op_type_last; }

}  // namespace

std::vector<uint32_t> preserve_nan(const std::vector<uint32_t>& module) {
  const std::optional<std::vector<SpirvInstruction>> all = spirv_instructions(module);
  if (!all) return module;
  std::vector<uint32_t> out(module.begin(), module.begin() + spirv_head);
  out.insert(out.end(), {first_word(op_capability, 2), signed_zero_inf_nan_preserve});
  bool extended = false, asked = false;
  uint32_t entry = 0;
  for (const SpirvInstruction& i : *all) {
    if (!extended && i.op != op_capability) append_extension(out);
    extended = extended || i.op != op_capability;
    if (entry != 0 && !asked) {  // the first behind the entry point
      out.insert(out.end(), {first_word(op_execution_mode, 4), entry, signed_zero_inf_nan_preserve_mode, 32});
      asked = true;
    }
    if (i.op == op_entry_point && i.operands.size() > 1) entry = i.operands[1];
    append(out, i);
  }
  return asked ? out : module;
}

std::vector<uint32_t> forbid_contraction(const std::vector<uint32_t>& module) {
  const std::optional<std::vector<SpirvInstruction>> all = spirv_instructions(module);
  if (!all) return module;
  std::set<uint32_t> sums;
  for (const SpirvInstruction& i : *all) {
    if (contracts(i.op) && i.operands.size() > 1) sums.insert(i.operands[1]);
  }
  for (const SpirvInstruction& i : *all) {
    if (i.op == op_decorate && i.operands.size() > 1 && i.operands[1] == no_contraction) sums.erase(i.operands[0]);
  }
  if (sums.empty()) return module;
  std::vector<uint32_t> out(module.begin(), module.begin() + spirv_head);
  bool decorated = false;
  for (const SpirvInstruction& i : *all) {
    if (!decorated && is_type(i.op)) {
      for (const uint32_t sum : sums) out.insert(out.end(), {first_word(op_decorate, 3), sum, no_contraction});
      decorated = true;
    }
    append(out, i);
  }
  return out;
}

}  // namespace heddle::vulkan
