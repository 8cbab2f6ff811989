#include "heddle/core/tiles/packed_tiles.h"

#include <algorithm>
#include <string>
#include <utility>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/cpu_registers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

// MR * MB rows of lhs that a panel is multiplied with, where there are `rows`: MR sums of 32 floats stay in registers.
std::pair<int64_t, int64_t> rows_of_panel(const Caps& caps, int64_t rows) {
  const int64_t most = has_wide_registers(caps) ? 8 : 2;
  int64_t mr = 1, mb = 1;
  while (mr < std::min<int64_t>(rows, most)) mr *= 2;
  while (mb < (most < 8 ? 16 : 8) && mr * mb < rows) mb *= 2;
  return {mr, mb};
}

// Rows of a lane where shared tiles (shaders/packed_tiles.hki) are multiplied: all rows in few groups, within the
// memory.
int64_t rows_of_lane(const Caps& caps, int64_t rows) {
  int64_t mr = 1;
  const auto shared = [](int64_t of) { return static_cast<int64_t>(sizeof(float)) * (64 + 8 * of) * 33; };
  while (mr < 8 && 8 * mr < rows && shared(2 * mr) <= static_cast<int64_t>(caps.shared_bytes)) mr *= 2;
  return mr;
}

int64_t iterations_of_tiles(const Bindings& tunables, int64_t depth) {
  const int64_t mr = tunables.at("MR"), stretch = 2 * packed_stretch + 4 * mr + packed_stretch * (9 * mr + 8);
  return ceil_div(depth, packed_stretch) * stretch + 16 * mr;
}

bool fits(const Caps& caps, int64_t iterations) {
  return caps.max_loop_iterations == UINT64_MAX || static_cast<uint64_t>(iterations) <= caps.max_loop_iterations;
}

}  // namespace

int64_t block_number(GgmlType type) { return static_cast<int64_t>(type); }

bool matmul_packed_pays(const Caps& caps, int64_t rows, int64_t depth) {
  if (caps.machine() == Machine::cpu_loops) return true;
  const bool many = rows > few_packed_rows;
  if (many && caps.machine() != Machine::simt) return false;
  const Bindings least{{"SCHEDULE", many ? 3 : 0}, {"LANES", 32}, {"MR", 1}, {"NR", 1}};
  return fits(caps, matmul_packed_iterations(least, depth));
}

Bindings pick_matmul_packed(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  const TuningKey key{"packed_matmul", std::string(block_of(type).name), {rows, columns, depth}};
  if (loops && rows > few_packed_rows) {
    const auto [mr, mb] = rows_of_panel(caps, rows);
    return tuned(caps, key,
                 {{"SCHEDULE", 2}, {"MR", mr}, {"MB", mb}, {"NR", 32}, {"KS", 4}, {"VW", register_width(caps)}});
  }
  if (rows > few_packed_rows)
    return tuned(caps, key, {{"SCHEDULE", 3}, {"LANES", 64}, {"MR", rows_of_lane(caps, rows)}, {"NR", 64}});
  const int64_t mr = rows >= 4 ? 4 : rows >= 2 ? 2 : 1;
  // On a CPU, groups so large that starting one costs little, and so many that all cores have some.
  const Bindings row{{"SCHEDULE", loops ? 1 : 0},
                     {"LANES", caps.machine() == Machine::cpu_lanes ? 8 : 32},
                     {"MR", mr},
                     {"NR", loops ? (columns >= 4096 ? 64 : 16) : 1}};
  return tuned(caps, key, row);
}

int64_t matmul_packed_iterations(const Bindings& tunables, int64_t depth) {
  const int64_t stretches = ceil_div(depth, packed_stretch), rows = tunables.at("NR"), mr = tunables.at("MR");
  if (tunables.at("SCHEDULE") == 3) return iterations_of_tiles(tunables, depth);
  if (tunables.at("SCHEDULE") == 2) return stretches * packed_stretch * (4 + mr * tunables.at("MB"));
  if (tunables.at("SCHEDULE") == 1) return rows * (stretches * (mr + 2) + 8 * mr);
  return rows * (ceil_div(stretches, tunables.at("LANES")) * (mr + 1) * packed_stretch + 16 * mr);
}

bool matmul_packed_grad_takes(const Caps& caps, int64_t depth) {
  const Bindings least{{"SCHEDULE", caps.machine() == Machine::simt ? 2 : 0}, {"LANES", 64}, {"MR", 1}};
  return fits(caps, matmul_packed_grad_iterations(least, 1, depth));
}

Bindings pick_matmul_packed_grad(const Caps& caps, GgmlType type, int64_t rows, int64_t columns, int64_t depth) {
  const TuningKey key{"packed_matmul_grad", std::string(block_of(type).name), {rows, columns, depth}};
  // A GPU has tiles for any number of rows: AMD's compiler puts a lane's sums of schedule 0 into memory (navi21).
  if (caps.machine() == Machine::simt)
    return tuned(caps, key, {{"SCHEDULE", 2}, {"LANES", 64}, {"MR", rows_of_lane(caps, rows)}});
  const bool loops = caps.machine() == Machine::cpu_loops;
  // Sums of more rows do not fit the registers of a CPU's vectors.
  const bool lanes = caps.machine() == Machine::cpu_lanes;
  const auto [mr, mb] = rows_of_panel(caps, loops ? rows : std::min<int64_t>(rows, lanes ? 1 : 4));
  // On a CPU, as many groups as keep all cores busy; stretches of one group share lines of memory.
  const int64_t stretches = columns / packed_stretch, bands = ceil_div(rows, mr * mb);
  int64_t ns = 1;
  while (loops && ns < 8 && stretches / (2 * ns) * bands >= 32) ns *= 2;
  Bindings row{{"SCHEDULE", loops ? 1 : 0}, {"LANES", lanes ? 8 : 32}, {"MR", mr}, {"MB", mb}, {"NB", 64}, {"NS", ns}};
  const auto too_long = [&] { return !fits(caps, matmul_packed_grad_iterations(row, rows, depth)); };
  while (row["LANES"] < 64 && too_long()) row["LANES"] *= 2;
  while (row["MR"] > 1 && too_long()) row["MR"] /= 2;
  return tuned(caps, key, row);
}

int64_t matmul_packed_grad_iterations(const Bindings& tunables, int64_t rows, int64_t depth) {
  const int64_t mr = tunables.at("MR");
  if (tunables.at("SCHEDULE") == 2) return iterations_of_tiles(tunables, depth);
  if (tunables.at("SCHEDULE") == 0) {
    const int64_t lanes = tunables.at("LANES");
    return ceil_div(depth, lanes) * (mr + 1) * packed_stretch + mr * packed_stretch * (lanes + 1);
  }
  const int64_t blocks = std::min(ceil_div(rows, mr), tunables.at("MB"));
  return tunables.at("NS") * (depth * (2 + blocks * mr) + ceil_div(depth, tunables.at("NB")) * 2 * mr * blocks +
                              packed_stretch * mr * blocks);
}

Bindings pick_unpack_blocks(const Caps& caps) {
  const bool loops = caps.machine() == Machine::cpu_loops;
  return {{"LANES", loops ? 1 : 64}, {"COUNT", loops ? 64 : 1}};
}

}  // namespace heddle
