// Recordings, submission and completion of CudaDevice.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heddle/backend_cuda/cuda_device.h"
#include "heddle/backend_cuda/nvtx.h"
#include "heddle/core/base/error.h"

namespace heddle::cuda {
namespace {

template <class Id>
uint64_t number_of(Id id) {
  return static_cast<uint64_t>(id);
}

}  // namespace

// ---- recordings ----

CudaDevice::PreparedDispatch CudaDevice::prepare(const Dispatch& d) {
  const Kernel& kernel = kernels_.at(number_of(d.kernel));
  PreparedDispatch out;
  out.function = kernel.function;
  out.name = kernel.signature.name;
  out.shared = kernel.shared;
  for (int axis = 0; axis < 3; ++axis) {
    out.groups[axis] = d.groups[axis];
    out.lanes[axis] = kernel.signature.group[axis];
  }
  for (const Binding& b : d.bindings) out.pointers.push_back(buffers_.at(number_of(b.buffer)).memory + b.offset);
  out.constants = d.constants;
  return out;
}

void CudaDevice::add(Recording& recording, const Command& command) {
  if (auto* c = std::get_if<Copy>(&command)) {
    const Buffer &src = buffers_.at(number_of(c->src.buffer)), &dst = buffers_.at(number_of(c->dst.buffer));
    recording.commands.emplace_back(
        PreparedCopy{src.memory + c->src.offset, dst.memory + c->dst.offset, c->src.size, src.host || dst.host});
  } else if (auto* f = std::get_if<Fill>(&command)) {
    recording.commands.emplace_back(
        PreparedFill{buffers_.at(number_of(f->dst.buffer)).memory + f->dst.offset, f->dst.size / 4, f->pattern});
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
    recording.branches = spread(commands, handles, caps_.queues);
    while (side_streams_.size() + 1 < recording.branches.queues) side_streams_.push_back(make_stream());
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
  if (recording.branches.queues > 1) {
    result = capture_branches(recording, call);
  } else {
    for (const Prepared& command : recording.commands) {
      if (result == CUDA_SUCCESS) result = launch(command, stream_, call);
    }
  }
  CUgraph graph = nullptr;
  CUresult ended = cu().StreamEndCapture(stream_, &graph);  // always: it gives the stream back
  if (result == CUDA_SUCCESS) result = ended;
  if (result == CUDA_SUCCESS) result = cu().GraphInstantiate(&recording.graph, graph, 0);
  if (result != CUDA_SUCCESS) recording.graph = nullptr;
  if (graph) expect(cu().GraphDestroy(graph), "cuGraphDestroy");
  if (means_lost(result)) lost(result, "capture of a recording");
}

// The side streams fork from the main one and join it at the end; events, inside the capture, become the graph's edges.
CUresult CudaDevice::capture_branches(const Recording& recording, const char*& call) {
  const Branches& branches = recording.branches;
  const auto stream = [&](uint32_t q) { return q == 0 ? stream_ : side_streams_[q - 1]; };
  std::vector<CUevent> events(recording.commands.size() + 1, nullptr);  // by command; the last one is the fork
  CUresult result = CUDA_SUCCESS;
  const auto mark = [&](CUevent& event, CUstream on) {
    if (result == CUDA_SUCCESS) result = cu().EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result == CUDA_SUCCESS) result = cu().EventRecord(event, on);
  };
  const auto wait = [&](CUstream waits, CUevent event) {
    if (result == CUDA_SUCCESS) result = cu().StreamWaitEvent(waits, event, 0);
  };
  mark(events.back(), stream_);
  for (uint32_t q = 1; q < branches.queues; ++q) {
    if (branches.last[q] > 0) wait(stream(q), events.back());
  }
  for (size_t i = 0; i < recording.commands.size() && result == CUDA_SUCCESS; ++i) {
    const uint32_t q = branches.queue[i];
    for (size_t w : branches.waits[i]) wait(stream(q), events[w]);
    if (result == CUDA_SUCCESS) result = launch(recording.commands[i], stream(q), call);
    if (branches.awaited[i] || (q > 0 && branches.last[q] == i + 1)) mark(events[i], stream(q));
  }
  for (uint32_t q = 1; q < branches.queues; ++q) {
    if (branches.last[q] > 0) wait(stream_, events[branches.last[q] - 1]);
  }
  for (CUevent event : events) {
    if (event) cu().EventDestroy(event);
  }
  return result;
}

void CudaDevice::destroy(Recording& recording) {
  if (recording.graph)
    cu().GraphExecDestroy(recording.graph);  // a graph that still runs is destroyed once it has finished
}

void CudaDevice::release(RecordingId id) {
  auto found = recordings_.find(number_of(id));
  if (found == recordings_.end()) return;
  cu().CtxSetCurrent(context_);
  destroy(found->second);
  recordings_.erase(found);
}

// ---- submission ----

CUresult CudaDevice::launch(const Prepared& command, CUstream stream, const char*& call) {
  if (auto* c = std::get_if<PreparedCopy>(&command)) {
    call = c->host ? "cuMemcpyAsync" : "cuMemcpyDtoDAsync";
    return (c->host ? cu().MemcpyAsync : cu().MemcpyDtoDAsync)(c->dst, c->src, c->bytes, stream);
  }
  if (auto* f = std::get_if<PreparedFill>(&command)) {
    call = "cuMemsetD32Async";
    return cu().MemsetD32Async(f->dst, f->pattern, f->words, stream);
  }
  const auto& d = std::get<PreparedDispatch>(command);
  call = "cuLaunchKernel";
  const nvtx::Range range(d.name.c_str());
  return cu().LaunchKernel(d.function, d.groups[0], d.groups[1], d.groups[2], d.lanes[0], d.lanes[1], d.lanes[2],
                           d.shared, stream, const_cast<void**>(d.arguments.data()), nullptr);
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
    CUresult result = launch(command, stream_, call);
    expect(result, call);
  }
  if (recording.timed) mark();
}

Ticket CudaDevice::submit(RecordingId id) {
  activate();
  auto found = recordings_.find(number_of(id));
  if (found == recordings_.end())
    throw DeviceError(fmt::format("[submit] {}: recording handle {} is not alive", id_, number_of(id)));
  Recording& recording = found->second;
  check_recorded_buffers(recording, buffers_, frees_, id_);
  in_flight_.make_room();
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
  return in_flight_.add(std::move(entry));
}

// ---- completion ----

bool CudaDevice::finished(CUevent event) {
  CUresult state = cu().EventQuery(event);
  if (state == CUDA_ERROR_NOT_READY) return false;
  expect(state, "cuEventQuery");
  return true;
}

// The driver gives differences as floats of milliseconds: short ones are exact, so only the first one counts from the
// epoch.
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

void CudaDevice::keep(CUevent event) { kept_events_.keep(event); }

void CudaDevice::release(CUevent event) {
  if (kept_events_.release(event)) free_events_.push_back(event);
}

bool CudaDevice::over(CUevent event) const noexcept {
  cu().CtxSetCurrent(context_);
  return cu().EventQuery(event) != CUDA_ERROR_NOT_READY;
}

void CudaDevice::block_quietly(CUevent event) const noexcept {
  cu().CtxSetCurrent(context_);
  cu().EventSynchronize(event);
}

void CudaDevice::let_go(InFlight& entry) {
  release(entry.done);
  if (entry.target) {
    std::memcpy(entry.target, entry.read.memory, entry.bytes);
    free_staging_.push_back(entry.read);
  }
  if (entry.marks.empty()) return;
  in_flight_.keep_times(entry.ticket, times_of(entry));
  for (CUevent event : entry.marks) expect(cu().EventDestroy(event), "cuEventDestroy");
}

void CudaDevice::block(CUevent event) { expect(cu().EventSynchronize(event), "cuEventSynchronize"); }

void CudaDevice::give_up(double limit) {
  given_up_ = true;
  dead_ = timeout_text(limit, last_submitted_);
  throw DeviceTimeout(
      fmt::format("[{}] the device does not answer: {}; a smaller batch makes shorter work; go on from a checkpoint in "
                  "a new process",
                  id_, dead_));
}

bool CudaDevice::done(Ticket ticket) {
  activate();
  return in_flight_.done(ticket, "done", id_);
}

std::unique_ptr<Waiter> CudaDevice::waiter(Ticket ticket) {
  activate();
  return in_flight_.waiter(ticket, id_);
}

// Through page-locked memory: a copy to pageable memory would wait.
Ticket CudaDevice::read_later(BufferId id, uint64_t offset, void* target, uint64_t bytes) {
  activate();
  Buffer& source = buffer(id, "read");
  check_access("read", &source.bytes, offset, bytes);
  if (bytes == 0) return Ticket::none;
  in_flight_.make_room();
  InFlight entry;
  if (!take_staging(bytes, entry.read))
    throw OutOfMemory(fmt::format("[{}] no {} bytes of page-locked memory for a read", id_, bytes));
  entry.done = take_event();
  CUresult result = cu().MemcpyDtoHAsync(entry.read.memory, source.memory + offset, bytes, stream_);
  if (result == CUDA_SUCCESS) result = cu().EventRecord(entry.done, stream_);
  if (result != CUDA_SUCCESS) {  // the copy may be under way: its memory is given up
    free_events_.push_back(entry.done);
    expect(result, "cuMemcpyDtoHAsync");
  }
  entry.target = target;
  entry.bytes = bytes;
  return in_flight_.add(std::move(entry));
}

void CudaDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  activate();
  in_flight_.wait(ticket, seconds, id_);
}

std::vector<CommandTime> CudaDevice::command_times(Ticket ticket) { return in_flight_.times(ticket); }

}  // namespace heddle::cuda
