#include "core/tiles/conv_tiles.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/integers.h"
#include "core/tiles/conv_winograd.h"
#include "core/tiles/tuning.h"

namespace heddle {
namespace {

// Schedules of shaders/conv.hk and shaders/conv_weight_grad.hk.
constexpr int64_t lanes = 0, tiles = 1, packed = 2, registers = 3, rows = 4, winograd = 5, pointwise = 6;

using Row = Bindings;

// The smallest choice that is at least `value`, or the largest.
int64_t at_least(int64_t value, std::initializer_list<int64_t> choices) {
  for (int64_t c : choices) {
    if (c >= value) return c;
  }
  return *(choices.end() - 1);
}

constexpr const char* axes[] = {"D", "H", "W"};

void add_space(Bindings& values, const std::string& prefix, const Extent3& space) {
  for (size_t d = 0; d < 3; ++d) values[prefix + axes[d]] = space[d];
}

void add_images(Bindings& values, const std::string& prefix, const ConvImages& images) {
  values[prefix + "_OFF"] = images.offset;
  values[prefix + "_SN"] = images.n;
  values[prefix + "_SC"] = images.c;
  add_space(values, prefix + "_S", images.space);
}

Bindings sizes(const ConvProblem& p) {
  Bindings values{{"N", p.N}, {"G", p.G}, {"CG", p.CG}, {"OG", p.OG}};
  add_space(values, "I", p.in);
  add_space(values, "O", p.out);
  add_space(values, "P", p.pad);
  return values;
}

void add_facts(Bindings& values, const ConvProblem& p) {
  add_space(values, "K", p.kernel);
  add_space(values, "S", p.stride);
  add_space(values, "D", p.dilation);
  values["X_W1"] = p.x_w1;
}

}  // namespace

ConvWeights dense_weights(const ConvProblem& p) {
  const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  ConvWeights w;
  w.space = {p.kernel[1] * p.kernel[2], p.kernel[2], 1};
  const bool forward = p.kind == ConvProblem::Kind::forward;
  const int64_t x_channels = forward ? p.CG : p.OG;
  w.o = forward ? x_channels * taps : taps;
  w.c = forward ? taps : x_channels * taps;
  w.group = p.CG * p.OG * taps;
  return w;
}

Bindings conv_constants(const ConvProblem& p, const ConvImages& x, const ConvWeights& w) {
  Bindings values = sizes(p);
  add_images(values, "X", x);
  values["W_OFF"] = w.offset;
  values["W_SG"] = w.group;
  values["W_SO"] = w.o;
  values["W_SC"] = w.c;
  add_space(values, "W_S", w.space);
  return values;
}

Bindings conv_weight_grad_constants(const ConvProblem& p, const ConvImages& x, const ConvImages& g) {
  Bindings values = sizes(p);
  add_images(values, "X", x);
  add_images(values, "G", g);
  values["PARTS"] = p.parts;
  return values;
}

namespace {

const Row gpu_tiles = {{"SCHEDULE", tiles}, {"TM", 64}, {"TN", 64}, {"TK", 32}, {"RM", 4}, {"RN", 4}};
const Row gpu_small_tiles = {{"SCHEDULE", tiles}, {"TM", 32}, {"TN", 64}, {"TK", 32}, {"RM", 4}, {"RN", 4}};
const Row any_lanes = {{"SCHEDULE", lanes}, {"LANES", 64}};
// lavapipe runs 8 lanes in one AVX register and has no cheap shared memory.
const Row lavapipe_registers = {{"SCHEDULE", registers}, {"LANES", 8}, {"RM", 8}, {"RN", 2}};
const Row lavapipe_lanes = {{"SCHEDULE", lanes}, {"LANES", 8}};

int64_t taps(const ConvProblem& p) { return p.kernel[0] * p.kernel[1] * p.kernel[2]; }

bool in_f32(const ConvProblem& p) { return arith(p.x) == DType::f32 && arith(p.w) == DType::f32; }

// Positions of dst that are walked side by side along one dimension: all, or in an input gradient those of one phase.
int64_t walked(const ConvProblem& p, size_t d) {
  return p.kind == ConvProblem::Kind::input_grad ? ceil_div(p.out[d], p.stride[d]) : p.out[d];
}
int64_t phases(const ConvProblem& p, size_t d) { return p.kind == ConvProblem::Kind::input_grad ? p.stride[d] : 1; }

// Elements of src between the first and the last of `count` positions, as packed.
int64_t packed_extent(const ConvProblem& p, size_t d, int64_t count) {
  return (count - 1) * p.stride[d] + (p.kernel[d] - 1) * p.dilation[d] + 1;
}

constexpr int64_t most_floats = 1 << 18;     // of one private array: the bodies' own limit
constexpr int64_t cached_floats = 48 << 10;  // what a core's second-level cache holds beside other things

// The number of pixels in registers that leaves the fewest unused in a row, the largest of those.
int64_t pixels_in_registers(int64_t row) {
  int64_t best = 1, waste = INT64_MAX;
  for (int64_t mr = 1; mr <= 14; ++mr) {
    const int64_t unused = ceil_div(row, mr) * mr - row;
    // Few pixels cost as much as many: a loop of fewer than 8 waits for its results.
    const int64_t cost = unused * 16 + (mr < 8 ? ceil_div(row, mr) * (8 - mr) * 2 : 0);
    if (cost <= waste) {
      waste = cost;
      best = mr;
    }
  }
  return best;
}

class PackedRow {
 public:
  PackedRow(const Caps& caps, const ConvProblem& p) : p_(p), cores_(std::max<int64_t>(1, caps.compute_units)) {}

  Row pick() {
    const int64_t row = walked(p_, 2), rows_of_image = walked(p_, 1);
    row_["SCHEDULE"] = packed;
    row_["VW"] = p_.OG >= 16 ? 16 : p_.OG >= 8 ? 8 : 4;
    mr_ = pixels_in_registers(row);
    mi_ = mr_ >= 8 ? 1 : at_most(std::min<int64_t>(p_.N, 14 / mr_), {1, 2, 3, 4, 6, 8, 12});
    nv_ = p_.OG > row_["VW"] ? 2 : 1;
    qt_ = at_most(ceil_div(row, mr_), {1, 2, 4, 8, 16});
    qh_ = at_most(rows_of_image, {1, 2, 4, 7, 8, 14, 16, 28});
    // A kernel of one position does little work for each packed pixel: all channels of dst share the packing.
    const int64_t blocks = ceil_div(p_.OG, nv_ * row_["VW"]);
    nb_ = taps(p_) == 1 && p_.kind == ConvProblem::Kind::forward ? at_most(blocks, {1, 2, 3, 4, 6, 8, 16})
                                                                 : at_most(blocks, {1, 2, 3, 4});
    cb_ = at_least(std::min<int64_t>(p_.CG, taps(p_) == 1 ? 128 : taps(p_) <= 9 ? 64 : 16), {4, 8, 16, 32, 64, 128});
    ni_ = mi_;
    shrink();
    grow_images();
    row_["MR"] = mr_;
    row_["MI"] = mi_;
    row_["NV"] = nv_;
    row_["NB"] = nb_;
    row_["QT"] = qt_;
    row_["QH"] = qh_;
    row_["NI"] = ni_;
    row_["CB"] = cb_;
    return row_;
  }

 private:
  static int64_t at_most(int64_t value, std::initializer_list<int64_t> choices) {
    int64_t best = *choices.begin();
    for (int64_t c : choices) {
      if (c <= value) best = c;
    }
    return best;
  }

  int64_t staged() const { return ni_ * cb_ * packed_extent(p_, 1, qh_) * packed_extent(p_, 2, qt_ * mr_); }
  int64_t results() const { return ni_ * qh_ * qt_ * mr_ * nb_ * nv_ * row_.at("VW") * phases(p_, 1) * phases(p_, 2); }
  int64_t weights() const { return p_.kernel[1] * p_.kernel[2] * cb_ * nv_ * row_.at("VW"); }
  int64_t groups() const {
    return p_.G * ceil_div(p_.OG, nb_ * nv_ * row_.at("VW")) * ceil_div(p_.N, ni_) * p_.out[0] *
           ceil_div(walked(p_, 1), qh_) * ceil_div(walked(p_, 2), qt_ * mr_);
  }

  static int64_t halve(int64_t value) { return std::max<int64_t>(1, value / 2); }

  // Until the arrays fit the cache and there is work for every core.
  void shrink() {
    while (cb_ > 4 && weights() > most_floats) cb_ /= 2;
    while (true) {
      const bool large = staged() > 2 * cached_floats || results() > 2 * cached_floats || groups() < 2 * cores_;
      const bool too_large = staged() > most_floats || results() > most_floats;
      if (!large) return;
      if (qh_ > 4)
        qh_ = at_most(qh_ - 1, {1, 2, 4, 7, 8, 14, 16, 28});
      else if (too_large && qt_ > 1)
        qt_ = halve(qt_);
      else if (too_large && qh_ > 1)
        qh_ = halve(qh_);
      else if (too_large && nb_ > 1)
        --nb_;
      else if (too_large && cb_ > 4)
        cb_ /= 2;
      else if (too_large && mi_ > 1)
        ni_ = mi_ = 1;
      else
        return;
    }
  }

  // Small images share a packing of the weights.
  void grow_images() {
    for (int64_t ni : {2, 4, 8}) {
      if (ni <= ni_ || ni % mi_ != 0 || ni > p_.N || qh_ < walked(p_, 1)) continue;
      const int64_t before = ni_;
      ni_ = ni;
      if (staged() > 2 * cached_floats || results() > 2 * cached_floats || groups() < 2 * cores_) {
        ni_ = before;
        return;
      }
    }
  }

  const ConvProblem& p_;
  int64_t cores_;
  Row row_;
  int64_t mr_ = 1, mi_ = 1, nv_ = 1, nb_ = 1, qt_ = 1, qh_ = 1, ni_ = 1, cb_ = 16;
};

// Kernels of one position: all channels of the pixels of whole rows, or of several images.
Row pick_pointwise(const Caps& caps, const ConvProblem& p) {
  const bool backward = p.kind == ConvProblem::Kind::input_grad;
  const Extent3& walk = backward ? p.in : p.out;
  const int64_t cores = std::max<int64_t>(1, caps.compute_units);
  Row row{
      {"SCHEDULE", pointwise}, {"VW", 16}, {"MR", 8}, {"NV", 2}, {"CB", at_least(p.CG, {16, 32, 64, 128, 256, 512})}};
  const int64_t most = most_floats / row["CB"] - 32;  // pixels
  row["QT"] = 1;
  for (const int64_t qt : {1, 2, 4, 7, 8, 14, 16}) {
    if (qt * 16 <= most && (row["QT"] * 16 < walk[2])) row["QT"] = qt;
  }
  row["QH"] = row["NI"] = 1;
  for (const int64_t qh : {1, 2, 4, 7, 8, 14, 16, 28, 32, 56}) {
    if (qh <= walk[1] && qh * row["QT"] * 16 <= std::min<int64_t>(most, 1024)) row["QH"] = qh;
  }
  const auto groups = [&] {
    return p.G * walk[0] * ceil_div(walk[1], row["QH"]) * ceil_div(walk[2], row["QT"] * 16) * ceil_div(p.N, row["NI"]);
  };
  for (const int64_t ni : {2, 4, 8}) {
    const int64_t before = row["NI"];
    if (ni > p.N || row["QH"] < walk[1] || ni * row["QH"] * row["QT"] * 16 > std::min<int64_t>(most, 512)) break;
    row["NI"] = ni;
    if (groups() < cores) row["NI"] = before;
  }
  row["NO"] = at_least(ceil_div(p.OG, 32), {1, 2, 4, 8, 16, 32});
  while (row["NO"] > 1 && groups() * ceil_div(p.OG, 32 * row["NO"]) < 2 * cores) row["NO"] /= 2;
  return row;
}

Row pick_rows(const ConvProblem& p) {
  Row row{
      {"SCHEDULE", rows}, {"QT", 16}, {"QH", at_least(std::min<int64_t>(walked(p, 1), 16), {1, 2, 4, 7, 8, 14, 16})}};
  while (row["QT"] > 1 && (row["QT"] / 2) * 16 >= walked(p, 2)) row["QT"] /= 2;
  while (row["QT"] > 1 && packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QT"] * 16) > cached_floats)
    row["QT"] /= 2;
  if (packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QT"] * 16) > cached_floats) row["QH"] = 1;
  if (packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QT"] * 16) > most_floats) return any_lanes;
  return row;
}

// Does the body take these values? A kernel or dilation of extreme size fits no packed array.
bool accepted(const char* body, const ConvProblem& p, Row row) {
  add_facts(row, p);
  return KernelFile::builtin(body).refusal(row).empty();
}

Row pick_cpu(const Caps& caps, const ConvProblem& p) {
  if (p.OG < 4) return pick_rows(p);
  if (const auto row = pick_winograd(caps, p); row && accepted("conv", p, *row)) return *row;
  if (taps(p) == 1 && p.stride[1] * p.stride[2] > 1 && p.OG >= 16 && p.CG <= 512) {
    if (const Row row = pick_pointwise(caps, p); accepted("conv", p, row)) return row;
  }
  const Row row = PackedRow(caps, p).pick();
  return accepted("conv", p, row) ? row : any_lanes;
}

// A tile of the weights and one of pixels, each row one float longer than the tile.
Row pick_gpu(const Caps& caps, const ConvProblem& p, int64_t m, int64_t n) {
  if (m < 8) return any_lanes;
  const bool small = m < 64 || ceil_div(m, 64) * ceil_div(n, 64) < 2 * static_cast<int64_t>(caps.compute_units);
  const Row& row = small && p.kind != ConvProblem::Kind::weight_grad ? gpu_small_tiles : gpu_tiles;
  const int64_t group = row.at("TM") / row.at("RM") * (row.at("TN") / row.at("RN")),
                shared = row.at("TK") * (row.at("TM") + row.at("TN") + 2) * 4;
  return group <= caps.max_group_lanes && shared <= caps.shared_bytes ? row : any_lanes;
}

Row pick_lavapipe(int64_t m) {
  Row row = lavapipe_registers;
  row["RM"] = at_least(std::min<int64_t>(m, 8), {1, 2, 4, 8});
  return row;
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

Row pick_cpu_weight_grad(const Caps& caps, const ConvProblem& p) {
  if (const auto row = pick_winograd(caps, p); row && accepted("conv_weight_grad", p, *row)) return *row;
  if (p.CG < 4 || p.OG < 4) {
    if (p.kernel[1] * p.kernel[2] <= 128 && p.CG == 1) return {{"SCHEDULE", rows}, {"VW", 16}};
    if (p.OG < 4) return any_lanes;
  }
  const int64_t cb = at_least(std::min<int64_t>(p.CG, taps(p) == 1 ? 128 : 64), {1, 2, 4, 8, 16, 32, 64, 128});
  Row row{{"SCHEDULE", packed}, {"VW", 16}, {"CB", cb}};
  const int64_t joined = p.dilation[2] == 1 || p.kernel[2] == 1 ? p.kernel[2] * cb : cb;
  row["NV"] = joined % 48 == 0 ? 3 : joined > 16 ? 2 : 1;
  row["MR"] = 8;
  row["NB"] = at_least(std::min<int64_t>(ceil_div(p.OG, 8), taps(p) == 1 ? 16 : 8), {1, 2, 4, 8, 16});
  row["QW"] = at_least(std::min<int64_t>(p.out[2], 128), {4, 7, 8, 14, 16, 28, 32, 56, 64, 128});
  row["QH"] =
      at_least(std::min<int64_t>(p.out[1], std::max<int64_t>(1, 224 / row["QW"])), {1, 2, 4, 7, 8, 14, 16, 28, 56});
  const auto staged = [&] { return packed_extent(p, 1, row["QH"]) * packed_extent(p, 2, row["QW"]) * row["CB"]; };
  while (row["QH"] > 1 && staged() > 2 * cached_floats)
    row["QH"] = row["QH"] == 7 ? 4 : row["QH"] == 14 ? 8 : row["QH"] / 2;
  while (row["CB"] > 16 && p.kernel[1] * p.kernel[2] * row["CB"] * 64 > most_floats / 2) row["CB"] /= 2;
  return accepted("conv_weight_grad", p, row) ? row : any_lanes;
}

}  // namespace

Bindings pick_conv(const Caps& caps, const ConvProblem& p) {
  Row row = any_lanes;
  if (in_f32(p)) {
    if (caps.device_class != DeviceClass::cpu) {
      row = pick_gpu(caps, p, p.OG, p.N * p.out[0] * p.out[1] * p.out[2]);
    } else if (caps.target == Target::opencl) {
      row = pick_cpu(caps, p);
    } else {
      row = pick_lavapipe(p.OG);
    }
  }
  add_facts(row, p);
  row["MODE"] = p.kind == ConvProblem::Kind::input_grad;
  row["LAST"] = p.last;
  row["W_K1"] = p.w_k1;
  row["W_C1"] = p.w_c1;
  return tuned(caps, tuning_key(p, "conv", p.kind == ConvProblem::Kind::forward ? "forward" : "input_grad"), row);
}

Bindings pick_conv_weight_grad(const Caps& caps, const ConvProblem& p) {
  Row row = any_lanes;
  if (in_f32(p)) {
    if (caps.device_class != DeviceClass::cpu) {
      row = pick_gpu(caps, p, p.OG, p.CG * taps(p));
    } else if (caps.target == Target::opencl) {
      row = pick_cpu_weight_grad(caps, p);
    } else {
      row = pick_lavapipe(p.OG);
    }
  }
  add_facts(row, p);
  row["G_W1"] = p.g_w1;
  return tuned(caps, tuning_key(p, "conv_weight_grad", "weight_grad"), row);
}

int64_t pick_conv_parts(const Caps& caps, const ConvProblem& p) {
  const int64_t lines = p.N * p.out[0] * p.out[1], results = p.G * p.OG * p.CG * taps(p);
  if (lines == 0 || results == 0) return 1;
  if (caps.device_class == DeviceClass::cpu && caps.target == Target::opencl) {
    if (const int64_t parts = pick_winograd_parts(caps, p); parts > 0) return parts;
  }
  // A driver that ends long loops: half of what it allows.
  int64_t parts = 1;
  if (caps.max_loop_iterations < INT64_MAX) {
    parts = ceil_div(lines, std::max<int64_t>(1, static_cast<int64_t>(caps.max_loop_iterations) / 2 / (p.out[2] + 1)));
  }
  // Work for every core, as long as adding the parts up costs little beside the products.
  const bool loops = caps.device_class == DeviceClass::cpu;
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
  const int64_t depth = p.CG * taps(p);
  return schedule == tiles ? depth * 2 + 256 : depth + taps(p) * 3 + 256;
}

std::string conv_algorithm(const Bindings& t) {
  const auto value = [&](const char* name) { return t.contains(name) ? t.find(name)->second : 1; };
  switch (value("SCHEDULE")) {
    case tiles:
      return fmt::format("tiles_{}x{}", value("TM"), value("TN"));
    case packed:
      return fmt::format("packed_{}x{}", value("MR") * value("MI"), value("NV") * value("VW"));
    case registers:
      return fmt::format("registers_{}x{}", value("RM"), value("RN"));
    case rows:
      return "rows";
    case winograd:
      return fmt::format("winograd_{}x{}", value("MR"), value("NV") * value("VW"));
    case pointwise:
      return fmt::format("pointwise_{}x{}", value("MR"), value("NV") * value("VW"));
    default:
      return "lanes";
  }
}

}  // namespace heddle
