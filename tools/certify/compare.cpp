#include "tools/certify/compare.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/harness.h"
#include "heddle/core/dialect/kernel_file.h"
#include "tools/certify/model.h"

namespace heddle::tools::certify {
namespace {

constexpr int64_t tiles = 1;  // SCHEDULE of shaders/matmul.hk
constexpr int timed_runs = 10;

Bindings schedule(int64_t tm, int64_t tn, int64_t tk, int64_t rm, int64_t rn, int64_t prefetch) {
  return {{"SCHEDULE", tiles},
          {"TM", tm},
          {"TN", tn},
          {"TK", tk},
          {"RM", rm},
          {"RN", rn},
          {"PREFETCH", prefetch},
          {"RUN", std::min<int64_t>({4, rm, rn})},
          {"BAND", 8},
          {"A_K1", 1},
          {"B_N1", 1},
          {"A_WIDE", 4},
          {"B_WIDE", 4}};
}

KernelSource source_of(const Bindings& tunables) {
  KernelFile::Options options;
  options.tunables = tunables;
  return KernelFile::builtin("matmul").instantiate(options);
}

bool taken(const Caps& caps, const Bindings& tunables) {
  if (!KernelFile::builtin("matmul").refusal(tunables).empty()) return false;
  const KernelSource source = source_of(tunables);
  const uint32_t lanes = group_lanes(source);
  return lanes >= 32 && lanes <= caps.max_group_lanes && shared_bytes(source) <= caps.shared_bytes;
}

std::string text_of(const Bindings& tunables) {
  std::string text;
  for (const char* name : {"TM", "TN", "TK", "RM", "RN", "PREFETCH"})
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, tunables.at(name));
  return text;
}

KernelRun request(int64_t n) {
  KernelRun run;
  KernelArray operand = KernelArray::zeros(DType::f32, static_cast<size_t>(n * n));
  for (size_t i = 0; i < operand.size(); ++i)
    store_element(operand.bytes.data(), DType::f32, i, static_cast<double>(i % 13) / 8 - 0.75);
  run.arrays = {{"lhs", operand}, {"rhs", operand}, {"dst", KernelArray::zeros(DType::f32, operand.size())}};
  const auto size = static_cast<double>(n);
  for (const char* name : {"M", "N", "K", "A_SM", "B_SK"}) run.constants[name] = size;
  for (const char* name : {"BATCH", "B2", "A_SK", "B_SN"}) run.constants[name] = 1;
  for (const char* name : {"A_OFF", "A_SB1", "A_SB2", "B_OFF", "B_SB1", "B_SB2"}) run.constants[name] = 0;
  run.timed = timed_runs;
  return run;
}

}  // namespace

std::vector<Bindings> compared_schedules(const Caps& caps, size_t count) {
  std::vector<Bindings> all;
  for (const auto& [tm, tn] : {std::pair<int64_t, int64_t>{32, 32}, {32, 64}, {64, 64}, {128, 64}, {128, 128}}) {
    for (const auto& [rm, rn] : {std::pair<int64_t, int64_t>{1, 4}, {2, 2}, {2, 4}, {4, 4}, {8, 4}, {8, 8}}) {
      for (const int64_t tk : {8, 16, 32}) {
        for (const int64_t prefetch : {0, 1}) {
          Bindings one = schedule(tm, tn, tk, rm, rn, prefetch);
          if (taken(caps, one)) all.push_back(std::move(one));
        }
      }
    }
  }
  std::vector<Bindings> spread;
  for (size_t i = 0; i < std::min(count, all.size()); ++i)
    spread.push_back(all[i * all.size() / std::min(count, all.size())]);
  return spread;
}

const GpuFamily& family_of(const Caps& caps, const std::string& arch) {
  for (const GpuFamily& family : gpu_families()) {
    if (arch.empty() ? caps.target == Target::cuda && family.vendor == Vendor::nvidia &&
                           family.caps.architecture == caps.architecture
                     : family.arch == arch)
      return family;
  }
  throw ValueError(
      fmt::format("[certify] {}; name the family that the device belongs to: --arch (see `heddle certify --arch ?`)",
                  arch.empty() ? "the table of GPU families has no row for this device"
                               : fmt::format("no architecture '{}'", arch)));
}

Compared compare(VendorCompiler& compiler, const GpuFamily& family, DeviceContext& device, const Bindings& tunables,
                 int64_t n) {
  Compared row;
  row.schedule = text_of(tunables);
  const KernelSource source = source_of(tunables);
  const Compiled compiled = compiler.compile(source, family);
  row.spill_bytes = compiled.spill_bytes;
  const KernelRun run = request(n);
  auto locked = device.lock();
  const KernelOutcome outcome = run_kernel(locked.device, KernelFile::builtin("matmul"), {{}, tunables, {}}, run);
  const auto& g = outcome.groups;
  const double fill = fill_of(uint64_t{g[0]} * g[1] * g[2], std::max<uint32_t>(1, device.caps().compute_units));
  if (const std::optional<Prediction> p = predict(compiled, family)) row.predicted = p->fraction * fill;
  row.seconds = outcome.seconds;
  const double peak = family.rates.fma_lanes * family.caps.compute_units * family.clock_hz;
  const double products = static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  row.fraction = row.seconds > 0 ? products / row.seconds / peak : 0;
  return row;
}

}  // namespace heddle::tools::certify
