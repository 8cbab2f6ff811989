#include "heddle/nn/packed_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/user/user_kernel.h"

namespace heddle::nn {
namespace {

// The magnitudes under one power of ten: `count` of them, whose first code is `count` as well, `step` apart.
struct Decade {
  int count;
  double step;
  double least;  // what is smaller is rounded to a code of the decade before
  double last() const { return step * count * 10 / 9 - step / 2; }
};

std::vector<Decade> decades_of(StateCode code) {
  std::vector<Decade> decades;
  for (int i = 0; i < 7; ++i) {
    const int count = (code == StateCode::positive ? 2 : 1) << i;
    const double step = 0.9 * std::pow(10, i - 6) / count, first = step * count / 9 + step / 2;
    const double before = decades.empty() ? 0 : decades.back().last();
    decades.push_back({count, step, (before + first) / 2});
  }
  if (code == StateCode::positive) decades.front().least = 0;
  return decades;
}

double least_of_one(const std::vector<Decade>& decades) { return (decades.back().last() + 1) / 2; }

// "x < 2.0 ? a : x < 4.0 ? b : c", where `limit` is the least x of a decade.
std::string chosen(const std::vector<Decade>& decades, const char* x, double (*limit)(const Decade&),
                   double (*value)(const Decade&)) {
  std::string text;
  for (size_t i = 0; i + 1 < decades.size(); ++i)
    text += fmt::format("{} < {:.9e} ? {:.9e} : ", x, limit(decades[i + 1]), value(decades[i]));
  return text + fmt::format("{:.9e}", value(decades.back()));
}

double count_of(const Decade& d) { return d.count; }

// ---- to codes

constexpr const char* coding = R"(
float a = abs(x);
float count = {counts};
float part = floor(a * ({inverse_steps}) - count * {ninth:.9e});
code = CAST(int, count + max(min(part, count - 1.0), 0.0));
code = a > {least:.9e} ? code : 0;
code = a < {least_of_one:.9e} ? code : {one};
code = {signed};
code = isnan(x) ? 0 : code;
)";

std::string coding_text(StateCode code) {
  const std::vector<Decade> decades = decades_of(code);
  const auto least = [](const Decade& d) { return d.least; };
  const bool positive = code == StateCode::positive;
  return fmt::format(fmt::runtime(coding), fmt::arg("counts", chosen(decades, "a", least, count_of)),
                     fmt::arg("ninth", 1.0 / 9),
                     fmt::arg("inverse_steps", chosen(decades, "a", least, [](const Decade& d) { return 1 / d.step; })),
                     fmt::arg("least", decades.front().least), fmt::arg("least_of_one", least_of_one(decades)),
                     fmt::arg("one", positive ? "1" : "(x > 0.0 ? 128 : 127)"),
                     fmt::arg("signed", positive ? "code" : "(x < 0.0 && code > 0 ? code + 128 : code)"));
}

double code_of(double x, StateCode code) {
  static const std::vector<Decade> known[] = {decades_of(StateCode::with_sign), decades_of(StateCode::positive)};
  const std::vector<Decade>& decades = known[static_cast<size_t>(code)];
  const double a = std::abs(x);
  const bool positive = code == StateCode::positive;
  if (!(a > decades.front().least)) return 0;
  if (a >= least_of_one(decades) && (positive || x > 0)) return positive ? 1 : 128;
  const auto above = std::find_if(decades.begin() + 1, decades.end(), [&](const Decade& d) { return a < d.least; });
  const Decade& own = *(above - 1);
  const double part = std::floor(a / own.step - own.count / 9.0);
  return own.count + std::clamp<double>(part, 0, own.count - 1) + (positive || x > 0 ? 0 : 128);
}

UserElementwise coder(StateCode code) {
  return {.name = code == StateCode::positive ? "positive_state_code" : "signed_state_code",
          .inputs = {{"x", DType::f32}},
          .outputs = {{"code", DType::u8}},
          .text = coding_text(code),
          .host = [code](std::span<const double> in, std::span<double> out) { out[0] = code_of(in[0], code); }};
}

// ---- from codes

constexpr const char* decoding = R"(
int bits = {bits};
float place = CAST(float, bits);
float count = {counts};
value = ({steps}) * (place - count + (0.5 + count * {ninth:.9e}));
value = bits > {last_special} ? value : bits == 0 ? 0.0 : 1.0;
{sign}
)";

std::string decoding_text(StateCode code) {
  const std::vector<Decade> decades = decades_of(code);
  const bool positive = code == StateCode::positive;
  return fmt::format(fmt::runtime(decoding), fmt::arg("bits", positive ? "code" : "code & 127"),
                     fmt::arg("counts", chosen(decades, "place", count_of, count_of)), fmt::arg("ninth", 1.0 / 9),
                     fmt::arg("steps", chosen(decades, "place", count_of, [](const Decade& d) { return d.step; })),
                     fmt::arg("last_special", positive ? 1 : 0),
                     fmt::arg("sign", positive ? "" : "value = code > 128 ? -value : code == 128 ? 1.0 : value;"));
}

double value_of(int code_bits, StateCode code) {
  static const std::vector<Decade> known[] = {decades_of(StateCode::with_sign), decades_of(StateCode::positive)};
  const bool positive = code == StateCode::positive;
  const int bits = positive ? code_bits : code_bits & 127;
  if (code_bits == (positive ? 1 : 128)) return 1;
  if (bits == 0) return 0;
  const std::vector<Decade>& decades = known[static_cast<size_t>(code)];
  const auto above = std::find_if(decades.begin() + 1, decades.end(), [&](const Decade& d) { return bits < d.count; });
  const Decade& own = *(above - 1);
  const double value = own.step * (bits - own.count + 0.5 + own.count / 9.0);
  return bits == code_bits ? value : -value;
}

UserElementwise decoder(StateCode code) {
  return {.name = code == StateCode::positive ? "positive_state_value" : "signed_state_value",
          .inputs = {{"code", DType::u8}},
          .outputs = {{"value", DType::f32}},
          .text = decoding_text(code),
          .host = [code](std::span<const double> in, std::span<double> out) {
            out[0] = value_of(static_cast<int>(in[0]), code);
          }};
}

const UserKernel& kernel_of(StateCode code, bool to_codes) {
  static const UserKernel coders[] = {elementwise_kernel(coder(StateCode::with_sign)),
                                      elementwise_kernel(coder(StateCode::positive))};
  static const UserKernel decoders[] = {elementwise_kernel(decoder(StateCode::with_sign)),
                                        elementwise_kernel(decoder(StateCode::positive))};
  return (to_codes ? coders : decoders)[static_cast<size_t>(code)];
}

}  // namespace

PackedState packed_state(const Tensor& values, StateCode code) {
  if (values.rank() != 2 || values.dim(1) != state_block)
    throw ShapeError(
        fmt::format("[packed_state] values are {}, expected blocks (N, {})", values.shape().str(), state_block));
  const Tensor scales = max(abs(values), {-1}, true);
  const Tensor parts = where(scales > 0.0, values / scales, scales);  // of a NaN: NaN
  return {kernel_of(code, true)(parts), scales};
}

Tensor unpacked_state(const PackedState& state, StateCode code) {
  return kernel_of(code, false)(state.codes) * state.scales;
}

Tensor in_blocks(const Tensor& x) {
  const int64_t count = x.numel(), rest = (state_block - count % state_block) % state_block;
  const Tensor flat = reshape(x, {count});
  return reshape(rest == 0 ? flat : pad(flat, {{0, rest}}), {(count + rest) / state_block, state_block});
}

Tensor out_of_blocks(const Tensor& blocks, const Shape& shape) {
  const Tensor flat = reshape(blocks, {blocks.numel()});
  return reshape(flat.numel() == shape.numel() ? flat : slice(flat, 0, {0, shape.numel()}), shape);
}

}  // namespace heddle::nn
