// heddle bench
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "bench/shapes.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/ir/dynamic_shapes.h"
#include "heddle/io/atomic_file.h"
#include "tools/cli.h"

#ifdef HEDDLE_HAS_BENCH
#include "bench/plot.h"
#include "bench/suites.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/inspect/profile.h"
#include "heddle/core/inspect/saved_launch.h"
#include "tools/bench_report.h"
#include "tools/interrupt.h"
#endif

namespace heddle::tools {
namespace {

struct BenchOptions {
  std::vector<std::string> families, cases, peers, devices, dtypes;
  std::string suite, plot, compare;
  int repetitions = 15;
  bench::ShapesRequest shapes;
  bool loop = false, list = false, compare_tuning = false, verbose = false, json = false;
};

#ifdef HEDDLE_HAS_BENCH

std::vector<bench::Case> cases_of(const BenchOptions& o) {
  std::vector<bench::Case> cases;
  for (const std::string& name : o.families) bench::find_family(name);
  if (!o.suite.empty()) {
    if (!o.cases.empty()) throw ValueError("[bench] --suite has its own cases; give --suite or --cases");
    cases = bench::suite_cases(o.suite);
    std::erase_if(cases, [&](const bench::Case& c) {
      return !o.families.empty() && std::find(o.families.begin(), o.families.end(), c.family) == o.families.end();
    });
    return cases;
  }
  if (o.cases.empty() && std::find(o.families.begin(), o.families.end(), "kernel") != o.families.end())
    throw ValueError("[bench] kernel needs --cases with the id that a verbose line printed");
  if (o.families.empty()) throw ValueError("[bench] name a family or a --suite; see heddle bench --help");
  for (const std::string& name : o.families) {
    const bench::Family& family = bench::find_family(name);
    for (const std::string& dtype : o.dtypes) {
      for (const std::string& text : o.cases.empty() ? family.standard : o.cases)
        cases.push_back(bench::make_case(family, text, parse_dtype(dtype)));
    }
  }
  return cases;
}

// "all": every device that is there and runs kernels.
// `computes`: a device that runs nothing is refused.
std::vector<DeviceContext*> open_devices(const std::vector<std::string>& names, bool computes) {
  std::vector<DeviceContext*> devices;
  for (const std::string& name : names.empty() ? std::vector<std::string>{""} : names) {
    if (name != "all") {
      devices.push_back(&open_device(name, computes));
      continue;
    }
    for (const DeviceInfo& info : Registry::instance().devices()) {
      if (info.available && info.caps.target != Target::none && info.caps.device_class != DeviceClass::null)
        devices.push_back(&device(info.id));
    }
  }
  return devices;
}

void list(const std::vector<bench::Case>& cases, bool json) {
  for (const bench::Case& c : cases) {
    if (json)
      print_json({{"bench", c.family},
                  {"case", c.name},
                  {"dtype", std::string(name_of(c.dtype))},
                  {"flops", c.flops},
                  {"bytes", c.bytes}});
    else
      fmt::print("{} {} {}\n", c.family, c.name, name_of(c.dtype));
  }
}

// Device times of three more evaluations.
void show_kernels(const bench::Case& c, DeviceContext& device) {
  const bench::Workload workload = c.make({device, {}});
  const auto evaluate = [&] {
    const std::vector<Tensor> results = workload.run();
    if (results.empty())
      eval_pending();
    else
      eval(std::span<const Tensor>(results));
  };
  evaluate();
  Profiler profiler;
  for (int i = 0; i < 3; ++i) evaluate();
  for (const KernelRow& row : profiler.stop().rows()) {
    print_error("  {:9.1f} us x {:<3} {:8.3f} MB  {}  {}\n", row.median * 1e6, row.count / 3, row.facts.bytes() * 1e-6,
                row.facts.name, row.facts.source == 0 ? "" : repeat_command(row.facts.launch, device.id()));
  }
}

// One case that fails is an error; in a suite it is a line, and the others are measured.
bool measure(const bench::Case& c, DeviceContext& device, bench::Bounds& bounds, const bench::Options& options,
             const BenchOptions& o, std::vector<bench::Row>& rows) {
  try {
    rows.push_back(bench::measure_case(c, device, bounds, options));
    report_row(rows.back(), o.json);
    if (o.verbose && !c.host && c.family != "kernel") show_kernels(c, device);
    return true;
  } catch (const bench::TooSlow& error) {
    print_error("heddle: {}\n", one_line(error.what()));
    report_missing_row(c, device.id(), one_line(error.what()), o.json);
    return true;
  } catch (const std::exception& error) {
    if (o.suite.empty()) throw;
    print_error("heddle: {}\n", one_line(error.what()));
    report_missing_row(c, device.id(), one_line(error.what()), o.json);
    return false;
  }
}

// One line a length as it comes, then the verdict: whether compilation ended with the third length.
int run_shapes(const BenchOptions& o) {
  for (DeviceContext* device : open_devices(o.devices, false)) {
    uint64_t late = 0;
    const std::vector<bench::ShapeStep> steps = bench::run_shapes(o.shapes, *device, [&](const bench::ShapeStep& s) {
      if (!o.json) {
        fmt::print(
            "{:>3}  length {:>5}  compiled {:>3}  plans {:>2}  kernels {:>4}  {:>9.2f} ms  planning {:>7.2f} ms  "
            "memory {:>8.2f} MB  loss {:.4f}\n",
            s.number, s.length, s.compiled, s.planned, s.kernels, 1e3 * s.seconds, 1e3 * s.planning_seconds,
            static_cast<double>(s.live_bytes) * 1e-6, s.loss);
      } else {
        print_json({{"bench", "shapes"},
                    {"device", device->id()},
                    {"number", s.number},
                    {"length", s.length},
                    {"compiled", s.compiled},
                    {"plans", s.planned},
                    {"kernels", s.kernels},
                    {"seconds", s.seconds},
                    {"planning_seconds", s.planning_seconds},
                    {"live_bytes", s.live_bytes},
                    {"loss", s.loss}});
      }
    });
    for (const bench::ShapeStep& s : steps) late += s.number > 3 ? s.compiled : 0;
    if (!o.json) fmt::print("{}: {} kernels compiled after the third length\n", device->id(), late);
  }
  return 0;
}

int run(const BenchOptions& o) {
  if (o.repetitions < 10) throw ValueError(fmt::format("[bench] {} repetitions, expected at least 10", o.repetitions));
  if (o.families == std::vector<std::string>{"shapes"}) return run_shapes(o);
  if (dynamic_shapes() == DynamicShapes::automatic)
    set_dynamic_shapes(DynamicShapes::never);  // a case is measured as a program of its own would run it
  bench::check_peers(o.peers);
  const std::vector<bench::Case> cases = cases_of(o);
  if (o.list) {
    list(cases, o.json);
    return 0;
  }
  if (!o.plot.empty()) {
    const std::string folder = fs::path(o.plot).parent_path().string();
    require_writable_folder(folder.empty() ? "." : folder);
  }
  bench::Options options;
  options.peers = o.peers;
  options.timing.repetitions = o.repetitions;
  options.loop = o.loop;
  options.compare_tuning = o.compare_tuning;
  if (o.suite == "all") {  // a hundred cases on a CPU: some minutes, not an hour
    options.timing.most_seconds = 2;
    options.longest_call = 5;
  }
  const BaseRows base = o.compare.empty() ? BaseRows() : read_base(o.compare);
  std::vector<bench::Row> rows;
  bool complete = true;
  std::vector<bench::Roofs> roofs;
  const bool computes =
      std::none_of(cases.begin(), cases.end(), [](const bench::Case& c) { return static_cast<bool>(c.host); });
  const InterruptScope on_interrupt;
  for (DeviceContext* device : open_devices(o.devices, computes)) {
    bench::Bounds bounds(*device);
    for (const bench::Case& c : cases) {
      if (InterruptScope::caught()) break;  // what was measured is kept
      const bool idle = device->caps().device_class == DeviceClass::null;
      if (idle && !c.host && o.cases.empty()) continue;
      if (idle && !c.host) open_device(device->id(), true);  // refuses
      if (!o.suite.empty() && !bench::suits(o.suite, c, *device, o.compare_tuning)) continue;
      complete &= measure(c, *device, bounds, options, o, rows);
    }
    if (!o.plot.empty() && !rows.empty()) {
      roofs.push_back({fmt::format("{}", device->id()), bounds.rate(bench::Bound::compute, options.timing),
                       bounds.rate(bench::Bound::copy, options.timing),
                       bounds.rate(bench::Bound::read, options.timing)});
    }
  }
  if (!o.suite.empty()) report_verdicts(o.suite, rows, o.json);
  if (o.compare_tuning) report_tuning(rows, o.json);
  if (!o.compare.empty()) report_comparison(base, rows, o.json);
  if (!o.plot.empty()) {
    write_file_atomically(o.plot, bench::roofline_svg(rows, roofs, "heddle bench"));
    if (!o.json) fmt::print("{}: roofline of {} kernels\n", o.plot, rows.size());
  }
  if (InterruptScope::caught()) return InterruptScope::exit_code();
  return complete ? 0 : exit_internal_error;
}

std::string families_text() {
  std::vector<std::string> lines;
  for (const bench::Family& family : bench::families())
    lines.push_back(fmt::format("{} ({})", family.name, family.form));
  return fmt::format("Any of: {}; shapes (a GPT over random sequence lengths: kernels compiled for each)",
                     fmt::join(lines, "; "));
}
std::string suites_text() {
  return fmt::format("Cases and goals by name instead: {}", fmt::join(bench::suite_names(), ", "));
}
#else
int run(const BenchOptions&) {
  throw ValueError("[bench] this build has no benchmarks; configure with -DHEDDLE_BENCH=ON");
}
std::string families_text() { return "None in this build"; }
std::string suites_text() { return "None in this build"; }
#endif

}  // namespace

void add_bench(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("bench", "Measure kernels, beside other libraries and the machine's bounds");
  auto options = std::make_shared<BenchOptions>();
  BenchOptions& o = *options;
  o.dtypes = {"f32"};
  command->add_option("family", o.families, families_text());
  command->add_option("--cases", o.cases, "Sizes, separated by commas; default: a standard list")->delimiter(',');
  command->add_option("--suite", o.suite, suites_text());
  command->add_option("--dtype", o.dtypes, "f32, f16, bf16, ... separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--peers", o.peers,
                   "Libraries to compare with, separated by commas: onednn, openblas, clblast, cublas (cuda devices)")
      ->delimiter(',');
  command->add_option("--repetitions", o.repetitions, "At least 10; medians are printed")->capture_default_str();
  command
      ->add_option("--device", o.devices,
                   "Device, e.g. vulkan:0, several separated by commas, or all; default: as everywhere")
      ->delimiter(',');
  command->add_flag("--compare-tuning", o.compare_tuning, "Measure tuned values against the defaults, in turns");
  command->add_option(
      "--compare", o.compare,
      "Rows of an earlier run (the file that --json wrote): print base / now for each, worst and geometric mean");
  command->add_option("--plot", o.plot, "Write a roofline of all rows to this SVG file");
  command->add_flag("--loop", o.loop, "Time the loop that records each step anew, not the replayed step");
  command->add_flag("--verbose", o.verbose,
                    "Also print the kernels of each case, with the command that repeats each alone (on stderr)");
  command->add_flag("--list", o.list, "Print the cases and measure nothing");
  command->add_option("--lengths", o.shapes.lengths, "shapes: how many random sequence lengths")->capture_default_str();
  command->add_option("--shortest", o.shapes.shortest, "shapes: the shortest")->capture_default_str();
  command->add_option("--longest", o.shapes.longest, "shapes: the longest")->capture_default_str();
  command->add_option("--model", o.shapes.model, "shapes: gpt (a training step) or gpt-forward")->capture_default_str();
  add_json_option(*command, o.json);
  command->footer(
      "Ctrl-C (exit code 130) and SIGTERM (143) end it after the case under way, with what was measured; a second one "
      "of either ends at once.\n"
      "Example:\n  heddle bench matmul softmax --peers onednn --json\n  heddle bench --suite all --json > base.json"
      "\n  heddle bench --suite all --compare base.json");
  command->callback([options, &cli] { cli.exit_code = run(*options); });
}

}  // namespace heddle::tools
