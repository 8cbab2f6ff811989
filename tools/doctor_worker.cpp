// The process of `heddle doctor` that uses the device.
#include <fmt/format.h>

#include <iterator>
#include <optional>

#include "checks/device_checks.h"
#include "heddle/train/run_folder.h"
#include "tools/doctor_run.h"
#include "tools/worker_process.h"
#ifdef HEDDLE_HAS_BENCH
#include "bench/run.h"
#endif

namespace heddle::tools {
namespace {

#ifdef HEDDLE_HAS_BENCH
class Figures {
 public:
  explicit Figures(DeviceContext& device) : device_(device), bounds_(device) {}

  Json measured(size_t number) {
    if (number >= std::size(cases)) return {{"none", true}};
    const auto& [family, name, bandwidth] = cases[number];
    const bench::Case c = bench::make_case(bench::find_family(family), name, DType::f32);
    bench::Options options;
    options.timing = {.repetitions = 7, .warm_up = 1, .most_seconds = 4};
    const bench::Row row = bench::measure_case(c, device_, bounds_, options);
    return {{"name", fmt::format("{} {}", family, name)},
            {"value", bandwidth ? row.gbytes() : row.gflops()},
            {"unit", bandwidth ? "GB/s" : "GFLOP/s"},
            {"of_bound", bandwidth ? 0 : row.fraction.median}};
  }

 private:
  struct Wanted {
    const char* family;
    const char* name;
    bool bandwidth;
  };
  static constexpr Wanted cases[] = {
      {"copy", "16777216", true}, {"matmul", "512x512x512", false}, {"matmul", "1024x1024x1024", false}};

  DeviceContext& device_;
  bench::Bounds bounds_;
};
#else
class Figures {
 public:
  explicit Figures(DeviceContext&) {}
  Json measured(size_t) { return {{"none", true}}; }
};
#endif

Json answer_of(const Json& request, DeviceContext& device, const std::vector<checks::DeviceCheck>& checks,
               Figures& figures) {
  if (request.contains("figure")) return figures.measured(request["figure"].get<size_t>());
  if (request.contains("check")) {
    const checks::CheckResult result = checks::run_check(checks.at(request["check"].get<size_t>()), device);
    return {{"status", name_of(result.status)}, {"what", one_line(result.what)}};
  }
  return {{"device", device.id()}, {"environment", Json::parse(train::environment_json(device))}};
}

}  // namespace

void run_doctor_worker(const std::string& name) {
  DeviceContext* device = nullptr;
  std::optional<Figures> figures;
  const std::vector<checks::DeviceCheck> checks = checks::device_checks();
  answer_lines([&](const Json& request) {
    if (device == nullptr) figures.emplace(*(device = &open_device(name, true)));
    return answer_of(request, *device, checks, *figures);
  });
}

}  // namespace heddle::tools
