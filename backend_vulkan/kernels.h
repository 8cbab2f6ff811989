// Kernels: SPIR-V -> compute pipeline, with the driver's cache on disk.
//
// Invariants: a Kernel lives as long as a recording that uses it holds it; the driver's pipeline cache is loaded when
// the device opens; when it closes, what came to it is joined with what other processes stored meanwhile. Thread
// safety: none; used by one device.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "heddle/backend_vulkan/context.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/contract/device.h"

namespace heddle::vulkan {

struct Kernel {
  explicit Kernel(Context& owner) : context(owner) {}
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  Context& context;
  KernelSignature signature;
  std::vector<BufferSlot> slots;  // by binding of the set
  VkDescriptorSetLayout set_layout = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
};

VkDescriptorType descriptor_type(const BufferSlot& slot);

class Kernels {
 public:
  explicit Kernels(Context& context);
  ~Kernels();

  // In parallel: vkCreateComputePipelines may be called from several threads.
  std::vector<KernelId> load_all(std::span<const KernelBinary* const> binaries);
  // Null when the id is not alive.
  std::shared_ptr<Kernel> find(KernelId id) const;
  // Takes the kernel out of the table; throws DeviceError when the id is not alive.
  std::shared_ptr<Kernel> take(KernelId id);

 private:
  std::shared_ptr<Kernel> build(const KernelBinary& binary) const;
  KernelId add(std::shared_ptr<Kernel> kernel);
  void make_layout(Kernel& kernel) const;
  void make_pipeline(Kernel& kernel, const KernelBinary& binary) const;
  VkResult make_cache(const std::vector<uint8_t>& data, VkPipelineCache* made) const;
  void load_cache();
  void store_cache();

  Context& context_;
  DiskCache disk_;
  uint64_t next_ = 1;
  bool fresh_ = false;  // a pipeline was made that the file may not know
  std::vector<uint8_t> loaded_;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  std::unordered_map<KernelId, std::shared_ptr<Kernel>> kernels_;
};

}  // namespace heddle::vulkan
