#include "heddle/core/contract/slices.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace heddle {
namespace {

// The number that a text begins with, in any locale; 0 where there is none.
double leading_number(std::string_view text) {
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

}  // namespace

double timeout_seconds() {
  const char* text = std::getenv("HEDDLE_TIMEOUT");
  const double seconds = text ? leading_number(text) : 0;
  return seconds > 0 ? seconds : 0;
}

double slice_seconds(DeviceClass device_class) {
  if (const char* text = std::getenv("HEDDLE_SLICE_MS")) return std::max(0.0, leading_number(text) * 1e-3);
  return device_class == DeviceClass::cpu ? 0 : 0.2;
}

}  // namespace heddle
