#include "heddle/core/tiles/rows_tiles.h"

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

bool cpu_loops(const Caps& caps) { return caps.machine() == Machine::cpu_loops; }
bool simt(const Caps& caps) { return caps.machine() == Machine::simt; }
// Shared arrays hold 32 bits.
bool narrow(DType dtype) { return arith(dtype) == DType::f32; }

}  // namespace

int64_t sort_block(const Caps& caps) { return simt(caps) ? 512 : cpu_loops(caps) ? 512 : 128; }

Bindings pick_sort_blocks(const Caps& caps, DType dtype, int64_t rows, int64_t length, int64_t block) {
  Bindings row{{"SCHEDULE", cpu_loops(caps) ? 1 : 0}, {"LANES", simt(caps) ? 128 : 32}};
  row = tuned(caps, {"sort_blocks", std::string(name_of(dtype)), {rows, length}}, row);
  row["BLOCK"] = block;
  row["LANES"] = std::min<int64_t>({row["LANES"], block / 2, caps.max_group_lanes});
  return row;
}

Bindings pick_sort_merge(const Caps& caps, DType dtype, int64_t rows, int64_t kept) {
  const Bindings row{{"LANES", cpu_loops(caps) ? 1 : simt(caps) ? 64 : 32}, {"CHUNK", cpu_loops(caps) ? 256 : 16}};
  return tuned(caps, {"sort_merge", std::string(name_of(dtype)), {rows, kept}}, row);
}

int64_t scan_chunk(const Caps& caps, int64_t outer, int64_t length, int64_t inner) {
  const int64_t units = std::max<int64_t>(1, caps.compute_units);
  // What runs side by side without cutting rows, and what should.
  const int64_t have = cpu_loops(caps) ? outer * ((inner + 255) / 256) : outer * inner;
  const int64_t want = cpu_loops(caps) ? 8 * units : simt(caps) ? 2048 * units : 64 * units;
  const int64_t longest = cpu_loops(caps) ? 65536 : 4096;
  if (length <= 1024 || (have >= want && length <= longest)) return length;
  const int64_t pieces = std::max(ceil_div(want, have), length / longest);
  return std::clamp<int64_t>(length / pieces, 256, inner == 1 ? 4096 : longest);
}

Bindings pick_scan(const Caps& caps, DType dtype, int64_t outer, int64_t chunks, int64_t inner) {
  Bindings row{{"SCHEDULE", cpu_loops(caps) ? 1 : 0}, {"LANES", simt(caps) ? 128 : 16}, {"WIDTH", 256}};
  if (!cpu_loops(caps) && inner == 1 && narrow(dtype)) row["SCHEDULE"] = 2;
  row = tuned(caps, {"scan", std::string(name_of(dtype)), {outer, chunks, inner}}, row);
  if (row["SCHEDULE"] == 2 && (inner != 1 || !narrow(dtype))) row["SCHEDULE"] = 0;
  return row;
}

int64_t segment_iterations(const Bindings& tunables, int64_t columns, int64_t count) {
  if (tunables.at("SCHEDULE") == 0) return count + 64;
  const int64_t rows = tunables.at("ROWS"), width = std::min(columns, tunables.at("CHUNK"));
  return 64 + rows * (1 + 2 * width) + count * (2 + width);
}

Bindings pick_segment_add(const Caps& caps, DType dtype, int64_t rows, int64_t columns, int64_t count) {
  const Bindings row{
      {"SCHEDULE", cpu_loops(caps) ? 1 : 0}, {"LANES", simt(caps) ? 128 : 64}, {"ROWS", 16}, {"CHUNK", 1024}};
  Bindings chosen = tuned(caps, {"segment_add", std::string(name_of(dtype)), {rows, columns, count}}, row);
  if (static_cast<uint64_t>(segment_iterations(chosen, columns, count)) > caps.max_loop_iterations)
    chosen["SCHEDULE"] = 0;
  return chosen;
}

}  // namespace heddle
