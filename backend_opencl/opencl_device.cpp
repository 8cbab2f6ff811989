#include "backend_opencl/opencl_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "backend_opencl/status.h"
#include "core/base/error.h"
#include "core/base/parallel.h"
#include "core/kernel/printer.h"

namespace heddle::opencl {
namespace {

constexpr size_t max_in_flight = 64;               // submissions the host may run ahead
constexpr uint64_t max_staged_bytes = 64ull << 20;  // copies of written data that wait in the queue
constexpr uint64_t direct_write_bytes = 16ull << 20;  // above this a write waits instead of being copied
constexpr size_t kept_times = 64;                  // finished timed submissions whose times are remembered

template <class Id>
uint64_t raw(Id id) { return static_cast<uint64_t>(id); }

}  // namespace

OpenClDevice::OpenClDevice(const Found& found) : caps_(found.info.caps), id_(found.info.id), device_(found.device) {
  cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(found.platform), 0};
  cl_int status = CL_SUCCESS;
  context_ = cl().CreateContext(properties, 1, &device_, nullptr, nullptr, &status);
  check(status, "clCreateContext");
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
  for (InFlight& entry : in_flight_) {
    cl().ReleaseEvent(entry.done);
    for (cl_event event : entry.commands) cl().ReleaseEvent(event);
  }
  for (auto& slot : staged_) cl().ReleaseEvent(slot->done);
  for (auto& [id, kernel] : kernels_) {
    cl().ReleaseKernel(kernel.kernel);
    cl().ReleaseProgram(kernel.program);
  }
  for (auto& [id, buffer] : buffers_) cl().ReleaseMemObject(buffer.memory);
  cl().ReleaseCommandQueue(queue_);
  cl().ReleaseContext(context_);
}

// ---- errors ----

void OpenClDevice::check_alive() const {
  if (!dead_.empty()) throw DeviceLost(fmt::format("[{}] the device was lost: {}; open it again and go on from a checkpoint", id_, dead_));
}

void OpenClDevice::lost(cl_int status, const char* call) {
  dead_ = fmt::format("{}: {}; last commands: {}", call, status_text(status), last_submitted_.empty() ? "none" : last_submitted_);
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

HandleLookup OpenClDevice::lookup() const {
  return {[this](BufferId id) {
            auto found = buffers_.find(raw(id));
            return found == buffers_.end() ? nullptr : &found->second.bytes;
          },
          [this](KernelId id) {
            auto found = kernels_.find(raw(id));
            return found == kernels_.end() ? nullptr : &found->second.signature;
          }};
}

OpenClDevice::Buffer& OpenClDevice::buffer(BufferId id, const char* place) {
  auto found = buffers_.find(raw(id));
  if (found == buffers_.end()) throw DeviceError(fmt::format("[{}] the buffer handle {} is not alive", place, raw(id)));
  return found->second;
}

// ---- memory ----

BufferId OpenClDevice::alloc(uint64_t bytes) {
  check_alive();
  check_allocation(bytes, caps_);
  cl_int status = CL_SUCCESS;
  cl_mem memory = cl().CreateBuffer(context_, CL_MEM_READ_WRITE, bytes, nullptr, &status);
  if (status == CL_OUT_OF_RESOURCES) status = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  if (status == CL_MEM_OBJECT_ALLOCATION_FAILURE || status == CL_OUT_OF_HOST_MEMORY) {
    throw OutOfMemory(fmt::format("[{}] clCreateBuffer of {} bytes: {}", id_, bytes, status_text(status)));
  }
  expect(status, "clCreateBuffer");
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
    wait_for(staged_.front()->done);
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
  auto fresh = std::make_unique<Staging>();
  fresh->capacity = std::max<uint64_t>(bytes, 256);
  fresh->memory = std::make_unique_for_overwrite<char[]>(fresh->capacity);
  return fresh;
}

void OpenClDevice::write(BufferId id, uint64_t offset, const void* source, uint64_t bytes) {
  check_alive();
  Buffer& target = buffer(id, "write");
  check_access("write", &target.bytes, offset, bytes);
  if (bytes == 0) return;
  if (bytes > direct_write_bytes) {
    expect(cl().EnqueueWriteBuffer(queue_, target.memory, CL_TRUE, offset, bytes, source, 0, nullptr, nullptr),
           "clEnqueueWriteBuffer", true);
    return;
  }
  std::unique_ptr<Staging> slot = take_staging(bytes);
  std::memcpy(slot->memory.get(), source, bytes);
  expect(cl().EnqueueWriteBuffer(queue_, target.memory, CL_FALSE, offset, bytes, slot->memory.get(), 0, nullptr, &slot->done),
         "clEnqueueWriteBuffer");
  staged_bytes_ += slot->capacity;
  staged_.push_back(std::move(slot));
}

void OpenClDevice::read(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  check_alive();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return;
  if (limit_ > 0) return wait(read_later(id, offset, target, bytes), nullptr);
  expect(cl().EnqueueReadBuffer(queue_, source.memory, CL_TRUE, offset, bytes, target, 0, nullptr, nullptr),
         "clEnqueueReadBuffer", true);
  retire(next_ticket_);  // the queue is in order: what was enqueued before has finished
}

// ---- kernels ----

KernelId OpenClDevice::compile(const KernelSource& source) {
  check_alive();
  check_kernel(source, caps_);
  return add(source, builder_->build(print(source, Target::opencl, print_options(caps_)), source.name));
}

std::vector<KernelId> OpenClDevice::compile_all(std::span<const KernelSource* const> sources) {
  if (!builder_->parallel()) return Device::compile_all(sources);
  check_alive();
  for (const KernelSource* source : sources) check_kernel(*source, caps_);
  std::vector<cl_program> programs(sources.size(), nullptr);
  std::vector<KernelId> kernels;
  try {
    parallel_each(sources.size(), [&](size_t i) {
      programs[i] = builder_->build(print(*sources[i], Target::opencl, print_options(caps_)), sources[i]->name);
    });
    for (size_t i = 0; i < sources.size(); ++i) kernels.push_back(add(*sources[i], std::exchange(programs[i], nullptr)));
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
KernelId OpenClDevice::add(const KernelSource& source, cl_program program) {
  Kernel kernel;
  kernel.program = program;
  kernel.signature = signature_of(source);
  cl_int status = CL_SUCCESS;
  kernel.kernel = cl().CreateKernel(kernel.program, "heddle_kernel", &status);
  size_t lanes = 0;
  if (status == CL_SUCCESS) {
    status = cl().GetKernelWorkGroupInfo(kernel.kernel, device_, CL_KERNEL_WORK_GROUP_SIZE, sizeof lanes, &lanes, nullptr);
    if (status != CL_SUCCESS) cl().ReleaseKernel(kernel.kernel);
  }
  if (status != CL_SUCCESS) cl().ReleaseProgram(kernel.program);
  expect(status, "clCreateKernel");
  size_t wanted = size_t{source.group[0]} * source.group[1] * source.group[2];
  if (wanted > lanes) {
    cl().ReleaseKernel(kernel.kernel);
    cl().ReleaseProgram(kernel.program);
    throw LimitError(fmt::format("[compile] kernel {}: {} lanes a group are over this kernel's CL_KERNEL_WORK_GROUP_SIZE = {} on {}",
                                 source.name, wanted, lanes, id_));
  }
  kernels_[++next_id_] = std::move(kernel);
  return KernelId{next_id_};
}

void OpenClDevice::release(KernelId id) {
  auto found = kernels_.find(raw(id));
  if (found == kernels_.end()) return;
  cl().ReleaseKernel(found->second.kernel);
  cl().ReleaseProgram(found->second.program);
  kernels_.erase(found);
}

// ---- recordings ----

OpenClDevice::Prepared OpenClDevice::prepare(const Dispatch& d) {
  const Kernel& kernel = kernels_.at(raw(d.kernel));
  PreparedDispatch out;
  for (int axis = 0; axis < 3; ++axis) {
    out.local[axis] = kernel.signature.group[axis];
    out.global[axis] = out.local[axis] * d.groups[axis];
  }
  cl_int status = CL_SUCCESS;
  out.kernel = cl().CreateKernel(kernel.program, "heddle_kernel", &status);
  expect(status, "clCreateKernel");
  cl_uint index = 0;
  auto argument = [&](size_t bytes, const void* value) {
    if (status == CL_SUCCESS) status = cl().SetKernelArg(out.kernel, index++, bytes, value);
  };
  for (const Binding& b : d.bindings) {
    cl_ulong offset = b.offset;
    argument(sizeof(cl_mem), &buffers_.at(raw(b.buffer)).memory);
    argument(sizeof offset, &offset);
  }
  for (const uint32_t& constant : d.constants) argument(sizeof constant, &constant);
  if (status != CL_SUCCESS) {
    cl().ReleaseKernel(out.kernel);
    throw DeviceError(fmt::format("[record] {}: clSetKernelArg {} of kernel {}: {}", id_, index - 1, kernel.signature.name,
                                  status_text(status)));
  }
  return out;
}

OpenClDevice::Prepared OpenClDevice::prepare(const Copy& c) {
  return PreparedCopy{buffers_.at(raw(c.src.buffer)).memory, buffers_.at(raw(c.dst.buffer)).memory, c.src.offset, c.dst.offset,
                      c.src.size};
}

OpenClDevice::Prepared OpenClDevice::prepare(const Fill& f) {
  return PreparedFill{buffers_.at(raw(f.dst.buffer)).memory, f.dst.offset, f.dst.size, f.pattern};
}

void OpenClDevice::enable_profiling() {
  if (profiling_) return;
  expect(cl().Finish(queue_), "clFinish", true);
  retire(next_ticket_);
  cl_int status = CL_SUCCESS;
  cl_command_queue queue = cl().CreateCommandQueue(context_, device_, CL_QUEUE_PROFILING_ENABLE, &status);
  expect(status, "clCreateCommandQueue");
  cl().ReleaseCommandQueue(queue_);
  queue_ = queue;
  profiling_ = true;
}

RecordingId OpenClDevice::record(std::span<const Command> commands, bool timed) {
  check_alive();
  HandleLookup handles = lookup();
  check_commands(commands, caps_, handles);
  if (timed) enable_profiling();
  Recording recording;
  recording.timed = timed;
  recording.checked_at = frees_;
  recording.text = describe_last(commands, handles);
  try {
    for (const Command& command : commands) {
      recording.commands.push_back(std::visit([this](const auto& c) { return prepare(c); }, command));
    }
  } catch (...) {
    destroy(recording);
    throw;
  }
  recording.buffers = buffers_of(commands);
  recordings_[++next_id_] = std::move(recording);
  return RecordingId{next_id_};
}

void OpenClDevice::destroy(Recording& recording) {
  for (Prepared& command : recording.commands) {
    if (auto* dispatch = std::get_if<PreparedDispatch>(&command)) cl().ReleaseKernel(dispatch->kernel);
  }
}

void OpenClDevice::release(RecordingId id) {
  auto found = recordings_.find(raw(id));
  if (found == recordings_.end()) return;
  destroy(found->second);
  recordings_.erase(found);
}

// Arguments are plain handles: after a free(), a recording that used the buffer must not run again.
void OpenClDevice::check_buffers(Recording& recording) {
  if (recording.checked_at == frees_) return;
  for (BufferId id : recording.buffers) {
    if (!buffers_.contains(raw(id))) {
      throw DeviceError(fmt::format("[submit] {}: the recording uses buffer {}, which was freed", id_, raw(id)));
    }
  }
  recording.checked_at = frees_;
}

void OpenClDevice::enqueue(const Prepared& command, cl_event* event) {
  if (auto* d = std::get_if<PreparedDispatch>(&command)) {
    expect(cl().EnqueueNDRangeKernel(queue_, d->kernel, 3, nullptr, d->global, d->local, 0, nullptr, event),
           "clEnqueueNDRangeKernel");
  } else if (auto* c = std::get_if<PreparedCopy>(&command)) {
    expect(cl().EnqueueCopyBuffer(queue_, c->src, c->dst, c->src_offset, c->dst_offset, c->bytes, 0, nullptr, event),
           "clEnqueueCopyBuffer");
  } else {
    const auto& f = std::get<PreparedFill>(command);
    expect(cl().EnqueueFillBuffer(queue_, f.dst, &f.pattern, sizeof f.pattern, f.offset, f.bytes, 0, nullptr, event),
           "clEnqueueFillBuffer");
  }
}

// Enqueues the commands; entry.done is the event of the last one, entry.commands those of the others when timed.
void OpenClDevice::enqueue_all(const Recording& recording, InFlight& entry) {
  if (recording.commands.empty()) {
    expect(cl().EnqueueMarkerWithWaitList(queue_, 0, nullptr, &entry.done), "clEnqueueMarkerWithWaitList");
    return;
  }
  for (size_t i = 0; i + 1 < recording.commands.size(); ++i) {
    cl_event event = nullptr;
    enqueue(recording.commands[i], recording.timed ? &event : nullptr);
    entry.begun = true;
    if (recording.timed) entry.commands.push_back(event);
  }
  enqueue(recording.commands.back(), &entry.done);
}

Ticket OpenClDevice::submit(RecordingId id) {
  check_alive();
  auto found = recordings_.find(raw(id));
  if (found == recordings_.end()) throw DeviceError(fmt::format("[submit] {}: recording handle {} is not alive", id_, raw(id)));
  Recording& recording = found->second;
  check_buffers(recording);
  retire_finished();
  last_submitted_ = recording.text;
  InFlight entry{};
  try {
    enqueue_all(recording, entry);
  } catch (const DeviceError& error) {
    for (cl_event event : entry.commands) cl().ReleaseEvent(event);
    if (entry.done) cl().ReleaseEvent(entry.done);
    // What is updated in place may be half updated.
    if (entry.begun && dead_.empty()) dead_ = fmt::format("a submission stopped halfway: {}", error.what());
    throw;
  }
  entry.timed = recording.timed && !recording.commands.empty();
  entry.ticket = ++next_ticket_;
  in_flight_.push_back(std::move(entry));
  expect(cl().Flush(queue_), "clFlush");
  return Ticket{next_ticket_};
}

// ---- completion ----

bool OpenClDevice::finished(cl_event event) {
  cl_int state = CL_QUEUED;
  expect(cl().GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr), "clGetEventInfo");
  if (state < 0) lost(state, "execution of a command");
  return state == CL_COMPLETE;
}

std::vector<CommandTime> OpenClDevice::times_of(const InFlight& entry) {
  std::vector<CommandTime> times;
  auto add = [&](cl_event event) {
    cl_ulong start = 0, end = 0;
    expect(cl().GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr), "clGetEventProfilingInfo");
    expect(cl().GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr), "clGetEventProfilingInfo");
    if (epoch_ == 0) epoch_ = start;  // small numbers: a double keeps nanoseconds
    times.push_back({static_cast<double>(static_cast<int64_t>(start - epoch_)) * 1e-9, static_cast<double>(static_cast<int64_t>(end - epoch_)) * 1e-9});
  };
  for (cl_event event : entry.commands) add(event);
  add(entry.done);
  return times;
}

// Lets go of all submissions up to `ticket`, which have finished.
void OpenClDevice::retire(uint64_t ticket) {
  while (!in_flight_.empty() && in_flight_.front().ticket <= ticket) {
    InFlight entry = std::move(in_flight_.front());
    in_flight_.pop_front();
    if (entry.timed) {
      times_.emplace_back(entry.ticket, times_of(entry));
      if (times_.size() > kept_times) times_.pop_front();
    }
    cl().ReleaseEvent(entry.done);
    for (cl_event event : entry.commands) cl().ReleaseEvent(event);
  }
}

void OpenClDevice::retire_finished() {
  if (in_flight_.size() >= max_in_flight) {
    wait_for(in_flight_[max_in_flight / 2].done);
  }
  while (!in_flight_.empty() && finished(in_flight_.front().done)) retire(in_flight_.front().ticket);
}

void OpenClDevice::wait_for(cl_event event) {
  if (limit_ <= 0) return expect(cl().WaitForEvents(1, &event), "clWaitForEvents", true);
  using Clock = std::chrono::steady_clock;
  Clock::time_point progress = Clock::now();
  size_t running = in_flight_.size();
  for (auto pause = std::chrono::microseconds(1); !finished(event); pause = std::min(2 * pause, std::chrono::microseconds(500))) {
    // Whatever finishes before it is progress.
    const auto unfinished = static_cast<size_t>(std::count_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& e) { return !finished(e.done); }));
    if (unfinished != running) {
      running = unfinished;
      progress = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - progress).count() > limit_) {
      given_up_ = true;
      dead_ = fmt::format("it finished nothing for {} s (HEDDLE_TIMEOUT); last commands: {}", limit_, last_submitted_.empty() ? "none" : last_submitted_);
      throw DeviceTimeout(fmt::format("[{}] the device does not answer: {}; a smaller batch makes shorter work; open the device again and go on from a "
                                      "checkpoint", id_, dead_));
    }
    std::this_thread::sleep_for(pause);
  }
}

bool OpenClDevice::done(Ticket ticket) {
  check_alive();
  if (raw(ticket) > next_ticket_) throw DeviceError(fmt::format("[done] {}: ticket {} was never given out", id_, raw(ticket)));
  while (!in_flight_.empty() && in_flight_.front().ticket <= raw(ticket) && finished(in_flight_.front().done)) retire(in_flight_.front().ticket);
  return in_flight_.empty() || in_flight_.front().ticket > raw(ticket);
}

Ticket OpenClDevice::read_later(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  check_alive();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return Ticket::none;
  retire_finished();
  InFlight entry{};
  expect(cl().EnqueueReadBuffer(queue_, source.memory, CL_FALSE, offset, bytes, target, 0, nullptr, &entry.done), "clEnqueueReadBuffer");
  entry.ticket = ++next_ticket_;
  in_flight_.push_back(std::move(entry));
  expect(cl().Flush(queue_), "clFlush");
  return Ticket{next_ticket_};
}

void OpenClDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  check_alive();
  if (seconds) seconds->clear();
  if (ticket == Ticket::none) return;
  if (raw(ticket) > next_ticket_) throw DeviceError(fmt::format("[wait] {}: ticket {} was never given out", id_, raw(ticket)));
  for (InFlight& entry : in_flight_) {
    if (entry.ticket != raw(ticket)) continue;
    wait_for(entry.done);
    retire(raw(ticket));
    break;
  }
  if (seconds) *seconds = durations(command_times(ticket));
}

std::vector<CommandTime> OpenClDevice::command_times(Ticket ticket) {
  const auto found = std::find_if(times_.begin(), times_.end(), [&](const auto& entry) { return entry.first == raw(ticket); });
  return found == times_.end() ? std::vector<CommandTime>() : found->second;
}

}  // namespace heddle::opencl
