#include "heddle/core/tiles/attention_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/contract/vendors.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/cpu_registers.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

// Schedules of shaders/attention.hk and attention_backward.hk.
constexpr int64_t rows = 0, tiles = 1, vectors = 2, single = 3;

using Row = Bindings;

// Measured on two AVX-512 cores through PoCL 3.1, causal B4 H8 T1024 D64 (docs/design.md).
const Row cpu_vectors = {{"SCHEDULE", vectors}, {"VW", 16}, {"NV", 2}, {"MR", 8}, {"DU", 1}, {"KB", 64}, {"LANES", 1}};
const Row cpu_vectors_gradient = {{"SCHEDULE", vectors}, {"VW", 16}, {"NV", 2}, {"MR", 8}, {"DU", 1}, {"KB", 32},
                                  {"LANES", 1}};
const Row cpu_single = {{"SCHEDULE", single}, {"VW", 16}, {"KB", 64}, {"LANES", 1}};
// lavapipe: 8 lanes in one AVX register, shared arrays slow.
const Row lavapipe_vectors = {{"SCHEDULE", vectors}, {"VW", 4}, {"NV", 2}, {"MR", 8}, {"DU", 4}, {"KB", 32},
                              {"LANES", 8}};
const Row lavapipe_rows = {{"SCHEDULE", vectors}, {"VW", 4}, {"NV", 1}, {"MR", 4}, {"DU", 4}, {"KB", 32}, {"LANES", 1}};
const Row lavapipe_single = {{"SCHEDULE", single}, {"VW", 4}, {"KB", 32}, {"LANES", 8}};
const Row any_rows = {{"SCHEDULE", rows}, {"LANES", 64}};

// Of registers of 8 floats, sums take 12, for 24 rows at a time (causal B4 H8 T1024 D64 on AVX2: 175 ms, with 8 for 16
// rows 202), or 8 where rows are so few that much would be computed beyond the last one.
void set_registers(const Caps& caps, int64_t rows, Row& row) {
  if (has_wide_registers(caps)) return;
  row["VW"] = std::min<int64_t>(row["VW"], 8);
  row["MR"] = 4;
  if (row["NV"] == 2 && 20 * round_up(rows, 24) <= 23 * round_up(rows, 16)) row["NV"] = 3;
}

int64_t size_for(int64_t size) { return choice_at_least("attention", "SIZE", size); }

void add_features(Row& row, const AttentionSizes& s) {
  row["SIZE"] = size_for(s.size);
  row["CAUSAL"] = s.causal;
  row["BIAS"] = s.bias;
  row["MASK"] = s.mask;
  row["LENGTHS"] = s.lengths;
  row["DROPOUT"] = s.dropout;
}

// Columns of a tile that a lane takes: four where the group then has at least a subgroup of lanes. A thread of Intel's
// has 128 registers of 32 bytes for all of its lanes: two, since of four the compiler spills (docs/certificates.md).
int64_t columns_of_lane(const Caps& caps, int64_t column_count) {
  return column_count >= 32 && caps.vendor_id != vendors::intel ? 4 : 2;
}

// Narrow tiles are those of long rows, which fill shared memory: one group is all that a compute unit then holds, and
// with two rows a lane it has twice the lanes and half the sums in registers.
Row tile_row(const Caps& caps, int64_t row_count, int64_t column_count) {
  return {{"SCHEDULE", tiles},
          {"QB", row_count},
          {"KB", column_count},
          {"RM", column_count >= 32 ? 4 : 2},
          {"RN", columns_of_lane(caps, column_count)}};
}

// The largest tiles whose shared arrays fit, or a row per lane.
Row pick_gpu(const Caps& caps, const AttentionSizes& s) {
  const int64_t size = size_for(s.size);
  for (const auto& [q, k] : {std::pair<int64_t, int64_t>{64, 32}, {32, 32}, {16, 16}}) {
    const int64_t row_lanes = k / columns_of_lane(caps, k);
    const int64_t shared =
        4 * (size * (q + 4) + std::max(size * (k + 4), k * (size + 4)) + k * (q + 4) + q * row_lanes);
    if (q > 16 && s.queries <= q / 2) continue;
    if (shared <= static_cast<int64_t>(caps.shared_bytes) && size % row_lanes == 0) return tile_row(caps, q, k);
  }
  return any_rows;
}

// Four rows a lane are too many for Intel's registers where rows are long: the gradient of queries was spilled.
Row pick_gpu_gradient(const Caps& caps, const AttentionSizes& s, const AttentionGradient& gradient) {
  const int64_t size = size_for(s.size);
  const bool two_rows = caps.vendor_id == vendors::intel && gradient.which == 0 && size >= 64;
  for (const auto& [q, k] : {std::pair<int64_t, int64_t>{32, 32}, {32, 16}, {16, 16}}) {
    const int64_t shared = 4 * (2 * size * (q + 4) + 2 * size * (k + 4) + 2 * k * (q + 4));
    if (shared > static_cast<int64_t>(caps.shared_bytes)) continue;
    Row row = tile_row(caps, q, k);
    if (two_rows) row["RM"] = 2;
    return row;
  }
  return any_rows;
}

// How many queries a group of pick_attention()'s schedule takes.
int64_t rows_of_group(const Row& row) {
  const auto value = [&](const char* name) { return row.find(name)->second; };
  switch (value("SCHEDULE")) {
    case rows:
      return value("LANES");
    case tiles:
      return value("QB");
    case vectors:
      return value("NV") * value("VW") * value("LANES");
    default:
      return 1;
  }
}

Row default_attention(const Caps& caps, const AttentionSizes& s) {
  Row row;
  if (caps.machine() == Machine::simt) {
    row = pick_gpu(caps, s);
  } else if (caps.machine() == Machine::cpu_loops) {
    row = s.queries < 8 ? cpu_single : cpu_vectors;
    if (s.queries < 8 && s.size < 16) row["VW"] = s.size < 8 ? 4 : 8;
    if (s.queries >= 8 && s.queries <= 16) row["NV"] = 1;
    if (s.queries >= 8) set_registers(caps, s.queries, row);
  } else {
    row = s.queries < 8 ? lavapipe_single : lavapipe_vectors;
  }
  add_features(row, s);
  return row;
}

// What changes the code is the variant, the sizes are those of the problem.
TuningKey tuning_key(const char* body, const AttentionSizes& s, const std::string& what) {
  std::string variant = fmt::format("{}{} d{}", what, name_of(s.dtype), size_for(s.size));
  const std::pair<bool, const char*> features[] = {
      {s.causal, " causal"}, {s.bias, " bias"}, {s.mask, " mask"}, {s.lengths, " lengths"}, {s.dropout, " dropout"}};
  for (const auto& [on, name] : features) variant += on ? name : "";
  return {body, std::move(variant), {s.batch * s.heads, s.group, s.queries, s.keys}};
}

}  // namespace

Bindings pick_attention(const Caps& caps, const AttentionSizes& s) {
  return tuned(caps, tuning_key("attention", s, ""), default_attention(caps, s));
}

int64_t attention_chunk(int64_t keys, int64_t splits) { return round_up(ceil_div(keys, splits), 4); }

int64_t pick_attention_splits(const Caps& caps, const AttentionSizes& s) {
  const Row row = default_attention(caps, s);
  const int64_t units = std::max<int64_t>(1, caps.compute_units), rows = rows_of_group(row);
  const int64_t lanes = row.at("SCHEDULE") == single ? row.at("LANES") : 1;
  const int64_t groups = s.batch * s.heads * ceil_div(s.queries, rows), wanted = 4 * units * lanes;
  constexpr int64_t least_keys = 256, most = 256;
  int64_t splits = groups >= wanted ? 1 : ceil_div(wanted, groups);
  splits = std::clamp<int64_t>(std::min(std::max(splits, lanes), s.keys / least_keys), 1, most);
  const auto iterations = [&] {
    return static_cast<uint64_t>(attention_iterations(row, attention_chunk(s.keys, splits), s.size));
  };
  while (splits < most && iterations() > caps.max_loop_iterations) ++splits;
  // Chunks are rounded up: no range may be empty.
  const int64_t chunk = attention_chunk(s.keys, splits);
  return ceil_div(s.keys, chunk);
}

int64_t least_attention_splits(const Caps& caps, const AttentionSizes& s, int64_t keys) {
  const Row row = default_attention(caps, s);
  constexpr int64_t most = 256;
  int64_t splits = 1;
  while (splits<most&& static_cast<uint64_t>(attention_iterations(row, attention_chunk(keys, splits), s.size))> caps
             .max_loop_iterations)
    ++splits;
  const int64_t chunk = attention_chunk(keys, splits);
  return ceil_div(keys, chunk);
}

bool stack_attention_heads(const Caps& caps, const AttentionSizes& s) {
  if (s.queries != 1 || s.group < 2 || s.bias || s.dropout) return false;
  return caps.machine() == Machine::simt || (caps.machine() == Machine::cpu_loops && s.group >= 4);
}

bool attention_pays(const Caps& caps, const AttentionSizes& s) {
  return !(caps.machine() == Machine::cpu_lanes && s.queries < 8 && s.group > 1);
}

// PoCL, causal B4 H8 T1024 D64: 44 ms against 27 and 35.
bool attention_gradients_at_once(const Caps& caps, const AttentionSizes& s) {
  return caps.machine() == Machine::cpu_loops && s.keys > 16 &&
         s.batch * s.heads / s.group >= 4 * static_cast<int64_t>(std::max<uint32_t>(1, caps.compute_units));
}

Bindings pick_attention_gradient(const Caps& caps, const AttentionSizes& s, const AttentionGradient& gradient) {
  Row row;
  const int64_t row_count = gradient.which == 0 ? s.queries : s.keys;
  if (caps.machine() == Machine::simt) {
    row = pick_gpu_gradient(caps, s, gradient);
  } else if (caps.machine() == Machine::cpu_loops) {
    row = cpu_vectors_gradient;
    if (row_count <= 16) row["NV"] = 1;
    set_registers(caps, row_count, row);
  } else {
    row = row_count < 8 ? lavapipe_rows : lavapipe_vectors;
  }
  add_features(row, s);
  row["WHICH"] = gradient.which;
  row["REDUCE_B"] = gradient.reduce_batch;
  row["REDUCE_H"] = gradient.reduce_heads;
  row["REDUCE_M"] = gradient.reduce_queries;
  constexpr const char* what[] = {"queries ", "keys ", "bias ", "all "};
  std::string sums;
  if (gradient.which == 2)
    sums = fmt::format("{}{}{} ", gradient.reduce_batch ? "b" : "", gradient.reduce_heads ? "h" : "",
                       gradient.reduce_queries ? "m" : "");
  return tuned(caps, tuning_key("attention_backward", s, what[gradient.which] + sums), row);
}

int64_t attention_iterations(const Bindings& tunables, int64_t columns, int64_t size) {
  const auto value = [&](const char* name) { return tunables.contains(name) ? tunables.find(name)->second : 1; };
  const int64_t schedule = value("SCHEDULE");
  if (schedule == rows) return columns * (3 * size + 1) + 2 * size;
  const int64_t block = value("KB"), blocks = ceil_div(columns, block);
  if (schedule == tiles) {
    const int64_t lanes = (value("QB") / value("RM")) * (block / value("RN"));
    return blocks * (2 * block * size / lanes + size + block + block) + value("QB") * size / lanes;
  }
  if (schedule == single) return columns * (2 + 2 * size / value("VW") + 2) + 2 * size;
  // Products, sums over the block, and the passes of the softmax.
  const int64_t steps = size / value("DU") + value("DU"), products = block / value("MR") * (steps + 1);
  const int64_t sums = (size / value("MR") + value("MR")) * (block / value("DU") + value("DU"));
  return blocks * (2 * products + 2 * sums + 4 * block) + 4 * size * value("NV") * value("VW");
}

}  // namespace heddle
