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
constexpr int64_t longest_by_steps = 65536, shortest_by_steps = 256;
constexpr int64_t short_by_steps = 4096;  // with arrays of their own: small launches share a work item's stack
constexpr int64_t elements_of_a_group = 4096, groups_at_least = 64,
                  few_rows = 32;  // on CPUs, where a group costs what 10 elements do
constexpr int64_t longest_on_gpu = 16384, elements_of_a_lane = 16, usual_group = 64;

// The launch with what its text knows of the tables: 0 none, 1 by element, 2 by element and line.
struct Launch {
  FftLines how;
  int before = 0, after = 0;
  int64_t lanes = 0, shared_lines = 0;  // 0 on CPUs, where a lane has lines
  int64_t column = 0;                   // of the four steps of a row, 0 where 16 lines are vectors
  auto key() const {
    return std::tuple(how.n, how.given, how.wanted, how.sign, how.scale, how.edge, how.half, how.chirp, how.real_in,
                      how.real_out, how.columns_in, how.columns_out, before, after, lanes, shared_lines, column);
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

// Rows, or 16 lines each, of a CPU's group: enough to be worth one, and groups enough for all cores.
int64_t share_of(const Shape& x, const Launch& launch) {
  const int64_t together = launch.column > 0 ? 1 : 16;
  const int64_t units = x[0] * ((lines_of(x, launch.how) + together - 1) / together);
  return std::clamp<int64_t>(elements_of_a_group / (together * launch.how.n), 1,
                             std::max<int64_t>(1, units / groups_at_least));
}

std::map<std::string, double> constants_of(const Shape& x, const Launch& launch) {
  const FftLines& how = launch.how;
  const bool steps = launch.column > 0;
  const Passes passes = passes_of(steps ? launch.column : how.n, launch.lanes > 0);
  const Passes row = steps ? passes_of(how.n / launch.column, false) : Passes{};
  return {{"N", static_cast<double>(how.n)},
          {"BATCH", static_cast<double>(x[0])},
          {"LINES", static_cast<double>(lines_of(x, how))},
          {"GIVEN", static_cast<double>(how.given)},
          {"KEEP", static_cast<double>(how.wanted)},
          {"COUNTS", passes.counts},
          {"PRIMES", passes.primes},
          {"COLUMN", static_cast<double>(steps ? launch.column : 1)},
          {"ROW_COUNTS", row.counts},
          {"ROW_PRIMES", row.primes},
          {"SHARE", static_cast<double>(share_of(x, launch))},
          {"SCALE", how.scale},
          {"EDGE", how.edge}};
}

std::map<std::string, int64_t, std::less<>> facts_of(const Launch& launch) {
  const FftLines& how = launch.how;
  std::map<std::string, int64_t, std::less<>> facts{{"BACK", how.sign > 0 && how.chirp == 0},
                                                    {"REAL_IN", how.real_in},
                                                    {"REAL_OUT", how.real_out},
                                                    {"COLUMNS_IN", how.columns_in},
                                                    {"COLUMNS_OUT", how.columns_out},
                                                    {"HALF", static_cast<int64_t>(how.half)},
                                                    {"BEFORE", launch.before},
                                                    {"AFTER", launch.after},
                                                    {"CONVOLVE", how.chirp > 0},
                                                    {"SCHEDULE", launch.lanes > 0    ? 0
                                                                 : launch.column > 0 ? 2
                                                                                     : 1}};
  if (launch.lanes == 0) {
    facts["CAP"] = launch.column == 0 ? longest_on_cpu : how.n > short_by_steps ? longest_by_steps : short_by_steps;
  } else {
    facts["CAP"] = how.n;
    facts["RADICES"] = passes_of(how.n, true).radices;
    facts["LANES"] = launch.lanes;
    facts["SHARED_LINES"] = launch.shared_lines;
  }
  return facts;
}

// The launch once more, for other elements.
Tensor again(const Tensor& x, const Launch& launch, std::span<const Tensor> in) {
  const bool own = launch.how.chirp > 0;
  return fft_lines(x, launch.how, own || launch.before == 0 ? Tensor() : in[2],
                   own || launch.after == 0 ? Tensor() : in[3]);
}

Tensor transposed_call(const Tensor& g, const Launch& launch, std::span<const Tensor> in) {
  const bool own = launch.how.chirp > 0;
  return fft_lines(g, transposed(launch.how), own || launch.after == 0 ? Tensor() : conjugate(in[3]),
                   own || launch.before == 0 ? Tensor() : conjugate(in[2]));
}

// Mapped examples lie beside the matrices, or, where lines are rows that know no tables of their own, beside those.
Tensor mapped_call(std::span<const Tensor> in, const Launch& launch) {
  const FftLines& how = launch.how;
  const Shape& shape = in[0].shape();
  const int64_t size = shape[0];
  const bool rows = !how.columns_in && !how.columns_out && launch.before < 2 && launch.after < 2;
  const Shape each = shape.without(0);
  const Shape flat = rows ? each.with(0, 1).with(1, size * each[0] * each[1]) : each.with(0, size * each[0]);
  const Tensor y = again(reshape(in[0], flat), launch, in);
  return reshape(y, result_shape(each, how).inserted(0, size));
}

std::vector<Tensor> mapped_rule(std::span<const Tensor> in, const std::vector<bool>& mapped, int64_t size,
                                const Launch& launch) {
  if (mapped[0]) return {mapped_call(in, launch)};
  const Tensor y = again(in[0], launch, in);
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
            return std::vector<Tensor>{transposed_call(call.cotangents[0], launch, call.inputs), Tensor(), Tensor(),
                                       Tensor()};
          },
      .jvp =
          [launch](const UserCall& call) { return std::vector<Tensor>{again(call.tangents[0], launch, call.inputs)}; },
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

// 16 rows as vectors leave no lane without work, but one row alone stays in the first cache; both sides multiples of 16
// leave none either.
bool by_steps(const Shape& x, const Launch& launch) {
  const FftLines& how = launch.how;
  if (how.columns_in || how.columns_out || launch.before > 1 || launch.after > 1 || how.n < shortest_by_steps)
    return false;
  const int64_t tall = column_of(how.n);
  if (tall == 0) return false;
  const int64_t wide = how.n / tall, lanes = (tall + 15) / 16 * ((wide + 15) / 16) * 256;
  return how.chirp > 0 || how.n > longest_on_cpu || x[0] * x[1] < few_rows || 5 * lanes <= 8 * how.n;
}

Tensor roots_of(DeviceContext& device, const Launch& launch) {
  const FftLines& how = launch.how;
  const bool half = how.half != Half::none;
  if (how.chirp > 0) return convolution_table(device, how.chirp, launch.column, how.n / launch.column, how.sign);
  if (launch.column > 0) return steps_table(device, launch.column, how.n / launch.column, how.sign, half);
  const int64_t count = half ? 2 * how.n : how.n;
  return root_table(device, count, count, how.sign);
}

int table_kind(const Tensor& table) { return table.defined() ? table.rank() - 1 : 0; }

}  // namespace

bool takes_fft_lines(const Tensor& x) { return x.dtype() == DType::f32 && x.device().caps().target != Target::none; }

bool fits_fft_row(const DeviceContext& device, int64_t n) {
  if (!is_smooth(n)) return false;
  if (n <= longest_fft_line(device)) return true;
  return device.caps().machine() == Machine::cpu_loops && n <= longest_by_steps && column_of(n) > 0;
}

bool convolves_fft_row(const DeviceContext& device, int64_t m) {
  return device.caps().machine() == Machine::cpu_loops && m <= longest_by_steps && column_of(m) > 0;
}

int64_t longest_fft_line(const DeviceContext& device) {
  const Caps& caps = device.caps();
  if (caps.machine() == Machine::cpu_loops) return longest_on_cpu;
  return std::min({longest_on_gpu, static_cast<int64_t>(caps.shared_bytes / 8),
                   static_cast<int64_t>(caps.max_group_lanes) * elements_of_a_lane});
}

Tensor fft_lines(const Tensor& x, const FftLines& how, const Tensor& before, const Tensor& after) {
  if (how.chirp > 0 && !before.defined())
    return fft_lines(x, how, chirp_table(x.device(), how.chirp, how.given, how.sign),
                     chirp_table(x.device(), how.chirp, how.wanted, how.sign));
  const Caps& caps = x.device().caps();
  Launch launch{how, table_kind(before), table_kind(after), 0, 0, 0};
  if (caps.machine() != Machine::cpu_loops) {
    launch.lanes = (how.n + elements_of_a_lane - 1) / elements_of_a_lane;
    const int64_t fitting = std::min<int64_t>(caps.shared_bytes / 8 / how.n, caps.max_group_lanes / launch.lanes);
    const int64_t least = how.columns_in || how.columns_out ? shortest_columns : 1;  // neighbours in memory together
    launch.shared_lines = std::clamp<int64_t>(std::max(usual_group / launch.lanes, least), 1, fitting);
  }
  if (launch.lanes == 0 && by_steps(x.shape(), launch)) launch.column = column_of(how.n);
  const Tensor roots = roots_of(x.device(), launch);
  return kernel_of(launch).call({x, roots, before.defined() ? before : roots, after.defined() ? after : roots})[0];
}

}  // namespace heddle::build
