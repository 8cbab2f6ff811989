#include "heddle/core/tiles/matmul_cpu_tiles.h"

#include <algorithm>
#include <limits>

#include "heddle/core/base/integers.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/cpu_registers.h"
#include "heddle/core/tiles/matmul_schedules.h"
#include "heddle/core/tiles/shared_links.h"

namespace heddle {
namespace {

using Row = Bindings;

// Measured on two AVX-512 cores through PoCL 3.1 (docs/design.md). 6 rows x 4 vectors keep all arithmetic units busy
// with the fewest streams of the left operand: more rows mean more pages and, where strides are powers of two, lines
// that push each other out of the cache.
const Row cpu_dot = {{"SCHEDULE", matmul_schedules::dot}, {"VW", 16}, {"MR", 4}, {"NR", 4}, {"NB", 4}};
const Row cpu_columns = {{"SCHEDULE", matmul_schedules::columns}, {"VW", 16}, {"MR", 6}, {"NV", 4}, {"MB", 4}};
const Row cpu_packed = {{"SCHEDULE", matmul_schedules::packed},
                        {"VW", 16},
                        {"MR", 6},
                        {"NV", 4},
                        {"MB", 32},
                        {"NB", 1},
                        {"KC", 1024},
                        {"PACK_A", 0}};
// Bytes multiply as floats, from copies of both operands: sums of 256 products of any bytes are exact.
const Row cpu_bytes = {{"SCHEDULE", matmul_schedules::packed},
                       {"VW", 16},
                       {"MR", 6},
                       {"NV", 4},
                       {"MB", 32},
                       {"NB", 4},
                       {"KC", 256},
                       {"PACK_A", 1}};
const Row cpu_stream = {{"SCHEDULE", matmul_schedules::stream}, {"VW", 16}, {"MR", 4}, {"WIDE", 1024}, {"KU", 4}};
// lavapipe runs 8 lanes in one AVX register and has no cheap shared memory: a lane holds 16 rows x 16 columns (19
// GFLOP/s at 512 cubed, 14 with 8 columns), or 8 columns where there are few groups.
const Row lavapipe_columns = {{"SCHEDULE", matmul_schedules::columns}, {"VW", 4}, {"MR", 16}, {"NV", 2}, {"LANES", 8}};

int64_t vector_width(int64_t length) { return length >= 16 ? 16 : length >= 8 ? 8 : 4; }

// The smallest MR that holds m rows; more than 16 do not stay in registers.
int64_t rows_for(int64_t m) { return choice_at_least("matmul", "MR", std::min<int64_t>(m, 16)); }

// The smallest MB that covers m rows by blocks of `rows`.
int64_t blocks_for(int64_t m, int64_t rows) { return choice_at_least("matmul", "MB", ceil_div(m, rows)); }

// 12 registers of 8 floats for sums: 6 rows of two vectors, or 4 where that computes clearly less beyond the last row;
// of few rows more vectors.
void set_narrow_registers(const MatmulProblem& p, Row& row) {
  row["VW"] = std::min<int64_t>(row["VW"], 8);
  const int64_t vectors = ceil_div(p.N, row["VW"]);
  row["NV"] = std::min<int64_t>(2, vectors);
  if (p.M < 6) {
    row["MR"] = rows_for(p.M);
    row["NV"] = choice_at_most("matmul", "NV", std::min(12 / row["MR"], vectors));
    return;
  }
  const auto products = [&](int64_t rows, double cost) { return cost * static_cast<double>(round_up(p.M, rows)); };
  row["MR"] = products(4, 1.08) < products(6, 1) ? 4 : 6;
}

// Sums of dot products: MR rows x NR columns.
void set_dot_registers(const Caps& caps, const MatmulProblem& p, Row& row) {
  row["VW"] = std::min(vector_width(p.K), register_width(caps));
  if (!has_wide_registers(caps) && row["MR"] * row["NR"] > 12)
    row["NR"] = choice_at_most("matmul", "NR", 12 / row["MR"]);
}

// Sums in registers: 6 rows x 4 vectors, or 8 rows x fewer vectors where that computes clearly less beyond the ends of
// rows and columns: 128x400x784 took 983 us with 132 rows of 448 columns, and takes 867 with 128 of 416. Rows of the
// left operand that lie along m gained nothing.
void set_registers(const MatmulProblem& p, Row& row) {
  struct Registers {
    int64_t rows, vectors;
    double cost;  // of a product, beside 6 x 4
  };
  double least = std::numeric_limits<double>::infinity();
  for (const Registers& r : {Registers{6, 4, 1}, Registers{8, 3, 1.03}, Registers{8, 2, 1.05}}) {
    const double products =
        r.cost * static_cast<double>(round_up(p.M, r.rows)) * static_cast<double>(round_up(p.N, r.vectors * 16));
    if (products >= least) continue;
    least = products;
    row["MR"] = r.rows;
    row["NV"] = r.vectors;
  }
}

// Panels that share a copy of the left operand.
int64_t panels_of_copies(const Caps& caps, const MatmulProblem& p, const Row& row) {
  const int64_t wide = p.N >= 256 ? 4 : p.N >= 128 ? 2 : 1;
  if (has_wide_registers(caps)) return wide;
  return choice_at_most("matmul", "NB", wide * 64 / (row.at("NV") * row.at("VW")));
}

// Up to this size the right operand stays in the second-level cache as it lies.
constexpr int64_t in_place_floats = 128 * 1024;

}  // namespace

Bindings pick_matmul_on_cpu(const Caps& caps, const MatmulProblem& p) {
  const auto threads = static_cast<int64_t>(caps.compute_units);
  // Little is done with each element of the right operand: what counts is to read it once, as it lies.
  if (p.a_k1 && p.b_k1 && p.K >= 8 && p.M < 24) {
    Row row = cpu_dot;
    row["MR"] = rows_for(std::min<int64_t>(p.M, 4));
    set_dot_registers(caps, p, row);
    row["NB"] = p.N >= 16 ? 4 : p.N > 4 ? 2 : 1;
    // What takes less time than another thread needs to wake up is few groups' work.
    if (p.batch == 1 && !SharedLinksScope::active() && is_small_work(p.M * p.N * p.K, p.N * p.K, threads))
      row["NB"] = choice_at_least("matmul", "NB", std::max<int64_t>(1, ceil_div(p.N, row["NR"])));
    return row;
  }
  // One column: the left operand is read once, a few rows at a time.
  if (p.a_k1 && p.b_k1 && p.K >= 64 && p.N <= 3) {
    Row row = cpu_dot;
    row["VW"] = vector_width(p.K);
    row["MR"] = 2;
    row["NR"] = std::max<int64_t>(p.N, 1);
    row["NB"] = 1;
    return row;
  }
  // Few columns that lie along k: picked one by one they would fill no vector (512x10x128: 93 us, by dot products 25).
  if (p.a_k1 && p.b_k1 && p.K >= 64 && p.N < 16) {
    Row row = cpu_dot;
    set_dot_registers(caps, p, row);
    row["NB"] = choice_at_least("matmul", "NB", ceil_div(p.N, row["NR"]));
    return row;
  }
  // Few rows: the right operand is read once, in long stretches.
  if (p.b_n1 && p.N >= 64 && p.K >= 16 && p.M <= 8) {
    Row row = cpu_stream;
    row["MR"] = rows_for(p.M);
    row["WIDE"] = p.N >= 2048 ? 1024 : p.N >= 1024 ? 512 : p.N >= 256 ? 256 : 64;
    return row;
  }
  // The left operand is read a scalar at a time: what is not a plain float is widened once, as is one without a stride
  // of 1, or whose columns (of a weight gradient: rows of activations) are long and many: each is another page, and
  // where strides are powers of two their lines push each other out.
  const bool far_columns =
      !p.a_k1 && (has_wide_registers(caps) ? p.M >= 1024 && p.K >= 1024 : p.M >= 128 && p.K >= 128);
  const bool pack_a = p.N >= 64 && (p.a != DType::f32 || p.prologue_a || !(p.a_k1 || p.a_m1) || far_columns);
  // Some rows and a large right operand: panels of short depth and many columns, so that memory is read in long
  // stretches.
  if (!pack_a && p.M > 8 && p.M < 96 && p.N >= 512 && p.K * p.N > 4 * in_place_floats) {
    Row row = cpu_packed;
    row["KC"] = 64;
    if (!has_wide_registers(caps)) set_narrow_registers(p, row);
    row["NB"] = (p.N >= 2048 ? 512 : p.N >= 1024 ? 256 : 128) / (row["NV"] * row["VW"]);
    row["MB"] = blocks_for(p.M, row["MR"]);
    return row;
  }
  // Each k of columns is another line, and often of a few sets of the first-level cache: of short panels it holds the
  // lines of the left operand too (tn:512x128x768 561 -> 423 us, 1024x512x800 5.5 -> 3.5 ms).
  const bool short_panels = !pack_a && !p.a_k1 && p.M >= 96 && p.N >= 64 && p.K >= 512;
  const bool pack_b = short_panels || (!has_wide_registers(caps) && p.M >= 24 && p.K >= 32) ||
                      (p.M >= 96 && p.K * p.N > in_place_floats) ||
                      (p.M >= 16 && p.N >= 16 && (!p.b_n1 || p.prologue_b));
  Row row = pack_a || pack_b ? cpu_packed : cpu_columns;
  row["VW"] = vector_width(p.N);
  if (p.N <= 32) row["NV"] = p.N <= 16 ? 1 : 2;
  if (!has_wide_registers(caps)) {
    set_narrow_registers(p, row);
  } else if (p.M < 6) {
    row["MR"] = rows_for(p.M);
  } else if (p.M < 48 && p.M % 8 == 0) {
    row["MR"] = 8;  // fewer rows are computed for nothing
    row["NV"] = std::min<int64_t>(row["NV"], 2);
  } else if (p.a_k1 && p.N >= 64 && p.K >= 128) {
    set_registers(p, row);
  }
  if (pack_a) {
    row["PACK_A"] = 1;
    row["KC"] = 256;
    row["NB"] = panels_of_copies(caps, p, row);
  }
  if (short_panels) row["KC"] = 128;
  // A panel is worth copying for as many rows as there are, while enough groups are left for the cores to share evenly.
  const int64_t panels = std::max<int64_t>(1, p.batch * ceil_div(p.N, row["NV"] * row["VW"]));
  const int64_t wanted = pack_a   ? (p.M + 191) / 192
                         : pack_b ? std::max<int64_t>((p.M + 1151) / 1152, 8 / panels)
                                  : std::max<int64_t>(48 / panels, 1);
  row["MB"] = blocks_for(p.M, row["MR"] * std::max<int64_t>(wanted, 1));
  if (p.K < 8 && row.at("SCHEDULE") == matmul_schedules::columns) {  // what is written counts: row by row
    row["ORDER"] = 1;
    row["MB"] = 1;
  }
  return row;
}

Bindings pick_byte_matmul_on_cpu(const Caps& caps, const MatmulProblem& p) {
  Row row = cpu_bytes;
  row["INT8"] = p.a == DType::i8 && p.b == DType::i8 ? 1 : 2;
  if (p.N <= 32) row["NV"] = p.N <= 16 ? 1 : 2;
  if (p.M < 6) row["MR"] = rows_for(p.M);
  if (!has_wide_registers(caps)) set_narrow_registers(p, row);
  row["NB"] = panels_of_copies(caps, p, row);
  row["MB"] = blocks_for(p.M, row["MR"] * std::max<int64_t>((p.M + 191) / 192, 1));
  return row;
}

Bindings pick_matmul_by_lanes_on_cpu(const Caps& caps, const MatmulProblem& p) {
  Row row = lavapipe_columns;
  row["MR"] = rows_for(p.M);
  // Four lanes fill a register of 128 bits, of which there are 16: 4 rows x 4 columns. SwiftShader compiles 16 x 16 for
  // more than ten minutes, in 9 GB.
  if (caps.subgroup_size <= 4) {
    row["MR"] = rows_for(std::min<int64_t>(p.M, 4));
    row["NV"] = 1;
  } else if (p.N < 8) {
    row["NV"] = 1;
  } else if (p.N >= 128 && p.batch * ((p.M + 15) / 16) * ((p.N + 127) / 128) >= 8) {
    row["NV"] = 4;
  }
  return row;
}

}  // namespace heddle
