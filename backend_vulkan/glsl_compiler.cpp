#include "heddle/backend_vulkan/glsl_compiler.h"

#include <fmt/format.h>
#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>
#include <glslang/build_info.h>

#include <cstring>
#include <mutex>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
#include "heddle/core/contract/spirv.h"

namespace heddle {
namespace {

// SPIR-V belongs to no driver, so every device of the machine shares it.
DiskCache spirv_cache() { return DiskCache("spirv", 0); }

std::string identity(const std::string& text) {
  return fmt::format("glslang {}.{}.{}, SPIR-V 1.3\n{}", GLSLANG_VERSION_MAJOR, GLSLANG_VERSION_MINOR,
                     GLSLANG_VERSION_PATCH, text);
}

// glslang's log names lines of the printed text; the first complaint belongs in the exception's one line.
std::string first_line_of(const std::string& log) {
  const size_t end = log.find('\n');
  return log.substr(0, end);
}

}  // namespace

std::vector<uint32_t> compile_glsl(const std::string& text, const std::string& name) {
  static std::once_flag initialised;  // never finalised: other threads may compile until the process ends
  std::call_once(initialised, [] { glslang::InitializeProcess(); });

  glslang::TShader shader(EShLangCompute);
  const char* source = text.c_str();
  const int length = static_cast<int>(text.size());
  const char* source_name = name.c_str();
  shader.setStringsWithLengthsAndNames(&source, &length, &source_name, 1);
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_1);
  shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_3);
  const auto messages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
  const auto fail = [&](const std::string& log) {
    throw CompileError(fmt::format("[vulkan compile {}] glslang refused the kernel: {}", name, first_line_of(log)),
                       log);
  };
  if (!shader.parse(GetDefaultResources(), 450, false, messages)) fail(shader.getInfoLog());
  glslang::TProgram program;
  program.addShader(&shader);
  if (!program.link(messages)) fail(program.getInfoLog());

  std::vector<uint32_t> words;
  spv::SpvBuildLogger logger;
  glslang::SpvOptions options;
  options.disableOptimizer = true;  // drivers optimise SPIR-V themselves
  glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), words, &logger, &options);
  if (words.empty()) fail(logger.getAllMessages());
  return words;
}

std::vector<uint32_t> compile_glsl_cached(const std::string& text, const std::string& name, bool* from_cache) {
  const DiskCache cache = spirv_cache();
  const std::string key = identity(text);
  if (from_cache) *from_cache = false;
  if (const auto bytes = cache.load(key); bytes && bytes->size() >= 4 * spirv_head && bytes->size() % 4 == 0) {
    std::vector<uint32_t> words(bytes->size() / 4);
    std::memcpy(words.data(), bytes->data(), bytes->size());
    if (words[0] == spirv_magic) {
      if (from_cache) *from_cache = true;
      return words;
    }
  }
  auto words = compile_glsl(text, name);
  cache.store(key, words.data(), words.size() * sizeof(uint32_t), name);
  return words;
}

std::string glsl_cache_file(const std::string& text) { return spirv_cache().path(identity(text)); }

}  // namespace heddle
