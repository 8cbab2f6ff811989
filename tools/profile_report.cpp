#include "tools/profile_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "heddle/core/inspect/saved_launch.h"
#include "tools/cli.h"

#ifdef HEDDLE_HAS_BENCH
#include "bench/bounds.h"
#endif

namespace heddle::tools {
namespace {

struct BoundOf {
  std::string name;     // "copy", "read", "compute"; empty: not known
  double fraction = 0;  // of what the bound allows: least seconds / median seconds
};

#ifdef HEDDLE_HAS_BENCH
// The measured speeds of the devices of a profile.
class Roofs {
 public:
  BoundOf bound_of(const KernelRow& row) {
    bench::Bounds& bounds =
        *bounds_.try_emplace(row.device, std::make_unique<bench::Bounds>(device(row.device))).first->second;
    const KernelFacts& f = row.facts;
    if (!bounds.measurable() || device(row.device).caps().device_class == DeviceClass::null || row.median <= 0)
      return {};
    const bench::Bound memory = f.written_bytes < 0.1 * f.read_bytes ? bench::Bound::read : bench::Bound::copy;
    const double moving = f.bytes() > 0 ? f.bytes() / rate(bounds, row.device, memory, f.bytes()) : 0;
    const double computing = f.flops > 0 ? f.flops / rate(bounds, row.device, bench::Bound::compute, 0) : 0;
    const bool computes = computing > moving;
    return {std::string(bench::name_of(computes ? bench::Bound::compute : memory)),
            std::max(computing, moving) / row.median};
  }

 private:
  // With traffic of the next power of two: what fits a cache is compared with what fits a cache.
  double rate(bench::Bounds& bounds, const std::string& id, bench::Bound bound, double bytes) {
    const double about =
        bound == bench::Bound::compute
            ? 0
            : static_cast<double>(std::bit_ceil(std::max<uint64_t>(static_cast<uint64_t>(bytes), 1 << 19)));
    const auto [at, fresh] = rates_.try_emplace({id, bound, about}, 0);
    if (!fresh) return at->second;
    const bench::Probe* probe = bounds.probe(bound, about);
    const bench::Timing timing{.repetitions = 5, .repetition_seconds = 4e-3, .warm_up = 2};
    return at->second = probe->amount / bench::median(bench::measure({probe->side}, timing)[0]);
  }

  std::map<std::string, std::unique_ptr<bench::Bounds>> bounds_;
  std::map<std::tuple<std::string, bench::Bound, double>, double> rates_;
};
#else
class Roofs {
 public:
  BoundOf bound_of(const KernelRow&) { return {}; }
};
#endif

std::string cut(const std::string& text, size_t width) {
  return text.size() <= width ? text : text.substr(0, width - 2) + "..";
}

std::string places_of(const KernelFacts& facts) {
  if (facts.lines.empty()) return "";
  return facts.lines.size() == 1 ? facts.lines[0] : fmt::format("{} +{}", facts.lines[0], facts.lines.size() - 1);
}

double per_second(double amount, double seconds) { return seconds > 0 ? amount / seconds * 1e-9 : 0; }

void print_table(const Profile& profile, const ProfileText& text, Roofs& roofs) {
  const std::vector<KernelRow> rows = profile.rows();
  const double device = profile.device_seconds(), kernels = profile.kernel_seconds();
  const bool several =
      std::any_of(rows.begin(), rows.end(), [&](const KernelRow& row) { return row.device != rows[0].device; });
  fmt::print("{} on {}, {} steps\n", text.what,
             rows.empty() ? "no device"
             : several    ? "several devices"
                          : rows[0].device,
             text.steps);
  fmt::print("{:<30} {:<34} {:>6} {:>9} {:>6} {:>10} {:>9} {:>7} {:>8}  {:<13} {}\n", "kernel", "computes", "count",
             "total ms", "share", "median us", "MB moved", "GB/s", "GFLOP/s", "of its bound", "where");
  double left = 0;
  size_t left_count = 0, shown = 0;
  for (const KernelRow& row : rows) {
    if (shown++ >= text.top) {
      left += row.total;
      left_count += row.count;
      continue;
    }
    const KernelFacts& f = row.facts;
    const BoundOf bound = text.bounds ? roofs.bound_of(row) : BoundOf{};
    fmt::print("{:<30} {:<34} {:>6} {:>9.3f} {:>5.1f}% {:>10.1f} {:>9.3f} {:>7.1f} {:>8.1f}  {:<13} {}\n",
               cut(several ? row.device + " " + f.name : f.name, 30), cut(f.ops, 34), row.count, row.total * 1e3,
               device > 0 ? 100 * row.total / device : 0, row.median * 1e6, f.bytes() * 1e-6,
               per_second(f.bytes(), row.median), per_second(f.flops, row.median),
               bound.name.empty() ? "" : fmt::format("{:.2f} {}", bound.fraction, bound.name), places_of(f));
  }
  if (left_count > 0)
    fmt::print("{:<30} {:<34} {:>6} {:>9.3f} {:>5.1f}%\n", "...", fmt::format("{} more rows", rows.size() - text.top),
               left_count, left * 1e3, 100 * left / device);
  const auto line = [&](const char* name, double seconds, const std::string& note) {
    fmt::print("{:<16} {:>10.3f} ms {:>6.1f}%  {}\n", name, seconds * 1e3, device > 0 ? 100 * seconds / device : 0,
               note);
  };
  const double steps = static_cast<double>(std::max<int64_t>(text.steps, 1));
  fmt::print("\n");
  line("kernels", kernels, fmt::format("{:.0f} launches a step", static_cast<double>(profile.runs.size()) / steps));
  line("gaps", std::max(0.0, device - kernels), "between the kernels of a submission");
  line("device time", device,
       fmt::format("first start to last end of {} submissions; {:.3f} ms a step", profile.submissions.size(),
                   device / steps * 1e3));
  // No share: it is no part of the device's time, which is a part of it.
  fmt::print(
      "{:<16} {:>10.3f} ms          {:.3f} ms a step, with recording and time stamps; the device worked for {:.1f}% of "
      "it\n",
      "wall time", text.wall * 1e3, text.wall / steps * 1e3,
      text.wall > 0 ? 100 * std::min(1.0, device / text.wall) : 0);
  if (text.untimed > 0) {
    fmt::print(
        "{:<16} {:>10.3f} ms a step, replayed without time stamps; the kernels of a step add up to {:.1f} % of it\n",
        "untimed", text.untimed * 1e3, 100 * kernels / steps / text.untimed);
  }
  if (profile.dropped > 0)
    fmt::print("{} submissions are missing: the device gave no times for them\n", profile.dropped);
}

Json json_of(const KernelRow& row, const BoundOf& bound) {
  const KernelFacts& f = row.facts;
  Json json{{"device", row.device}, {"kernel", f.name},           {"computes", f.ops},
            {"count", row.count},   {"total_seconds", row.total}, {"median_seconds", row.median}};
  json.update(
      {{"bytes", f.bytes()}, {"read_bytes", f.read_bytes}, {"written_bytes", f.written_bytes}, {"flops", f.flops}});
  json.update(
      {{"gbytes", per_second(f.bytes(), row.median)}, {"gflops", per_second(f.flops, row.median)}, {"where", f.lines}});
  if (!f.launch.empty()) json["repeat"] = repeat_command(f.launch, row.device);
  json["bound"] = bound.name.empty() ? Json(nullptr) : Json(bound.name);
  json["fraction"] = bound.name.empty() ? Json(nullptr) : Json(bound.fraction);
  return json;
}

void print_json_rows(const Profile& profile, const ProfileText& text, Roofs& roofs) {
  Json rows = Json::array();
  for (const KernelRow& row : profile.rows())
    rows.push_back(json_of(row, text.bounds ? roofs.bound_of(row) : BoundOf{}));
  Json json{{"what", text.what},
            {"steps", text.steps},
            {"submissions", profile.submissions.size()},
            {"launches", profile.runs.size()},
            {"dropped", profile.dropped}};
  json.update({{"kernel_seconds", profile.kernel_seconds()},
               {"device_seconds", profile.device_seconds()},
               {"wall_seconds", text.wall}});
  if (text.untimed > 0) json["untimed_step_seconds"] = text.untimed;
  json["kernels"] = std::move(rows);
  print_json(json);
}

}  // namespace

void report_profile(const Profile& profile, const ProfileText& text) {
  Roofs roofs;
  if (text.json)
    print_json_rows(profile, text, roofs);
  else
    print_table(profile, text, roofs);
}

}  // namespace heddle::tools
