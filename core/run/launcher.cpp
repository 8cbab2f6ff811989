#include "heddle/core/run/launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/inspect/profile.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/run/debug.h"
#include "heddle/core/run/launch_memory.h"

namespace heddle {
namespace {

constexpr size_t max_recordings = 8;

// What is bound of an input.
Binding bound(const Launcher::Inputs& inputs, size_t slot) {
  Binding whole = inputs.storages[slot]->binding();
  whole.offset += inputs.bases[slot];
  whole.size -= inputs.bases[slot];
  return whole;
}

// What a kernel over joined rows does is shared out to its launches by their work groups.
void take_share(const GraphImage::Launch& launch, const Dispatch& dispatch, KernelFacts& facts) {
  double groups = 0;
  for (const GraphImage::JoinedRow& row : launch.joined) groups += static_cast<double>(row.groups);
  const double share = dispatch.constants.at(0) / groups;
  facts.read_bytes *= share;
  facts.written_bytes *= share;
  facts.flops *= share;
}

// One entry per command.
std::vector<KernelFacts> facts_of(const GraphImage& image, const Bound& commands) {
  std::vector<KernelFacts> facts;
  for (size_t i = 0; i < commands.list.size(); ++i) {
    if (const auto* copy = std::get_if<Copy>(&commands.list[i])) {
      const auto bytes = static_cast<double>(copy->src.size);
      facts.push_back({.name = "copy", .ops = "copy back", .read_bytes = bytes, .written_bytes = bytes});
      continue;
    }
    const GraphImage::Launch& launch = *commands.launches[i];
    const auto& dispatch = std::get<Dispatch>(commands.list[i]);
    facts.push_back(launch.facts);
    if (!launch.joined.empty()) take_share(launch, dispatch, facts.back());
    const auto& source = image.kernels[static_cast<size_t>(launch.index)].source;
    if (source) facts.back().launch = save_launch(*source, dispatch, commands.table_of(i), facts.back());
  }
  return facts;
}

// Of each kernel the binary where there is one, else the source.
std::vector<KernelId> load_kernels(DeviceContext& device, const GraphImage& image) {
  std::vector<const KernelBinary*> binaries;
  std::vector<const KernelSource*> sources;
  for (const GraphImage::Kernel& kernel : image.kernels) {
    if (kernel.is_compiled())
      binaries.push_back(&kernel.binary);
    else
      sources.push_back(&*kernel.source);
  }
  const std::vector<KernelId> loaded = device.load(binaries), compiled = device.kernels(sources);
  auto next_loaded = loaded.begin(), next_compiled = compiled.begin();
  std::vector<KernelId> ids;
  for (const GraphImage::Kernel& kernel : image.kernels)
    ids.push_back(kernel.is_compiled() ? *next_loaded++ : *next_compiled++);
  return ids;
}

}  // namespace

Launcher::Launcher(DeviceContext& device, GraphImage image) : device_(device), image_(std::move(image)) {
  const Caps& caps = device.caps();
  if (image_.target != name_of(caps.target) || image_.driver_hash != caps.image_hash())
    throw DeviceError(
        fmt::format("[image] it was made for kernels in {} and driver {:016x}; {} takes {} and has {:016x}",
                    image_.target, image_.driver_hash, device.id(), name_of(caps.target), caps.image_hash()));
  kernels_ = load_kernels(device, image_);
  if (!image_.once.empty()) {
    once_ = std::make_unique<Launcher>(device, image_.once[0]);  // image() keeps it
    once_->is_once_ = true;
  }
  const auto locked = device.lock();
  launch_memory(device).add(*this);
}

Launcher::~Launcher() {
  const auto locked = device_.lock();
  launch_memory(device_).remove(*this);
}

std::string Launcher::complaint(const Inputs& inputs) const {
  const size_t wanted = image_.input_bytes.size() - (once_ ? once_->image_.outputs.size() : 0);
  if (inputs.storages.size() != wanted || inputs.bases.size() != wanted)
    return fmt::format("[image] it reads {} inputs, and {} are given", wanted, inputs.storages.size());
  if (inputs.host_values.size() != static_cast<size_t>(image_.host_values))
    return fmt::format("[image] it reads {} host values, and {} are given", image_.host_values,
                       inputs.host_values.size());
  for (size_t slot = 0; slot < wanted; ++slot) {
    const uint64_t bytes = inputs.storages[slot]->bytes(), base = inputs.bases[slot];
    if (base > bytes || image_.input_bytes[slot] > bytes - base)
      return fmt::format("[image] input {} needs {} bytes, and {} are given", slot, image_.input_bytes[slot],
                         bytes - std::min(base, bytes));
  }
  return "";
}

GraphResult Launcher::run(const Inputs& inputs, const std::vector<StoragePtr>* own, const Between& between) {
  std::vector<Timed> timed;
  GraphResult result;
  {
    Lock lock(device_.lock());
    for (Ticket behind; (behind = device_.too_far_ahead()) != Ticket::none;) {
      lock.reset();
      device_.wait(behind);
      lock.emplace(device_.lock());
    }
    result = run_locked(lock, inputs, own, between, timed);
  }
  for (const Timed& t : timed) {
    if (t.submitted > 0) Profiler::note(device_, t.ticket, t.facts, t.submitted);
    debug_times(device_, t.ticket, *t.facts);
  }
  return result;
}

GraphResult Launcher::run_locked(Lock& lock, const Inputs& inputs, const std::vector<StoragePtr>* own,
                                 const Between& between, std::vector<Timed>& timed) {
  if (!once_) return run_all(lock, inputs, own, between, timed);
  if (!once_values_hold(inputs) || Replay::capturing()) compute_once_values(lock, inputs, timed);
  std::vector<StoragePtr> storages(inputs.storages.begin(), inputs.storages.end());
  std::vector<uint64_t> bases(inputs.bases.begin(), inputs.bases.end());
  storages.insert(storages.end(), once_values_.begin(), once_values_.end());
  bases.resize(storages.size(), 0);
  return run_all(lock, {storages, bases, inputs.host_values}, own, between, timed);
}

void Launcher::forget_recordings(size_t arena) {
  if (arena >= lanes_.size()) return;
  lanes_[arena].recordings.clear();
  lanes_[arena].arena.clear();
}

Launcher::Lane& Launcher::lane(const ArenaTurn& turn) {
  while (lanes_.size() <= turn.number()) lanes_.emplace_back();
  Lane& lane = lanes_[turn.number()];
  const auto begin = turn.blocks().begin(), end = begin + static_cast<std::ptrdiff_t>(image_.arena_bytes.size());
  if (!std::equal(begin, end, lane.arena.begin(), lane.arena.end())) {
    lane.recordings.clear();  // what was recorded with another one is never found again, and would keep its memory
    lane.arena.assign(begin, end);
  }
  if (image_.host_bytes > 0 && !lane.offloaded) lane.offloaded = turn.host_block();
  return lane;
}

GraphResult Launcher::run_all(Lock& lock, const Inputs& inputs, const std::vector<StoragePtr>* given,
                              const Between& between, std::vector<Timed>& timed) {
  std::vector<StoragePtr> own = given ? *given : device_.allocate_results(image_.own_bytes);
  const ArenaTurn turn = launch_memory(device_).take_arena(device_, image_.arena_bytes, image_.host_bytes);
  Lane& mine = lane(turn);
  write_host_values(mine, inputs);
  std::optional<HostSpan> span(std::in_place, "submit");
  const std::vector<Segment>& segments =
      recording(mine, inputs, own, Profiler::active() || debug_level() >= 1).segments;
  GraphResult result = collect(inputs, own);
  const auto count_versions = [&] {
    for (const int32_t slot : image_.assigned) inputs.storages[static_cast<size_t>(slot)]->version++;
  };
  if (segments.empty()) count_versions();
  for (size_t s = 0; s < segments.size(); ++s) {
    if (segments[s].kept) result.last = submit(mine, segments[s], inputs, own, timed);
    if (s == 0) count_versions();
    if (!between || s + 1 == segments.size()) continue;
    const Event end = result.last == Ticket::none ? Event() : Event(device_, result.last);
    struct Unlocked {
      Lock& lock;
      DeviceContext& device;
      explicit Unlocked(Lock& held, DeviceContext& context) : lock(held), device(context) { lock.reset(); }
      ~Unlocked() { lock.emplace(device.lock()); }
    };
    span.reset();
    {
      const Unlocked unlocked(lock, device_);
      between(s, end);
    }
    span.emplace("submit");
  }
  measured_ = std::max<uint64_t>(measured_, device_.memory().live_bytes);
  result.own = std::move(own);
  return result;
}

// ---- what is computed once (core/simplify/precomputed.h)

bool Launcher::once_values_hold(const Inputs& inputs) const {
  if (once_values_.empty()) return false;
  for (size_t i = 0; i < image_.once_slots.size(); ++i) {
    const auto slot = static_cast<size_t>(image_.once_slots[i]);
    const StoragePtr& now = inputs.storages[slot];
    const Seen& seen = once_seen_[i];
    if (seen.storage.lock() != now || seen.version != now->version || seen.base != inputs.bases[slot]) return false;
  }
  return true;
}

void Launcher::compute_once_values(Lock& lock, const Inputs& inputs, std::vector<Timed>& timed) {
  once_values_.clear();
  const GraphResult made = once_->run_locked(lock, {inputs.storages, inputs.bases, {}}, nullptr, {}, timed);
  for (const GraphOutput& output : made.outputs) once_values_.push_back(output.storage);
  once_seen_.clear();
  for (const int32_t slot : image_.once_slots) {
    const StoragePtr& storage = inputs.storages[static_cast<size_t>(slot)];
    once_seen_.push_back({storage, storage->version, inputs.bases[static_cast<size_t>(slot)]});
  }
}

// ---- one run

// All host values of the graph in one small write.
void Launcher::write_host_values(Lane& lane, const Inputs& inputs) {
  if (inputs.host_values.empty()) return;
  const uint64_t bytes = inputs.host_values.size() * sizeof(HostValue);
  if (!lane.host) lane.host = device_.allocate(bytes);
  device_.write(*lane.host, 0, inputs.host_values.data(), bytes);
}

// Inputs, results, arena.
std::vector<Binding> Launcher::signature(const Lane& lane, const Inputs& inputs,
                                         const std::vector<StoragePtr>& own) const {
  std::vector<Binding> all;
  all.reserve(inputs.storages.size() + own.size() + lane.arena.size());
  for (size_t slot = 0; slot < inputs.storages.size(); ++slot) all.push_back(bound(inputs, slot));
  for (const StoragePtr& s : own) all.push_back(s->binding());
  for (const StoragePtr& s : lane.arena) all.push_back(s->binding());
  return all;
}

Launcher::Recording Launcher::record(const Lane& lane, const Inputs& inputs, std::vector<Binding> signature, size_t own,
                                     bool timed) {
  auto locked = device_.lock();
  const auto arena = signature.end() - static_cast<std::ptrdiff_t>(lane.arena.size());
  const auto results = arena - static_cast<std::ptrdiff_t>(own);
  ImageMemory memory{{signature.begin(), results}, {results, arena}, {arena, signature.end()}, {}, BufferId::none};
  if (lane.host) memory.host = lane.host->binding();
  if (lane.offloaded) memory.host_block = lane.offloaded->buffer();
  std::vector<Binding> targets;
  for (const StoragePtr& storage : inputs.storages) targets.push_back(storage->binding());
  const Bound commands = bind_image(device_, image_, kernels_, memory, targets);
  Recording made{std::move(signature), timed, {}};
  if (commands.list.empty()) return made;
  std::vector<StoragePtr> kept = lane.arena;
  if (commands.table) kept.push_back(commands.table);
  std::vector<KernelFacts> facts;
  if (timed) facts = facts_of(image_, commands);
  for (const Bound::Segment& part : commands.segments) {
    Segment& segment = made.segments.emplace_back();
    if (part.begin == part.end) continue;
    const RecordingId id =
        locked.device.record(std::span(commands.list).subspan(part.begin, part.end - part.begin), timed);
    segment.kept = std::make_shared<KeptRecording>(device_, id, part.launched, kept, lane.offloaded);
    if (timed)
      segment.facts =
          std::make_shared<const std::vector<KernelFacts>>(facts.begin() + static_cast<std::ptrdiff_t>(part.begin),
                                                           facts.begin() + static_cast<std::ptrdiff_t>(part.end));
    locked.counters.recordings++;
  }
  return made;
}

// The latest stands last.
const Launcher::Recording& Launcher::recording(Lane& lane, const Inputs& inputs, const std::vector<StoragePtr>& own,
                                               bool timed) {
  std::vector<Binding> wanted = signature(lane, inputs, own);
  std::vector<Recording>& known = lane.recordings;
  const auto at = std::find_if(known.begin(), known.end(),
                               [&](const Recording& r) { return r.signature == wanted && r.timed == timed; });
  if (at != known.end()) {
    std::rotate(at, at + 1, known.end());
    return known.back();
  }
  if (known.size() >= max_recordings) known.erase(known.begin());
  return known.emplace_back(record(lane, inputs, std::move(wanted), own.size(), timed));
}

Ticket Launcher::submit(const Lane& lane, const Segment& segment, const Inputs& inputs,
                        const std::vector<StoragePtr>& own, std::vector<Timed>& timed) {
  auto locked = device_.lock();
  const double submitted = Profiler::active() ? Profiler::now() : 0;
  const Ticket ticket = locked.device.submit(segment.kept->id());
  device_.remember(ticket);
  for (const StoragePtr& storage : inputs.storages) storage->last_use = ticket;
  for (const StoragePtr& storage : own) storage->last_use = ticket;
  locked.counters.kernels += segment.kept->kernels();
  locked.counters.submissions++;
  if (segment.facts) timed.push_back({ticket, segment.facts, submitted});
  if (Replay::capturing()) {
    Replay::Memory memory{{}, own};
    for (size_t slot = 0; slot < inputs.storages.size(); ++slot) {
      const bool written = std::count(image_.assigned.begin(), image_.assigned.end(), static_cast<int32_t>(slot)) > 0;
      (written ? memory.written : memory.read).push_back(inputs.storages[slot]);
    }
    if (lane.host) memory.read.push_back(lane.host);
    Replay::note(segment.kept, std::move(memory), is_once_);
  }
  return ticket;
}

GraphResult Launcher::collect(const Inputs& inputs, const std::vector<StoragePtr>& own) const {
  GraphResult result;
  result.outputs.reserve(image_.outputs.size());
  for (const GraphImage::Output& output : image_.outputs) {
    const auto index = static_cast<size_t>(output.index);
    if (output.kind == GraphImage::Output::Kind::own) {
      result.outputs.push_back({own[index], output.view});
      continue;
    }
    result.outputs.push_back({inputs.storages[index], output.view});
    if (output.element > 0)
      result.outputs.back().view.offset += static_cast<int64_t>(inputs.bases[index] / output.element);
  }
  return result;
}

}  // namespace heddle
