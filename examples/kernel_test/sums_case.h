// Arguments and results of the kernel `sums`.
#pragma once

#include <heddle/core/dialect/harness.h>

#include <string>
#include <vector>

namespace sums_case {

// What no file of a kernel says, but for a .hk: its parameters and lanes.
inline heddle::KernelText load(const std::string& file) {
  heddle::KernelText kernel = heddle::KernelText::load(file);
  kernel.buffers = {{"x", heddle::DType::f32, heddle::Access::read}, {"y", heddle::DType::f32, heddle::Access::write}};
  kernel.constants = {{"N", heddle::ConstParam::Type::u32}};
  kernel.group = {64, 1, 1};
  return kernel;
}

inline size_t groups(size_t n) { return (n + 63) / 64; }

// x = 0, 1, 2, ...
inline heddle::KernelRun of(size_t n) {
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<double>(i);
  heddle::KernelRun r;
  r.arrays = {{"x", heddle::KernelArray::of(heddle::DType::f32, x)},
              {"y", heddle::KernelArray::zeros(heddle::DType::f32, groups(n))}};
  r.constants = {{"N", static_cast<double>(n)}};
  r.groups = {static_cast<uint32_t>(groups(n)), 1, 1};
  return r;
}

inline std::vector<double> expected(size_t n) {
  std::vector<double> y(groups(n));
  for (size_t i = 0; i < n; ++i) y[i / 64] += static_cast<double>(i);
  return y;
}

}  // namespace sums_case
