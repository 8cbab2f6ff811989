#include "heddle/core/record/repeats.h"

#include <algorithm>
#include <bit>

namespace heddle {
namespace {

constexpr size_t first_search = 1024, last_search = 16384, shortest_piece = 64;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
  return hash ^ hash >> 29;
}

}  // namespace

uint64_t Repeats::fingerprint(const Node& node) {
  uint64_t hash = mix(reinterpret_cast<uintptr_t>(node.op), static_cast<uint64_t>(node.dtype));
  for (const int64_t d : node.shape) hash = mix(hash, static_cast<uint64_t>(d));
  for (const int64_t i : node.attrs.ints) hash = mix(hash, static_cast<uint64_t>(i));
  hash = mix(hash, std::bit_cast<uint64_t>(node.attrs.real));
  hash = mix(hash, std::bit_cast<uint64_t>(node.attrs.real2));
  hash = mix(hash, reinterpret_cast<uintptr_t>(node.where.caller.file_name()));
  return mix(hash, node.where.caller.line());
}

size_t smallest_period(const std::vector<uint64_t>& all) {
  if (all.empty()) return 0;
  std::vector<size_t> border(all.size());  // of each prefix: its longest proper part that is beginning and end
  for (size_t i = 1, length = 0; i < all.size(); ++i) {
    while (length > 0 && all[i] != all[length]) length = border[length - 1];
    if (all[i] == all[length]) ++length;
    border[i] = length;
  }
  return all.size() - border.back();
}

size_t Repeats::piece() const { return std::max<size_t>(1, shortest_piece / period_) * period_; }

void Repeats::clear() {
  seen_.clear();
  lines_.clear();
  period_ = at_ = left_ = 0;
}

// A prologue (weights that are made before the loop) belongs to no period: the oldest quarter may be one.
void Repeats::search() {
  const std::vector<uint64_t> latest(seen_.begin() + static_cast<ptrdiff_t>(seen_.size() / 4), seen_.end());
  const size_t period = smallest_period(latest), repetitions = seen_.size() <= 4096 ? 16 : seen_.size() <= 8192 ? 8 : 4;
  if (period * repetitions > latest.size()) return;
  const std::vector<uint32_t> lines(lines_.end() - static_cast<ptrdiff_t>(period), lines_.end());
  size_t begin = 0, drop = 0;
  for (size_t i = 0; i < period; ++i) {
    const uint32_t before = lines[(i + period - 1) % period];
    if (before > lines[i] && before - lines[i] > drop) {
      drop = before - lines[i];
      begin = i;
    }
  }
  if (drop == 0 && seen_.size() < last_search)
    return;  // all on one line: the layers of one model, or the parameters of one update
  period_ = period;
  seen_.erase(seen_.begin(), seen_.end() - static_cast<ptrdiff_t>(period));
  lines_ = lines;
  at_ = 0;
  left_ = begin == 0 ? period : begin;  // until what begins the loop comes next
}

bool Repeats::note(uint64_t fingerprint, uint32_t line) {
  if (period_ == 0) {
    seen_.push_back(fingerprint);
    lines_.push_back(line);
    if (seen_.size() >= first_search && seen_.size() <= last_search && std::has_single_bit(seen_.size())) search();
    return false;
  }
  if (seen_[at_] != fingerprint) {
    clear();
    return false;
  }
  at_ = (at_ + 1) % period_;
  if (--left_ > 0) return false;
  left_ = piece();
  return true;
}

}  // namespace heddle
