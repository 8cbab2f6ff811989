#include "heddle/backend_vulkan/kernels.h"

#include <fmt/format.h>

#include <cstring>

#include "heddle/backend_vulkan/float_controls.h"
#include "heddle/backend_vulkan/labels.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/parallel.h"
#include "heddle/core/device/validate.h"

namespace heddle::vulkan {
namespace {

constexpr std::string_view cache_identity = "VkPipelineCache";
constexpr size_t largest_file = size_t{256} << 20;  // a larger one is not carried on, so that it cannot grow for ever

}  // namespace

VkDescriptorType descriptor_type(const BufferSlot& slot) {
  if (slot.kind == BufferSlot::Kind::storage) return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  return slot.image ? VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
}

Kernel::~Kernel() {
  vkDestroyPipeline(context.device(), pipeline, nullptr);
  vkDestroyPipelineLayout(context.device(), layout, nullptr);
  vkDestroyDescriptorSetLayout(context.device(), set_layout, nullptr);
}

Kernels::Kernels(Context& context) : context_(context), disk_("vulkan-pipelines", context.caps().driver_hash) {
  load_cache();
}

Kernels::~Kernels() {
  if (fresh_ && !context_.lost()) store_cache();
  kernels_.clear();
  vkDestroyPipelineCache(context_.device(), cache_, nullptr);
}

void Kernels::load_cache() {
  loaded_ = disk_.load(cache_identity).value_or(std::vector<uint8_t>());
  if (loaded_.size() > largest_file) loaded_.clear();
  context_.check(make_cache(loaded_, &cache_), "vkCreatePipelineCache");
}

// A cache that starts from stored bytes; the driver ignores those of another driver by their header.
VkResult Kernels::make_cache(const std::vector<uint8_t>& data, VkPipelineCache* made) const {
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = data.size();
  info.pInitialData = data.data();
  return vkCreatePipelineCache(context_.device(), &info, nullptr, made);
}

void Kernels::store_cache() {
  // One file holds the pipelines of all processes: what another stored meanwhile is joined, not lost.
  const auto newest = disk_.load(cache_identity);
  VkPipelineCache other = VK_NULL_HANDLE;
  if (newest && *newest != loaded_ && newest->size() <= largest_file && make_cache(*newest, &other) == VK_SUCCESS) {
    vkMergePipelineCaches(context_.device(), cache_, 1, &other);
    vkDestroyPipelineCache(context_.device(), other, nullptr);
  }
  size_t bytes = 0;
  if (vkGetPipelineCacheData(context_.device(), cache_, &bytes, nullptr) < 0 || bytes == 0) return;
  std::vector<uint8_t> data(bytes);
  if (vkGetPipelineCacheData(context_.device(), cache_, &bytes, data.data()) != VK_SUCCESS) return;
  data.resize(bytes);
  if (!newest || data != *newest) disk_.store(cache_identity, data.data(), bytes, context_.physical().info().name);
}

std::vector<KernelId> Kernels::load_all(std::span<const KernelBinary* const> binaries) {
  std::vector<std::shared_ptr<Kernel>> built(binaries.size());
  parallel_each(binaries.size(), [&](size_t i) { built[i] = build(*binaries[i]); });
  std::vector<KernelId> ids;
  for (std::shared_ptr<Kernel>& kernel : built) ids.push_back(add(std::move(kernel)));
  return ids;
}

KernelId Kernels::add(std::shared_ptr<Kernel> kernel) {
  fresh_ = true;
  const KernelId id{next_++};
  kernels_.emplace(id, std::move(kernel));
  return id;
}

std::shared_ptr<Kernel> Kernels::build(const KernelBinary& binary) const {
  check_binary(binary, context_.caps());
  auto kernel = std::make_shared<Kernel>(context_);
  kernel->signature = binary.signature;
  kernel->slots = binary.slots;
  make_layout(*kernel);
  make_pipeline(*kernel, binary);
  return kernel;
}

void Kernels::make_layout(Kernel& kernel) const {
  std::vector<VkDescriptorSetLayoutBinding> bindings(kernel.slots.size());
  for (uint32_t i = 0; i < bindings.size(); ++i) {
    bindings[i] = {i, descriptor_type(kernel.slots[i]), 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  }
  VkDescriptorSetLayoutCreateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set.bindingCount = static_cast<uint32_t>(bindings.size());
  set.pBindings = bindings.data();
  context_.check(vkCreateDescriptorSetLayout(context_.device(), &set, nullptr, &kernel.set_layout),
                 "vkCreateDescriptorSetLayout");

  const auto push_bytes = static_cast<uint32_t>(4 * kernel.signature.constants);
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_bytes};
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &kernel.set_layout;
  layout.pushConstantRangeCount = push_bytes > 0 ? 1 : 0;
  layout.pPushConstantRanges = &range;
  context_.check(vkCreatePipelineLayout(context_.device(), &layout, nullptr, &kernel.layout), "vkCreatePipelineLayout");
}

void Kernels::make_pipeline(Kernel& kernel, const KernelBinary& binary) const {
  std::vector<uint32_t> words(binary.bytes.size() / sizeof(uint32_t));  // of bytes that may lie anywhere
  std::memcpy(words.data(), binary.bytes.data(), words.size() * sizeof(uint32_t));
  if (context_.physical().asks_for_nan()) words = preserve_nan(words);
  if (context_.caps().device_class != DeviceClass::cpu) words = forbid_contraction(words);
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  code.codeSize = words.size() * sizeof(uint32_t);
  code.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  context_.check(vkCreateShaderModule(context_.device(), &code, nullptr, &module), "vkCreateShaderModule");
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  // Kernels that exchange values in a subgroup count on its size.
  VkPipelineShaderStageRequiredSubgroupSizeCreateInfo lanes{
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO};
  lanes.requiredSubgroupSize = context_.caps().subgroup_size;
  if (context_.physical().fixed_subgroups() && binary.subgroups) {
    info.stage.pNext = &lanes;
    if (context_.physical().full_subgroups() && kernel.signature.group[0] % lanes.requiredSubgroupSize == 0)
      info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  }
  info.layout = kernel.layout;
  const VkResult result = vkCreateComputePipelines(context_.device(), cache_, 1, &info, nullptr, &kernel.pipeline);
  vkDestroyShaderModule(context_.device(), module, nullptr);
  if (result == VK_ERROR_UNKNOWN || result == VK_ERROR_INVALID_SHADER_NV || result == VK_ERROR_INITIALIZATION_FAILED) {
    throw CompileError(
        fmt::format("[vulkan compile {}] vkCreateComputePipelines failed: {} ({}): the driver refused the kernel",
                    kernel.signature.name, name_of(result), static_cast<int>(result)),
        binary.text);
  }
  context_.check(result, "vkCreateComputePipelines");
  name_object(context_, VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(kernel.pipeline), kernel.signature.name);
}

std::shared_ptr<Kernel> Kernels::find(KernelId id) const {
  const auto found = kernels_.find(id);
  return found == kernels_.end() ? nullptr : found->second;
}

std::shared_ptr<Kernel> Kernels::take(KernelId id) {
  std::shared_ptr<Kernel> kernel = find(id);
  if (!kernel) throw DeviceError(fmt::format("[release] kernel handle {} is not alive", static_cast<uint64_t>(id)));
  kernels_.erase(id);
  return kernel;
}

}  // namespace heddle::vulkan
