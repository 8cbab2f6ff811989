// Vulkan's headers, volk and glslang, as backend_vulkan uses them; the loader is opened at run time.
#define VOLK_IMPLEMENTATION
#include <glslang/Public/ResourceLimits.h>
#include <glslang/Public/ShaderLang.h>
#include <glslang/SPIRV/GlslangToSpv.h>
#include <glslang/build_info.h>

#include "heddle/backend_vulkan/cooperative_matrix.h"

int main() {
  const bool loaded = volkInitialize() == VK_SUCCESS && volkGetInstanceVersion() >= VK_API_VERSION_1_3;
  glslang::InitializeProcess();
  glslang::TShader shader(EShLangCompute);
  shader.setEnvInput(glslang::EShSourceGlsl, EShLangCompute, glslang::EShClientVulkan, 100);
  shader.setEnvClient(glslang::EShClientVulkan, glslang::EShTargetVulkan_1_1);
  shader.setEnvTarget(glslang::EShTargetSpv, glslang::EShTargetSpv_1_3);
  const auto messages = static_cast<EShMessages>(EShMsgSpvRules | EShMsgVulkanRules);
  if (!shader.parse(GetDefaultResources(), 450, false, messages)) return 1;
  glslang::TProgram program;
  program.addShader(&shader);
  std::vector<uint32_t> words;
  spv::SpvBuildLogger logger;
  glslang::SpvOptions options;
  options.disableOptimizer = true;
  glslang::GlslangToSpv(*program.getIntermediate(EShLangCompute), words, &logger, &options);
  return loaded ? GLSLANG_VERSION_MAJOR : 0;
}
