// Requests to leave f32 arithmetic as it is written: what they add to a module, and what they leave alone.
#ifdef HEDDLE_TEST_VULKAN
#include "heddle/backend_vulkan/float_controls.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/backend_vulkan/glsl_compiler.h"
#include "heddle/core/contract/spirv.h"

namespace heddle::vulkan {
namespace {

constexpr const char* text = R"(#version 450
layout(local_size_x = 64) in;
layout(binding = 0) buffer B { float x[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  precise float kept = x[i] * 3.0 + 1.0;
  x[i] = kept * x[i + 1] - x[i + 2];
}
)";

std::vector<SpirvInstruction> all(const std::vector<uint32_t>& module) { return spirv_instructions(module).value(); }

ptrdiff_t count(const std::vector<uint32_t>& module, uint16_t op) {
  const auto list = all(module);
  return std::count_if(list.begin(), list.end(), [&](const SpirvInstruction& i) { return i.op == op; });
}

TEST(FloatControls, AskForNanInTheirPlaces) {
  const std::vector<uint32_t> before = compile_glsl(text, "nan"), after = preserve_nan(before);
  const auto list = all(after);
  const auto place = [&](uint16_t op, uint32_t value, size_t operand) {
    return std::find_if(list.begin(), list.end(),
                        [&](const SpirvInstruction& i) {
                          return i.op == op && i.operands.size() > operand && i.operands[operand] == value;
                        }) -
           list.begin();
  };
  EXPECT_EQ(place(17, 4466, 0), 0);
  const ptrdiff_t extension = place(10, 0x5f565053, 0);  // "SPV_"
  EXPECT_EQ(list[static_cast<size_t>(extension - 1)].op, 17);
  const ptrdiff_t mode = place(16, 4461, 1);
  ASSERT_LT(mode, std::ssize(list));
  EXPECT_EQ(list[static_cast<size_t>(mode - 1)].op, 15);
  EXPECT_EQ(list[static_cast<size_t>(mode)].operands[0], list[static_cast<size_t>(mode - 1)].operands[1]);
  EXPECT_EQ(list[static_cast<size_t>(mode)].operands[2], 32u);
  EXPECT_EQ(std::ssize(list), std::ssize(all(before)) + 3);
}

TEST(FloatControls, EverySumAndProductIsDecoratedOnce) {
  const std::vector<uint32_t> before = compile_glsl(text, "contraction"), after = forbid_contraction(before);
  const ptrdiff_t sums = count(before, 129) + count(before, 131) + count(before, 133);
  ASSERT_EQ(sums, 4);
  ptrdiff_t decorated = 0;
  for (const SpirvInstruction& i : all(after)) decorated += i.op == 71 && i.operands[1] == 42;
  EXPECT_EQ(decorated, sums);
  EXPECT_EQ(forbid_contraction(after), after);
}

TEST(FloatControls, DamagedModulesComeBackAsTheyAre) {
  std::vector<uint32_t> module = compile_glsl(text, "damaged");
  module.back() = 0;  // an instruction of no words
  EXPECT_EQ(preserve_nan(module), module);
  EXPECT_EQ(forbid_contraction(module), module);
  for (const std::vector<uint32_t>& small : {std::vector<uint32_t>{}, std::vector<uint32_t>{spirv_magic, 0}}) {
    EXPECT_EQ(preserve_nan(small), small);
    EXPECT_EQ(forbid_contraction(small), small);
  }
}

}  // namespace
}  // namespace heddle::vulkan
#endif
