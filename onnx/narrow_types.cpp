#include "heddle/onnx/narrow_types.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/base/integers.h"
#include "heddle/core/functions/functions.h"

namespace heddle::onnx {
namespace {

// sign, exponent, mantissa from the highest bit on.
struct Format {
  Type type;
  int bits, mantissa;
  int least;           // exponent of the least normal number
  double largest;      // finite
  bool infinite;       // the highest exponent holds infinity and NaN
  bool unsigned_zero;  // the code of -0 is NaN
};

constexpr Format formats[] = {
    {Type::f8e4m3fn, 8, 3, -6, 448, false, false}, {Type::f8e4m3fnuz, 8, 3, -7, 240, false, true},
    {Type::f8e5m2, 8, 2, -14, 57344, true, false}, {Type::f8e5m2fnuz, 8, 2, -15, 57344, false, true},
    {Type::f4e2m1, 4, 1, 0, 6, false, false},
};

const Format* find_format(Type type) {
  const auto* const found = std::ranges::find(formats, type, &Format::type);
  return found == std::end(formats) ? nullptr : found;
}

bool has_nan(const Format& f) { return f.bits == 8; }
int sign_bit(const Format& f) { return 1 << (f.bits - 1); }
int nan_bits(const Format& f) { return f.unsigned_zero ? sign_bit(f) : sign_bit(f) - 1; }

int bits_in_file(Type type) {
  switch (type) {
    case Type::u2:
    case Type::i2:
      return 2;
    case Type::u4:
    case Type::i4:
    case Type::f4e2m1:
      return 4;
    default:
      return static_cast<int>(8 * size_of(type));
  }
}

}  // namespace

bool is_narrow_float(Type type) { return find_format(type) != nullptr; }
double largest(Type type) { return find_format(type)->largest; }

double narrow_value(Type type, uint8_t bits) {
  const Format& f = *find_format(type);
  const int magnitude = bits & (sign_bit(f) - 1), fraction = magnitude & ((1 << f.mantissa) - 1);
  const int exponent = magnitude >> f.mantissa, highest = (sign_bit(f) - 1) >> f.mantissa;
  const double sign = (bits & sign_bit(f)) != 0 ? -1 : 1;
  const bool nan = f.unsigned_zero ? bits == sign_bit(f) : magnitude == sign_bit(f) - 1;
  if (f.infinite && exponent == highest)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  if (has_nan(f) && nan) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(fraction, f.least - f.mantissa);
  return sign * std::ldexp(fraction + (1 << f.mantissa), exponent - 1 + f.least - f.mantissa);
}

uint8_t narrow_bits(Type type, double value) {
  const Format& f = *find_format(type);
  const int sign = std::signbit(value) ? sign_bit(f) : 0;
  if (std::isnan(value)) return static_cast<uint8_t>(has_nan(f) ? nan_bits(f) : sign_bit(f));
  const double magnitude = std::min(std::abs(value), 2 * f.largest);
  const int exponent = magnitude == 0 ? f.least : std::max(f.least, std::ilogb(magnitude));
  const double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));
  // What rounding carries into the next power of two is that power's code as well.
  const int code = ((exponent - f.least) << f.mantissa) + static_cast<int>(steps);
  if (std::ldexp(steps, exponent - f.mantissa) > f.largest) {
    if (f.infinite) return static_cast<uint8_t>(sign | (sign_bit(f) - (1 << f.mantissa)));
    return static_cast<uint8_t>(has_nan(f) ? nan_bits(f) : sign | (sign_bit(f) - 1));
  }
  return static_cast<uint8_t>(code == 0 && f.unsigned_zero ? 0 : sign | code);
}

Tensor narrowed(const Tensor& x, Type type, bool saturate) {
  const Format& f = *find_format(type);
  const Tensor magnitude = abs(x);
  // The distance of neighbours doubles with each power of two above the least.
  Tensor step = full_like(x, std::ldexp(1.0, f.least - f.mantissa));
  for (int e = f.least + 1; e <= std::ilogb(f.largest); ++e)
    step = where(magnitude >= std::ldexp(1.0, e), std::ldexp(1.0, e - f.mantissa), step);
  Tensor y = round(x / step) * step;
  if (f.unsigned_zero) y = where(eq(y, 0.0), 0.0, y);
  if (!has_nan(f)) y = where(isnan(y), 0.0, y);
  if (saturate || !has_nan(f)) return cast(clamp(y, -f.largest, f.largest), DType::f32);
  const double beyond = f.infinite ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  y = where(gt(y, f.largest), beyond, y);
  return cast(where(lt(y, -f.largest), -beyond, y), DType::f32);
}

uint64_t bytes_in_file(Type type, uint64_t elements) {
  const auto bits = static_cast<uint64_t>(bits_in_file(type));
  return bits >= 8 ? elements * (bits / 8) : ceil_div(elements, 8 / bits);
}

std::string unpacked(Type type, std::string_view bytes, size_t elements) {
  const int bits = bits_in_file(type);
  if (bits >= 8) return std::string(bytes);
  const auto each = static_cast<size_t>(8 / bits);
  std::string result(elements, '\0');
  for (size_t i = 0; i < elements; ++i) {
    const int shift = static_cast<int>(i % each) * bits;
    const int value = (static_cast<uint8_t>(bytes[i / each]) >> shift) & ((1 << bits) - 1);
    result[i] = static_cast<char>(type == Type::f4e2m1 ? value : wrap(int64_t{value}, type));
  }
  return result;
}

std::string packed(Type type, std::string_view elements) {
  const int bits = bits_in_file(type);
  if (bits >= 8) return std::string(elements);
  const auto each = static_cast<size_t>(8 / bits);
  std::string result(static_cast<size_t>(bytes_in_file(type, elements.size())), '\0');
  for (size_t i = 0; i < elements.size(); ++i) {
    const int value = static_cast<uint8_t>(elements[i]) & ((1 << bits) - 1);
    result[i / each] =
        static_cast<char>(static_cast<uint8_t>(result[i / each]) | value << (i % each * static_cast<size_t>(bits)));
  }
  return result;
}

}  // namespace heddle::onnx
