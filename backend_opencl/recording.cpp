// Recordings, submission and completion of OpenClDevice.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "heddle/backend_opencl/loaded_kernels.h"
#include "heddle/backend_opencl/opencl_device.h"
#include "heddle/backend_opencl/status.h"
#include "heddle/core/base/error.h"

namespace heddle::opencl {
namespace {

template <class Id>
uint64_t number_of(Id id) {
  return static_cast<uint64_t>(id);
}

}  // namespace

// ---- recordings ----

OpenClDevice::Prepared OpenClDevice::prepare(const Dispatch& d) {
  const Kernel& kernel = kernels_.at(number_of(d.kernel));
  PreparedDispatch out;
  out.seconds = d.seconds;
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
    argument(sizeof(cl_mem), &buffers_.at(number_of(b.buffer)).memory);
    if (kernel.takes_offsets || offset != 0)
      argument(sizeof offset, &offset);  // refused where there is no place for it
  }
  for (const uint32_t& constant : d.constants) argument(sizeof constant, &constant);
  if (status != CL_SUCCESS) {
    cl().ReleaseKernel(out.kernel);
    throw DeviceError(fmt::format("[record] {}: clSetKernelArg {} of kernel {}: {}", id_, index - 1,
                                  kernel.signature.name, status_text(status)));
  }
  return out;
}

OpenClDevice::Prepared OpenClDevice::prepare(const Copy& c) {
  return PreparedCopy{buffers_.at(number_of(c.src.buffer)).memory, buffers_.at(number_of(c.dst.buffer)).memory,
                      c.src.offset, c.dst.offset, c.src.size};
}

OpenClDevice::Prepared OpenClDevice::prepare(const Fill& f) {
  return PreparedFill{buffers_.at(number_of(f.dst.buffer)).memory, f.dst.offset, f.dst.size, f.pattern};
}

void OpenClDevice::enable_profiling() {
  if (profiling_) return;
  expect(cl().Finish(queue_), "clFinish", true);
  in_flight_.let_go_of_all();
  profiling_ = true;
  cl_command_queue queue = make_queue();
  cl().ReleaseCommandQueue(queue_);
  queue_ = queue;
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
  if (caps_.queues > 1 && !timed) {
    recording.branches = spread(commands, handles, caps_.queues);
    while (side_queues_.size() + 1 < recording.branches.queues) side_queues_.push_back(make_queue());
  }
  recordings_[++next_id_] = std::move(recording);
  return RecordingId{next_id_};
}

void OpenClDevice::destroy(Recording& recording) {
  for (Prepared& command : recording.commands) {
    if (auto* dispatch = std::get_if<PreparedDispatch>(&command)) cl().ReleaseKernel(dispatch->kernel);
  }
}

void OpenClDevice::release(RecordingId id) {
  auto found = recordings_.find(number_of(id));
  if (found == recordings_.end()) return;
  destroy(found->second);
  recordings_.erase(found);
}

void OpenClDevice::enqueue(const Prepared& command, cl_command_queue queue, const std::vector<cl_event>& after,
                           cl_event* event) {
  const auto count = static_cast<cl_uint>(after.size());
  const cl_event* list = after.empty() ? nullptr : after.data();
  if (auto* d = std::get_if<PreparedDispatch>(&command)) {
    expect(cl().EnqueueNDRangeKernel(queue, d->kernel, 3, nullptr, d->global, d->local, count, list, event),
           "clEnqueueNDRangeKernel");
  } else if (auto* c = std::get_if<PreparedCopy>(&command)) {
    expect(cl().EnqueueCopyBuffer(queue, c->src, c->dst, c->src_offset, c->dst_offset, c->bytes, count, list, event),
           "clEnqueueCopyBuffer");
  } else {
    const auto& f = std::get<PreparedFill>(command);
    expect(cl().EnqueueFillBuffer(queue, f.dst, &f.pattern, sizeof f.pattern, f.offset, f.bytes, count, list, event),
           "clEnqueueFillBuffer");
  }
}

// Enqueues the commands; entry.done is the event of the last one, entry.commands those of the others when timed. Long
// lists are flushed in slices, so that no batch that a driver makes of them keeps the device longer than its watchdog
// allows. `hold`: waits for a few at a time, to hold their kernels while all are loaded.
void OpenClDevice::enqueue_all(const Recording& recording, InFlight& entry, bool hold) {
  if (recording.commands.empty()) {
    expect(cl().EnqueueMarkerWithWaitList(queue_, 0, nullptr, &entry.done), "clEnqueueMarkerWithWaitList");
    return;
  }
  if (recording.branches.queues > 1) return enqueue_branches(recording, entry);
  double seconds = 0;
  for (size_t i = 0; i < recording.commands.size(); ++i) {
    const auto* dispatch = std::get_if<PreparedDispatch>(&recording.commands[i]);
    const double guess = dispatch ? dispatch->seconds : 0;
    if (slice_seconds_ > 0 && seconds > 0 && seconds + guess > slice_seconds_) {
      expect(cl().Flush(queue_), "clFlush");
      seconds = 0;
    }
    seconds += guess;
    const bool last = i + 1 == recording.commands.size();
    cl_event event = nullptr;
    enqueue(recording.commands[i], queue_, {}, last ? &entry.done : recording.timed ? &event : nullptr);
    entry.begun = true;
    if (event) entry.commands.push_back(event);
    if (hold && (last || i % (kernels_kept_by_driver / 2) == 0)) {
      expect(cl().Finish(queue_), "clFinish", true);
      hold_loaded_kernels();
    }
  }
}

// The side queues begin when the main one has come here, and it goes on when they have finished; in between, events
// where branches meet.
void OpenClDevice::enqueue_branches(const Recording& recording, InFlight& entry) {
  const Branches& branches = recording.branches;
  std::vector<cl_event> events(recording.commands.size(), nullptr);
  cl_event fork = nullptr;
  const auto release = [&] {
    for (cl_event event : events) {
      if (event) cl().ReleaseEvent(event);
    }
    if (fork) cl().ReleaseEvent(fork);
  };
  try {
    expect(cl().EnqueueMarkerWithWaitList(queue_, 0, nullptr, &fork), "clEnqueueMarkerWithWaitList");
    expect(cl().Flush(queue_), "clFlush");
    std::vector<bool> begun(branches.queues, false);
    for (size_t i = 0; i < recording.commands.size(); ++i) {
      const uint32_t q = branches.queue[i];
      std::vector<cl_event> after;
      for (size_t w : branches.waits[i]) after.push_back(events[w]);
      if (q > 0 && !begun[q]) after.push_back(fork);
      begun[q] = true;
      const bool ends = q > 0 && branches.last[q] == i + 1;
      enqueue(recording.commands[i], q == 0 ? queue_ : side_queues_[q - 1], after,
              branches.awaited[i] || ends ? &events[i] : nullptr);
      entry.begun = true;
      // Another queue may only wait for what was handed to the device.
      if (branches.awaited[i]) expect(cl().Flush(q == 0 ? queue_ : side_queues_[q - 1]), "clFlush");
    }
    std::vector<cl_event> ends;
    for (uint32_t q = 1; q < branches.queues; ++q) {
      if (branches.last[q] == 0) continue;
      ends.push_back(events[branches.last[q] - 1]);
      expect(cl().Flush(side_queues_[q - 1]), "clFlush");
    }
    expect(cl().EnqueueMarkerWithWaitList(queue_, static_cast<cl_uint>(ends.size()), ends.data(), &entry.done),
           "clEnqueueMarkerWithWaitList");
  } catch (...) {
    release();
    throw;
  }
  release();
}

Ticket OpenClDevice::submit(RecordingId id) {
  check_alive();
  auto found = recordings_.find(number_of(id));
  if (found == recordings_.end())
    throw DeviceError(fmt::format("[submit] {}: recording handle {} is not alive", id_, number_of(id)));
  Recording& recording = found->second;
  check_recorded_buffers(recording, buffers_, frees_, id_);
  in_flight_.make_room();
  join_uploads();
  last_submitted_ = recording.text;
  InFlight entry{};
  const bool one_queue = recording.branches.queues <= 1,
             may_unload = unloads_kernels_ && kernels_.size() > kernels_kept_by_driver;
  const bool hold = one_queue && may_unload && !recording.kernels_held && kernels_were_unloaded();
  try {
    enqueue_all(recording, entry, hold);
    recording.kernels_held = recording.kernels_held || hold;
  } catch (const DeviceError& error) {
    for (cl_event event : entry.commands) cl().ReleaseEvent(event);
    if (entry.done) cl().ReleaseEvent(entry.done);
    // What is updated in place may be half updated.
    if (entry.begun && dead_.empty()) dead_ = fmt::format("a submission stopped halfway: {}", error.what());
    throw;
  }
  entry.timed = recording.timed && !recording.commands.empty();
  const Ticket ticket = in_flight_.add(std::move(entry));
  expect(cl().Flush(queue_), "clFlush");
  return ticket;
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
    expect(cl().GetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof start, &start, nullptr),
           "clGetEventProfilingInfo");
    expect(cl().GetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr),
           "clGetEventProfilingInfo");
    if (orders_times_) {
      start = std::max(start, ended_);
      ended_ = end = std::max(start, end);
    }
    if (epoch_ == 0) epoch_ = start;  // small numbers: a double keeps nanoseconds
    times.push_back({static_cast<double>(static_cast<int64_t>(start - epoch_)) * 1e-9,
                     static_cast<double>(static_cast<int64_t>(end - epoch_)) * 1e-9});
  };
  for (cl_event event : entry.commands) add(event);
  add(entry.done);
  return times;
}

void OpenClDevice::keep(cl_event event) { expect(cl().RetainEvent(event), "clRetainEvent"); }
void OpenClDevice::release(cl_event event) { cl().ReleaseEvent(event); }

bool OpenClDevice::over(cl_event event) const noexcept {
  cl_int state = CL_QUEUED;
  const cl_int asked = cl().GetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, nullptr);
  return asked != CL_SUCCESS || state <= CL_COMPLETE;  // negative: it failed
}

void OpenClDevice::block_quietly(cl_event event) const noexcept { cl().WaitForEvents(1, &event); }

void OpenClDevice::let_go(InFlight& entry) {
  if (entry.timed) in_flight_.keep_times(entry.ticket, times_of(entry));
  cl().ReleaseEvent(entry.done);
  for (cl_event event : entry.commands) cl().ReleaseEvent(event);
}

void OpenClDevice::block(cl_event event) { expect(cl().WaitForEvents(1, &event), "clWaitForEvents", true); }

void OpenClDevice::give_up(double limit) {
  given_up_ = true;
  dead_ = timeout_text(limit, last_submitted_);
  throw DeviceTimeout(
      fmt::format("[{}] the device does not answer: {}; a smaller batch makes shorter work; open the device again and "
                  "go on from a checkpoint",
                  id_, dead_));
}

bool OpenClDevice::done(Ticket ticket) {
  check_alive();
  return in_flight_.done(ticket, "done", id_);
}

std::unique_ptr<Waiter> OpenClDevice::waiter(Ticket ticket) {
  check_alive();
  return in_flight_.waiter(ticket, id_);
}

Ticket OpenClDevice::read_later(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  check_alive();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return Ticket::none;
  in_flight_.make_room();
  join_uploads();
  InFlight entry{};
  expect(cl().EnqueueReadBuffer(queue_, source.memory, CL_FALSE, offset, bytes, target, 0, nullptr, &entry.done),
         "clEnqueueReadBuffer");
  const Ticket ticket = in_flight_.add(std::move(entry));
  expect(cl().Flush(queue_), "clFlush");
  return ticket;
}

void OpenClDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  check_alive();
  in_flight_.wait(ticket, seconds, id_);
}

std::vector<CommandTime> OpenClDevice::command_times(Ticket ticket) { return in_flight_.times(ticket); }

}  // namespace heddle::opencl
