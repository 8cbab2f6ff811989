// Errors, memory and kernels of OpenClDevice; recordings and completion stand in recording.cpp.
#include "heddle/backend_opencl/opencl_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "heddle/backend_opencl/status.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/parallel.h"

namespace heddle::opencl {
namespace {

constexpr uint64_t max_staged_bytes = 64ull << 20;    // copies of written data that wait in the queue
constexpr uint64_t direct_write_bytes = 16ull << 20;  // above this a write waits instead of being copied

template <class Id>
uint64_t raw(Id id) {
  return static_cast<uint64_t>(id);
}

// 0 where the driver does not say.
size_t parameters_of(cl_kernel kernel) {
  cl_uint count = 0;
  const cl_int status = cl().GetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
  return status == CL_SUCCESS ? count : 0;
}

}  // namespace

OpenClDevice::OpenClDevice(const Found& found) : caps_(found.info.caps), id_(found.info.id), device_(found.device) {
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform),
                                        0};
  cl_int status = CL_SUCCESS;
  context_ = cl().CreateContext(properties, 1, &device_, nullptr, nullptr, &status);
  check(status, "clCreateContext");
  caps_.queues = wanted_queues(caps_.queues);
  unloads_kernels_ = found.quirks.has(Quirk::unloads_kernels);
  asks_group_size_ = !found.quirks.has(Quirk::group_size_wrong);
  orders_times_ = found.quirks.has(Quirk::times_out_of_order);
  pinned_staging_ = caps_.device_class != DeviceClass::cpu || std::getenv("HEDDLE_OPENCL_PINNED");
  queue_ = cl().CreateCommandQueue(context_, device_, 0, &status);
  if (status != CL_SUCCESS) {
    cl().ReleaseContext(context_);
    check(status, "clCreateCommandQueue");
  }
  builder_ = std::make_unique<ProgramBuilder>(context_, found);
}

OpenClDevice::~OpenClDevice() {
  if (given_up_) {
    for (auto& slot : staged_) static_cast<void>(slot.release());
    return;
  }
  cl().Finish(queue_);
  for (auto& [id, recording] : recordings_) destroy(recording);
  for (const cl_command_queue queue : side_queues_) cl().Finish(queue);
  if (copy_queue_) cl().Finish(copy_queue_);
  for (const InFlight& entry : in_flight_.entries()) {
    cl().ReleaseEvent(entry.done);
    for (cl_event event : entry.commands) cl().ReleaseEvent(event);
  }
  for (cl_event event : uploads_) cl().ReleaseEvent(event);
  for (auto& slot : staged_) {
    cl().ReleaseEvent(slot->done);
    free_staging_.push_back(std::move(slot));
  }
  staged_.clear();
  free_staging_.clear();
  for (auto& [id, kernel] : kernels_) {
    cl().ReleaseKernel(kernel.kernel);
    cl().ReleaseProgram(kernel.program);
  }
  for (auto& [id, buffer] : buffers_) cl().ReleaseMemObject(buffer.memory);
  for (const cl_command_queue queue : side_queues_) cl().ReleaseCommandQueue(queue);
  if (copy_queue_) cl().ReleaseCommandQueue(copy_queue_);
  cl().ReleaseCommandQueue(queue_);
  cl().ReleaseContext(context_);
}

cl_command_queue OpenClDevice::make_queue() {
  cl_int status = CL_SUCCESS;
  cl_command_queue queue =
      cl().CreateCommandQueue(context_, device_, profiling_ ? CL_QUEUE_PROFILING_ENABLE : 0, &status);
  expect(status, "clCreateCommandQueue");
  return queue;
}

// ---- errors ----

void OpenClDevice::check_alive() const {
  if (!dead_.empty())
    throw DeviceLost(
        fmt::format("[{}] the device was lost: {}; open it again and go on from a checkpoint", id_, dead_));
}

void OpenClDevice::lost(cl_int status, const char* call) {
  dead_ = fmt::format("{}: {}; last commands: {}", call, status_text(status),
                      last_submitted_.empty() ? "none" : last_submitted_);
  check_alive();
  throw DeviceLost(dead_);
}

void OpenClDevice::expect(cl_int status, const char* call, bool waiting) {
  if (status == CL_SUCCESS) return;
  if (means_lost(status) || (waiting && status == CL_OUT_OF_RESOURCES)) lost(status, call);
  std::string text = fmt::format("[{}] {}: {}", id_, call, status_text(status));
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY) throw OutOfMemory(text);
  throw DeviceError(text);
}

HandleLookup OpenClDevice::lookup() const { return lookup_in(buffers_, kernels_); }

OpenClDevice::Buffer& OpenClDevice::buffer(BufferId id, const char* place) {
  auto found = buffers_.find(raw(id));
  if (found == buffers_.end()) throw DeviceError(fmt::format("[{}] the buffer handle {} is not alive", place, raw(id)));
  return found->second;
}

// ---- memory ----

BufferId OpenClDevice::alloc(uint64_t bytes) { return create(bytes, CL_MEM_READ_WRITE); }

// What drivers take from page-locked memory.
BufferId OpenClDevice::alloc_host(uint64_t bytes) { return create(bytes, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR); }

// Where the device is the host itself: PoCL's kernels then read where the memory is. It must lie as a vector of 16
// floats does, which drivers ask of their own.
BufferId OpenClDevice::adopt_constant(const void* memory, uint64_t bytes) {
  check_alive();
  constexpr uintptr_t alignment = 64;
  const bool fits =
      bytes > 0 && bytes <= caps_.max_allocation_bytes && reinterpret_cast<uintptr_t>(memory) % alignment == 0;
  if (caps_.device_class != DeviceClass::cpu || !fits) return BufferId::none;
  cl_int status = CL_SUCCESS;
  cl_mem made =
      cl().CreateBuffer(context_, CL_MEM_READ_ONLY | CL_MEM_USE_HOST_PTR, bytes, const_cast<void*>(memory), &status);
  if (status != CL_SUCCESS) return BufferId::none;
  buffers_[++next_id_] = {made, bytes};
  return BufferId{next_id_};
}

BufferId OpenClDevice::create(uint64_t bytes, cl_mem_flags flags) {
  check_alive();
  check_allocation(bytes, caps_);
  cl_int status = CL_SUCCESS;
  cl_mem memory = cl().CreateBuffer(context_, flags, bytes, nullptr, &status);
  if (status == CL_OUT_OF_RESOURCES) status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY) {
    throw OutOfMemory(fmt::format("[{}] clCreateBuffer of {} bytes: {}", id_, bytes, status_text(status)));
  }
  expect(status, "clCreateBuffer");
  ask_for_large_pages(memory, bytes);
  buffers_[++next_id_] = {memory, bytes};
  return BufferId{next_id_};
}

void OpenClDevice::free(BufferId id) {
  auto found = buffers_.find(raw(id));
  if (found == buffers_.end()) return;
  cl().ReleaseMemObject(found->second.memory);  // the API keeps it until the commands that use it have finished
  buffers_.erase(found);
  ++frees_;
}

void OpenClDevice::reclaim_staging() {
  while (!staged_.empty() && finished(staged_.front()->done)) {
    std::unique_ptr<Staging> slot = std::move(staged_.front());
    staged_.pop_front();
    cl().ReleaseEvent(slot->done);
    slot->done = nullptr;
    staged_bytes_ -= slot->capacity;
    free_staging_.push_back(std::move(slot));
  }
}

std::unique_ptr<OpenClDevice::Staging> OpenClDevice::take_staging(uint64_t bytes) {
  reclaim_staging();
  while (!staged_.empty() && staged_bytes_ + bytes > max_staged_bytes) {
    in_flight_.wait_for(staged_.front()->done);
    reclaim_staging();
  }
  for (auto& slot : free_staging_) {
    if (slot->capacity < bytes || slot->capacity > 4 * bytes + 4096) continue;
    std::unique_ptr<Staging> taken = std::move(slot);
    std::swap(slot, free_staging_.back());
    free_staging_.pop_back();
    return taken;
  }
  if (free_staging_.size() > 16) free_staging_.clear();
  return std::make_unique<Staging>(*this, std::max<uint64_t>(bytes, 256));
}

// Page-locked where the device has memory of its own: a buffer that the driver allocates for the host, mapped for good.
OpenClDevice::Staging::Staging(OpenClDevice& device, uint64_t bytes) : capacity(bytes) {
  if (device.pinned_staging_) {
    cl_int status = CL_SUCCESS;
    pinned = cl().CreateBuffer(device.context_, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, nullptr, &status);
    if (status == CL_SUCCESS) {
      memory = static_cast<char*>(
          cl().EnqueueMapBuffer(device.queue_, pinned, CL_TRUE, CL_MAP_WRITE, 0, bytes, 0, nullptr, nullptr, &status));
      if (status == CL_SUCCESS) return;
      cl().ReleaseMemObject(std::exchange(pinned, nullptr));
    }
  }
  pageable = std::make_unique_for_overwrite<char[]>(bytes);
  memory = pageable.get();
}

OpenClDevice::Staging::~Staging() {
  if (pinned) cl().ReleaseMemObject(pinned);  // also ends the mapping
}

void OpenClDevice::write(BufferId id, uint64_t offset, const void* source, uint64_t bytes) {
  check_alive();
  Buffer& target = buffer(id, "write");
  check_access("write", &target.bytes, offset, bytes);
  if (bytes == 0) return;
  if (bytes > direct_write_bytes) {
    join_uploads();
    expect(cl().EnqueueWriteBuffer(queue_, target.memory, CL_TRUE, offset, bytes, source, 0, nullptr, nullptr),
           "clEnqueueWriteBuffer", true);
    return;
  }
  join_uploads();
  upload(queue_, target.memory, offset, source, bytes, nullptr);
}

// Through staging memory, so that the host can go on.
cl_event OpenClDevice::upload(cl_command_queue queue, cl_mem target, uint64_t offset, const void* source,
                              uint64_t bytes, cl_event after) {
  std::unique_ptr<Staging> slot = take_staging(bytes);
  std::memcpy(slot->memory, source, bytes);
  expect(cl().EnqueueWriteBuffer(queue, target, CL_FALSE, offset, bytes, slot->memory, after ? 1 : 0,
                                 after ? &after : nullptr, &slot->done),
         "clEnqueueWriteBuffer");
  staged_bytes_ += slot->capacity;
  staged_.push_back(std::move(slot));
  return staged_.back()->done;
}

// On a queue of its own; what is enqueued on the others afterwards waits for it (join_uploads).
void OpenClDevice::write_beside(BufferId id, uint64_t offset, const void* source, uint64_t bytes, Ticket after) {
  if (!caps_.uploads_beside || bytes > direct_write_bytes) return write(id, offset, source, bytes);
  check_alive();
  Buffer& target = buffer(id, "write");
  check_access("write", &target.bytes, offset, bytes);
  if (bytes == 0) return;
  if (!copy_queue_) copy_queue_ = make_queue();
  const InFlight* earlier = in_flight_.find(after);
  cl_event done = upload(copy_queue_, target.memory, offset, source, bytes, earlier ? earlier->done : nullptr);
  expect(cl().RetainEvent(done), "clRetainEvent");
  uploads_.push_back(done);
  expect(cl().Flush(copy_queue_), "clFlush");
}

// The main queue goes on when uploads on the other one have arrived; nothing is enqueued for those that have.
void OpenClDevice::join_uploads() {
  std::vector<cl_event> waiting;
  for (cl_event event : std::exchange(uploads_, {}))
    finished(event) ? void(cl().ReleaseEvent(event)) : waiting.push_back(event);
  if (waiting.empty()) return;
  const cl_int status =
      cl().EnqueueMarkerWithWaitList(queue_, static_cast<cl_uint>(waiting.size()), waiting.data(), nullptr);
  for (cl_event event : waiting) cl().ReleaseEvent(event);
  expect(status, "clEnqueueMarkerWithWaitList");
}

void OpenClDevice::read(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  check_alive();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return;
  if (in_flight_.limited()) return wait(read_later(id, offset, target, bytes), nullptr);
  join_uploads();
  expect(cl().EnqueueReadBuffer(queue_, source.memory, CL_TRUE, offset, bytes, target, 0, nullptr, nullptr),
         "clEnqueueReadBuffer", true);
  in_flight_.let_go_of_all();  // the queue is in order: what was enqueued before has finished
}

// ---- kernels ----

std::vector<KernelId> OpenClDevice::load_all(std::span<const KernelBinary* const> binaries) {
  check_alive();
  for (const KernelBinary* binary : binaries) check_binary(*binary, caps_);
  std::vector<cl_program> programs(binaries.size(), nullptr);
  std::vector<KernelId> kernels;
  const auto build = [&](size_t i) { programs[i] = builder_->build(*binaries[i]); };
  try {
    if (builder_->parallel()) parallel_each(binaries.size(), build);
    for (size_t i = 0; i < binaries.size(); ++i) {
      if (!programs[i]) build(i);
      kernels.push_back(add(binaries[i]->signature, std::exchange(programs[i], nullptr)));
    }
  } catch (...) {
    for (cl_program program : programs) {
      if (program) cl().ReleaseProgram(program);
    }
    for (KernelId kernel : kernels) release(kernel);
    throw;
  }
  return kernels;
}

// Takes the program over, also when it throws.
KernelId OpenClDevice::add(const KernelSignature& signature, cl_program program) {
  Kernel kernel;
  kernel.program = program;
  kernel.signature = signature;
  cl_int status = CL_SUCCESS;
  kernel.kernel = cl().CreateKernel(kernel.program, "heddle_kernel", &status);
  size_t lanes = caps_.max_group_lanes;
  if (status == CL_SUCCESS && asks_group_size_) {
    status =
        cl().GetKernelWorkGroupInfo(kernel.kernel, device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof lanes, &lanes, nullptr);
    if (status != CL_SUCCESS) cl().ReleaseKernel(kernel.kernel);
  }
  if (status != CL_SUCCESS) cl().ReleaseProgram(kernel.program);
  expect(status, "clCreateKernel");
  kernel.takes_offsets = parameters_of(kernel.kernel) != signature.buffers.size() + signature.constants;
  size_t wanted = size_t{signature.group[0]} * signature.group[1] * signature.group[2];
  if (wanted > lanes) {
    cl().ReleaseKernel(kernel.kernel);
    cl().ReleaseProgram(kernel.program);
    throw LimitError(
        fmt::format("[compile] kernel {}: {} lanes a group are over this kernel's CL_KERNEL_WORK_GROUP_SIZE = {} on {}",
                    signature.name, wanted, lanes, id_));
  }
  kernels_[++next_id_] = std::move(kernel);
  return KernelId{next_id_};
}

std::vector<uint8_t> OpenClDevice::program_of(KernelId id) {
  check_alive();
  const auto found = kernels_.find(raw(id));
  if (found == kernels_.end()) throw DeviceError(fmt::format("[program] the kernel handle {} is not alive", raw(id)));
  return binary_of(found->second.program);
}

void OpenClDevice::release(KernelId id) {
  auto found = kernels_.find(raw(id));
  if (found == kernels_.end()) return;
  cl().ReleaseKernel(found->second.kernel);
  cl().ReleaseProgram(found->second.program);
  kernels_.erase(found);
}

}  // namespace heddle::opencl
