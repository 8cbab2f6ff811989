#include "heddle/core/tiles/generated_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

// From this size on a result is not found in a cache when somebody reads it, and reading its lines before writing them
// is the waste that shows: y = 2a + b over 16 M floats on PoCL 30 -> 42 GB/s. At 4 MB the cached store is faster by a
// third, at 16 MB they are equal.
constexpr int64_t stream_bytes = 16 << 20;
// A turned result writes each row in short pieces, which conflict in the caches much earlier. 4 MB: 182 -> 121 us
// through the caches on an EPYC, 445 -> 359 on a Xeon; 6.3 MB: 255 -> 172, but on a Xeon past them.
constexpr int64_t turned_stream_bytes = 5 << 20;
// Below it a transpose is over before a tile has paid for its longer kernel (PoCL compiles one in 0.4 s instead of
// 0.15).
constexpr int64_t tile_elements = 1 << 14;

// Below it a kernel is over before it has paid for its longer text.
constexpr int64_t pair_elements = 1 << 12;

bool worth_tiles(const ElementwiseProblem& p) {
  return p.turned && p.inner >= 8 && p.across >= 8 && p.elements >= tile_elements;
}

Bindings pick_loop(const Caps& caps, const ElementwiseProblem& p) {
  Bindings row;
  // Enough units to balance the cores, each long enough to hide the cost of starting it.
  row["CHUNK"] = std::clamp<int64_t>(p.elements / (4 * caps.compute_units), 2048, 16384);
  row["PAIRS"] = p.elements >= pair_elements;
  row["STREAM"] = p.stored_bytes >= (p.turned ? turned_stream_bytes : stream_bytes);
  row["TILE"] = worth_tiles(p);
  row["TILE_I"] = 64;
  // Results are written in runs (an EPYC, one thread, 16 * 3136 x 64: 2.7 times as long with two lines of each row at a
  // time; 512 elements are no better). Where nothing stays in a cache, long stretches of the rows that are read count
  // for more (4096 x 4096, two threads: 3.2 ms with tiles of 64 by 2048, 4.6 with 256 by 4096).
  row["TILE_S"] = p.stored_bytes >= stream_bytes ? 64 : 256;
  const int64_t units = 4 * caps.compute_units * 1024;
  row["TILE_Q"] = std::clamp<int64_t>(p.elements / units / 16 * 16, 64, 4096);
  return row;
}

Bindings pick_items(const Caps& caps, const ElementwiseProblem& p) {
  const bool cpu = caps.machine() != Machine::simt;
  Bindings row;
  row["LANES"] = std::min<int64_t>(cpu ? 64 : 128, caps.max_group_lanes);
  // lavapipe pays for each work item: y = 2a + b over 4 M floats takes 10.8 ms with one element a lane, 9.1 with four.
  // GPUs: reads of several elements are under way at a time. The same for all sizes, so that another one is no new
  // kernel.
  row["PER_LANE"] = 4;
  row["AHEAD"] = !cpu;
  // y = 2a + b over 4 M floats on lavapipe: 11.2 ms by scalars, 3.7 by vectors of four, 2.9 with four of them a lane.
  row["QUADS"] = caps.texel_loads ? (p.elements >= (1 << 16) ? 4 : 1) : 0;
  const int64_t side = 32;
  const bool fits = caps.max_group_lanes >= 256 && caps.shared_bytes >= 4 * side * (side + 1) * 2;
  // Where loads are texel fetches, a shared tile costs more than loads that jump (lavapipe, 1000 x 1003: 5.0 ms, 1.7
  // without), until the caches are too small (4096 x 4096: 88 ms, 105 without).
  row["TILE"] = fits && worth_tiles(p) && !(caps.texel_loads && p.elements < (1 << 23));
  row["TILE_I"] = side;
  return row;
}

// From this size on the next row is fetched early, until a row is so long that it would push itself out of the
// second-level cache.
constexpr int64_t prefetch_bytes = 1 << 20, longest_prefetched = 1 << 16;

Bindings pick_row_loops(const Caps& caps, const RowsProblem& p) {
  Bindings row;
  row["WIDTH"] = p.last >= 64 ? (p.registers > 4 ? 32 : 64) : p.last >= 16 ? 16 : 1;
  // Several short rows a unit, so that starting it does not dominate; where there are many rows, so many that few of
  // those fetched early are another unit's.
  const int64_t length = std::max<int64_t>(1, p.length), units = std::max<int64_t>(1, caps.compute_units);
  row["BLOCK"] = std::max(std::clamp<int64_t>(4096 / length, 1, std::max<int64_t>(1, p.rows / (2 * units))),
                          std::min<int64_t>(16384 / length, p.rows / (64 * units)));
  row["PREFETCH"] = p.rows * p.length * 4 >= prefetch_bytes && p.length <= longest_prefetched;
  row["STREAM"] = p.stored_bytes >= stream_bytes;
  return row;
}

// GPUs hide the time of a read by other reads under way: many lanes, with many elements each. A row that its lanes can
// hold is read once, whatever the number of passes. Groups of 1024 lanes are for few rows: a unit of NVIDIA's GPUs
// holds two of them at most, and nothing hides the ends of a row (H200, softmax of 512 x 32000 held by 1024 lanes: 86
// us).
Bindings pick_row_items(const Caps& caps, const RowsProblem& p) {
  if (caps.machine() != Machine::simt) return {{"LANES", 32}, {"PER_LANE", 1}};
  if (p.joined) return {{"LANES", 256}, {"PER_LANE", 1}};
  const int64_t units = std::max<int64_t>(1, caps.compute_units);
  const int64_t most = std::min<int64_t>(p.rows <= units ? 1024 : 512, caps.max_group_lanes);
  int64_t lanes = 32;
  // Few rows leave units without work: each is shared by as many lanes as it has elements for.
  const bool few = p.rows <= 2 * units;
  while (lanes < most && (lanes * 8 < p.length || (few && lanes < p.length))) lanes *= 2;
  const int64_t room = std::max<int64_t>(1, 32 / std::max<int64_t>(1, p.words));
  // Three forms, so that rows of other lengths are seldom other kernels.
  const int64_t whole = ceil_div(p.length, lanes);
  return {{"LANES", lanes},
          {"PER_LANE", whole <= 1                               ? 1
                       : whole > 8 && whole <= 32 && room >= 32 ? 32
                                                                : std::min<int64_t>(8, room)}};
}

}  // namespace

Bindings pick_rows(const Caps& caps, const RowsProblem& p) {
  if (p.loop_lanes) return tuned(caps, {"rows", "loop", {p.rows, p.length}}, pick_row_loops(caps, p));
  Bindings row = pick_row_items(caps, p);
  row["SUBGROUPS"] = 1;
  return tuned(caps, {"rows", "items", {p.rows, p.length}}, row);
}

Bindings pick_elementwise(const Caps& caps, const ElementwiseProblem& p) {
  const std::string variant = fmt::format("{}{}", p.loop_lanes ? "loop" : "items", p.turned ? " turned" : "");
  return tuned(caps, {"elementwise", variant, {p.elements, p.inner}},
               p.loop_lanes ? pick_loop(caps, p) : pick_items(caps, p));
}

}  // namespace heddle
