// heddle bench
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <vector>

#include "core/base/error.h"
#include "tools/cli.h"

#ifdef HEDDLE_HAS_BENCH
#include "bench/run.h"
#endif

namespace heddle::tools {
namespace {

struct BenchOptions {
  std::vector<std::string> families, cases, peers, devices, dtypes;
  int repetitions = 15;
  bool loop = false, list = false, json = false;
};

#ifdef HEDDLE_HAS_BENCH

Json json_of(const bench::Spread& s) { return {{"median", s.median}, {"low", s.low}, {"high", s.high}}; }

Json json_of(const bench::Row& row) {
  Json peers = Json::array();
  for (const bench::PeerFigure& p : row.peers) {
    peers.push_back({{"peer", p.peer}, {"seconds", p.seconds.median}, {"ratio", p.ratio.median}, {"ratio_low", p.ratio.low}, {"ratio_high", p.ratio.high}});
  }
  const bool bounded = row.bound != bench::Bound::none;
  return {{"bench", row.family},
          {"case", row.name},
          {"dtype", std::string(name_of(row.dtype))},
          {"device", row.device},
          {"seconds", row.seconds.median},
          {"seconds_low", row.seconds.low},
          {"seconds_high", row.seconds.high},
          {"flops", row.flops},
          {"bytes", row.bytes},
          {"gflops", row.gflops()},
          {"gbytes", row.gbytes()},
          {"launches", row.launches},
          {"bound", std::string(bench::name_of(row.bound))},
          {"bound_rate", bounded ? Json(row.bound_rate) : Json(nullptr)},
          {"fraction", bounded ? json_of(row.fraction) : Json(nullptr)},
          {"peers", std::move(peers)},
          {"checked", row.checked}};
}

std::string time_text(double seconds) { return seconds < 1e-3 ? fmt::format("{:.1f} us", seconds * 1e6) : fmt::format("{:.2f} ms", seconds * 1e3); }

void print_row(const bench::Row& row) {
  const double spread = row.seconds.median > 0 ? (row.seconds.high - row.seconds.low) / row.seconds.median * 100 : 0;
  std::string text = fmt::format("{:<11} {:<20} {:<4} {:<9} {:>10} +-{:<3.0f}% {:>8.1f} GFLOP/s {:>6.1f} GB/s", row.family, row.name, name_of(row.dtype),
                                 row.device, time_text(row.seconds.median), spread / 2, row.gflops(), row.gbytes());
  if (row.bound != bench::Bound::none) text += fmt::format("  {:.2f} of {}", row.fraction.median, name_of(row.bound));
  for (const bench::PeerFigure& p : row.peers) {
    text += fmt::format("  {} {} ratio {:.2f} [{:.2f} {:.2f}]", p.peer, time_text(p.seconds.median), p.ratio.median, p.ratio.low, p.ratio.high);
  }
  fmt::print("{}\n", text);
  std::fflush(stdout);
}

std::vector<bench::Case> cases_of(const BenchOptions& o) {
  std::vector<bench::Case> cases;
  for (const std::string& name : o.families) {
    const bench::Family& family = bench::find_family(name);
    for (const std::string& dtype : o.dtypes) {
      for (const std::string& text : o.cases.empty() ? family.standard : o.cases) cases.push_back(bench::make_case(family, text, parse_dtype(dtype)));
    }
  }
  return cases;
}

// "all": every device that is there and computes with kernels.
std::vector<DeviceContext*> open_devices(const std::vector<std::string>& names) {
  std::vector<DeviceContext*> devices;
  for (const std::string& name : names.empty() ? std::vector<std::string>{""} : names) {
    if (name != "all") {
      devices.push_back(&open_device(name, true));
      continue;
    }
    for (const DeviceInfo& info : Registry::instance().devices()) {
      if (info.available && info.caps.target != Target::none && info.caps.device_class != DeviceClass::null) devices.push_back(&device(info.id));
    }
  }
  return devices;
}

void run(const BenchOptions& o) {
  if (o.repetitions < 10) throw ValueError(fmt::format("[bench] {} repetitions, expected at least 10", o.repetitions));
  bench::check_peers(o.peers);
  const std::vector<bench::Case> cases = cases_of(o);
  if (o.list) {
    for (const bench::Case& c : cases) {
      if (o.json) print_json({{"bench", c.family}, {"case", c.name}, {"dtype", std::string(name_of(c.dtype))}, {"flops", c.flops}, {"bytes", c.bytes}});
      else fmt::print("{} {} {}\n", c.family, c.name, name_of(c.dtype));
    }
    return;
  }
  bench::Options options;
  options.peers = o.peers;
  options.timing.repetitions = o.repetitions;
  options.loop = o.loop;
  for (DeviceContext* device : open_devices(o.devices)) {
    bench::Bounds bounds(*device);
    for (const bench::Case& c : cases) {
      const bench::Row row = bench::measure_case(c, *device, bounds, options);
      if (o.json) print_json(json_of(row));
      else print_row(row);
    }
  }
}
#else
void run(const BenchOptions&) { throw ValueError("[bench] this build has no benchmarks; configure with -DHEDDLE_BENCH=ON"); }
#endif

std::string families_text() {
#ifdef HEDDLE_HAS_BENCH
  std::vector<std::string> lines;
  for (const bench::Family& family : bench::families()) lines.push_back(fmt::format("{} ({})", family.name, family.form));
  return fmt::format("Any of: {}", fmt::join(lines, "; "));
#else
  return "None in this build";
#endif
}

}  // namespace

void add_bench(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("bench", "Measure kernels, beside other libraries and the machine's bounds");
  auto options = std::make_shared<BenchOptions>();
  BenchOptions& o = *options;
  o.dtypes = {"f32"};
  command->add_option("family", o.families, families_text())->required();
  command->add_option("--cases", o.cases, "Sizes, separated by commas; default: a standard list")->delimiter(',');
  command->add_option("--dtype", o.dtypes, "f32, f16, bf16, ... separated by commas")->delimiter(',')->capture_default_str();
  command->add_option("--peers", o.peers, "Libraries to compare with, separated by commas: onednn, openblas, clblast")->delimiter(',');
  command->add_option("--repetitions", o.repetitions, "At least 10; medians are printed")->capture_default_str();
  command->add_option("--device", o.devices, "Device, e.g. vulkan:0, several separated by commas, or all; default: as everywhere")->delimiter(',');
  command->add_flag("--loop", o.loop, "Time the loop that records each step anew, not the replayed step");
  command->add_flag("--list", o.list, "Print the cases and measure nothing");
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle bench matmul softmax --peers onednn --json");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
