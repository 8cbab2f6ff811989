#include "heddle/distributed/forecast/machine.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/base/error.h"

namespace heddle::distributed {
namespace {

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

void refuse(const char* key, double value, const char* expected) {
  throw ValueError(fmt::format("[link] machine.{} is {}; it must be {}", key, value, expected));
}

}  // namespace

double Machine::flops(DType dtype) const {
  const double peak = dtype == DType::f32 ? flops_f32 : dtype == DType::f16 ? flops_f16 : flops_bf16;
  const bool known = dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
  if (!known || peak <= 0)
    throw ValueError(fmt::format("[link] the machine has no peak of {0} (machine.flops_{0})", name_of(dtype)));
  return peak;
}

void check(const Machine& m) {
  for (const auto& [key, value] : {std::pair{"memory", m.memory}, {"memory_bandwidth", m.memory_bandwidth}})
    if (!is_positive(value)) refuse(key, value, "above 0");
  for (const auto& [key, value] :
       {std::pair{"flops_f32", m.flops_f32}, {"flops_f16", m.flops_f16}, {"flops_bf16", m.flops_bf16}})
    if (value != 0 && !is_positive(value)) refuse(key, value, "above 0");
  for (const auto& [key, value] : {std::pair{"cut", m.cut}, {"record", m.record}})
    if (!std::isfinite(value) || value < 0) refuse(key, value, "at least 0");
  if (!is_positive(m.efficiency) || m.efficiency > 1) refuse("efficiency", m.efficiency, "above 0 and at most 1");
  if (!std::isfinite(m.half_size) || m.half_size < 0) refuse("half_size", m.half_size, "at least 0");
}

double product_seconds(const Machine& machine, DType dtype, double flops, const ProductSizes& sizes) {
  if (flops <= 0) return 0;
  double rate = machine.flops(dtype) * machine.efficiency;
  for (const double size : {sizes.rows, sizes.inner, sizes.columns})
    if (size > 0) rate *= size / (size + machine.half_size);
  return flops / rate;
}

double traffic_seconds(const Machine& machine, double bytes) { return bytes / machine.memory_bandwidth; }

}  // namespace heddle::distributed
