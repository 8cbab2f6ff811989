#include "heddle/core/device/null_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/contract/kernel_compiler.h"
#include "heddle/core/device/registry.h"

namespace heddle {
namespace {

template <class Id>
uint64_t raw(Id id) {
  return static_cast<uint64_t>(id);
}

class NullBackend final : public Backend {
 public:
  std::string_view name() const override { return "null"; }
  std::vector<DeviceInfo> enumerate() override {
    DeviceInfo info;
    info.id = "null:0";
    info.backend = "null";
    info.name = "validates commands, runs nothing";
    info.driver = "heddle";
    info.available = true;
    info.caps = NullDevice::null_caps();
    return {info};
  }
  std::unique_ptr<Device> open(int index) override {
    if (index != 0) throw DeviceUnavailable(fmt::format("[null] no device {}; there is 1", index));
    return std::make_unique<NullDevice>();
  }
};

}  // namespace

// ---- ByteSet ----

void ByteSet::add(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  auto at = ranges_.upper_bound(begin);
  if (at != ranges_.begin() && std::prev(at)->second >= begin) --at;
  while (at != ranges_.end() && at->first <= end) {
    begin = std::min(begin, at->first);
    end = std::max(end, at->second);
    at = ranges_.erase(at);
  }
  ranges_.emplace(begin, end);
}

uint64_t ByteSet::first_missing(uint64_t begin, uint64_t end) const {
  auto at = ranges_.upper_bound(begin);
  if (at == ranges_.begin()) return std::min(begin, end);
  --at;  // ranges do not touch, so only this one can hold `begin`
  return at->second <= begin ? std::min(begin, end) : std::min(at->second, end);
}

bool ByteSet::covers(uint64_t begin, uint64_t end) const { return first_missing(begin, end) == end; }

// ---- NullDevice ----

Caps NullDevice::null_caps() {
  Caps caps;
  caps.device_class = DeviceClass::null;
  caps.target = Target::opencl;
  caps.subgroup_size = 32;
  caps.shared_bytes = 32768;
  caps.max_group_lanes = 256;
  caps.max_group[0] = caps.max_group[1] = 256;
  caps.max_group[2] = 64;
  caps.memory_bytes = uint64_t{4} << 30;
  caps.f64 = caps.f64_math = caps.i64 = caps.int8_dot = true;
  caps.driver_hash = hash_string("heddle null 1");
  return caps;
}

NullDevice::NullDevice(Caps caps) : caps_(std::move(caps)) {}

HandleLookup NullDevice::lookup() const {
  return {[this](BufferId id) {
            auto found = buffers_.find(raw(id));
            return found == buffers_.end() ? nullptr : &found->second.bytes;
          },
          [this](KernelId id) {
            auto found = kernels_.find(raw(id));
            return found == kernels_.end() ? nullptr : &found->second.signature;
          }};
}

const NullDevice::Buffer& NullDevice::live(BufferId id, const char* place) const {
  auto found = buffers_.find(raw(id));
  if (found == buffers_.end()) throw DeviceError(fmt::format("[{}] the buffer handle {} is not alive", place, raw(id)));
  return found->second;
}

const NullDevice::Kernel& NullDevice::live(KernelId id) const {
  auto found = kernels_.find(raw(id));
  if (found == kernels_.end()) throw DeviceError(fmt::format("[null] the kernel handle {} is not alive", raw(id)));
  return found->second;
}

const NullDevice::Recording& NullDevice::live(RecordingId id, const char* place) const {
  auto found = recordings_.find(raw(id));
  if (found == recordings_.end())
    throw DeviceError(fmt::format("[{}] the recording handle {} is not alive", place, raw(id)));
  return found->second;
}

BufferId NullDevice::alloc(uint64_t bytes) {
  check_allocation(bytes, caps_);
  if (caps_.memory_bytes && live_bytes() + bytes > caps_.memory_bytes) {
    throw OutOfMemory(fmt::format("[null:0] {} bytes asked, {} of {} live", bytes, live_bytes(), caps_.memory_bytes));
  }
  buffers_[++next_id_].bytes = bytes;
  return BufferId{next_id_};
}

void NullDevice::free(BufferId buffer) {
  live(buffer, "free");
  buffers_.erase(raw(buffer));
}

void NullDevice::write(BufferId buffer, uint64_t offset, const void* source, uint64_t bytes) {
  check_access("write", &live(buffer, "write").bytes, offset, bytes);
  if (bytes && !source) throw DeviceError(fmt::format("[write] null source of {} bytes", bytes));
  // Bindings are rounded up to whole words, so the last word of odd-sized data counts as written.
  buffers_[raw(buffer)].written.add(offset, (offset + bytes + 3) / 4 * 4);
}

void NullDevice::read(BufferId buffer, uint64_t offset, void* target, uint64_t bytes) {
  check_access("read", &live(buffer, "read").bytes, offset, bytes);
  if (bytes) std::memset(target, 0, bytes);
}

KernelId NullDevice::compile(const KernelSource& source) {
  const KernelBinary made = compile_kernel(source, caps_);
  const KernelBinary* const binaries[] = {&made};
  const KernelId id = load_all(binaries).front();
  kernels_[raw(id)].source = source;
  return id;
}

std::vector<KernelId> NullDevice::load_all(std::span<const KernelBinary* const> binaries) {
  for (const KernelBinary* binary : binaries) check_binary(*binary, caps_);
  std::vector<KernelId> ids;
  for (const KernelBinary* binary : binaries) {
    kernels_[++next_id_] = {{}, binary->signature, {binary->bytes.begin(), binary->bytes.end()}};
    ids.push_back(KernelId{next_id_});
  }
  return ids;
}

void NullDevice::release(KernelId kernel) {
  live(kernel);
  kernels_.erase(raw(kernel));
}

RecordingId NullDevice::record(std::span<const Command> commands, bool timed) {
  check_commands(commands, caps_, lookup());
  recordings_[++next_id_] = {{commands.begin(), commands.end()}, timed, buffers_of(commands), 0};
  return RecordingId{next_id_};
}

void NullDevice::release(RecordingId recording) {
  live(recording, "release");
  recordings_.erase(raw(recording));
}

Ticket NullDevice::submit(RecordingId id) {
  live(id, "submit");
  Recording& recording = recordings_.at(raw(id));
  for (BufferId buffer : recording.buffers) live(buffer, "submit");
  // What was written stays written and handles are never given out twice, so that a recording that ran can run again:
  // nothing new is to be learnt.
  if (recording.ran < (check_unwritten ? 2 : 1)) {
    for (size_t i = 0; i < recording.commands.size(); ++i) run(i, recording.commands[i]);
    recording.ran = check_unwritten ? 2 : 1;
  }
  submissions_.push_back(id);
  ++next_ticket_;
  if (recording.timed) timed_[next_ticket_] = recording.commands.size();
  return Ticket{next_ticket_};
}

void NullDevice::need(size_t index, const Command& command, const Binding& range, const std::string& what) const {
  if (!check_unwritten) return;
  uint64_t end = range.offset + range.size;
  uint64_t missing = buffers_.at(raw(range.buffer)).written.first_missing(range.offset, end);
  if (missing == end) return;
  throw DeviceError(fmt::format("[submit] command {} ({}) reads {} [{}, +{}) of buffer {}, but nobody wrote byte {}",
                                index, describe(command, lookup()), what, range.offset, range.size, raw(range.buffer),
                                missing));
}

void NullDevice::mark(const Binding& range) {
  buffers_[raw(range.buffer)].written.add(range.offset, (range.offset + range.size + 3) / 4 * 4);
}

void NullDevice::run(size_t index, const Command& command) {
  if (auto* copy = std::get_if<Copy>(&command)) {
    need(index, command, copy->src, "source");
    mark(copy->dst);
  } else if (auto* fill = std::get_if<Fill>(&command)) {
    mark(fill->dst);
  } else {
    const auto& dispatch = std::get<Dispatch>(command);
    const std::vector<BufferParam>& declared = live(dispatch.kernel).signature.buffers;
    for (size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].access != Access::write && !declared[i].scattered)
        need(index, command, dispatch.bindings[i], "binding '" + declared[i].name + "'");
    }
    for (size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].access != Access::read) mark(dispatch.bindings[i]);
    }
  }
}

void NullDevice::wait(Ticket ticket, std::vector<double>* seconds) {
  if (seconds) seconds->clear();
  if (raw(ticket) > next_ticket_) throw DeviceError(fmt::format("[wait] ticket {} was never given out", raw(ticket)));
  auto timed = timed_.find(raw(ticket));
  if (seconds && timed != timed_.end()) seconds->assign(timed->second, 0.0);
}

const std::vector<Command>& NullDevice::commands(RecordingId recording) const {
  return live(recording, "commands").commands;
}
const KernelSource& NullDevice::source(KernelId kernel) const { return live(kernel).source; }
const std::string& NullDevice::printed(KernelId kernel) const { return live(kernel).printed; }
uint64_t NullDevice::buffer_bytes(BufferId buffer) const { return live(buffer, "buffer_bytes").bytes; }

bool NullDevice::was_written(const Binding& range) const {
  return live(range.buffer, "was_written").written.covers(range.offset, range.offset + range.size);
}

uint64_t NullDevice::live_bytes() const {
  uint64_t sum = 0;
  for (const auto& [id, buffer] : buffers_) sum += buffer.bytes;
  return sum;
}

std::unique_ptr<Backend> make_null_backend() { return std::make_unique<NullBackend>(); }

}  // namespace heddle
