// The compiler of the Vulkan backend: KernelSource -> GLSL -> SPIR-V, with the cache on disk.
#include <cstring>

#include "heddle/backend_vulkan/glsl_compiler.h"
#include "heddle/backend_vulkan/int64_words.h"
#include "heddle/core/base/error.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/device/validate.h"
#include "heddle/core/dialect/printer.h"

namespace heddle {
namespace {

class VulkanCompiler final : public KernelCompiler {
 public:
  KernelBinary compile(const KernelSource& source, const Caps& caps) const override {
    check_kernel(source, caps);
    PrintOptions options = print_options(caps);
    options.texel_images = caps.texel_images;
    KernelBinary made;
    made.signature = signature_of(source);
    made.kind = KernelBinary::Kind::spirv;
    made.slots = descriptors(source, options);
    made.text = print(source, Target::glsl, options);
    made.subgroups = made.text.find("GL_KHR_shader_subgroup") != std::string::npos;
    made.bytes = compile_text(made.text, source.name, caps);
    return made;
  }

  std::vector<uint8_t> compile_text(const std::string& text, const std::string& name, const Caps& caps) const override {
    std::vector<uint32_t> words = compile_glsl_cached(text, name);
    if (!caps.i64_arithmetic) words = int64_by_words(words, name);
    std::vector<uint8_t> bytes(words.size() * sizeof(uint32_t));
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
  }

  // The names of extensions are newer than some versions of glslang.
  bool knows(std::string_view extension) const override {
    try {
      compile_glsl("#version 450\n#extension " + std::string(extension) + " : require\nvoid main() {}\n", "probe");
      return true;
    } catch (const CompileError&) {
      return false;
    }
  }
};

}  // namespace

const KernelCompiler& vulkan_compiler() {
  static const VulkanCompiler compiler;
  return compiler;
}

}  // namespace heddle
