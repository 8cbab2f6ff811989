#include "heddle/core/tiles/matmul_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/integers.h"
#include "heddle/core/contract/vendors.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/matmul_core_units.h"
#include "heddle/core/tiles/matmul_schedules.h"
#include "heddle/core/tiles/shared_links.h"
#include "heddle/core/tiles/tuning.h"

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
const Row any_lanes = {{"SCHEDULE", matmul_schedules::lanes}, {"LX", 16}, {"LY", 4}};
// lavapipe runs 8 lanes in one AVX register and has no cheap shared memory: a lane holds 16 rows x 16 columns (19
// GFLOP/s at 512 cubed, 14 with 8 columns), or 8 columns where there are few groups.
const Row lavapipe_columns = {{"SCHEDULE", matmul_schedules::columns}, {"VW", 4}, {"MR", 16}, {"NV", 2}, {"LANES", 8}};

int64_t vector_width(int64_t length) { return length >= 16 ? 16 : length >= 8 ? 8 : 4; }

// The smallest MR that holds m rows; more than 16 do not stay in registers.
int64_t rows_for(int64_t m) { return choice_at_least("matmul", "MR", std::min<int64_t>(m, 16)); }

// The smallest MB that covers m rows by blocks of `rows`.
int64_t blocks_for(int64_t m, int64_t rows) { return choice_at_least("matmul", "MB", ceil_div(m, rows)); }

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

// Up to this size the right operand stays in the second-level cache as it lies.
constexpr int64_t in_place_floats = 128 * 1024;

Row pick_cpu(const MatmulProblem& p, int64_t threads) {
  // Little is done with each element of the right operand: what counts is to read it once, as it lies.
  if (p.a_k1 && p.b_k1 && p.K >= 8 && p.M < 24) {
    Row row = cpu_dot;
    row["VW"] = vector_width(p.K);
    row["MR"] = rows_for(std::min<int64_t>(p.M, 4));
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
  const bool far_columns = !p.a_k1 && p.M >= 1024 && p.K >= 1024;
  const bool pack_a = p.N >= 64 && (p.a != DType::f32 || p.prologue_a || !(p.a_k1 || p.a_m1) || far_columns);
  // Some rows and a large right operand: panels of short depth and many columns, so that memory is read in long
  // stretches.
  if (!pack_a && p.M > 8 && p.M < 96 && p.N >= 512 && p.K * p.N > 4 * in_place_floats) {
    Row row = cpu_packed;
    row["KC"] = 64;
    row["NB"] = p.N >= 2048 ? 8 : p.N >= 1024 ? 4 : 2;
    row["MB"] = blocks_for(p.M, row["MR"]);
    return row;
  }
  // Each k of columns is another line, and often of a few sets of the first-level cache: of short panels it holds the
  // lines of the left operand too (tn:512x128x768 561 -> 423 us, 1024x512x800 5.5 -> 3.5 ms).
  const bool short_panels = !pack_a && !p.a_k1 && p.M >= 96 && p.N >= 64 && p.K >= 512;
  const bool pack_b = short_panels || (p.M >= 96 && p.K * p.N > in_place_floats) ||
                      (p.M >= 16 && p.N >= 16 && (!p.b_n1 || p.prologue_b));
  Row row = pack_a || pack_b ? cpu_packed : cpu_columns;
  row["VW"] = vector_width(p.N);
  if (p.N <= 32) row["NV"] = p.N <= 16 ? 1 : 2;
  if (p.M < 6) {
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
    row["NB"] = p.N >= 256 ? 4 : p.N >= 128 ? 2 : 1;
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

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }
bool signed_bytes(const MatmulProblem& p) {
  return p.a == DType::i8 && p.b == DType::i8 && !p.prologue_a && !p.prologue_b;
}

// A prologue may make floats of what lies in memory as something else.
bool multiplies_f32(DType memory, DType value, bool prologue) { return arith(prologue ? value : memory) == DType::f32; }

Row pick_cpu_bytes(const MatmulProblem& p) {
  Row row = cpu_bytes;
  row["INT8"] = p.a == DType::i8 && p.b == DType::i8 ? 1 : 2;
  if (p.N <= 32) row["NV"] = p.N <= 16 ? 1 : 2;
  row["NB"] = p.N >= 256 ? 4 : p.N >= 128 ? 2 : 1;
  if (p.M < 6) row["MR"] = rows_for(p.M);
  row["MB"] = blocks_for(p.M, row["MR"] * std::max<int64_t>((p.M + 191) / 192, 1));
  return row;
}

Row pick_lanes_of_cpu(const Caps& caps, const MatmulProblem& p) {
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

// ---- GPUs. The rows are what the hardware's documentation and the practice of its libraries suggest, and the tuner
// starts from them. NVIDIA's were measured on an H200, where the tuner found none that is better (docs/benchmarks.md);
// the others were not measured on their devices.

// From the largest tiles to the smallest; the first one that fits the device and gives every compute unit a group is
// taken.
struct ClassRows {
  uint32_t vendor;  // 0: any
  DeviceClass device_class;
  std::vector<Row> rows;
};

Row tile_row(int64_t tm, int64_t tn, int64_t tk, int64_t rm, int64_t rn, int64_t run, int64_t prefetch, int64_t band) {
  return {{"SCHEDULE", matmul_schedules::tiles},
          {"TM", tm},
          {"TN", tn},
          {"TK", tk},
          {"RM", rm},
          {"RN", rn},
          {"RUN", run},
          {"PREFETCH", prefetch},
          {"BAND", band}};
}

// Two groups a compute unit: 44 TFLOP/s at 4096 cubed, where one, which the compiler leaves registers for on its own,
// reaches 32 (docs/benchmarks.md).
Row nvidia_large() {
  Row row = tile_row(128, 128, 16, 8, 8, 4, 1, 8);
  row["RESIDENT"] = 2;
  return row;
}

const ClassRows& rows_of(const Caps& caps) {
  const auto discrete = DeviceClass::discrete_gpu, integrated = DeviceClass::integrated_gpu;
  static const ClassRows table[] = {
      {vendors::nvidia,
       discrete,
       {nvidia_large(), tile_row(64, 64, 16, 4, 4, 4, 1, 8), tile_row(32, 32, 32, 2, 4, 2, 1, 0)}},
      {vendors::amd,
       discrete,
       {tile_row(128, 128, 16, 8, 8, 4, 1, 8), tile_row(128, 64, 16, 8, 4, 4, 1, 8),
        tile_row(64, 64, 16, 4, 4, 4, 1, 0), tile_row(32, 32, 32, 2, 4, 2, 0, 0)}},
      {vendors::intel,
       discrete,
       {tile_row(128, 64, 16, 8, 4, 4, 1, 4), tile_row(64, 64, 16, 4, 4, 4, 0, 0),
        tile_row(16, 32, 16, 2, 4, 2, 0, 0)}},
      {0,
       integrated,
       {tile_row(64, 64, 16, 8, 4, 4, 0, 4), tile_row(32, 64, 16, 4, 4, 4, 0, 0), tile_row(16, 32, 16, 2, 4, 2, 0, 0)}},
      {0,
       discrete,
       {tile_row(64, 64, 16, 4, 4, 4, 1, 4), tile_row(32, 64, 16, 4, 4, 4, 0, 0),
        tile_row(16, 32, 16, 2, 4, 2, 0, 0)}}};
  for (const ClassRows& rows : table) {
    if ((rows.vendor == 0 || rows.vendor == caps.vendor_id) && rows.device_class == caps.device_class) return rows;
  }
  return table[std::size(table) - 1];
}

// `depth` is that of one fragment, which is 32 bytes long.
Row unit_row(int64_t tile, int64_t part, int64_t depth, int64_t stages) {
  return {{"SCHEDULE", matmul_schedules::units},
          {"TM", tile},
          {"TN", tile},
          {"TK", 2 * depth},
          {"WM", part},
          {"WN", part},
          {"STAGES", stages},
          {"BAND", 8}};
}

// 128 lanes multiply f16 and bf16 together, both operands from shared memory (NVIDIA's 9.0).
bool has_warpgroups(const Caps& caps) { return caps.matrix_units.find("64xNx16") != std::string::npos; }

Row warpgroup_row(int64_t tm, int64_t tn, int64_t columns, int64_t stages) {
  return {{"SCHEDULE", matmul_schedules::warpgroups},
          {"TM", tm},
          {"TN", tn},
          {"TK", 64},
          {"WGM", 64},
          {"WGN", columns},
          {"STAGES", stages},
          {"BAND", 8}};
}

// What the fact ELEMENT says; -1: matrix units cannot multiply these types here.
int64_t element_of(const Caps& caps, const MatmulProblem& p) {
  const auto has = [&](std::string_view shape) { return caps.matrix_units.find(shape) != std::string::npos; };
  if (matrix_api(caps) == MatrixApi::none || p.a_value != p.b_value) return -1;
  if (p.a_value == DType::f16 && has("16x16x16 f16 f32")) return 0;
  if (p.a_value == DType::bf16 && has("16x16x16 bf16 f32")) return 1;
  if (p.a_value == DType::f32 && p.tf32 && has("16x16x8 tf32 f32")) return 2;
  if (p.a_value == DType::i8 && signed_bytes(p) && has("16x16x32 i8 i32")) return 3;
  return -1;
}

int64_t groups(const MatmulProblem& p, const Row& row) {
  const int64_t tm = row.at("TM"), tn = row.at("TN");
  return p.batch * ceil_div(p.M, tm) * ceil_div(p.N, tn);
}

// Compute units that a group fills. Intel counts its smallest, which hold eight threads of eight lanes at least.
int64_t units_of_group(const Caps& caps, const Row& row) {
  if (caps.vendor_id != vendors::intel || row.at("SCHEDULE") != matmul_schedules::tiles) return 1;
  const int64_t lanes = row.at("TM") / row.at("RM") * (row.at("TN") / row.at("RN"));
  return std::max<int64_t>(1, lanes / 64);
}

// What the problem and the device say: the tuner may then take any schedule that the file accepts.
void add_facts(const Caps& caps, const MatmulProblem& p, Row& row) {
  row["A_M1"] = p.a_m1;
  row["A_K1"] = p.a_k1;
  row["B_K1"] = p.b_k1;
  row["B_N1"] = p.b_n1;
  if (caps.machine() != Machine::simt) {  // the defaults of the file; each fact more is a kernel more
    if (!caps.texel_loads) return;
    row["A_WIDE"] = p.a_wide == 4 ? 4 : 0;
    row["B_WIDE"] = p.b_wide == 4 ? 4 : 0;
    return;
  }
  const int64_t element = element_of(caps, p);
  row["A_WIDE"] = p.a_wide;
  row["B_WIDE"] = p.b_wide;
  row["INT8"] = signed_bytes(p);
  row["ELEMENT"] = element;
  row["UNIT_LANES"] = element < 0 ? 1 : caps.subgroup_size;
  row["WARPGROUPS"] = has_warpgroups(caps) && element >= 0 && element <= 1;
}

// Operands that arithmetic in f32 covers, or i8 x i8 without prologues. Fits Caps::shared_bytes and
// Caps::max_group_lanes.
Row pick_gpu(const Caps& caps, const MatmulProblem& p) {
  const KernelFile& file = KernelFile::builtin("matmul");
  const ClassRows& simple = rows_of(caps);
  std::vector<Row> candidates;
  const int64_t element = element_of(caps, p);
  // Copies that run beside the multiplication pay for tiles in flight; elsewhere one tile leaves room for more groups.
  const int64_t stages = matrix_api(caps) == MatrixApi::cuda_mma ? 3 : 1;
  const int64_t depth = element == 3 ? 32 : element == 2 ? 8 : 16;
  if (element >= 0 && p.M >= 16 && p.N >= 16 && p.K >= depth) {
    // Small tiles have room for one more; but of tf32 the assembler then spills (NVRTC 13.0, sm_90).
    const int64_t more = stages > 1 && element != 2 ? stages + 1 : stages;
    if (has_warpgroups(caps) && element <= 1 && p.M > 64 && p.N > 64)
      candidates = {warpgroup_row(128, 256, 256, 4), warpgroup_row(128, 128, 128, 3)};
    candidates.insert(candidates.end(),
                      {unit_row(128, 64, depth, stages), unit_row(64, 32, depth, more), unit_row(32, 16, depth, more)});
  }
  candidates.insert(candidates.end(), simple.rows.begin(), simple.rows.end());
  for (Row& row : candidates) {
    const bool last = row.at("TM") <= 32;
    if (!last && groups(p, row) * units_of_group(caps, row) < static_cast<int64_t>(caps.compute_units)) continue;
    Row complete = row;
    add_facts(caps, p, complete);
    if (!file.refusal(complete).empty()) continue;
    KernelFile::Options options;
    options.tunables = complete;
    const KernelSource source = file.instantiate(options);
    if (source.group[0] <= caps.max_group_lanes && shared_bytes(source) <= caps.shared_bytes) return row;
  }
  return any_lanes;
}

// ---- all machines

// How an operand lies: n row-major, t transposed, v a vector (both strides may count as 1), s any strides.
const char* layout(bool rows1, bool columns1) { return rows1 && columns1 ? "v" : columns1 ? "n" : rows1 ? "t" : "s"; }

TuningKey tuning_key(const MatmulProblem& p) {
  const std::string variant =
      fmt::format("{}{} {} {}{}{}{}", layout(p.a_m1, p.a_k1), layout(p.b_k1, p.b_n1), name_of(p.a), name_of(p.b),
                  p.prologue_a ? " pa" : "", p.prologue_b ? " pb" : "", p.tf32 ? " tf32" : "");
  return {"matmul", variant, {p.batch, p.M, p.N, p.K}};
}

constexpr int64_t shortest_part = 256;  // along k

// Tiles that fill their last wave over the compute units badly: 144 tiles of 3072x768 take two waves of 132 units, the
// second for twelve. Parts along k even that out: eight are 1.60 times as fast with K = 8192 (docs/benchmarks.md). A
// compute unit holds one group of the large tiles.
int64_t wave_parts(const Caps& caps, const MatmulProblem& p) {
  const int64_t units = std::max<int64_t>(1, caps.compute_units), tiles = groups(p, rows_of(caps).rows.front());
  if (caps.vendor_id != vendors::nvidia || caps.device_class != DeviceClass::discrete_gpu) return 1;
  if (element_of(caps, p) >= 0 || tiles < units || !multiplies_f32(p.a, p.a_value, p.prologue_a)) return 1;
  constexpr int64_t long_part = 1024;
  int64_t best = 1;
  for (const int64_t parts : {2, 4}) {
    if (p.K / parts < long_part || 2 * parts * p.M * p.N > (p.M + p.N) * p.K) break;
    // Waves of parts groups each; a fifth less, or the partial products are not worth their bytes.
    const auto cost = [&](int64_t n) {
      return static_cast<double>(ceil_div(tiles * n, units)) / static_cast<double>(n);
    };
    if (cost(parts) < 0.8 * cost(1) && cost(parts) < cost(best)) best = parts;
  }
  return best;
}

// Few results keep few groups busy; the groups of the smallest tiles are counted.
int64_t gpu_parts(const Caps& caps, const MatmulProblem& p) {
  const int64_t have = p.batch * ceil_div(p.M, 32) * ceil_div(p.N, 32),
                wanted = 2 * std::max<int64_t>(1, caps.compute_units);
  if (2 * have > wanted) return wave_parts(caps, p);
  if (2 * p.batch * p.M * p.N * p.K < 1000000) return 1;
  int64_t parts = std::min({ceil_div(wanted, have), p.K / shortest_part, int64_t{256}});
  // Partial products are written and read once more: they must be few beside the operands.
  while (parts > 1 && 2 * parts * p.M * p.N > (p.M + p.N) * p.K) parts /= 2;
  return parts;
}

// Measured through PoCL (docs/benchmarks.md): two cores and short parts, whose panels stay in the caches: 64x64x8192
// (TN) 740 -> 302 us. Below that work the second launch costs more, and lavapipe gains nothing (its one gain is that
// long products run at all).
int64_t cpu_parts(const Caps& caps, const MatmulProblem& p) {
  if (caps.machine() != Machine::cpu_loops) return 1;
  const int64_t results = p.batch * p.M * p.N;
  if (results <= 4) return p.K >= 1 << 20 ? 2 * std::max<int64_t>(1, caps.compute_units) : 1;
  const bool pays =
      std::min(p.M, p.N) >= 8 && std::max(p.M, p.N) <= 512 && results <= 256 * 256 && results * p.K >= 20000000;
  return pays ? std::clamp<int64_t>(p.K / (2 * shortest_part), 1, 8) : 1;
}

}  // namespace

// A lane walks along k once; an eighth of what the driver allows leaves room for tails and blocks of rows.
int64_t least_matmul_parts(const Caps& caps, int64_t k) {
  const int64_t longest = caps.max_loop_iterations > uint64_t{1} << 33
                              ? int64_t{1} << 30
                              : static_cast<int64_t>(caps.max_loop_iterations / 8);
  return std::max<int64_t>(1, ceil_div(k, std::max<int64_t>(1, longest)));
}

int64_t pick_matmul_parts(const Caps& caps, const MatmulProblem& p) {
  if (p.batch * p.M * p.N == 0 || p.K < 2 * shortest_part) return 1;
  const int64_t least = least_matmul_parts(caps, p.K);
  const int64_t parts = caps.machine() != Machine::simt ? cpu_parts(caps, p) : gpu_parts(caps, p);
  TuningKey key = tuning_key(p);
  key.body = "matmul_parts";
  const Bindings chosen = tuned(caps, key, {{"PARTS", std::max<int64_t>(parts, 1)}});
  return std::min(p.K, std::max({int64_t{1}, least, chosen.at("PARTS")}));
}

Bindings pick_matmul(const Caps& caps, const MatmulProblem& p) {
  Row row = any_lanes;
  // The other schedules hold their sums in f32, but for bytes on GPUs.
  const Machine machine = caps.machine();
  const bool plain = !p.prologue_a && !p.prologue_b;
  const bool bytes = is_byte(p.a) && is_byte(p.b) && plain;
  if (signed_bytes(p) && machine == Machine::simt) {
    row = pick_gpu(caps, p);
  } else if (bytes && machine == Machine::cpu_loops && p.M >= 2 && p.N >= 16) {
    row = pick_cpu_bytes(p);
  } else if (multiplies_f32(p.a, p.a_value, p.prologue_a) && multiplies_f32(p.b, p.b_value, p.prologue_b)) {
    if (machine == Machine::simt) {
      row = pick_gpu(caps, p);
    } else if (machine == Machine::cpu_loops) {
      row =
          takes_core_units(caps, p) ? pick_core_units(caps, p) : pick_cpu(p, static_cast<int64_t>(caps.compute_units));
    } else {
      row = pick_lanes_of_cpu(caps, p);
    }
  }
  add_facts(caps, p, row);
  Bindings chosen = tuned(caps, tuning_key(p), row);
  // An entry of a near shape may ask for what this one's facts do not allow.
  return KernelFile::builtin("matmul").refusal(chosen).empty() ? chosen : row;
}

}  // namespace heddle
