#include "heddle/core/functions/math/fft_lines.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "heddle/core/device/context.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/fft_lengths.h"
#include "heddle/core/functions/math/fft_tables.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/user/user_kernel.h"

namespace heddle::build {
namespace {

using Half = FftLines::Half;
constexpr int64_t longest_on_cpu = 2048;  // elements of a lane's arrays, which are 256 bytes for each
constexpr int64_t longest_on_gpu = 16384, elements_of_a_lane = 16, usual_group = 64;

// The launch with what its text knows of the tables: 0 none, 1 by element, 2 by element and line.
struct Launch {
  FftLines how;
  int before = 0, after = 0;
  int64_t lanes = 0, shared_lines = 0;  // 0 on CPUs, where a lane has lines
  auto key() const {
    return std::tuple(how.n, how.given, how.wanted, how.sign, how.scale, how.edge, how.half, how.real_in, how.real_out,
                      how.columns_in, how.columns_out, before, after, lanes, shared_lines);
  }
  bool operator<(const Launch& other) const { return key() < other.key(); }
};

std::string lines_text() {
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name == "fft_lines.hk") return std::string(file.text);
  }
  throw Error("[fft] the library was built without shaders/fft_lines.hk");
}

int64_t lines_of(const Shape& x, const FftLines& how) { return x[how.columns_in ? 2 : 1]; }

Shape result_shape(const Shape& x, const FftLines& how) {
  const int64_t lines = lines_of(x, how);
  Shape shape = how.columns_out ? Shape{x[0], how.wanted, lines} : Shape{x[0], lines, how.wanted};
  if (!how.real_out) shape.push_back(2);
  return shape;
}

FftLines transposed(const FftLines& how) {
  FftLines t = how;
  std::swap(t.given, t.wanted);
  std::swap(t.real_in, t.real_out);
  std::swap(t.columns_in, t.columns_out);
  t.sign = -how.sign;
  if (how.half == Half::none) return t;
  // A half spectrum stands for the other half as well: each element but the edges counts twice on the way back.
  const bool forward = how.half == Half::forward;
  t.half = forward ? Half::back : Half::forward;
  t.scale = forward ? how.scale / 2 : how.scale * 2;
  t.edge = forward ? how.edge * 2 : how.edge / 2;
  return t;
}

Tensor conjugate(const Tensor& table) {
  return concat({slice(table, 0, {.start = 0, .stop = 1}), -slice(table, 0, {.start = 1})}, 0);
}

std::map<std::string, double> constants_of(const Shape& x, const Launch& launch) {
  const FftLines& how = launch.how;
  const Passes passes = passes_of(how.n, launch.lanes > 0);
  return {{"N", static_cast<double>(how.n)},
          {"BATCH", static_cast<double>(x[0])},
          {"LINES", static_cast<double>(lines_of(x, how))},
          {"GIVEN", static_cast<double>(how.given)},
          {"KEEP", static_cast<double>(how.wanted)},
          {"COUNTS", passes.counts},
          {"PRIMES", passes.primes},
          {"SCALE", how.scale},
          {"EDGE", how.edge}};
}

std::map<std::string, int64_t, std::less<>> facts_of(const Launch& launch) {
  const FftLines& how = launch.how;
  std::map<std::string, int64_t, std::less<>> facts{
      {"BACK", how.sign > 0},         {"REAL_IN", how.real_in},         {"REAL_OUT", how.real_out},
      {"COLUMNS_IN", how.columns_in}, {"COLUMNS_OUT", how.columns_out}, {"HALF", static_cast<int64_t>(how.half)},
      {"BEFORE", launch.before},      {"AFTER", launch.after},          {"SCHEDULE", launch.lanes == 0}};
  if (launch.lanes == 0) {
    facts["CAP"] = longest_on_cpu;
  } else {
    facts["CAP"] = how.n;
    facts["RADICES"] = passes_of(how.n, true).radices;
    facts["LANES"] = launch.lanes;
    facts["SHARED_LINES"] = launch.shared_lines;
  }
  return facts;
}

// Mapped examples lie beside the matrices, or, where lines are rows that know no tables of their own, beside those.
Tensor mapped_call(std::span<const Tensor> in, const Launch& launch) {
  const FftLines& how = launch.how;
  const Shape& shape = in[0].shape();
  const int64_t size = shape[0];
  const bool rows = !how.columns_in && !how.columns_out && launch.before < 2 && launch.after < 2;
  const Shape each = shape.without(0);
  const Shape flat = rows ? each.with(0, 1).with(1, size * each[0] * each[1]) : each.with(0, size * each[0]);
  const Tensor y =
      fft_lines(reshape(in[0], flat), how, launch.before == 0 ? Tensor() : in[2], launch.after == 0 ? Tensor() : in[3]);
  return reshape(y, result_shape(each, how).inserted(0, size));
}

std::vector<Tensor> mapped_rule(std::span<const Tensor> in, const std::vector<bool>& mapped, int64_t size,
                                const Launch& launch) {
  if (mapped[0]) return {mapped_call(in, launch)};
  const Tensor y =
      fft_lines(in[0], launch.how, launch.before == 0 ? Tensor() : in[2], launch.after == 0 ? Tensor() : in[3]);
  return {expand(unsqueeze(y, 0), y.shape().inserted(0, size))};
}

UserKernel define(const Launch& launch) {
  const FftLines how = launch.how;
  return body_kernel({
      .name = "fft_lines",
      .text = lines_text(),
      .outputs =
          [how](std::span<const TensorType> in) {
            return std::vector<TensorType>{{result_shape(in[0].shape, how), DType::f32}};
          },
      .constants = [launch](std::span<const TensorType> in) { return constants_of(in[0].shape, launch); },
      .tunables = facts_of(launch),
      .iterations = longest_on_gpu,
      .vjp =
          [launch](const UserCall& call) {
            const Tensor before = launch.after == 0 ? Tensor() : conjugate(call.inputs[3]),
                         after = launch.before == 0 ? Tensor() : conjugate(call.inputs[2]);
            return std::vector<Tensor>{fft_lines(call.cotangents[0], transposed(launch.how), before, after), Tensor(),
                                       Tensor(), Tensor()};
          },
      .jvp =
          [launch](const UserCall& call) {
            return std::vector<Tensor>{fft_lines(call.tangents[0], launch.how,
                                                 launch.before == 0 ? Tensor() : call.inputs[2],
                                                 launch.after == 0 ? Tensor() : call.inputs[3])};
          },
      .vmap = [launch](std::span<const Tensor> in, const std::vector<bool>& mapped,
                       int64_t size) { return mapped_rule(in, mapped, size, launch); },
  });
}

// Definitions are kept for the life of the process.
const UserKernel& kernel_of(const Launch& launch) {
  static std::mutex mutex;
  static std::map<Launch, UserKernel> known;
  const std::lock_guard lock(mutex);
  const auto at = known.find(launch);
  return at != known.end() ? at->second : known.emplace(launch, define(launch)).first->second;
}

int table_kind(const Tensor& table) { return table.defined() ? table.rank() - 1 : 0; }

}  // namespace

bool takes_fft_lines(const Tensor& x) { return x.dtype() == DType::f32 && x.device().caps().target != Target::none; }

int64_t longest_fft_line(const DeviceContext& device) {
  const Caps& caps = device.caps();
  if (caps.machine() == Machine::cpu_loops) return longest_on_cpu;
  return std::min({longest_on_gpu, static_cast<int64_t>(caps.shared_bytes / 8),
                   static_cast<int64_t>(caps.max_group_lanes) * elements_of_a_lane});
}

Tensor fft_lines(const Tensor& x, const FftLines& how, const Tensor& before, const Tensor& after) {
  const Caps& caps = x.device().caps();
  Launch launch{how, table_kind(before), table_kind(after), 0, 0};
  if (caps.machine() != Machine::cpu_loops) {
    launch.lanes = (how.n + elements_of_a_lane - 1) / elements_of_a_lane;
    const int64_t fitting = std::min<int64_t>(caps.shared_bytes / 8 / how.n, caps.max_group_lanes / launch.lanes);
    const int64_t least = how.columns_in || how.columns_out ? shortest_columns : 1;  // neighbours in memory together
    launch.shared_lines = std::clamp<int64_t>(std::max(usual_group / launch.lanes, least), 1, fitting);
  }
  const int64_t steps = how.half == Half::none ? how.n : 2 * how.n;
  const Tensor roots = root_table(x.device(), steps, steps, how.sign);
  return kernel_of(launch).call({x, roots, before.defined() ? before : roots, after.defined() ? after : roots})[0];
}

}  // namespace heddle::build
