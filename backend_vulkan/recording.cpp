#include "heddle/backend_vulkan/recording.h"

#include <algorithm>

#include "heddle/backend_vulkan/labels.h"
#include "heddle/backend_vulkan/queue.h"
#include "heddle/core/device/validate.h"

namespace heddle::vulkan {
namespace {

VkFormat texel_format(DType dtype, BufferSlot::Kind kind) {
  if (kind == BufferSlot::Kind::quads) return VK_FORMAT_R32G32B32A32_UINT;
  switch (dtype) {
    case DType::f32:
      return VK_FORMAT_R32_SFLOAT;
    case DType::i32:
      return VK_FORMAT_R32_SINT;
    case DType::f16:
    case DType::bf16:
      return VK_FORMAT_R16_UINT;
    case DType::i8:
      return VK_FORMAT_R8_SINT;
    default:
      return VK_FORMAT_R8_UINT;
  }
}

}  // namespace

Recording::Recording(Context& context, const Memory& memory, const Kernels& kernels, VkCommandPool pool,
                     std::span<const Command> commands, bool timed, double slice_seconds)
    : context_(context),
      memory_(memory),
      table_(kernels),
      command_pool_(pool),
      count_(static_cast<uint32_t>(commands.size())) {
  const HandleLookup lookup{[this](BufferId id) {
                              const Buffer* buffer = memory_.find(id);
                              return buffer ? &buffer->bytes : nullptr;
                            },
                            [this](KernelId id) {
                              const std::shared_ptr<Kernel> kernel = table_.find(id);
                              return kernel ? &kernel->signature : nullptr;
                            }};
  check_commands(commands, context_.caps(), lookup);
  summary_ = std::make_shared<const std::string>(describe_last(commands, lookup));
  try {
    make_pool(commands);
    if (timed && count_ > 0 && context_.physical().timestamp_bits() > 0) {
      VkQueryPoolCreateInfo info{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
      info.queryType = VK_QUERY_TYPE_TIMESTAMP;
      info.queryCount = count_ + 1;
      context_.check(vkCreateQueryPool(context_.device(), &info, nullptr, &queries_), "vkCreateQueryPool");
    }
    record(commands, slice_seconds);
  } catch (...) {
    destroy();
    throw;
  }
  hazards_.clear();
}

Recording::~Recording() { destroy(); }

void Recording::destroy() {
  if (!slices_.empty())
    vkFreeCommandBuffers(context_.device(), command_pool_, static_cast<uint32_t>(slices_.size()), slices_.data());
  vkDestroyDescriptorPool(context_.device(), sets_, nullptr);
  for (const View& view : views_) vkDestroyBufferView(context_.device(), view.handle, nullptr);
  vkDestroyQueryPool(context_.device(), queries_, nullptr);
}

// One set per dispatch, all from one pool of exactly the size that is needed.
void Recording::make_pool(std::span<const Command> commands) {
  std::vector<VkDescriptorPoolSize> sizes;
  uint32_t sets = 0;
  for (const Command& command : commands) {
    const auto* dispatch = std::get_if<Dispatch>(&command);
    if (!dispatch || dispatch->bindings.empty()) continue;
    ++sets;
    for (const BufferSlot& d : table_.find(dispatch->kernel)->slots) {
      const VkDescriptorType type = descriptor_type(d);
      const auto same =
          std::find_if(sizes.begin(), sizes.end(), [&](const VkDescriptorPoolSize& size) { return size.type == type; });
      same == sizes.end() ? void(sizes.push_back({type, 1})) : void(++same->descriptorCount);
    }
  }
  if (sets == 0) return;
  VkDescriptorPoolCreateInfo info{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = sets;
  info.poolSizeCount = static_cast<uint32_t>(sizes.size());
  info.pPoolSizes = sizes.data();
  context_.check(vkCreateDescriptorPool(context_.device(), &info, nullptr, &sets_), "vkCreateDescriptorPool");
}

void Recording::begin_slice() {
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = command_pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  context_.check(vkAllocateCommandBuffers(context_.device(), &allocate, &commands_), "vkAllocateCommandBuffers");
  slices_.push_back(commands_);
  bound_ = VK_NULL_HANDLE;
  hazards_.clear();  // the slice before ends with a barrier
  transfers_ = false;
  transfers_ordered_ = true;
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  // Queries are reset inside, so a timed recording runs once at a time; the device waits for it.
  begin.flags = queries_ ? 0 : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  context_.check(vkBeginCommandBuffer(commands_, &begin), "vkBeginCommandBuffer");
}

void Recording::end_slice() {
  end_barrier(commands_);
  context_.check(vkEndCommandBuffer(commands_), "vkEndCommandBuffer");
}

void Recording::record(std::span<const Command> commands, double slice_seconds) {
  begin_slice();
  if (queries_) {
    vkCmdResetQueryPool(commands_, queries_, 0, count_ + 1);
    vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, 0);
  }
  uint32_t index = 0;
  double seconds = 0;
  for (const Command& command : commands) {
    const auto* dispatch = std::get_if<Dispatch>(&command);
    const double guess = dispatch ? dispatch->seconds : 0;
    if (slice_seconds > 0 && seconds > 0 && seconds + guess > slice_seconds) {
      end_slice();
      begin_slice();
      seconds = 0;
    }
    seconds += guess;
    std::visit([this](const auto& c) { record(c); }, command);
    ++index;
    if (queries_) {
      order_barrier(commands_, true);
      vkCmdWriteTimestamp(commands_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries_, index);
    }
  }
  end_slice();
}

void Recording::order(std::span<const Touch> touches, bool transfer) {
  if (queries_) return;  // every command is followed by a barrier already
  transfers_ = transfers_ || transfer;
  // Dispatches that only a barrier between dispatches followed are not hazards any more, but no copy may follow them.
  if (hazards_.conflict(touches) || (transfer && !transfers_ordered_)) {
    order_barrier(commands_, transfers_);
    ++barriers_;
    hazards_.clear();
    transfers_ordered_ = transfers_;
    transfers_ = transfer;
  }
  hazards_.add(touches);
}

// What a kernel sees of a binding: whole words, where its elements are parts of words. The bytes after a tensor belong
// to its buffer too, whose size is a multiple of 16, and keep their values.
Binding Recording::seen(const Binding& binding) const {
  const Caps& caps = context_.caps();
  if (caps.storage8 && caps.storage16) return binding;
  return {binding.buffer, binding.offset, (binding.size + 3) / 4 * 4};
}

void Recording::record(const Dispatch& dispatch) {
  const std::shared_ptr<Kernel> kernel = table_.find(dispatch.kernel);
  std::vector<Touch> touches(dispatch.bindings.size());
  for (size_t i = 0; i < touches.size(); ++i) {
    const Access access = kernel->signature.buffers[i].access;
    touches[i] = {seen(dispatch.bindings[i]), access != Access::write, access != Access::read};
  }
  order(touches, false);
  const Label label(commands_, kernel->signature.name);
  if (bound_ != kernel->pipeline) {
    vkCmdBindPipeline(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    bound_ = kernel->pipeline;
  }
  bind(dispatch, *kernel);
  vkCmdDispatch(commands_, dispatch.groups[0], dispatch.groups[1], dispatch.groups[2]);
  if (std::find(kernels_.begin(), kernels_.end(), kernel) == kernels_.end()) kernels_.push_back(kernel);
}

// A view of whole texels; the same range of the same buffer is seen by many dispatches.
VkBufferView Recording::view(const Binding& binding, VkFormat format, uint64_t texel) {
  for (const View& known : views_) {
    if (known.binding == binding && known.format == format) return known.handle;
  }
  VkBufferViewCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO};
  info.buffer = memory_.find(binding.buffer)->handle;
  info.format = format;
  info.offset = binding.offset;
  info.range = std::max(binding.size / texel, uint64_t{1}) * texel;
  VkBufferView handle = VK_NULL_HANDLE;
  context_.check(vkCreateBufferView(context_.device(), &info, nullptr, &handle), "vkCreateBufferView");
  views_.push_back({binding, format, handle});
  return handle;
}

void Recording::write_set(VkDescriptorSet set, const Dispatch& dispatch, const Kernel& kernel) {
  const size_t count = kernel.slots.size();
  std::vector<VkDescriptorBufferInfo> ranges(count);
  std::vector<VkBufferView> views(count);
  std::vector<VkWriteDescriptorSet> writes(count, {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET});
  for (size_t i = 0; i < count; ++i) {
    const BufferSlot& d = kernel.slots[i];
    const Binding& binding = dispatch.bindings[d.buffer];
    const DType dtype = kernel.signature.buffers[d.buffer].dtype;
    writes[i].dstSet = set;
    writes[i].dstBinding = static_cast<uint32_t>(i);
    writes[i].descriptorCount = 1;
    writes[i].descriptorType = descriptor_type(d);
    if (d.kind == BufferSlot::Kind::storage) {
      ranges[i] = {memory_.find(binding.buffer)->handle, binding.offset, seen(binding).size};
      writes[i].pBufferInfo = &ranges[i];
    } else {
      views[i] = view(binding, texel_format(dtype, d.kind), d.kind == BufferSlot::Kind::quads ? 16 : size_of(dtype));
      writes[i].pTexelBufferView = &views[i];
    }
  }
  vkUpdateDescriptorSets(context_.device(), static_cast<uint32_t>(count), writes.data(), 0, nullptr);
}

void Recording::bind(const Dispatch& dispatch, const Kernel& kernel) {
  if (!dispatch.bindings.empty()) {
    VkDescriptorSetAllocateInfo allocate{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    allocate.descriptorPool = sets_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &kernel.set_layout;
    VkDescriptorSet set = VK_NULL_HANDLE;
    context_.check(vkAllocateDescriptorSets(context_.device(), &allocate, &set), "vkAllocateDescriptorSets");
    write_set(set, dispatch, kernel);
    vkCmdBindDescriptorSets(commands_, VK_PIPELINE_BIND_POINT_COMPUTE, kernel.layout, 0, 1, &set, 0, nullptr);
  }
  if (!dispatch.constants.empty()) {
    vkCmdPushConstants(commands_, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                       static_cast<uint32_t>(4 * dispatch.constants.size()), dispatch.constants.data());
  }
}

void Recording::record(const Copy& copy) {
  const Touch touches[] = {{copy.src, true, false}, {copy.dst, false, true}};
  order(touches, true);
  const Label label(commands_, "copy");
  const VkBufferCopy region{copy.src.offset, copy.dst.offset, copy.src.size};
  vkCmdCopyBuffer(commands_, memory_.find(copy.src.buffer)->handle, memory_.find(copy.dst.buffer)->handle, 1, &region);
}

void Recording::record(const Fill& fill) {
  const Touch touch{fill.dst, false, true};
  order({&touch, 1}, true);
  const Label label(commands_, "fill");
  vkCmdFillBuffer(commands_, memory_.find(fill.dst.buffer)->handle, fill.dst.offset, fill.dst.size, fill.pattern);
}

std::vector<CommandTime> Recording::times() const {
  std::vector<uint64_t> ticks(count_ + 1);
  context_.check(
      vkGetQueryPoolResults(context_.device(), queries_, 0, count_ + 1, ticks.size() * sizeof(uint64_t), ticks.data(),
                            sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
      "vkGetQueryPoolResults");
  const uint32_t bits = context_.physical().timestamp_bits();
  const uint64_t mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  std::vector<CommandTime> result(count_);
  const double unit = context_.physical().timestamp_seconds();
  uint64_t passed = (ticks[0] - context_.epoch(ticks[0])) & mask;
  for (uint32_t i = 0; i < count_; ++i) {
    const double start = static_cast<double>(passed) * unit;
    passed += (ticks[i + 1] - ticks[i]) & mask;
    result[i] = {start, static_cast<double>(passed) * unit};
  }
  return result;
}

}  // namespace heddle::vulkan
