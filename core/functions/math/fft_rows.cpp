#include "heddle/core/functions/math/fft_rows.h"

#include <bit>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "heddle/core/device/context.h"
#include "heddle/core/dialect/builtin_files.h"
#include "heddle/core/functions/math/fft_tables.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/user/user_kernel.h"

namespace heddle::build {
namespace {

std::string rows_text() {
  for (const BuiltinFile& file : builtin_files()) {
    if (file.name == "fft.hk") return std::string(file.text);
  }
  throw Error("[fft] the library was built without shaders/fft.hk");
}

Shape result_shape(int64_t rows, const FftRows& how) {
  return how.real_out ? Shape{rows, how.wanted} : Shape{rows, how.wanted, 2};
}

UserKernel define(const FftRows& how) {
  const auto transposed = [how](const Tensor& g) {
    return fft_rows(g, {how.n, how.wanted, how.given, -how.sign, how.scale, how.real_out, how.real_in});
  };
  return body_kernel({
      .name = "fft",
      .text = rows_text(),
      .outputs =
          [how](std::span<const TensorType> in) {
            return std::vector<TensorType>{{result_shape(in[0].shape[0], how), DType::f32}};
          },
      .constants =
          [how](std::span<const TensorType> in) {
            return std::map<std::string, double>{{"ROWS", static_cast<double>(in[0].shape[0])},
                                                 {"GIVEN", static_cast<double>(how.given)},
                                                 {"KEEP", static_cast<double>(how.wanted)},
                                                 {"SIGN", how.sign},
                                                 {"SCALE", how.scale}};
          },
      .tunables = {{"N", how.n}, {"REAL_IN", how.real_in ? 1 : 0}, {"REAL_OUT", how.real_out ? 1 : 0}},
      .iterations = how.n,
      .vjp =
          [transposed](const UserCall& call) {
            return std::vector<Tensor>{transposed(call.cotangents[0]), Tensor()};
          },
      .jvp = [how](const UserCall& call) { return std::vector<Tensor>{fft_rows(call.tangents[0], how)}; },
      .vmap =
          [how](std::span<const Tensor> in, const std::vector<bool>& mapped, int64_t size) {
            if (!mapped[0])
              return std::vector<Tensor>{
                  expand(unsqueeze(fft_rows(in[0], how), 0), result_shape(in[0].dim(0), how).inserted(0, size))};
            const Shape& shape = in[0].shape();
            const Tensor rows = fft_rows(reshape(in[0], shape.without(0).with(0, shape[0] * shape[1])), how);
            return std::vector<Tensor>{reshape(rows, result_shape(shape[1], how).inserted(0, size))};
          },
  });
}

// Definitions are kept for the life of the process.
const UserKernel& kernel_of(const FftRows& how) {
  static std::mutex mutex;
  static std::map<std::tuple<int64_t, int64_t, int64_t, double, double, bool, bool>, UserKernel> known;
  const std::lock_guard lock(mutex);
  const std::tuple key{how.n, how.given, how.wanted, how.sign, how.scale, how.real_in, how.real_out};
  const auto at = known.find(key);
  return at != known.end() ? at->second : known.emplace(key, define(how)).first->second;
}

}  // namespace

bool takes_fft_rows(const Tensor& x, int64_t n) {
  const Caps& caps = x.device().caps();
  if (x.dtype() != DType::f32 || caps.target == Target::none || n < shortest_fft_row || n > longest_fft_row ||
      caps.machine() == Machine::cpu_loops || !std::has_single_bit(static_cast<uint64_t>(n)))
    return false;
  return static_cast<uint64_t>(n) / 16 <= caps.max_group_lanes && static_cast<uint64_t>(8 * n) <= caps.shared_bytes;
}

Tensor fft_rows(const Tensor& x, const FftRows& how) {
  return kernel_of(how).call({x, twiddle_table(x.device(), 16, how.n / 16, how.sign)})[0];
}

}  // namespace heddle::build
