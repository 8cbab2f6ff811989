#include "core/lower/joined_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace heddle {
namespace {

Binding cover(const Binding& a, const Binding& b) {
  const uint64_t begin = std::min(a.offset, b.offset), end = std::max(a.offset + a.size, b.offset + b.size);
  return {a.buffer, begin, end - begin};
}

// Adds a joined row to the launch if the covers allow it.
bool extend(JoinedLaunch& launch, const std::vector<Binding>& bound, uint64_t limit) {
  std::vector<Binding> covers;
  for (size_t b = 0; b < bound.size(); ++b) {
    if (launch.covers[b].buffer != bound[b].buffer) return false;
    covers.push_back(cover(launch.covers[b], bound[b]));
    if (covers.back().size > limit) return false;
  }
  launch.covers = std::move(covers);
  return true;
}

}  // namespace

std::vector<JoinedLaunch> cover_joined(const LoweredKernel& kernel, const std::vector<std::vector<Binding>>& bound,
                                       const Caps& caps) {
  // Positions inside a cover are 32-bit ints, and not all kernels count in bytes.
  const uint64_t limit = std::min<uint64_t>(caps.max_binding_bytes, INT32_MAX);
  std::vector<JoinedLaunch> launches;
  for (size_t s = 0; s < bound.size(); ++s) {
    for (const Binding& binding : bound[s]) {
      if (binding.size <= limit) continue;
      throw LimitError(
          fmt::format("[{}] a tensor of {} bytes exceeds what one binding may cover ({} bytes, max_binding_bytes)",
                      kernel.source.name, binding.size, limit));
    }
    auto at = std::find_if(launches.begin(), launches.end(),
                           [&](JoinedLaunch& launch) { return extend(launch, bound[s], limit); });
    if (at == launches.end()) at = launches.insert(at, {bound[s], {}, 0});
    at->joined.push_back(s);
    at->groups += kernel.joined[s].groups;
  }
  return launches;
}

std::vector<int32_t> joined_table(const LoweredKernel& kernel, const std::vector<std::vector<Binding>>& bound,
                                  const JoinedLaunch& launch) {
  std::vector<int32_t> table;
  table.reserve(static_cast<size_t>(launch.groups));
  const size_t row = 1 + launch.covers.size() + kernel.joined[0].constants.size();
  for (size_t i = 0; i < launch.joined.size(); ++i) {
    const size_t start = static_cast<size_t>(launch.groups) + i * row;
    table.insert(table.end(), static_cast<size_t>(kernel.joined[launch.joined[i]].groups), static_cast<int32_t>(start));
  }
  int32_t first = 0;
  for (size_t s : launch.joined) {
    table.push_back(first);
    first += static_cast<int32_t>(kernel.joined[s].groups);
    for (size_t b = 0; b < launch.covers.size(); ++b) {
      const uint64_t bytes = bound[s][b].offset - launch.covers[b].offset;
      table.push_back(static_cast<int32_t>(bytes / size_of(kernel.source.buffers[b].dtype)));
    }
    for (uint32_t number : kernel.joined[s].constants) table.push_back(static_cast<int32_t>(number));
  }
  return table;
}

}  // namespace heddle
