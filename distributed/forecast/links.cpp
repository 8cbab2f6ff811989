#include "heddle/distributed/forecast/links.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/distributed/call.h"

namespace heddle::distributed {
namespace {

void check_level(const Level& level) {
  const auto refuse = [&](const char* key, double value, const char* expected) {
    throw ValueError(fmt::format("[link] level.{}.{} is {}; it must be {}", level.name, key, value, expected));
  };
  if (level.ranks < 0) refuse("ranks", static_cast<double>(level.ranks), "at least 0");
  if (!std::isfinite(level.bandwidth) || level.bandwidth <= 0) refuse("bandwidth", level.bandwidth, "above 0");
  if (!std::isfinite(level.latency) || level.latency < 0) refuse("latency", level.latency, "at least 0");
  // Written as 1 / bandwidth it may be above by rounding.
  if (!std::isfinite(level.processor) || level.processor < 0 || level.processor_share() > 1 + 1e-3)
    refuse("processor", level.processor, "at least 0 and at most 1 / bandwidth");
}

void check_growth(const Level& inner, const Level& outer) {
  if (inner.ranks == 0)
    throw ValueError(
        fmt::format("[link] level.{} is of all ranks; level.{} cannot stand behind it", inner.name, outer.name));
  if (outer.ranks % inner.ranks != 0 || (outer.ranks != 0 && outer.ranks <= inner.ranks))
    throw ValueError(fmt::format("[link] level.{}.ranks is {}; it must be a larger multiple of {}, the ranks of {}",
                                 outer.name, outer.ranks, inner.ranks, inner.name));
}

uint64_t part_of(uint64_t elements, uint64_t ranks, uint64_t place) {
  return elements / ranks + (place < elements % ranks ? 1 : 0);
}

}  // namespace

Links::Links(std::vector<Level> levels) : levels_(std::move(levels)) {
  if (levels_.empty()) throw ValueError("[link] there is no level; [level.NAME] with bandwidth and latency is one");
  for (const Level& level : levels_) check_level(level);
  for (size_t i = 1; i < levels_.size(); ++i) check_growth(levels_[i - 1], levels_[i]);
  if (levels_.back().ranks != 0)
    throw ValueError(fmt::format("[link] level.{}, the last one, has {} ranks; it must be of all ranks (no ranks)",
                                 levels_.back().name, levels_.back().ranks));
}

size_t Links::place_of(int64_t first, int64_t last) const {
  for (size_t i = 0; i + 1 < levels_.size(); ++i)
    if (first / levels_[i].ranks == last / levels_[i].ranks) return i;
  return levels_.size() - 1;
}

const Level& Links::level_of(const Mesh& mesh, const std::vector<std::string>& names) const {
  // Between the first and the last rank of each group; where the groups begin.
  int64_t extent = 0, stride = 1, groups = 1;
  std::vector<std::pair<int64_t, int64_t>> others;  // size and stride
  for (auto axis = mesh.axes().rbegin(); axis != mesh.axes().rend(); stride *= axis->size, ++axis) {
    if (std::find(names.begin(), names.end(), axis->name) != names.end()) {
      extent += (axis->size - 1) * stride;
    } else {
      others.emplace_back(axis->size, stride);
      groups *= axis->size;
    }
  }
  size_t widest = 0;
  for (int64_t group = 0; group < groups && widest + 1 < levels_.size(); ++group) {
    int64_t first = 0, rest = group;
    for (const auto& [size, step] : others) {
      first += rest % size * step;
      rest /= size;
    }
    widest = std::max(widest, place_of(first, first + extent));
  }
  return levels_[widest];
}

double bytes_of(Move move, double bytes, int64_t ranks) {
  if (ranks <= 1) return 0;
  if (move == Move::send) return bytes;
  const double others = static_cast<double>(ranks - 1) / static_cast<double>(ranks);
  return (move == Move::all_reduce ? 2 : 1) * others * bytes;
}

double seconds_of(Move move, double bytes, int64_t ranks, const Level& level) {
  if (ranks <= 1 || bytes <= 0) return 0;
  const double moves = move == Move::all_reduce ? 2 : 1;
  return (1 + moves) * level.latency + bytes_of(move, bytes, ranks) / level.bandwidth;
}

double seconds_beside(double computing, double call, double sending, const Level& level) {
  return std::max(call, computing + std::min(level.processor_share(), 1.0) * sending);
}

uint64_t exact_bytes_of(Move move, uint64_t elements, uint64_t width, int64_t ranks, int64_t place) {
  if (ranks <= 1) return 0;
  const auto count = static_cast<uint64_t>(ranks);
  const uint64_t mine = part_of(elements, count, static_cast<uint64_t>(place));
  const uint64_t headers = (move == Move::send ? 1 : count - 1) * sizeof(CallHeader);
  const uint64_t scattered = elements - mine, gathered = mine * (count - 1);
  switch (move) {
    case Move::all_reduce:
      return headers + (scattered + gathered) * width;
    case Move::reduce_scatter:
      return headers + scattered * width;
    case Move::all_gather:
      return headers + gathered * width;
    case Move::send:
      break;
  }
  return headers + elements * width;
}

}  // namespace heddle::distributed
