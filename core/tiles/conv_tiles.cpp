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

Row tile_row(int64_t tm, int64_t tn, int64_t rm, int64_t rn) {
  return {{"SCHEDULE", conv_schedules::tiles}, {"TM", tm}, {"TN", tn}, {"TK", 32}, {"RM", rm}, {"RN", rn}};
}

// Tiles of NVIDIA's GPUs: the largest that give seven of eight compute units a group. Where the units hold few groups,
// eight sums a lane instead of sixteen, so that a group has twice the lanes: 1.2 to 2.2 times as fast with one or two
// groups a unit (docs/benchmarks.md, H200); where they are full, more sums a lane need fewer loads (the static model,
// docs/certificates.md). Gradients of weights have groups from parts.
Row pick_nvidia(const Caps& caps, const ConvProblem& p, int64_t m, int64_t n) {
  const auto units = static_cast<int64_t>(caps.compute_units);
  const auto groups = [&](int64_t tm, int64_t tn) { return p.G * ceil_div(m, tm) * ceil_div(n, tn); };
  if (p.kind == ConvProblem::Kind::weight_grad)
    return tile_row(64, 64, groups(64, 64) * std::max<int64_t>(1, p.parts) < units ? 2 : 4, 4);
  const auto fills = [&](int64_t tm, int64_t tn) { return 8 * groups(tm, tn) >= 7 * units; };
  const auto sums = [&](int64_t tm, int64_t tn) { return groups(tm, tn) >= 4 * units ? 4 : 2; };
  if (m >= 64 && fills(64, 64)) return tile_row(64, 64, 4, sums(64, 64));
  return fills(32, 64) ? tile_row(32, 64, 4, sums(32, 64)) : tile_row(32, 32, 4, 2);
}

// A tile of the weights and one of pixels, each row one float longer than the tile.
Row pick_gpu(const Caps& caps, const ConvProblem& p, int64_t m, int64_t n) {
  if (m < 8) return conv_schedules::any_lanes;
  const bool small = m < 64 || ceil_div(m, 64) * ceil_div(n, 64) < 2 * static_cast<int64_t>(caps.compute_units);
  const bool few = small && p.kind != ConvProblem::Kind::weight_grad;
  const Row row = caps.vendor_id == vendors::nvidia ? pick_nvidia(caps, p, m, n) : tile_row(few ? 32 : 64, 64, 4, 4);
  const int64_t group = row.at("TM") / row.at("RM") * (row.at("TN") / row.at("RN")),
                shared = row.at("TK") * (row.at("TM") + row.at("TN") + 2) * 4;
  return group <= caps.max_group_lanes && shared <= caps.shared_bytes ? row : conv_schedules::any_lanes;
}

Row pick_lavapipe(int64_t m) {
  Row row = lavapipe_registers;
  row["RM"] = choice_at_least("conv", "RM", std::min<int64_t>(m, 8));
  return row;
}

// A product of (OG, n) results, on the machine of the device.
Row pick(const Caps& caps, const ConvProblem& p, int64_t n, Row (*on_cpu)(const Caps&, const ConvProblem&)) {
  if (arith(p.x) != DType::f32 || arith(p.w) != DType::f32) return conv_schedules::any_lanes;
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
  return text + fmt::format("{} {} {}", p.last ? " last" : "", name_of(p.x), name_of(p.w));
}

TuningKey tuning_key(const ConvProblem& p, const char* body, const char* kind) {
  return {body, variant(p, kind), {p.N, p.G, p.CG, p.OG, p.out[0], p.out[1], p.out[2]}};
}

}  // namespace

Bindings pick_conv(const Caps& caps, const ConvProblem& p) {
  Row row = pick(caps, p, p.N * p.out[0] * p.out[1] * p.out[2], pick_conv_on_cpu);
  add_conv_facts(row, p);
  row["MODE"] = p.kind == ConvProblem::Kind::input_grad;
  row["LAST"] = p.last;
  row["W_K1"] = p.w_k1;
  row["W_C1"] = p.w_c1;
  return tuned(caps, tuning_key(p, "conv", p.kind == ConvProblem::Kind::forward ? "forward" : "input_grad"), row);
}

Bindings pick_conv_weight_grad(const Caps& caps, const ConvProblem& p) {
  Row row = pick(caps, p, p.CG * conv_taps(p), pick_conv_weight_grad_on_cpu);
  add_conv_facts(row, p);
  row["G_W1"] = p.g_w1;
  return tuned(caps, tuning_key(p, "conv_weight_grad", "weight_grad"), row);
}

int64_t pick_conv_parts(const Caps& caps, const ConvProblem& p) {
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
  // Work for every core, as long as adding the parts up costs little beside the products.
  const bool loops = caps.machine() != Machine::simt;
  const int64_t wanted =
      loops ? 4 * static_cast<int64_t>(caps.compute_units) : 512 * static_cast<int64_t>(caps.compute_units);
  const int64_t have = loops ? p.G * ceil_div(p.OG, 64) * ceil_div(p.CG, 64) * p.kernel[0] : results / 4;
  const int64_t most = std::max<int64_t>(1, lines * p.out[2] / 256);
  parts = std::max(parts, std::min({ceil_div(wanted, std::max<int64_t>(1, have)), most, int64_t{64}}));
  return std::min(parts, lines);
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
