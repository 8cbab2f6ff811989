// Recordings, submission and completion of CudaDevice.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "backend_cuda/cuda_device.h"
#include "backend_cuda/nvtx.h"
#include "core/base/error.h"

namespace heddle::cuda {
namespace {

constexpr size_t max_in_flight = 64;  // submissions the host may run ahead
constexpr size_t kept_times = 64;     // finished timed submissions whose times are remembered

template <class Id>
uint64_t raw(Id id) { return static_cast<uint64_t>(id); }

}  // namespace

// ---- recordings ----

CudaDevice::PreparedDispatch CudaDevice::prepare(const Dispatch& d) {
  const Kernel& kernel = kernels_.at(raw(d.kernel));
  PreparedDispatch out;
  out.function = kernel.function;
  out.name = kernel.signature.name;
  out.shared = kernel.shared;
  for (int axis = 0; axis < 3; ++axis) {
    out.groups[axis] = d.groups[axis];
    out.lanes[axis] = kernel.signature.group[axis];
  }
  for (const Binding& b : d.bindings) out.pointers.push_back(buffers_.at(raw(b.buffer)).memory + b.offset);
  out.constants = d.constants;
  return out;
}

void CudaDevice::add(Recording& recording, const Command& command) {
  if (auto* c = std::get_if<Copy>(&command)) {
    recording.commands.emplace_back(PreparedCopy{buffers_.at(raw(c->src.buffer)).memory + c->src.offset,
                                              buffers_.at(raw(c->dst.buffer)).memory + c->dst.offset, c->src.size});
  } else if (auto* f = std::get_if<Fill>(&command)) {
    recording.commands.emplace_back(
        PreparedFill{buffers_.at(raw(f->dst.buffer)).memory + f->dst.offset, f->dst.size / 4, f->pattern});
  } else {
    recording.commands.emplace_back(prepare(std::get<Dispatch>(command)));
    auto& d = std::get<PreparedDispatch>(recording.commands.back());
    for (CUdeviceptr& pointer : d.pointers) d.arguments.push_back(&pointer);
    for (uint32_t& constant : d.constants) d.arguments.push_back(&constant);
  }
}

RecordingId CudaDevice::record(std::span<const Command> commands, bool timed) {
  activate();
  HandleLookup handles = lookup();
  check_commands(commands, caps_, handles);
  Recording& recording = recordings_[++next_id_];
  RecordingId id{next_id_};
  recording.timed = timed;
  recording.checked_at = frees_;
  recording.text = describe_last(commands, handles);
  recording.buffers = buffers_of(commands);
  recording.commands.reserve(commands.size());
  for (const Command& command : commands) add(recording, command);
  if (timed || commands.empty()) return id;  // events between the commands need the list
  try {
    capture(recording);
  } catch (...) {
    release(id);
    throw;
  }
  return id;
}

// Makes recording.graph; leaves it null where the driver refuses, so that the list is launched instead.
void CudaDevice::capture(Recording& recording) {
  if (cu().StreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != CUDA_SUCCESS) return;
  CUresult result = CUDA_SUCCESS;
  const char* call = "";
  for (const Prepared& command : recording.commands) {
    if (result == CUDA_SUCCESS) result = launch(command, call);
  }
  CUgraph graph = nullptr;
  CUresult ended = cu().StreamEndCapture(stream_, &graph);  // always: it gives the stream back
  if (result == CUDA_SUCCESS) result = ended;
  if (result == CUDA_SUCCESS) result = cu().GraphInstantiate(&recording.graph, graph, 0);
  if (result != CUDA_SUCCESS) recording.graph = nullptr;
  if (graph) expect(cu().GraphDestroy(graph), "cuGraphDestroy");
  if (means_lost(result)) lost(result, "capture of a recording");
}

void CudaDevice::destroy(Recording& recording) {
  if (recording.graph) cu().GraphExecDestroy(recording.graph);  // a graph that still runs is destroyed once it has finished
}

void CudaDevice::release(RecordingId id) {
  auto found = recordings_.find(raw(id));
  if (found == recordings_.end()) return;
  cu().CtxSetCurrent(context_);
  destroy(found->second);
  recordings_.erase(found);
}

// Pointers are captured by value: after a free(), a recording that used the buffer must not run again.
void CudaDevice::check_buffers(Recording& recording) {
  if (recording.checked_at == frees_) return;
  for (BufferId id : recording.buffers) {
    if (!buffers_.contains(raw(id))) {
      throw DeviceError(fmt::format("[submit] {}: the recording uses buffer {}, which was freed", id_, raw(id)));
    }
  }
  recording.checked_at = frees_;
}

// ---- submission ----

CUresult CudaDevice::launch(const Prepared& command, const char*& call) {
  if (auto* c = std::get_if<PreparedCopy>(&command)) {
    call = "cuMemcpyDtoDAsync";
    return cu().MemcpyDtoDAsync(c->dst, c->src, c->bytes, stream_);
  }
  if (auto* f = std::get_if<PreparedFill>(&command)) {
    call = "cuMemsetD32Async";
    return cu().MemsetD32Async(f->dst, f->pattern, f->words, stream_);
  }
  const auto& d = std::get<PreparedDispatch>(command);
  call = "cuLaunchKernel";
  const nvtx::Range range(d.name.c_str());
  return cu().LaunchKernel(d.function, d.groups[0], d.groups[1], d.groups[2], d.lanes[0], d.lanes[1], d.lanes[2], d.shared, stream_,
                           const_cast<void**>(d.arguments.data()), nullptr);
}

// Untimed events come from a pool; they carry no time stamps, which makes them cheaper.
CUevent CudaDevice::take_event() {
  if (!free_events_.empty()) {
    CUevent event = free_events_.back();
    free_events_.pop_back();
    return event;
  }
  CUevent event = nullptr;
  expect(cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  return event;
}

void CudaDevice::launch_list(const Recording& recording, InFlight& entry) {
  auto mark = [&] {
    CUevent event = nullptr;
    expect(cu().EventCreate(&event, CU_EVENT_DEFAULT), "cuEventCreate");
    entry.marks.push_back(event);
    expect(cu().EventRecord(event, stream_), "cuEventRecord");
  };
  if (recording.timed && !epoch_) {
    expect(cu().EventCreate(&epoch_, CU_EVENT_DEFAULT), "cuEventCreate");
    expect(cu().EventRecord(epoch_, stream_), "cuEventRecord");
  }
  for (const Prepared& command : recording.commands) {
    if (recording.timed) mark();
    const char* call = "";
    CUresult result = launch(command, call);
    expect(result, call);
  }
  if (recording.timed) mark();
}

Ticket CudaDevice::submit(RecordingId id) {
  activate();
  auto found = recordings_.find(raw(id));
  if (found == recordings_.end()) throw DeviceError(fmt::format("[submit] {}: recording handle {} is not alive", id_, raw(id)));
  Recording& recording = found->second;
  check_buffers(recording);
  retire_finished();
  last_submitted_ = recording.text;
  InFlight entry;
  try {
    const nvtx::Range range(recording.graph ? "heddle graph" : "heddle list");
    if (recording.graph) {
      expect(cu().GraphLaunch(recording.graph, stream_), "cuGraphLaunch");
    } else {
      launch_list(recording, entry);
    }
    entry.done = take_event();
    expect(cu().EventRecord(entry.done, stream_), "cuEventRecord");
  } catch (...) {
    for (CUevent event : entry.marks) cu().EventDestroy(event);
    if (entry.done) cu().EventDestroy(entry.done);
    throw;
  }
  entry.ticket = ++next_ticket_;
  in_flight_.push_back(std::move(entry));
  return Ticket{next_ticket_};
}

// ---- completion ----

bool CudaDevice::finished(CUevent event) {
  CUresult state = cu().EventQuery(event);
  if (state == CUDA_ERROR_NOT_READY) return false;
  expect(state, "cuEventQuery");
  return true;
}

// The driver gives differences as floats of milliseconds: short ones are exact, so only the first one counts from the epoch.
std::vector<CommandTime> CudaDevice::times_of(const InFlight& entry) {
  const auto elapsed = [this](CUevent from, CUevent to) {
    float milliseconds = 0;
    expect(cu().EventElapsedTime(&milliseconds, from, to), "cuEventElapsedTime");
    return milliseconds * 1e-3;
  };
  std::vector<CommandTime> times;
  double at = elapsed(epoch_, entry.marks[0]);
  for (size_t i = 0; i + 1 < entry.marks.size(); ++i) {
    const double start = at;
    at += elapsed(entry.marks[i], entry.marks[i + 1]);
    times.push_back({start, at});
  }
  return times;
}

// Lets go of all submissions up to `ticket`, which have finished.
void CudaDevice::retire(uint64_t ticket) {
  while (!in_flight_.empty() && in_flight_.front().ticket <= ticket) {
    InFlight entry = std::move(in_flight_.front());
    in_flight_.pop_front();
    free_events_.push_back(entry.done);
    if (entry.target) {
      std::memcpy(entry.target, entry.read.memory, entry.bytes);
      free_staging_.push_back(entry.read);
    }
    if (entry.marks.empty()) continue;
    times_.emplace_back(entry.ticket, times_of(entry));
    if (times_.size() > kept_times) times_.pop_front();
    for (CUevent event : entry.marks) expect(cu().EventDestroy(event), "cuEventDestroy");
  }
}

void CudaDevice::retire_finished() {
  if (in_flight_.size() >= max_in_flight) {
    wait_for(in_flight_[max_in_flight / 2].done);
  }
  while (!in_flight_.empty() && finished(in_flight_.front().done)) retire(in_flight_.front().ticket);
}

void CudaDevice::wait_for(CUevent event) {
  if (limit_ <= 0) return expect(cu().EventSynchronize(event), "cuEventSynchronize");
  using Clock = std::chrono::steady_clock;
  Clock::time_point progress = Clock::now();
  size_t running = in_flight_.size();
  for (auto pause = std::chrono::microseconds(1); !finished(event); pause = std::min(2 * pause, std::chrono::microseconds(500))) {
    const auto unfinished = static_cast<size_t>(std::count_if(in_flight_.begin(), in_flight_.end(), [&](const InFlight& e) { return !finished(e.done); }));
    if (unfinished != running) {  // whatever finishes before it is progress
      running = unfinished;
      progress = Clock::now();
    }
    if (std::chrono::duration<double>(Clock::now() - progress).count() > limit_) {
      given_up_ = true;
      dead_ = fmt::format("it finished nothing for {} s (HEDDLE_TIMEOUT); last commands: {}", limit_, last_submitted_.empty() ? "none" : last_submitted_);
      throw DeviceTimeout(fmt::format("[{}] the device does not answer: {}; a smaller batch makes shorter work; go on from a checkpoint in a new process", id_, dead_));
    }
    std::this_thread::sleep_for(pause);
  }
}

bool CudaDevice::done(Ticket ticket) {
  activate();
  if (raw(ticket) > next_ticket_) throw DeviceError(fmt::format("[done] {}: ticket {} was never given out", id_, raw(ticket)));
  while (!in_flight_.empty() && in_flight_.front().ticket <= raw(ticket) && finished(in_flight_.front().done)) retire(in_flight_.front().ticket);
  return in_flight_.empty() || in_flight_.front().ticket > raw(ticket);
}

// Through page-locked memory: a copy to pageable memory would wait.
Ticket CudaDevice::read_later(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  activate();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return Ticket::none;
  retire_finished();
  InFlight entry;
  if (!take_staging(bytes, entry.read)) throw OutOfMemory(fmt::format("[{}] no {} bytes of page-locked memory for a read", id_, bytes));
  entry.done = take_event();
  CUresult result = cu().MemcpyDtoHAsync(entry.read.memory, source.memory + offset, bytes, stream_);
  if (result == CUDA_SUCCESS) result = cu().EventRecord(entry.done, stream_);
  if (result != CUDA_SUCCESS) {  // the copy may be under way: its memory is given up
    free_events_.push_back(entry.done);
    expect(result, "cuMemcpyDtoHAsync");
  }
  entry.target = target;
  entry.bytes = bytes;
  entry.ticket = ++next_ticket_;
  in_flight_.push_back(std::move(entry));
  return Ticket{next_ticket_};
}

void CudaDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  activate();
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

std::vector<CommandTime> CudaDevice::command_times(Ticket ticket) {
  const auto found = std::find_if(times_.begin(), times_.end(), [&](const auto& entry) { return entry.first == raw(ticket); });
  return found == times_.end() ? std::vector<CommandTime>() : found->second;
}

}  // namespace heddle::cuda
