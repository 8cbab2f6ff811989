#include "heddle/core/base/ggml_quantise.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"

namespace heddle {
namespace {

using Values = std::span<const float>;

constexpr double no_error = std::numeric_limits<double>::infinity();

// x ~ step * q + least.
struct Fit {
  double step = 0, least = 0, error = no_error;
};

// The nearest whole number in the range: a cast above zero, since lround() costs more than all else here.
int whole(double value, int low, int high) {
  return static_cast<int>(std::clamp(value, double(low), double(high)) - low + 0.5) + low;
}

double error_of(Values x, const Fit& fit, int low, int high) {
  double error = 0;
  const double inverse = fit.step == 0 ? 0 : 1 / fit.step;
  for (const float value : x) {
    const int q = whole((value - fit.least) * inverse, low, high);
    const double difference = value - (fit.step * q + fit.least);
    error += difference * difference;
  }
  return error;
}

// Least squares over scales under which the value of the greatest size becomes about `low`.
Fit fit_scale(Values x, int low, int high) {
  const double extreme = *std::ranges::max_element(x, {}, [](float value) { return std::abs(value); });
  if (extreme == 0) return {};
  Fit best;
  for (int k = -6; k <= 6; ++k) {
    const double inverse = (low + k / 6.0) / extreme;
    double xq = 0, qq = 0;
    for (const float value : x) {
      const int q = whole(value * inverse, low, high);
      xq += value * double(q), qq += double(q) * q;
    }
    Fit fit{.step = qq > 0 ? xq / qq : 0};
    fit.error = error_of(x, fit, low, high);
    if (fit.error < best.error) best = fit;
  }
  return best;
}

// Scale and minimum of least squares for these whole numbers; `below`: the minimum is 0 at most.
Fit solved(Values x, double inverse, double start, int high, bool below) {
  double q1 = 0, q2 = 0, x1 = 0, xq = 0;
  const auto n = static_cast<double>(x.size());
  for (const float value : x) {
    const int q = whole((value - start) * inverse, 0, high);
    q1 += q, q2 += double(q) * q, x1 += value, xq += value * double(q);
  }
  const double determinant = n * q2 - q1 * q1;
  if (determinant <= 0) return {};
  Fit fit{.step = (n * xq - x1 * q1) / determinant};
  fit.least = (x1 - fit.step * q1) / n;
  if (below && fit.least > 0) fit = {.step = xq / q2};
  if (fit.step > 0) fit.error = error_of(x, fit, 0, high);
  return fit;
}

Fit fit_range(Values x, int high, bool below) {
  const auto [least, most] = std::ranges::minmax(x);
  const double start = below ? std::min(least, 0.0F) : least;
  if (most <= start) return {.least = start, .error = error_of(x, {.least = start}, 0, high)};
  Fit best{.step = (most - start) / high, .least = start};
  best.error = error_of(x, best, 0, high);
  for (int k = -5; k <= 5; ++k) {
    const Fit fit = solved(x, (high + 0.2 * k) / (most - start), start, high, below);
    if (fit.error < best.error) best = fit;
  }
  return best;
}

// Writes the number in 16 bits and gives what stands there.
double put_half(uint8_t* at, double value) {
  const uint16_t bits = f32_to_f16(static_cast<float>(value));
  std::memcpy(at, &bits, sizeof bits);
  const float stored = f16_to_f32(bits);
  if (!std::isfinite(stored)) throw ValueError(fmt::format("[quantise] {} is beyond 16 bits", value));
  return stored;
}

void pack_f32(Values x, uint8_t* out) { std::memcpy(out, x.data(), sizeof(float)); }
void pack_f16(Values x, uint8_t* out) { put_half(out, x[0]); }
void pack_bf16(Values x, uint8_t* out) {
  const uint16_t bits = f32_to_bf16(x[0]);
  std::memcpy(out, &bits, sizeof bits);
}

void pack_q8_0(Values x, uint8_t* out) {
  const float extreme = std::abs(*std::ranges::max_element(x, {}, [](float value) { return std::abs(value); }));
  const double step = put_half(out, extreme / 127.0);
  for (size_t i = 0; i < x.size(); ++i)
    out[2 + i] = static_cast<uint8_t>(step == 0 ? 0 : whole(x[i] / step, -127, 127));
}

// Two of 4 bits in a byte, elements 16 apart.
void put_nibbles(Values x, const Fit& fit, int low, int high, uint8_t* out) {
  const auto q = [&](float value) {
    return fit.step == 0 ? -low : whole((value - fit.least) / fit.step, low, high) - low;
  };
  const size_t half = x.size() / 2;
  for (size_t i = 0; i < half; ++i) out[i] = static_cast<uint8_t>(q(x[i]) | q(x[i + half]) << 4);
}

void pack_q4_0(Values x, uint8_t* out) {
  const double step = put_half(out, fit_scale(x, -8, 7).step);
  put_nibbles(x, {.step = step}, -8, 7, out + 2);
}

void pack_q4_1(Values x, uint8_t* out) {
  const Fit fit = fit_range(x, 15, false);
  const double step = put_half(out, fit.step), least = put_half(out + 2, fit.least);
  put_nibbles(x, {step, least}, 0, 15, out + 4);
}

// A group's scale and minimum in 6 bits each; the first four of each whole, of the others the high 2 bits above these.
void put_group_scales(uint8_t* packed, size_t group, int scale, int least) {
  if (group < 4) {
    packed[group] |= static_cast<uint8_t>(scale), packed[group + 4] |= static_cast<uint8_t>(least);
    return;
  }
  packed[group + 4] = static_cast<uint8_t>((scale & 15) | (least & 15) << 4);
  packed[group - 4] |= static_cast<uint8_t>(scale >> 4 << 6);
  packed[group] |= static_cast<uint8_t>(least >> 4 << 6);
}

// Of a group of Q4_K, under the block's scales: the pair of 6 bits beside the rounded one with the least error.
struct GroupFit {
  int scale = 0, least = 0;
  Fit fit;
};
GroupFit rounded_group(Values x, const Fit& wanted, double scale, double least) {
  const int near_scale = scale == 0 ? 0 : whole(wanted.step / scale, 0, 63);
  const int near_least = least == 0 ? 0 : whole(-wanted.least / least, 0, 63);
  GroupFit best;
  for (int s = std::max(near_scale - 1, 0); s <= std::min(near_scale + 1, 63); ++s) {
    for (int m = std::max(near_least - 1, 0); m <= std::min(near_least + 1, 63); ++m) {
      Fit fit{.step = scale * s, .least = -least * m};
      fit.error = error_of(x, fit, 0, 15);
      if (fit.error < best.fit.error) best = {s, m, fit};
    }
  }
  return best;
}

void pack_q4_k(Values x, uint8_t* out) {
  std::array<Fit, 8> fits;
  double most_step = 0, most_least = 0;
  for (size_t group = 0; group < 8; ++group) {
    fits[group] = fit_range(x.subspan(32 * group, 32), 15, true);
    most_step = std::max(most_step, fits[group].step), most_least = std::max(most_least, -fits[group].least);
  }
  const double scale = put_half(out, most_step / 63), least = put_half(out + 2, most_least / 63);
  for (size_t group = 0; group < 8; ++group) {
    const Values own = x.subspan(32 * group, 32);
    const GroupFit found = rounded_group(own, fits[group], scale, least);
    put_group_scales(out + 4, group, found.scale, found.least);
    for (size_t i = 0; i < 32; ++i) {
      const int q = found.fit.step == 0 ? 0 : whole((own[i] - found.fit.least) / found.fit.step, 0, 15);
      out[16 + 32 * (group / 2) + i] |= static_cast<uint8_t>(group % 2 == 0 ? q : q << 4);
    }
  }
}

// Places of an element's bits are those of unpack_q6_k() (ggml_types.cpp).
void pack_q6_k(Values x, uint8_t* out) {
  std::array<double, 16> steps;
  double most = 0;
  for (size_t group = 0; group < 16; ++group) {
    steps[group] = fit_scale(x.subspan(16 * group, 16), -32, 31).step;
    most = std::max(most, std::abs(steps[group]));
  }
  const double scale = put_half(out + 208, most / 127);
  for (size_t group = 0; group < 16; ++group) {
    const int own = scale == 0 ? 0 : whole(steps[group] / scale, -127, 127);
    out[192 + group] = static_cast<uint8_t>(own);
    for (size_t i = 16 * group; i < 16 * group + 16; ++i) {
      const int q = own == 0 ? 32 : whole(x[i] / (scale * own), -32, 31) + 32;
      const size_t half = i / 128, quarter = i % 128 / 32, column = i % 32;
      out[64 * half + 32 * (quarter % 2) + column] |= static_cast<uint8_t>(quarter < 2 ? q & 15 : (q & 15) << 4);
      out[128 + 32 * half + column] |= static_cast<uint8_t>(q >> 4 << (2 * quarter));
    }
  }
}

// The nearest level of each; where two are as near, the lower.
void pack_nf4(Values x, uint8_t* out) {
  const auto levels = nf4_levels();
  const float extreme = std::abs(*std::ranges::max_element(x, {}, [](float value) { return std::abs(value); }));
  const double scale = put_half(out, extreme);
  const auto nearest = [&](float value) {
    const double share = scale == 0 ? 0 : value / scale;
    size_t q = 0;
    while (q + 1 < levels.size() && share > (double(levels[q]) + levels[q + 1]) / 2) ++q;
    return q;
  };
  for (size_t i = 0; i < 32; ++i) {
    const size_t at = i < 16 ? i : i + 16;
    out[2 + i] = static_cast<uint8_t>(nearest(x[at]) | nearest(x[at + 16]) << 4);
  }
}

auto packer_of(GgmlType type) -> void (*)(Values, uint8_t*) {
  switch (type) {
    case GgmlType::f32:
      return pack_f32;
    case GgmlType::f16:
      return pack_f16;
    case GgmlType::bf16:
      return pack_bf16;
    case GgmlType::q4_0:
      return pack_q4_0;
    case GgmlType::q4_1:
      return pack_q4_1;
    case GgmlType::q8_0:
      return pack_q8_0;
    case GgmlType::q4_k:
      return pack_q4_k;
    case GgmlType::nf4:
      return pack_nf4;
    default:
      return pack_q6_k;
  }
}

}  // namespace

std::vector<uint8_t> quantise(GgmlType type, std::span<const float> values) {
  const GgmlBlock& block = block_of(type);
  if (values.size() % block.elements != 0)
    throw ValueError(fmt::format("[quantise] {} values are no whole blocks of {}: each has {}", values.size(),
                                 block.name, block.elements));
  for (const float value : values) {
    if (!std::isfinite(value)) throw ValueError(fmt::format("[quantise] a value is {}", value));
  }
  std::vector<uint8_t> packed(values.size() / block.elements * block.bytes);
  const auto pack = packer_of(type);
  for (size_t i = 0; i < values.size() / block.elements; ++i)
    pack(values.subspan(i * block.elements, block.elements), packed.data() + i * block.bytes);
  return packed;
}

}  // namespace heddle
