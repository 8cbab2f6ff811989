#include "tools/certify/listing.h"

#include <algorithm>
#include <utility>

namespace heddle::tools::certify {
namespace {

struct Range {
  size_t first, last;
  bool holds(const Range& other) const { return first <= other.first && other.last <= last && size() > other.size(); }
  size_t size() const { return last - first + 1; }
};

bool multiplies(const Instruction& i) { return i.unit == Unit::fma || i.unit == Unit::matrix; }

// One for each place that a backward branch goes to: branches of `continue` belong to the same loop.
std::vector<Range> loops_of(const Listing& listing) {
  std::vector<Range> loops;
  for (size_t at = 0; at < listing.size(); ++at) {
    const std::optional<size_t>& target = listing[at].target;
    if (!target || *target > at) continue;
    const auto known = std::find_if(loops.begin(), loops.end(), [&](const Range& r) { return r.first == *target; });
    if (known == loops.end())
      loops.push_back({*target, at});
    else
      known->last = at;
  }
  return loops;
}

HotLoop own_part(const Listing& listing, const Range& loop, const std::vector<Range>& loops) {
  std::vector<Range> inner;
  for (const Range& other : loops) {
    const auto begin = listing.begin() + static_cast<std::ptrdiff_t>(other.first),
               end = listing.begin() + static_cast<std::ptrdiff_t>(other.last) + 1;
    if (loop.holds(other) && std::any_of(begin, end, multiplies)) inner.push_back(other);
  }
  HotLoop hot{loop.first, loop.last, {}, 0};
  for (size_t at = loop.first; at <= loop.last; ++at) {
    if (std::any_of(inner.begin(), inner.end(), [&](const Range& r) { return r.first <= at && at <= r.last; }))
      continue;
    hot.instructions.push_back(at);
    if (multiplies(listing[at])) ++hot.math;
  }
  return hot;
}

}  // namespace

std::optional<HotLoop> hot_loop(const Listing& listing) {
  const std::vector<Range> loops = loops_of(listing);
  std::optional<HotLoop> best;
  for (const Range& loop : loops) {
    HotLoop own = own_part(listing, loop, loops);
    if (own.math > 0 && (!best || own.math > best->math)) best = std::move(own);
  }
  return best;
}

}  // namespace heddle::tools::certify
