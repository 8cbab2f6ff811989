#include "heddle/core/dialect/kernel_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/path.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/contract/spirv.h"
#include "heddle/core/dialect/user_text.h"

namespace heddle {
namespace {

using Language = KernelText::Language;

constexpr std::pair<std::string_view, Language> endings[] = {{".comp", Language::glsl},
                                                             {".glsl", Language::glsl},
                                                             {".spv", Language::spirv},
                                                             {".cl", Language::opencl_c},
                                                             {".cu", Language::cuda}};

// What Heddle must know of a SPIR-V module (the Khronos specification, section 3).
struct SpirvFacts {
  bool opencl = false;                           // capability Kernel
  bool subgroups = false;                        // a capability of GroupNonUniform
  std::optional<std::array<uint32_t, 3>> group;  // execution mode LocalSize; none where constants decide
};

SpirvFacts facts_of(std::span<const uint8_t> bytes) {
  constexpr uint32_t execution_mode = 16, capability = 17, function = 54;
  std::vector<uint32_t> words(bytes.size() / 4);
  if (words.empty()) return {};
  std::memcpy(words.data(), bytes.data(), words.size() * 4);
  SpirvFacts facts;
  size_t at = spirv_head;
  // What is asked stands before functions. (GCC 12 ends the life of a loop's condition before its last expression.)
  while (const std::optional<SpirvInstruction> next = spirv_instruction(words, at)) {
    const auto& [op, operands] = *next;
    if (op == function) break;
    at += next->words();
    if (op == capability && operands.size() == 1) {
      facts.opencl = facts.opencl || operands[0] == 6;
      facts.subgroups = facts.subgroups || (operands[0] >= 61 && operands[0] <= 68);
    }
    if (op == execution_mode && operands.size() == 5 && operands[1] == 17)
      facts.group = {operands[2], operands[3], operands[4]};
  }
  return facts;
}

void check_spirv(const KernelText& kernel, const SpirvFacts& facts) {
  if (facts.opencl)
    throw ValueError(
        fmt::format("[kernel {}] this SPIR-V is OpenCL's; Heddle's OpenCL devices take OpenCL C, and its "
                    "Vulkan devices compute shaders",
                    kernel.name));
  if (facts.group && *facts.group != kernel.group) {
    const auto& [x, y, z] = *facts.group;
    throw ValueError(fmt::format("[kernel {}] its group is {}x{}x{}, the shader's local size {}x{}x{}", kernel.name,
                                 kernel.group[0], kernel.group[1], kernel.group[2], x, y, z));
  }
}

// In front of a text: its function is called as loaders expect it, and messages keep the text's own lines.
std::string with_entry(const KernelText& kernel) {
  if (!is_user_name(kernel.name))
    throw ValueError(
        fmt::format("[kernel {}] the name must be that of its function, an identifier that is no word of "
                    "the kernel dialect",
                    kernel.name));
  return fmt::format("#define {} heddle_kernel\n#line 1\n{}", kernel.name, kernel.text);
}

}  // namespace

const char* name_of(Language language) {
  constexpr const char* names[] = {"GLSL", "SPIR-V", "OpenCL C", "CUDA C++"};
  return names[static_cast<int>(language)];
}

Target KernelText::target() const {
  if (language == Language::opencl_c) return Target::opencl;
  return language == Language::cuda ? Target::cuda : Target::glsl;
}

KernelText KernelText::load(const std::string& path) {
  const fs::path file(path);
  for (const auto& [ending, language] : endings) {
    if (file.extension() != ending) continue;
    KernelText kernel;
    kernel.language = language;
    kernel.name = file.stem().string();
    if (!read_contents(path, kernel.text))
      throw IoError(fmt::format("[kernel] cannot read {}: {}", path, std::strerror(errno)));
    return kernel;
  }
  throw ValueError(
      fmt::format("[kernel] '{}' is no kernel text: the endings are .comp and .glsl (GLSL), .spv (SPIR-V), "
                  ".cl (OpenCL C), .cu (CUDA C++); a .hk is read by KernelFile::load",
                  path));
}

KernelBinary compile_text(const KernelText& kernel, const Caps& caps) {
  if (caps.target != kernel.target())
    throw ValueError(fmt::format("[kernel {}] it is {}, and this device takes kernels in {}", kernel.name,
                                 name_of(kernel.language), name_of(caps.target)));
  KernelBinary made;
  made.signature = {kernel.name, kernel.buffers, kernel.constants.size(), kernel.group};
  if (kernel.language == Language::spirv) {
    made.bytes.assign(kernel.text.begin(), kernel.text.end());
  } else {
    const KernelCompiler* compiler = builtin_compiler(caps.target);
    if (!compiler)
      throw CompileError(fmt::format("[compile] kernel {}: this program has no compiler for {}", kernel.name,
                                     name_of(kernel.language)),
                         "");
    made.text = kernel.language == Language::glsl ? kernel.text : with_entry(kernel);
    made.bytes = compiler->compile_text(made.text, kernel.name, caps);
  }
  if (kernel.target() != Target::glsl) {
    made.kind = kernel.language == Language::cuda ? KernelBinary::Kind::cuda : KernelBinary::Kind::opencl_c;
    return made;
  }
  made.kind = KernelBinary::Kind::spirv;
  for (uint64_t i = 0; i < kernel.buffers.size(); ++i) made.slots.push_back({i, BufferSlot::Kind::storage, false});
  const SpirvFacts facts = facts_of(made.bytes);
  check_spirv(kernel, facts);
  made.subgroups = facts.subgroups;
  return made;
}

}  // namespace heddle
