#include "heddle/core/tiles/conv_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/integers.h"
#include "heddle/core/contract/vendors.h"
#include "heddle/core/tiles/choices.h"
#include "heddle/core/tiles/conv_cpu_tiles.h"
#include "heddle/core/tiles/conv_schedules.h"
#include "heddle/core/tiles/conv_winograd.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle {

namespace {

using conv_schedules::Row;

// lavapipe runs 8 lanes in one AVX register and has no cheap shared memory.
const Row lavapipe_registers = {{"SCHEDULE", conv_schedules::registers}, {"LANES", 8}, {"RM", 8}, {"RN", 2}};

// The depth of a tile of weights and pixels: whole kernels, a multiple of the lanes that share a pixel (four in groups
// of 256), so that where a lane loads follows from few numbers. Powers of two leave no rest of most numbers of
// channels.
int64_t whole_kernels(const ConvProblem& p) {
  for (const int64_t lanes_of_pixel : {4, 2, 1}) {
    const int64_t unit = lanes_of_pixel * conv_taps(p);
    if (32 % unit == 0) return 32;
    int64_t best = 0;
    for (const int64_t depth : choices_of("conv", "TK")) {
      if (depth % unit == 0) best = depth;
    }
    if (best > 0) return best;
  }
  return 32;
}

Row tile_row(const ConvProblem& p, int64_t tm, int64_t tn, int64_t rm, int64_t rn, int64_t run, int64_t prefetch) {
  const bool weights = p.kind == ConvProblem::Kind::weight_grad;
  return {{"SCHEDULE", conv_schedules::tiles},
          {"TM", tm},
          {"TN", tn},
          {"TK", weights ? 16 : whole_kernels(p)},
          {"RM", rm},
          {"RN", rn},
          {"RUN", run},
          {"PREFETCH", prefetch}};
}

bool is_nvidia(const Caps& caps) {
  return caps.vendor_id == vendors::nvidia && caps.device_class == DeviceClass::discrete_gpu;
}

// Tiles of 64 channels by 64 pixels (or kernel elements) on NVIDIA's GPUs, whose operands come from shared memory 16
// bytes at a time, while the next tile is on its way; parts (conv_parts) make enough of them. Of all tried on an H200
// these are the fastest, larger tiles take 1.3 to 1.7 times as long (docs/benchmarks.md). Of strided input gradients
// NVRTC spills what is on its way.
Row pick_nvidia(const ConvProblem& p, int64_t m) {
  const bool weights = p.kind == ConvProblem::Kind::weight_grad;
  const bool phases = p.kind == ConvProblem::Kind::input_grad && p.stride != Extent3{1, 1, 1};
  if (m <= 32) return tile_row(p, 32, 64, 4, 4, 4, phases ? 0 : 1);
  // Sixteen sums a lane of 1x1 kernels, and of those that are no part of a tile's depth, NVRTC keeps in too few
  // registers and spills; 32 are 1 to 4 % slower on an H200 (1x1).
  const bool few_registers = conv_taps(p) == 1 || whole_kernels(p) % conv_taps(p) != 0;
  return tile_row(p, 64, 64, weights || few_registers ? 8 : 4, 4, 4, phases ? 0 : 1);
}

// A tile of the weights (of the gradient) and one of pixels (of src), two of each with PREFETCH.
int64_t tile_bytes(const ConvProblem& p, const Row& row) {
  const int64_t padding = p.kind == ConvProblem::Kind::weight_grad ? 8 : 4;
  return row.at("TK") * (row.at("TM") + row.at("TN") + padding) * 4 * (1 + row.at("PREFETCH"));
}

Row pick_gpu(const Caps& caps, const ConvProblem& p, int64_t m, int64_t n) {
  if (m < 8) return conv_schedules::any_lanes;
  const bool small = m < 64 || ceil_div(m, 64) * ceil_div(n, 64) < 2 * static_cast<int64_t>(caps.compute_units);
  const bool few = small && p.kind != ConvProblem::Kind::weight_grad;
  const Row row = is_nvidia(caps) ? pick_nvidia(p, m) : tile_row(p, few ? 32 : 64, 64, 4, 4, 4, 0);
  const int64_t group = row.at("TM") / row.at("RM") * (row.at("TN") / row.at("RN"));
  return group <= caps.max_group_lanes && tile_bytes(p, row) <= caps.shared_bytes ? row : conv_schedules::any_lanes;
}

Row pick_lavapipe(int64_t m) {
  Row row = lavapipe_registers;
  row["RM"] = choice_at_least("conv", "RM", std::min<int64_t>(m, 8));
  return row;
}

bool multiplies_f32(const ConvProblem& p) { return arith(p.x) == DType::f32 && arith(p.w) == DType::f32; }

// A product of (OG, n) results, on the machine of the device.
Row pick(const Caps& caps, const ConvProblem& p, int64_t n, Row (*on_cpu)(const Caps&, const ConvProblem&)) {
  if (!multiplies_f32(p)) return conv_schedules::any_lanes;
  switch (caps.machine()) {
    case Machine::cpu_loops:
      return on_cpu(caps, p);
    case Machine::cpu_lanes:
      return pick_lavapipe(p.OG);
    default:
      return pick_gpu(caps, p, p.OG, n);
  }
}

std::string variant(const ConvProblem& p, const char* kind) {
  std::string text = fmt::format("{} {}x{}x{}", kind, p.kernel[0], p.kernel[1], p.kernel[2]);
  text += fmt::format(" s{}.{}.{} d{}.{}.{}", p.stride[0], p.stride[1], p.stride[2], p.dilation[0], p.dilation[1],
                      p.dilation[2]);
  if (p.parts > 1 && p.kind != ConvProblem::Kind::weight_grad) text += fmt::format(" p{}", p.parts);
  return text + fmt::format("{} {} {}", p.last ? " last" : "", name_of(p.x), name_of(p.w));
}

const char* kind_of(const ConvProblem& p) {
  switch (p.kind) {
    case ConvProblem::Kind::forward:
      return "forward";
    case ConvProblem::Kind::input_grad:
      return "input_grad";
    default:
      return "weight_grad";
  }
}

TuningKey tuning_key(const ConvProblem& p, const char* body) {
  return {body, variant(p, kind_of(p)), {p.N, p.G, p.CG, p.OG, p.out[0], p.out[1], p.out[2]}};
}

// ---- parts

constexpr int64_t fewest_products = 128;  // of a part, along the sum

bool in_tiles(const Caps& caps, const ConvProblem& p) {
  return pick(caps, p, p.OG, pick_conv_on_cpu).at("SCHEDULE") == conv_schedules::tiles;
}

// Groups of 64 x 64 tiles; of an input gradient's phases in all.
int64_t large_tiles(const ConvProblem& p) {
  const bool weights = p.kind == ConvProblem::Kind::weight_grad;
  const int64_t n = weights ? p.CG * conv_taps(p) : p.N * p.out[0] * p.out[1] * p.out[2];
  return p.G * ceil_div(p.OG, 64) * ceil_div(n, 64);
}

// Parts that give most compute units two tiles of 64 x 64, so that one multiplies while another waits for its operands.
int64_t parts_for_units(const Caps& caps, const ConvProblem& p) {
  return ceil_div(7 * static_cast<int64_t>(caps.compute_units), 4 * std::max<int64_t>(1, large_tiles(p)));
}

// Of the channels of src: a power of two, so that parts are equally long.
int64_t channel_parts(const Caps& caps, const ConvProblem& p) {
  const int64_t most = p.CG * conv_taps(p) / fewest_products;
  const int64_t wanted = std::min({parts_for_units(caps, p), most, p.CG, int64_t{16}});
  int64_t parts = 1;
  while (2 * parts <= wanted) parts *= 2;
  return parts;
}

int64_t weight_grad_parts(const Caps& caps, const ConvProblem& p) {
  const int64_t lines = p.N * p.out[0] * p.out[1], results = p.G * p.OG * p.CG * conv_taps(p);
  if (lines == 0 || results == 0) return 1;
  if (caps.machine() == Machine::cpu_loops) {
    if (const int64_t parts = pick_winograd_parts(caps, p); parts > 0) return parts;
  }
  // A driver that ends long loops: half of what it allows.
  int64_t parts = 1;
  if (caps.max_loop_iterations < INT64_MAX) {
    parts = ceil_div(lines, std::max<int64_t>(1, static_cast<int64_t>(caps.max_loop_iterations) / 2 / (p.out[2] + 1)));
  }
  if (is_nvidia(caps) && in_tiles(caps, p)) {
    const int64_t most = lines * p.out[2] / fewest_products;
    return std::min(lines, std::max(parts, std::min({parts_for_units(caps, p), most, int64_t{64}})));
  }
  // Work for every core, as long as adding the parts up costs little beside the products.
  const bool loops = caps.machine() != Machine::simt;
  const int64_t wanted =
      loops ? 4 * static_cast<int64_t>(caps.compute_units) : 512 * static_cast<int64_t>(caps.compute_units);
  const int64_t have = loops ? p.G * ceil_div(p.OG, 64) * ceil_div(p.CG, 64) * p.kernel[0] : results / 4;
  const int64_t most = std::max<int64_t>(1, lines * p.out[2] / 256);
  parts = std::max(parts, std::min({ceil_div(wanted, std::max<int64_t>(1, have)), most, int64_t{64}}));
  return std::min(parts, lines);
}

// What the tuner chose, unless it is an entry of a near shape that asks for what this one's facts do not allow.
Bindings allowed(const char* body, const Bindings& chosen, const Bindings& row) {
  return KernelFile::builtin(body).refusal(chosen).empty() ? chosen : row;
}

}  // namespace

Bindings pick_conv(const Caps& caps, const ConvProblem& p) {
  Row row = pick(caps, p, p.N * p.out[0] * p.out[1] * p.out[2], pick_conv_on_cpu);
  if (p.parts > 1 && row.at("SCHEDULE") != conv_schedules::tiles)
    row = tile_row(p, 32, 32, 4, 2, 1, 0);  // no other has parts
  add_conv_facts(row, p);
  row["MODE"] = p.kind == ConvProblem::Kind::input_grad;
  row["LAST"] = p.last;
  row["W_K1"] = p.w_k1;
  row["W_C1"] = p.w_c1;
  row["PARTS"] = p.parts;
  Bindings chosen = tuned(caps, tuning_key(p, "conv"), row);
  for (Bindings* values : {&row, &chosen}) {
    if (values->at("SCHEDULE") == conv_schedules::pointwise) add_pointwise_facts(*values, p);
  }
  return allowed("conv", chosen, row);
}

Bindings pick_conv_weight_grad(const Caps& caps, const ConvProblem& p) {
  Row row = pick(caps, p, p.CG * conv_taps(p), pick_conv_weight_grad_on_cpu);
  add_conv_facts(row, p);
  row["G_W1"] = p.g_w1;
  row["FLAT"] = p.flat;
  return allowed("conv_weight_grad", tuned(caps, tuning_key(p, "conv_weight_grad"), row), row);
}

int64_t pick_conv_parts(const Caps& caps, const ConvProblem& p) {
  const bool weights = p.kind == ConvProblem::Kind::weight_grad;
  if (p.N * p.G * p.OG * p.out[0] * p.out[1] * p.out[2] * p.CG == 0) return 1;
  if (!weights && !multiplies_f32(p)) return 1;
  const int64_t parts = weights                                ? weight_grad_parts(caps, p)
                        : is_nvidia(caps) && in_tiles(caps, p) ? channel_parts(caps, p)
                                                               : 1;
  const int64_t most = weights ? p.N * p.out[0] * p.out[1] : p.CG;
  const Bindings chosen = tuned(caps, tuning_key(p, "conv_parts"), {{"PARTS", parts}});
  return std::clamp<int64_t>(chosen.at("PARTS"), 1, most);
}

int64_t conv_loop_iterations(const ConvProblem& p, const Bindings& t) {
  const int64_t schedule = t.at("SCHEDULE");
  if (p.kind == ConvProblem::Kind::weight_grad) {
    const int64_t lines = ceil_div(p.N * p.out[0] * p.out[1], p.parts);
    return lines * (p.out[2] + 1) + 64;
  }
  const int64_t depth = p.CG * conv_taps(p);
  return schedule == conv_schedules::tiles ? depth * 2 + 256 : depth + conv_taps(p) * 3 + 256;
}

std::string conv_algorithm(const Bindings& t) {
  const auto value = [&](const char* name) { return t.contains(name) ? t.find(name)->second : 1; };
  switch (value("SCHEDULE")) {
    case conv_schedules::tiles:
      return fmt::format("tiles_{}x{}", value("TM"), value("TN"));
    case conv_schedules::packed:
      return fmt::format("packed_{}x{}", value("MR") * value("MI"), value("NV") * value("VW"));
    case conv_schedules::registers:
      return fmt::format("registers_{}x{}", value("RM"), value("RN"));
    case conv_schedules::rows:
      return "rows";
    case conv_schedules::strips:
      return "strips";
    case conv_schedules::planes:
      return "planes";
    case conv_schedules::winograd:
      return fmt::format("winograd_{}x{}", value("MR"), value("NV") * value("VW"));
    case conv_schedules::pointwise:
      return fmt::format("pointwise_{}x{}", value("MR"), value("NV") * value("VW"));
    case conv_schedules::dots:
      return fmt::format("dots_{}x{}", value("MR"), value("VW"));
    default:
      return "lanes";
  }
}

}  // namespace heddle
