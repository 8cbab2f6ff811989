#include "heddle/core/run/commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/contract/grid.h"
#include "heddle/core/run/joined_launch.h"

namespace heddle {
namespace {

using Launch = GraphImage::Launch;
using Place = GraphImage::Place;
using Bind = std::function<std::vector<Binding>(const std::vector<Place>&)>;

// For cutting long recordings (Dispatch::seconds): 10 GB/s and a thousand million turns of a loop a second are what a
// slow integrated GPU does.
double guessed_seconds(const Launch& launch, const KernelSignature& kernel, const Dispatch& dispatch) {
  double bytes = 0, lanes = 1;
  for (const Binding& binding : dispatch.bindings) bytes += static_cast<double>(binding.size);
  for (size_t axis = 0; axis < 3; ++axis) lanes *= static_cast<double>(dispatch.groups[axis]) * kernel.group[axis];
  return std::max(bytes / 1e10, lanes * static_cast<double>(std::max<int64_t>(launch.loop_iterations, 1)) / 1e9);
}

// What a place names of a storage. Kernels may read the last word of it whole.
Binding part_of(const Binding& all, const Place& place) {
  if (place.bytes == 0) return all;
  if (place.offset > all.size || place.bytes > all.size - place.offset)
    throw DeviceError(
        fmt::format("[image] bytes [{}, +{}) of a storage of {} are bound", place.offset, place.bytes, all.size));
  const uint64_t bytes = std::min(round_up(place.bytes, uint64_t{64}), all.size - place.offset);
  return {all.buffer, all.offset + place.offset, bytes};
}

class CommandBuilder {
 public:
  CommandBuilder(DeviceContext& device, const GraphImage& image, std::span<const KernelId> kernels,
                 const ImageMemory& memory)
      : device_(device), image_(image), kernels_(kernels), memory_(memory) {}

  Bound build(std::span<const Binding> targets) {
    const Bind bind = [this](const std::vector<Place>& places) {
      std::vector<Binding> bindings;
      bindings.reserve(places.size());
      for (const Place& place : places) bindings.push_back(within_limit(memory_.at(place), place));
      return bindings;
    };
    size_t begin = 0;
    for (const int32_t cut : image_.cuts) {
      add_segment(begin, static_cast<size_t>(cut), bind);
      begin = static_cast<size_t>(cut);
    }
    add_segment(begin, image_.launches.size(), bind);
    for (const GraphImage::CopyBack& back : image_.copies)
      copy(memory_.at(back.from), targets[static_cast<size_t>(back.slot)]);
    bound_.segments.back().end = bound_.list.size();
    upload_table();
    return std::move(bound_);
  }

 private:
  // Of a storage that is larger than a binding may be, as much as the graph reads from where it is bound.
  Binding within_limit(Binding binding, const Place& place) const {
    if (place.kind != Place::Kind::input || binding.size <= device_.caps().max_binding_bytes) return binding;
    const uint64_t read = image_.input_bytes[static_cast<size_t>(place.index)];
    binding.size = std::min(binding.size, round_up(read, uint64_t{64}));
    return binding;
  }

  const KernelSignature& kernel_of(const Launch& launch) const {
    return image_.kernels[static_cast<size_t>(launch.index)].signature();
  }

  void add_segment(size_t begin, size_t end, const Bind& bind) {
    const size_t first = bound_.list.size();
    launched_ = 0;
    for (size_t l = begin; l < end; ++l) add(image_.launches[l], bind);
    bound_.segments.push_back({first, bound_.list.size(), launched_});
  }

  void add(const Launch& launch, const Bind& bind) {
    switch (launch.kind) {
      case Launch::Kind::kernel:
        return add_kernel(launch, bind(launch.places));
      case Launch::Kind::joined:
        return add_joined(launch, bind);
      case Launch::Kind::loop:
        return add_loop(image_.loops[static_cast<size_t>(launch.index)], bind(launch.places));
      case Launch::Kind::to_host:
      case Launch::Kind::from_host:
        return add_transfer(launch, bind(launch.places)[0]);
    }
  }

  void add_kernel(const Launch& launch, std::vector<Binding> bindings) {
    check(bindings, launch);
    Dispatch dispatch;
    std::copy(launch.groups.begin(), launch.groups.end(), dispatch.groups);
    dispatch.bindings = std::move(bindings);
    dispatch.constants = launch.constants;
    push(std::move(dispatch), launch);
  }

  // The launches over the kernel's joined rows; their tables are appended to bound_.rows, where the dispatches' last
  // bindings say.
  void add_joined(const Launch& launch, const Bind& bind) {
    std::vector<std::vector<Binding>> bound;
    for (const GraphImage::JoinedRow& row : launch.joined) bound.push_back(bind(row.places));
    add_rows(launch, launch.joined, bound);
  }

  void add_rows(const Launch& launch, JoinedRows rows, const std::vector<std::vector<Binding>>& bound) {
    for (const std::vector<Binding>& row : bound) check(row, launch);
    const bool chain = launch.workers > 0;
    for (const JoinedLaunch& part : cover_joined(kernel_of(launch), rows, bound, device_.caps(), chain)) {
      Dispatch dispatch;
      dispatch.groups[0] = launch.workers;
      if (!chain) {
        const auto groups = fold_groups(part.groups, device_.caps());
        std::copy(groups.begin(), groups.end(), dispatch.groups);
      }
      dispatch.bindings = part.covers;
      // What the workers of a chain share is zero whenever none of them runs.
      if (launch.workers > 1)
        dispatch.bindings.push_back(in_table(std::vector<int32_t>(size_t{16} * (2 + launch.workers), 0)));
      dispatch.bindings.push_back(in_table(joined_table(kernel_of(launch), rows, bound, part)));
      dispatch.constants = {static_cast<uint32_t>(part.groups)};
      push(std::move(dispatch), launch);
    }
  }

  // Where these words will lie in the table, which gets its buffer when all are known.
  Binding in_table(const std::vector<int32_t>& words) {
    const size_t alignment = std::max<size_t>(64, device_.caps().buffer_alignment / sizeof(int32_t));
    bound_.rows.resize(round_up(bound_.rows.size(), alignment), 0);
    const Binding binding{BufferId::none, bound_.rows.size() * sizeof(int32_t), words.size() * sizeof(int32_t)};
    bound_.rows.insert(bound_.rows.end(), words.begin(), words.end());
    return binding;
  }

  // Every iteration launches the kernels of the body, with the memory of its turn.
  void add_loop(const GraphImage::Loop& loop, const std::vector<Binding>& outer) {
    for (const LoopPlaces::Fill& fill : loop.places.fills) {
      const Binding &from = outer[static_cast<size_t>(fill.from)], &row = outer[static_cast<size_t>(fill.to)];
      copy({from.buffer, from.offset, fill.bytes}, {row.buffer, row.offset + fill.offset, fill.bytes});
    }
    int64_t iteration = 0;
    const Bind bind = [&](const std::vector<Place>& places) {
      std::vector<Binding> bindings;
      bindings.reserve(places.size());
      for (const Place& place : places) bindings.push_back(in_turn(place, loop.places, iteration, outer));
      return bindings;
    };
    if (loop.is_chain()) {
      std::vector<std::vector<Binding>> bound;
      for (; iteration < loop.places.length; ++iteration) bound.push_back(bind(loop.body[0].joined[0].places));
      const std::vector<GraphImage::JoinedRow> rows(bound.size(), loop.body[0].joined[0]);
      if (!rows.empty()) add_rows(loop.body[0], rows, bound);
      return;
    }
    for (; iteration < loop.places.length; ++iteration) {
      for (const Launch& inner : loop.body) add(inner, bind);
    }
  }

  Binding in_turn(const Place& place, const LoopPlaces& loop, int64_t iteration,
                  const std::vector<Binding>& outer) const {
    if (place.kind == Place::Kind::host) return memory_.host;
    if (place.kind == Place::Kind::input) return part_of(loop.locate(place.index, iteration, outer), place);
    const Binding& all = outer[static_cast<size_t>(loop.workspace)];
    return {all.buffer, all.offset + place.offset, place.bytes};
  }

  // To or from memory of the host.
  void add_transfer(const Launch& launch, const Binding& here) {
    const Binding there{memory_.host_block, launch.host_offset, here.size};
    bound_.list.emplace_back(launch.kind == Launch::Kind::to_host ? Copy{here, there} : Copy{there, here});
    bound_.launches.push_back(nullptr);
    ++launched_;
  }

  // As many bytes as the smaller of both has: the target may be the front of a larger storage.
  void copy(Binding source, Binding target) {
    source.size = target.size = std::min(source.size, target.size);
    bound_.list.emplace_back(Copy{source, target});
    bound_.launches.push_back(nullptr);
  }

  void check(const std::vector<Binding>& bindings, const Launch& launch) const {
    for (const Binding& binding : bindings) {
      if (binding.size <= device_.caps().max_binding_bytes) continue;
      const std::string line = launch.facts.lines.empty() ? "" : fmt::format(" ({})", launch.facts.lines.front());
      throw LimitError(fmt::format(
          "[{}] a tensor of {} bytes exceeds what one binding of {} may cover ({} bytes, max_binding_bytes){}",
          kernel_of(launch).name, binding.size, device_.id(), device_.caps().max_binding_bytes, line));
    }
  }

  void push(Dispatch dispatch, const Launch& launch) {
    dispatch.kernel = kernels_[static_cast<size_t>(launch.index)];
    dispatch.seconds = guessed_seconds(launch, kernel_of(launch), dispatch);
    bound_.list.emplace_back(std::move(dispatch));
    bound_.launches.push_back(&launch);
    ++launched_;
  }

  void upload_table() {
    if (bound_.rows.empty()) return;
    bound_.table = device_.allocate(bound_.rows.size() * sizeof(int32_t));
    device_.write(*bound_.table, 0, bound_.rows.data(), bound_.rows.size() * sizeof(int32_t));
    for (Command& command : bound_.list) {
      auto* dispatch = std::get_if<Dispatch>(&command);
      if (!dispatch) continue;
      for (Binding& binding : dispatch->bindings) {
        if (binding.buffer != BufferId::none) continue;
        binding.buffer = bound_.table->binding().buffer;
        binding.offset += bound_.table->binding().offset;
      }
    }
  }

  DeviceContext& device_;
  const GraphImage& image_;
  std::span<const KernelId> kernels_;
  const ImageMemory& memory_;
  Bound bound_;
  size_t launched_ = 0;  // of the segment
};

}  // namespace

Binding ImageMemory::at(const Place& place) const {
  const auto index = static_cast<size_t>(place.index);
  switch (place.kind) {
    case Place::Kind::input:
      return part_of(inputs[index], place);
    case Place::Kind::host:
      return host;
    case Place::Kind::own:
      return part_of(own[index], place);
    case Place::Kind::arena:
      break;
  }
  return {arena[index].buffer, arena[index].offset + place.offset, place.bytes};
}

std::span<const int32_t> Bound::table_of(size_t command) const {
  const Launch* launch = launches[command];
  if (launch == nullptr || launch->joined.empty()) return {};
  const Binding& binding = std::get<Dispatch>(list[command]).bindings.back();
  return std::span(rows).subspan((binding.offset - table->binding().offset) / sizeof(int32_t),
                                 binding.size / sizeof(int32_t));
}

Bound bind_image(DeviceContext& device, const GraphImage& image, std::span<const KernelId> kernels,
                 const ImageMemory& memory, std::span<const Binding> targets) {
  return CommandBuilder(device, image, kernels, memory).build(targets);
}

}  // namespace heddle
