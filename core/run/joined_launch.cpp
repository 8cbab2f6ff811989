#include "heddle/core/run/joined_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"

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

std::vector<JoinedLaunch> cover_joined(const KernelSignature& kernel, JoinedRows rows,
                                       const std::vector<std::vector<Binding>>& bound, const Caps& caps,
                                       bool in_order) {
  // Positions inside a cover are 32-bit ints, and not all kernels count in bytes. One row begins where its cover does.
  const uint64_t limit =
      rows.size() == 1 ? caps.max_binding_bytes : std::min<uint64_t>(caps.max_binding_bytes, INT32_MAX);
  std::vector<JoinedLaunch> launches;
  for (size_t r = 0; r < bound.size(); ++r) {
    for (const Binding& binding : bound[r]) {
      if (binding.size <= limit) continue;
      throw LimitError(
          fmt::format("[{}] a tensor of {} bytes exceeds what one binding may cover ({} bytes, max_binding_bytes)",
                      kernel.name, binding.size, limit));
    }
    const auto fits = [&](JoinedLaunch& launch) {
      return !(in_order && launch.rows.size() == most_rows_in_order) && extend(launch, bound[r], limit);
    };
    const auto first = in_order && !launches.empty() ? std::prev(launches.end()) : launches.begin();
    auto at = std::find_if(first, launches.end(), fits);
    if (at == launches.end()) at = launches.insert(at, {bound[r], {}, 0});
    at->rows.push_back(r);
    at->groups += rows[r].groups;
  }
  return launches;
}

std::vector<int32_t> joined_table(const KernelSignature& kernel, JoinedRows rows,
                                  const std::vector<std::vector<Binding>>& bound, const JoinedLaunch& launch) {
  std::vector<int32_t> table;
  table.reserve(static_cast<size_t>(launch.groups));
  const size_t width = 1 + launch.covers.size() + rows[0].constants.size();
  for (size_t i = 0; i < launch.rows.size(); ++i) {
    const size_t start = static_cast<size_t>(launch.groups) + i * width;
    table.insert(table.end(), static_cast<size_t>(rows[launch.rows[i]].groups), static_cast<int32_t>(start));
  }
  int32_t first = 0;
  for (const size_t r : launch.rows) {
    table.push_back(first);
    first += static_cast<int32_t>(rows[r].groups);
    for (size_t b = 0; b < launch.covers.size(); ++b) {
      const uint64_t bytes = bound[r][b].offset - launch.covers[b].offset;
      table.push_back(static_cast<int32_t>(bytes / size_of(kernel.buffers[b].dtype)));
    }
    for (const uint32_t number : rows[r].constants) table.push_back(static_cast<int32_t>(number));
  }
  return table;
}

}  // namespace heddle
