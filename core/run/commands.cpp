#include "core/run/commands.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/caller.h"
#include "core/base/error.h"
#include "core/base/integers.h"
#include "core/lower/joined_launch.h"
#include "core/lower/lower.h"
#include "core/memory/planned_loop.h"

namespace heddle {
namespace {

// For cutting long recordings (Dispatch::seconds): 10 GB/s and a thousand million turns of a loop a second are what a
// slow integrated GPU does.
double guessed_seconds(const LoweredKernel& kernel, const Dispatch& dispatch) {
  double bytes = 0, lanes = 1;
  for (const Binding& binding : dispatch.bindings) bytes += static_cast<double>(binding.size);
  for (int axis = 0; axis < 3; ++axis)
    lanes *= static_cast<double>(dispatch.groups[axis]) * kernel.source.group[static_cast<size_t>(axis)];
  return std::max(bytes / 1e10, lanes * static_cast<double>(std::max<int64_t>(kernel.loop_iterations, 1)) / 1e9);
}

void collect(const std::vector<LoweredKernel>& kernels, std::vector<const LoweredKernel*>& all) {
  for (const LoweredKernel& kernel : kernels) {
    if (kernel.loop)
      collect(kernel.loop->body.kernels, all);
    else if (!kernel.is_transfer())
      all.push_back(&kernel);
  }
}

}  // namespace

KernelTable compile_kernels(DeviceContext& device, const std::vector<LoweredKernel>& kernels) {
  std::vector<const LoweredKernel*> all;
  collect(kernels, all);
  std::vector<const KernelSource*> sources;
  for (const LoweredKernel* kernel : all) sources.push_back(&kernel->source);
  const std::vector<KernelId> ids = device.kernels(sources);
  KernelTable table;
  for (size_t k = 0; k < all.size(); ++k) table.emplace(all[k], ids[k]);
  return table;
}

void CommandBuilder::check(const std::vector<Binding>& bindings, const LoweredKernel& kernel) const {
  for (const Binding& binding : bindings) {
    if (binding.size <= device_.caps().max_binding_bytes) continue;
    throw LimitError(with_line(
        fmt::format("[{}] a tensor of {} bytes exceeds what one binding of {} may cover ({} bytes, max_binding_bytes)",
                    kernel.source.name, binding.size, device_.id(), device_.caps().max_binding_bytes)));
  }
}

void CommandBuilder::push(Dispatch dispatch, const LoweredKernel& kernel) {
  dispatch.kernel = kernels_.at(&kernel);
  dispatch.seconds = guessed_seconds(kernel, dispatch);
  bound_.list.emplace_back(std::move(dispatch));
  bound_.kernels.push_back(&kernel);
  ++bound_.launches;
}

void CommandBuilder::add(const LoweredKernel& kernel, const Binding& host, const Bind& bind) {
  if (kernel.loop) return add_loop(kernel, host, bind(kernel.bindings));
  if (!kernel.joined.empty()) return add_joined(kernel, bind);
  Dispatch dispatch;
  std::copy(std::begin(kernel.groups), std::end(kernel.groups), dispatch.groups);
  dispatch.bindings = bind(kernel.bindings);
  check(dispatch.bindings, kernel);
  dispatch.constants = kernel.constants;
  push(std::move(dispatch), kernel);
}

// The launches over the kernel's joined rows; their tables are appended to bound_.rows, where the dispatches' last
// bindings say.
void CommandBuilder::add_joined(const LoweredKernel& kernel, const Bind& bind) {
  std::vector<std::vector<Binding>> bound;
  for (const LoweredKernel::JoinedRow& row : kernel.joined) {
    bound.push_back(bind(row.bindings));
    check(bound.back(), kernel);
  }
  const size_t alignment = std::max<size_t>(64, device_.caps().buffer_alignment / sizeof(int32_t));
  for (const JoinedLaunch& launch : cover_joined(kernel, bound, device_.caps())) {
    bound_.rows.resize(round_up(bound_.rows.size(), alignment), 0);
    const std::vector<int32_t> rows = joined_table(kernel, bound, launch);
    Dispatch dispatch;
    const auto groups = fold_groups(launch.groups, device_.caps());
    std::copy(groups.begin(), groups.end(), dispatch.groups);
    dispatch.bindings = launch.covers;
    dispatch.bindings.push_back({BufferId::none, bound_.rows.size() * sizeof(int32_t), rows.size() * sizeof(int32_t)});
    dispatch.constants = {static_cast<uint32_t>(launch.groups)};
    push(std::move(dispatch), kernel);
    bound_.rows.insert(bound_.rows.end(), rows.begin(), rows.end());
  }
}

// Every iteration launches the kernels of the body, with the memory of its turn.
void CommandBuilder::add_loop(const LoweredKernel& kernel, const Binding& host, const std::vector<Binding>& outer) {
  const PlannedLoop& loop = *kernel.loop;
  for (const PlannedLoop::Fill& fill : loop.fills) {
    Binding row = outer[static_cast<size_t>(fill.to)];
    copy({outer[static_cast<size_t>(fill.from)].buffer, outer[static_cast<size_t>(fill.from)].offset, fill.bytes},
         {row.buffer, row.offset + fill.offset, fill.bytes});
  }
  for (int64_t iteration = 0; iteration < loop.length; ++iteration) {
    for (const LoweredKernel& inner : loop.body.kernels) {
      add(inner, host, [&](const std::vector<SlotRef>& slots) { return loop.bind(slots, iteration, outer, host); });
    }
  }
}

void CommandBuilder::transfer(const Copy& copy) {
  bound_.list.emplace_back(copy);
  bound_.kernels.push_back(nullptr);
  ++bound_.launches;
}

void CommandBuilder::copy(Binding source, Binding target) {
  // Either may be the larger one: the target may be the front of a larger storage.
  source.size = target.size = std::min(source.size, target.size);
  bound_.list.emplace_back(Copy{source, target});
  bound_.kernels.push_back(nullptr);
}

Bound CommandBuilder::take() {
  if (bound_.rows.empty()) return std::move(bound_);
  bound_.table = device_.allocate(bound_.rows.size() * sizeof(int32_t));
  device_.write(*bound_.table, 0, bound_.rows.data(), bound_.rows.size() * sizeof(int32_t));
  for (Command& command : bound_.list) {
    auto* dispatch = std::get_if<Dispatch>(&command);
    if (!dispatch || dispatch->bindings.empty() || dispatch->bindings.back().buffer != BufferId::none) continue;
    dispatch->bindings.back().buffer = bound_.table->binding().buffer;
    dispatch->bindings.back().offset += bound_.table->binding().offset;
  }
  return std::move(bound_);
}

}  // namespace heddle
