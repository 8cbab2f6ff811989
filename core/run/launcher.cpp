#include "heddle/core/run/launcher.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/inspect/profile.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/run/debug.h"
#include "heddle/core/run/graph_cache.h"

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
    facts.back().launch =
        save_launch(image.kernels[static_cast<size_t>(launch.index)], dispatch, commands.table_of(i), facts.back());
  }
  return facts;
}

}  // namespace

Launcher::Launcher(DeviceContext& device, GraphImage image) : device_(device), image_(std::move(image)) {
  const Caps& caps = device.caps();
  if (image_.target != name_of(caps.target) || image_.driver_hash != caps.driver_hash)
    throw DeviceError(
        fmt::format("[image] it was made for kernels in {} and driver {:016x}; {} takes {} and has {:016x}",
                    image_.target, image_.driver_hash, device.id(), name_of(caps.target), caps.driver_hash));
  std::vector<const KernelSource*> sources;
  for (const KernelSource& kernel : image_.kernels) sources.push_back(&kernel);
  kernels_ = device.kernels(sources);
  if (!image_.once.empty()) once_ = std::make_unique<Launcher>(device, std::move(image_.once[0]));
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

GraphResult Launcher::run(const Inputs& inputs, const std::vector<StoragePtr>* own) {
  if (!once_) return run_all(inputs, own);
  if (!once_values_hold(inputs) || Replay::capturing()) compute_once_values(inputs);
  std::vector<StoragePtr> storages(inputs.storages.begin(), inputs.storages.end());
  std::vector<uint64_t> bases(inputs.bases.begin(), inputs.bases.end());
  storages.insert(storages.end(), once_values_.begin(), once_values_.end());
  bases.resize(storages.size(), 0);
  return run_all({storages, bases, inputs.host_values}, own);
}

void Launcher::forget_recordings() {
  if (once_) once_->forget_recordings();
  recordings_.clear();
  arena_.clear();
}

GraphResult Launcher::run_all(const Inputs& inputs, const std::vector<StoragePtr>* given) {
  std::vector<StoragePtr> own = given ? *given : device_.allocate_results(image_.own_bytes);
  std::vector<StoragePtr> arena;
  for (size_t b = 0; b < image_.arena_bytes.size(); ++b)
    arena.push_back(graph_cache(device_).arena(device_, b, image_.arena_bytes[b]));
  if (arena != arena_) {  // what was recorded with another one is never found again, and would keep its memory
    recordings_.clear();
    arena_ = std::move(arena);
  }
  if (image_.host_bytes > 0 && !offloaded_) offloaded_ = graph_cache(device_).host_block(device_, image_.host_bytes);
  write_host_values(inputs);
  submit(inputs, own);
  measured_ = std::max(measured_, device_.memory().live_bytes);
  GraphResult result = collect(inputs, own);
  result.own = std::move(own);
  for (const int32_t slot : image_.assigned) inputs.storages[static_cast<size_t>(slot)]->version++;
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

void Launcher::compute_once_values(const Inputs& inputs) {
  once_values_.clear();
  for (const GraphOutput& output : once_->run({inputs.storages, inputs.bases, {}}).outputs)
    once_values_.push_back(output.storage);
  once_seen_.clear();
  for (const int32_t slot : image_.once_slots) {
    const StoragePtr& storage = inputs.storages[static_cast<size_t>(slot)];
    once_seen_.push_back({storage, storage->version, inputs.bases[static_cast<size_t>(slot)]});
  }
}

// ---- one run

// All host values of the graph in one small write.
void Launcher::write_host_values(const Inputs& inputs) {
  if (inputs.host_values.empty()) return;
  const uint64_t bytes = inputs.host_values.size() * sizeof(HostValue);
  if (!host_) host_ = device_.allocate(bytes);
  device_.write(*host_, 0, inputs.host_values.data(), bytes);
}

// Inputs, results, arena.
std::vector<Binding> Launcher::signature(const Inputs& inputs, const std::vector<StoragePtr>& own) const {
  std::vector<Binding> all;
  all.reserve(inputs.storages.size() + own.size() + arena_.size());
  for (size_t slot = 0; slot < inputs.storages.size(); ++slot) all.push_back(bound(inputs, slot));
  for (const StoragePtr& s : own) all.push_back(s->binding());
  for (const StoragePtr& s : arena_) all.push_back(s->binding());
  return all;
}

// Nothing to launch: `kept` is null.
Launcher::Recording Launcher::record(const Inputs& inputs, std::vector<Binding> signature, size_t own, bool timed) {
  auto locked = device_.lock();
  const auto arena = signature.end() - static_cast<std::ptrdiff_t>(arena_.size());
  const auto results = arena - static_cast<std::ptrdiff_t>(own);
  ImageMemory memory{{signature.begin(), results}, {results, arena}, {arena, signature.end()}, {}, BufferId::none};
  if (host_) memory.host = host_->binding();
  if (offloaded_) memory.host_block = offloaded_->buffer();
  std::vector<Binding> targets;
  for (const StoragePtr& storage : inputs.storages) targets.push_back(storage->binding());
  const Bound commands = bind_image(device_, image_, kernels_, memory, targets);
  if (commands.list.empty()) return {};
  if (recordings_.size() >= max_recordings) recordings_.erase(recordings_.begin());
  const RecordingId id = locked.device.record(commands.list, timed);
  std::vector<StoragePtr> kept = arena_;
  if (commands.table) kept.push_back(commands.table);
  Recording made{std::move(signature),
                 std::make_shared<KeptRecording>(device_, id, commands.launched, std::move(kept), offloaded_), nullptr};
  if (timed) made.facts = std::make_shared<const std::vector<KernelFacts>>(facts_of(image_, commands));
  locked.counters.recordings++;
  return made;
}

void Launcher::submit(const Inputs& inputs, const std::vector<StoragePtr>& own) {
  std::vector<Binding> wanted = signature(inputs, own);
  const bool profiled = Profiler::active(), timed = profiled || debug_level() >= 1;
  const HostSpan span("submit");
  auto locked = device_.lock();
  const auto at = std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& r) {
    return r.signature == wanted && (r.facts != nullptr) == timed;
  });
  if (at == recordings_.end()) {
    Recording made = record(inputs, std::move(wanted), own.size(), timed);
    if (!made.kept) return;
    recordings_.push_back(std::move(made));
  } else {
    std::rotate(at, at + 1, recordings_.end());  // most recently used last
  }
  const Recording& latest = recordings_.back();
  const double submitted = profiled ? Profiler::now() : 0;
  const Ticket ticket = locked.device.submit(latest.kept->id());
  device_.remember(ticket);
  for (const StoragePtr& storage : inputs.storages) storage->last_use = ticket;
  for (const StoragePtr& storage : own) storage->last_use = ticket;
  if (profiled) Profiler::note(device_, ticket, latest.facts, submitted);
  locked.counters.kernels += latest.kept->kernels();
  locked.counters.submissions++;
  if (latest.facts) debug_times(device_.id(), locked.device, ticket, *latest.facts);
  if (Replay::capturing()) {
    std::vector<StoragePtr> memory(inputs.storages.begin(), inputs.storages.end());
    memory.insert(memory.end(), own.begin(), own.end());
    if (host_) memory.push_back(host_);
    Replay::note(latest.kept, std::move(memory));
  }
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
