// What lanes of a warp do together: shuffles, votes, reductions.
#include <bit>

#include "tests/ptx/operations.h"

namespace heddle::ptx {
namespace {

// Calls each(lane of the block, mask of the warp's active lanes).
template <class Each>
void each_in_warp(Block& b, const Each& each) {
  for (uint32_t first = 0; first < b.active.count;) {
    const uint32_t warp = b.active.list[first] / 32;
    uint32_t mask = 0, end = first;
    for (; end < b.active.count && b.active.list[end] / 32u == warp; ++end) mask |= 1u << b.active.list[end] % 32;
    for (uint32_t k = first; k < end; ++k) each(uint32_t{b.active.list[k]}, mask);
    first = end;
  }
}

// ---- shfl ----

enum class Shuffle : int64_t { up, down, butterfly, index };

// The lane that `lane` reads of, and whether it lies in the segment; `clamp` is the instruction's third number.
uint32_t source_lane(Shuffle how, uint32_t lane, uint32_t by, uint32_t clamp, bool* inside) {
  by &= 31;
  const uint32_t segment = clamp >> 8 & 31, limit = clamp & 31;
  const uint32_t highest = (lane & segment) | (limit & ~segment), lowest = lane & segment;
  uint32_t from = 0;
  switch (how) {
    case Shuffle::up:
      from = lane - by;
      *inside = static_cast<int32_t>(from) >= static_cast<int32_t>(highest);
      break;
    case Shuffle::down:
      from = lane + by;
      *inside = from <= highest;
      break;
    case Shuffle::butterfly:
      from = lane ^ by;
      *inside = from <= highest;
      break;
    case Shuffle::index:
      from = lowest | (by & ~segment);
      *inside = from <= highest;
      break;
  }
  return *inside ? from : lane;
}

// Operands: target, its predicate, value, by, clamp, mask.
void shuffle(Block& b, const Op& op) {
  auto* d = b.reg<uint32_t>(op, 0);
  auto* p = b.reg<uint8_t>(op, 1);
  const auto *value = b.reg<uint32_t>(op, 2), *by = b.reg<uint32_t>(op, 3), *clamp = b.reg<uint32_t>(op, 4),
             *mask = b.reg<uint32_t>(op, 5);
  std::vector<uint32_t> taken(b.lanes());
  each_in_warp(b, [&](uint32_t lane, uint32_t here) {
    bool inside = false;
    const uint32_t from = source_lane(static_cast<Shuffle>(op.immediate), lane % 32, by[lane], clamp[lane], &inside);
    if (!(here >> from & 1))
      throw LaneFault{FaultKind::warp, lane,
                      "the lane reads lane " + std::to_string(from) + " of its warp, which is not there"};
    if (!(mask[lane] >> from & 1))
      throw LaneFault{FaultKind::warp, lane,
                      "the lane reads lane " + std::to_string(from) + " of its warp, which its mask does not name"};
    taken[lane] = value[lane / 32 * 32 + from];
    p[lane] = inside;
  });
  b.active.each([&](uint32_t lane) { d[lane] = taken[lane]; });
}

// shfl.sync.bfly.b32 d|p, a, b, c, mask
void decode_shfl(Decoder& d) {
  if (!d.take("sync")) d.fail("shfl without .sync is unknown");
  Shuffle how{};
  if (d.take("up"))
    how = Shuffle::up;
  else if (d.take("down"))
    how = Shuffle::down;
  else if (d.take("bfly"))
    how = Shuffle::butterfly;
  else if (d.take("idx"))
    how = Shuffle::index;
  else
    d.fail("unknown shuffle");
  const Type type = d.type();
  if (type != Type::b32) d.fail("shfl has the type b32");
  d.expect_operands(5);
  Operand to = d.operand(0);
  const Operand predicate = to.parts.empty() ? Operand{} : to.parts[0];
  to.parts.clear();
  d.op.immediate = static_cast<int64_t>(how);
  d.op.control = Control::warp;
  d.op.mask = 5;
  d.emit(shuffle, {d.target(to, 4), d.target(predicate, 1), d.source(1, type), d.source(2, type), d.source(3, type),
                   d.source(4, type)});
}

// ---- votes ----

enum class Vote : int64_t { all, any, uniform, ballot };

void vote(Block& b, const Op& op) {
  const auto* p = b.reg<uint8_t>(op, 1);
  const auto* mask = b.reg<uint32_t>(op, 2);
  const bool negated = op.count != 0;
  std::vector<uint32_t> results(b.lanes());
  each_in_warp(b, [&](uint32_t lane, uint32_t here) {
    const uint32_t members = here & mask[lane], first = lane / 32 * 32;
    uint32_t ballot = 0;
    for (uint32_t i = 0; i < 32; ++i) {
      if (members >> i & 1) ballot |= uint32_t{(p[first + i] != 0) != negated} << i;
    }
    switch (static_cast<Vote>(op.immediate)) {
      case Vote::all:
        results[lane] = ballot == members;
        break;
      case Vote::any:
        results[lane] = ballot != 0;
        break;
      case Vote::uniform:
        results[lane] = ballot == members || ballot == 0;
        break;
      case Vote::ballot:
        results[lane] = ballot;
        break;
    }
  });
  if (static_cast<Vote>(op.immediate) == Vote::ballot) {
    auto* d = b.reg<uint32_t>(op, 0);
    b.active.each([&](uint32_t lane) { d[lane] = results[lane]; });
  } else {
    auto* d = b.reg<uint8_t>(op, 0);
    b.active.each([&](uint32_t lane) { d[lane] = results[lane] != 0; });
  }
}

void decode_vote(Decoder& d) {
  if (!d.take("sync")) d.fail("vote without .sync is unknown");
  Vote what{};
  if (d.take("all"))
    what = Vote::all;
  else if (d.take("any"))
    what = Vote::any;
  else if (d.take("uni"))
    what = Vote::uniform;
  else if (d.take("ballot"))
    what = Vote::ballot;
  else
    d.fail("unknown vote");
  const Type type = d.type();
  if (type != (what == Vote::ballot ? Type::b32 : Type::pred)) d.fail("unknown type");
  Operand p = d.operand(1);
  d.op.count = p.negated;
  p.negated = false;
  d.op.immediate = static_cast<int64_t>(what);
  d.op.control = Control::warp;
  d.op.mask = 2;
  d.expect_operands(3);
  d.emit(vote, {d.target(0, type), d.place(p, 1), d.source(2, Type::b32)});
}

void active_mask(Block& b, const Op& op) {
  auto* d = b.reg<uint32_t>(op, 0);
  each_in_warp(b, [&](uint32_t lane, uint32_t here) { d[lane] = here; });
}

void decode_activemask(Decoder& d) {
  if (d.type() != Type::b32) d.fail("unknown type");
  d.emit(active_mask, {d.target(0, Type::b32)});
}

// ---- redux ----

struct Reduce {
  int64_t how;
  bool is_signed;
  uint32_t operator()(uint32_t a, uint32_t b) const {
    const bool less = is_signed ? static_cast<int32_t>(a) < static_cast<int32_t>(b) : a < b;
    switch (how) {
      case 0:
        return a + b;
      case 1:
        return less ? a : b;
      case 2:
        return less ? b : a;
      case 3:
        return a & b;
      case 4:
        return a | b;
      default:
        return a ^ b;
    }
  }
};

void reduce(Block& b, const Op& op) {
  const auto *value = b.reg<uint32_t>(op, 1), *mask = b.reg<uint32_t>(op, 2);
  std::vector<uint32_t> results(b.lanes());
  const Reduce f{op.immediate, op.count != 0};
  each_in_warp(b, [&](uint32_t lane, uint32_t here) {
    const uint32_t members = here & mask[lane], first = lane / 32 * 32;
    auto at = static_cast<uint32_t>(std::countr_zero(members));
    uint32_t sum = value[first + at];
    while (++at < 32) {
      if (members >> at & 1) sum = f(sum, value[first + at]);
    }
    results[lane] = sum;
  });
  auto* d = b.reg<uint32_t>(op, 0);
  b.active.each([&](uint32_t lane) { d[lane] = results[lane]; });
}

void decode_redux(Decoder& d) {
  if (!d.take("sync")) d.fail("redux without .sync is unknown");
  constexpr std::string_view names[] = {"add", "min", "max", "and", "or", "xor"};
  d.op.immediate = -1;
  for (int64_t i = 0; i < 6; ++i) {
    if (d.take(names[i])) d.op.immediate = i;
  }
  const Type type = d.type();
  if (d.op.immediate < 0 || is_float(type) || bytes_of(type) != 4) d.fail("unknown reduction");
  d.op.count = is_signed(type);
  d.op.control = Control::warp;
  d.op.mask = 2;
  d.expect_operands(3);
  d.emit(reduce, {d.target(0, type), d.source(1, type), d.source(2, Type::b32)});
}

}  // namespace

void add_warp(Families& families) {
  families["shfl"] = decode_shfl;
  families["vote"] = decode_vote;
  families["activemask"] = decode_activemask;
  families["redux"] = decode_redux;
}

}  // namespace heddle::ptx
