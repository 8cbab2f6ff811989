#include "heddle/core/tiles/matmul_gpu_tiles.h"

#include <string_view>
#include <vector>

#include "heddle/core/base/integers.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/tiles/matmul_schedules.h"

namespace heddle {
namespace {

using Row = Bindings;

constexpr uint32_t amd = 0x1002, nvidia = 0x10de, intel = 0x8086;

// From the largest tiles to the smallest; the first one that fits the device and gives every compute unit a group is
// taken.
struct ClassRows {
  uint32_t vendor;  // 0: any
  DeviceClass device_class;
  Row large, medium, small;
};

Row tiles(int64_t tm, int64_t tn, int64_t tk, int64_t rm, int64_t rn, int64_t run, int64_t prefetch, int64_t band) {
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

const ClassRows& rows_of(const Caps& caps) {
  static const ClassRows table[] = {{nvidia, DeviceClass::discrete_gpu, tiles(128, 128, 16, 8, 8, 4, 1, 8),
                                     tiles(64, 64, 16, 4, 4, 4, 1, 8), tiles(32, 32, 32, 2, 4, 2, 1, 0)},
                                    {amd, DeviceClass::discrete_gpu, tiles(128, 64, 16, 8, 4, 4, 1, 8),
                                     tiles(64, 64, 16, 4, 4, 4, 1, 0), tiles(32, 32, 32, 2, 4, 2, 0, 0)},
                                    {intel, DeviceClass::discrete_gpu, tiles(64, 64, 16, 8, 4, 4, 1, 4),
                                     tiles(64, 64, 16, 4, 4, 4, 0, 0), tiles(16, 32, 16, 2, 4, 2, 0, 0)},
                                    {0, DeviceClass::integrated_gpu, tiles(64, 64, 16, 8, 4, 4, 0, 4),
                                     tiles(32, 64, 16, 4, 4, 4, 0, 0), tiles(16, 32, 16, 2, 4, 2, 0, 0)},
                                    {0, DeviceClass::discrete_gpu, tiles(64, 64, 16, 4, 4, 4, 1, 4),
                                     tiles(32, 64, 16, 4, 4, 4, 0, 0), tiles(16, 32, 16, 2, 4, 2, 0, 0)}};
  for (const ClassRows& rows : table) {
    if ((rows.vendor == 0 || rows.vendor == caps.vendor_id) && rows.device_class == caps.device_class) return rows;
  }
  return table[std::size(table) - 1];
}

// `depth` is that of one fragment, which is 32 bytes long.
Row units(int64_t tile, int64_t part, int64_t depth, int64_t stages) {
  return {{"SCHEDULE", matmul_schedules::units},
          {"TM", tile},
          {"TN", tile},
          {"TK", 2 * depth},
          {"WM", part},
          {"WN", part},
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
  if (p.a_value == DType::i8 && p.a == DType::i8 && p.b == DType::i8 && !p.prologue_a && !p.prologue_b &&
      has("16x16x32 i8 i32"))
    return 3;
  return -1;
}

bool bytes(const MatmulProblem& p) { return p.a == DType::i8 && p.b == DType::i8 && !p.prologue_a && !p.prologue_b; }

int64_t groups(const MatmulProblem& p, const Row& row) {
  const int64_t tm = row.at("TM"), tn = row.at("TN");
  return p.batch * ceil_div(p.M, tm) * ceil_div(p.N, tn);
}

}  // namespace

void add_matmul_facts(const Caps& caps, const MatmulProblem& p, Bindings& row) {
  if (caps.machine() != Machine::simt) {  // the defaults of the file; each fact more is a kernel more
    if (!caps.texel_loads) return;
    row["A_WIDE"] = p.a_wide == 4 ? 4 : 0;
    row["B_WIDE"] = p.b_wide == 4 ? 4 : 0;
    return;
  }
  const int64_t element = element_of(caps, p);
  row["A_WIDE"] = p.a_wide;
  row["B_WIDE"] = p.b_wide;
  row["INT8"] = bytes(p);
  row["ELEMENT"] = element;
  row["UNIT_LANES"] = element < 0 ? 1 : caps.subgroup_size;
}

Bindings pick_matmul_gpu(const Caps& caps, const MatmulProblem& p) {
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
    candidates = {units(128, 64, depth, stages), units(64, 32, depth, more), units(32, 16, depth, more)};
  }
  candidates.insert(candidates.end(), {simple.large, simple.medium, simple.small});
  for (Row& row : candidates) {
    const bool last = row.at("TM") <= 32;
    if (!last && groups(p, row) < static_cast<int64_t>(caps.compute_units)) continue;
    Row complete = row;
    add_matmul_facts(caps, p, complete);
    complete["A_M1"] = p.a_m1;
    complete["A_K1"] = p.a_k1;
    complete["B_K1"] = p.b_k1;
    complete["B_N1"] = p.b_n1;
    if (!file.refusal(complete).empty()) continue;
    KernelFile::Options options;
    options.tunables = complete;
    const KernelSource source = file.instantiate(options);
    if (source.group[0] <= caps.max_group_lanes && shared_bytes(source) <= caps.shared_bytes) return row;
  }
  return {{"SCHEDULE", matmul_schedules::lanes}, {"LX", 16}, {"LY", 4}};
}

}  // namespace heddle
