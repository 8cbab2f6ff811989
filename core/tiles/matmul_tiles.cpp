#include "heddle/core/tiles/matmul_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/integers.h"
#include "heddle/core/contract/vendors.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/matmul_core_units.h"
#include "heddle/core/tiles/matmul_cpu_tiles.h"
#include "heddle/core/tiles/matmul_schedules.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {
namespace {

using Row = Bindings;

const Row any_lanes = {{"SCHEDULE", matmul_schedules::lanes}, {"LX", 16}, {"LY", 4}};

bool is_byte(DType t) { return t == DType::i8 || t == DType::u8; }
bool signed_bytes(const MatmulProblem& p) {
  return p.a == DType::i8 && p.b == DType::i8 && !p.prologue_a && !p.prologue_b;
}

// A prologue may make floats of what lies in memory as something else.
bool multiplies_f32(DType memory, DType value, bool prologue) { return arith(prologue ? value : memory) == DType::f32; }

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
// reaches 32 (docs/benchmarks.md). Lanes that are not woven are as fast there, but two products of char-lstm and gpt2
// spill 12 and 16 bytes on sm_100 and sm_120 (NVRTC 13.5).
Row nvidia_large() {
  Row row = tile_row(128, 128, 16, 8, 8, 4, 1, 8);
  row["WEAVE"] = 1;
  row["RESIDENT"] = 2;
  return row;
}

// A lane of the first row of integrated GPUs has 4 x 8 sums: with 8 x 4, a sigmoid or GELU of them spills 160 bytes on
// Intel's Gen9 (ocloc 22.43).
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
       {tile_row(64, 64, 16, 4, 8, 4, 0, 4), tile_row(32, 64, 16, 4, 4, 4, 0, 0), tile_row(16, 32, 16, 2, 4, 2, 0, 0)}},
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
    row = pick_byte_matmul_on_cpu(caps, p);
  } else if (multiplies_f32(p.a, p.a_value, p.prologue_a) && multiplies_f32(p.b, p.b_value, p.prologue_b)) {
    if (machine == Machine::simt) {
      row = pick_gpu(caps, p);
    } else if (machine == Machine::cpu_loops) {
      row = takes_core_units(caps, p) ? pick_core_units(caps, p) : pick_matmul_on_cpu(caps, p);
    } else {
      row = pick_matmul_by_lanes_on_cpu(caps, p);
    }
  }
  add_facts(caps, p, row);
  Bindings chosen = tuned(caps, tuning_key(p), row);
  // An entry of a near shape may ask for what this one's facts do not allow.
  return KernelFile::builtin("matmul").refusal(chosen).empty() ? chosen : row;
}

}  // namespace heddle
