#include "heddle/backend_vulkan/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string_view>

#include "heddle/backend_vulkan/fault_injection.h"
#include "heddle/core/base/error.h"
#include "heddle/core/contract/slices.h"

namespace heddle::vulkan {
namespace {

constexpr size_t max_kept_times = 64;

// Devices that are open when the process ends are closed by an exit handler: it is registered after the driver's own,
// so it runs before them, whereas the destructor of a static object may run too late for the driver.
struct OpenDevices {
  std::mutex mutex;
  std::set<VulkanDevice*> devices;
};

OpenDevices& open_devices() {
  static OpenDevices& open = *new OpenDevices;
  return open;
}

void close_open_devices() {
  std::set<VulkanDevice*> devices;
  {
    const std::lock_guard lock(open_devices().mutex);
    devices.swap(open_devices().devices);
  }
  for (VulkanDevice* device : devices) device->close();
}

bool staging_forced() {
  const char* value = std::getenv("HEDDLE_VULKAN_STAGING");
  return value && std::string_view(value) == "1";
}

}  // namespace

VulkanDevice::Parts::Parts(VkPhysicalDevice handle, int index, bool staged)
    : context(handle, index),
      memory(context, staged),
      queue(context),
      transfers(context, memory, queue),
      kernels(context) {
  VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  info.queueFamilyIndex = context.physical().queue_family();
  context.check(vkCreateCommandPool(context.device(), &info, nullptr, &pool), "vkCreateCommandPool");
}

VulkanDevice::Parts::~Parts() {
  queue.drain();  // runs all deferred work while everything it refers to is alive
  recordings.clear();
  vkDestroyCommandPool(context.device(), pool, nullptr);
}

VulkanDevice::VulkanDevice(VkPhysicalDevice handle, int index)
    : parts_(std::make_unique<Parts>(handle, index, staging_forced())) {
  caps_ = parts_->context.caps();
  id_ = parts_->context.physical().info().id;
  slice_seconds_ = slice_seconds(caps_.device_class);
  static std::once_flag registered;
  std::call_once(registered, [] { std::atexit(close_open_devices); });
  const std::lock_guard lock(open_devices().mutex);
  open_devices().devices.insert(this);
}

VulkanDevice::~VulkanDevice() {
  {
    const std::lock_guard lock(open_devices().mutex);
    open_devices().devices.erase(this);
  }
  close();
}

void VulkanDevice::close() {
  if (parts_ && parts_->context.given_up()) parts_.release();  // waiting for it would hang the end of the process
  parts_.reset();
}

VulkanDevice::Parts& VulkanDevice::parts() const {
  if (!parts_) throw DeviceLost(fmt::format("[{}] the device is closed: the process is ending", id_));
  parts_->context.guard();
  return *parts_;
}

BufferId VulkanDevice::alloc(uint64_t bytes) {
  Parts& p = parts();
  p.queue.completed();  // gives back what was freed and is no longer in use
  const auto make = [&] { return p.memory.add(p.memory.make(bytes, Residence::device)); };
  try {
    return make();
  } catch (const OutOfMemory&) {
    // What was freed may still wait for the device: let it finish and try once more.
    p.queue.wait(p.transfers.submit(VK_NULL_HANDLE));
  }
  return make();
}

void VulkanDevice::free(BufferId buffer) {
  if (gone()) return;
  Parts& p = *parts_;
  const Buffer taken = p.memory.take(buffer);
  p.queue.when_done(p.transfers.horizon(), [&p, taken] { p.memory.destroy(taken); });
}

bool VulkanDevice::shares_memory() { return parts().memory.shared(); }

// Copies that no submission carries yet are among what was enqueued.
void* VulkanDevice::host_address(BufferId buffer) {
  Parts& p = parts();
  std::byte* const mapped = p.memory.get(buffer, 0, 1, "host_address").mapped;
  if (mapped != nullptr) p.queue.wait(p.transfers.submit(VK_NULL_HANDLE));
  return mapped;
}

uint64_t VulkanDevice::adopted_unit(HostUse) const {
  return std::max<uint64_t>(parts().context.physical().imported_unit(), 1);
}

BufferId VulkanDevice::adopt(void* memory, uint64_t bytes, HostUse) {
  Parts& p = parts();
  if (bytes == 0 || p.context.physical().imported_unit() == 0 || !p.memory.shared()) return BufferId::none;
  const std::optional<Buffer> made = p.memory.adopt(memory, bytes);
  return made ? p.memory.add(*made) : BufferId::none;
}

void VulkanDevice::write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) {
  parts().transfers.upload(buffer, offset, static_cast<const std::byte*>(source), bytes);
}

void VulkanDevice::read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  parts().transfers.download(buffer, offset, static_cast<std::byte*>(target), bytes);
}

std::vector<KernelId> VulkanDevice::load_all(std::span<const KernelBinary* const> binaries) {
  return parts().kernels.load_all(binaries);
}

void VulkanDevice::release(KernelId kernel) {
  if (gone()) return;
  parts_->kernels.take(kernel);  // recordings that use it keep it alive
}

RecordingId VulkanDevice::record(std::span<const Command> commands, bool timed) {
  Parts& p = parts();
  auto recording = std::make_shared<Recording>(p.context, p.memory, p.kernels, p.pool, commands, timed, slice_seconds_);
  const RecordingId id{next_recording_++};
  p.recordings.emplace(id, std::move(recording));
  return id;
}

const std::shared_ptr<Recording>& VulkanDevice::find(RecordingId id) const {
  const auto found = parts_->recordings.find(id);
  if (found == parts_->recordings.end()) {
    throw DeviceError(
        fmt::format("[vulkan] no recording has the id {}; it was released or never made", static_cast<uint64_t>(id)));
  }
  return found->second;
}

void VulkanDevice::release(RecordingId recording) {
  if (gone()) return;
  const std::shared_ptr<Recording> taken = find(recording);
  parts_->recordings.erase(recording);
  // The deferred call holds the last reference; the times of a submission can be asked for after the release.
  parts_->queue.when_done(taken->last_ticket, [this, taken] { keep_times(*taken); });
}

Ticket VulkanDevice::submit(RecordingId recording) {
  Parts& p = parts();
  const std::shared_ptr<Recording>& found = find(recording);
  if (found->timed() && found->last_ticket > 0) {
    p.queue.wait(found->last_ticket);
    keep_times(*found);
  }
  p.context.set_last_work(found->summary());
  uint64_t ticket = 0;
  try {
    for (const VkCommandBuffer slice : found->slices()) ticket = p.transfers.submit(slice);
  } catch (const DeviceLost&) {
    throw;
  } catch (const DeviceError& error) {
    // What is updated in place may be half updated.
    if (ticket > 0) p.context.set_lost(fmt::format("a submission stopped halfway: {}", error.what()));
    throw;
  }
  found->last_ticket = ticket;
  if (found->timed()) timed_[ticket] = found;
  return Ticket{ticket};
}

void VulkanDevice::keep_times(const Recording& recording) {
  const auto waiting = timed_.find(recording.last_ticket);
  if (waiting == timed_.end()) return;
  timed_.erase(waiting);
  if (gone()) return;
  try {
    times_[recording.last_ticket] = recording.times();
  } catch (const DeviceLost&) {
    return;  // release() must not throw; the next call will
  }
  if (times_.size() > max_kept_times) times_.erase(times_.begin());
}

uint64_t VulkanDevice::known(Ticket ticket, const char* place) const {
  const auto number = static_cast<uint64_t>(ticket);
  if (number == 0 || number > parts_->queue.last())
    throw DeviceError(fmt::format("[vulkan {}] no submission has the ticket {}", place, number));
  return number;
}

bool VulkanDevice::done(Ticket ticket) {
  Parts& p = parts();
  return known(ticket, "done") <= p.queue.completed();
}

std::unique_ptr<Waiter> VulkanDevice::waiter(Ticket ticket) {
  Parts& p = parts();
  return p.queue.waiter(known(ticket, "waiter"));
}

Ticket VulkanDevice::read_in_place(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  return Ticket{parts().transfers.download_in_place(buffer, offset, static_cast<std::byte*>(target), bytes)};
}

Ticket VulkanDevice::read_later(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  return Ticket{parts().transfers.download_later(buffer, offset, static_cast<std::byte*>(target), bytes)};
}

void VulkanDevice::write_beside(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes, Ticket after) {
  parts().transfers.upload_beside(buffer, offset, static_cast<const std::byte*>(source), bytes,
                                  static_cast<uint64_t>(after));
}

BufferId VulkanDevice::alloc_host(uint64_t bytes) {
  Parts& p = parts();
  return p.memory.add(p.memory.make(bytes, Residence::readback));
}

void VulkanDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  Parts& p = parts();
  const uint64_t number = known(ticket, "wait");
  p.queue.wait(number);
  if (seconds) *seconds = durations(command_times(ticket));
}

std::vector<CommandTime> VulkanDevice::command_times(Ticket ticket) {
  Parts& p = parts();
  const uint64_t number = known(ticket, "command_times");
  if (const auto waiting = timed_.find(number); waiting != timed_.end()) {
    if (const auto recording = waiting->second.lock()) keep_times(*recording);
    p.context.guard();
  }
  const auto found = times_.find(number);
  return found == times_.end() ? std::vector<CommandTime>() : found->second;
}

}  // namespace heddle::vulkan

namespace heddle {

bool vulkan_lose_device_on_next_submit(Device& device) {
  auto* const found = dynamic_cast<vulkan::VulkanDevice*>(&device);
  if (found) found->fail_next_submit();
  return found != nullptr;
}

}  // namespace heddle
