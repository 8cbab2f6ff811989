// heddle tune
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/core/dialect/tunable_space.h"
#include "heddle/core/tiles/tuning.h"
#include "heddle/io/atomic_file.h"
#include "tools/cli.h"

#ifdef HEDDLE_HAS_BENCH
#include "bench/suites.h"
#include "tools/tune_run.h"
#include "tools/tune_worker.h"
#endif

namespace heddle::tools {
namespace {

struct TuneOptions {
  std::vector<std::string> names, cases, dtypes, devices;
  std::string suite, output;
  double budget = 60, time_limit = 8;
  bool dry_run = false, worker = false, json = false;
};

struct MergeOptions {
  std::vector<std::string> files;
  std::string output;
  bool json = false;
};

struct ShowOptions {
  std::string file;
  bool json = false;
};

void write_table(const std::string& path, const TuningTable& table) {
  const std::string folder = fs::path(path).parent_path().string();
  require_writable_folder(folder.empty() ? "." : folder);
  write_file_atomically(path, table.str());
}

void merge(const MergeOptions& o) {
  TuningTable table;
  for (const std::string& file : o.files) table.merge(TuningTable::load(file));
  write_table(o.output, table);
  size_t entries = 0;
  for (const TuningDevice& device : table.devices) entries += device.entries.size();
  if (o.json)
    print_json({{"file", o.output}, {"devices", table.devices.size()}, {"entries", entries}});
  else
    fmt::print("{}: {} entries of {} devices\n", o.output, entries, table.devices.size());
}

double gain(const TuningEntry& e) { return e.tunables.empty() || e.seconds <= 0 ? 1 : e.default_seconds / e.seconds; }

std::string values_text(const Bindings& values) {
  std::vector<std::string> words;
  for (const auto& [name, value] : values) words.push_back(fmt::format("{}={}", name, value));
  return words.empty() ? "default" : fmt::format("{}", fmt::join(words, " "));
}

void show(const ShowOptions& o) {
  const std::string path = o.file.empty() ? tuning_path() : o.file;
  if (path.empty())
    throw ValueError("[tune] the user's file is turned off (HEDDLE_TUNING or HEDDLE_CACHE_DIR is empty); name a file");
  const TuningTable table = TuningTable::load(path);
  if (o.json) {
    print_json(Json::parse(table.str()));
    return;
  }
  for (const TuningDevice& device : table.devices) {
    fmt::print("{} ({}), {}, driver hash {}\n", device.name, device.driver, name_of(device.target),
               device.driver_hash == 0 ? "any" : fmt::format("0x{:x}", device.driver_hash));
    for (const TuningEntry& e : device.entries)
      fmt::print("  {:<48} {:.2f}x  {}\n", e.key.str(), gain(e), values_text(e.tunables));
  }
}

#ifdef HEDDLE_HAS_BENCH

// Names are families, bodies, or both.
void add_cases(const TuneOptions& o, TuneRequest& request) {
  const std::vector<std::string> bodies = tunable_bodies();
  std::vector<std::string> families;
  for (const std::string& name : o.names) {
    const auto& all = bench::families();
    const bool family = std::any_of(all.begin(), all.end(), [&](const bench::Family& f) { return f.name == name; });
    if (family) {
      families.push_back(name);
    } else if (std::find(bodies.begin(), bodies.end(), name) != bodies.end()) {
      request.bodies.push_back(name);
    } else {
      std::vector<std::string> known;
      for (const bench::Family& f : all) known.push_back(f.name);
      throw ValueError(fmt::format("[tune] '{}' is neither a family ({}) nor a body with tunables ({})", name,
                                   fmt::join(known, ", "), fmt::join(bodies, ", ")));
    }
  }
  if (!o.suite.empty()) {
    for (const bench::Case& c : bench::suite_cases(o.suite)) request.cases.push_back(c);
    std::erase_if(request.cases, [&](const bench::Case& c) {
      return !families.empty() && std::find(families.begin(), families.end(), c.family) == families.end();
    });
    return;
  }
  if (families.empty()) {
    if (!o.cases.empty()) throw ValueError("[tune] --cases needs a family");
    for (const bench::Family& f : bench::families()) families.push_back(f.name);
  }
  for (const std::string& name : families) {
    const bench::Family& family = bench::find_family(name);
    for (const std::string& dtype : o.dtypes) {
      for (const std::string& text : o.cases.empty() ? family.standard : o.cases)
        request.cases.push_back(bench::make_case(family, text, parse_dtype(dtype)));
    }
  }
}

int run(const TuneOptions& o) {
  if (!(o.budget > 0) || !(o.time_limit > 0)) throw ValueError("[tune] --budget and --time-limit are seconds above 0");
  TuneRequest request;
  add_cases(o, request);
  request.output = o.output.empty() ? tuning_path() : o.output;
  if (request.output.empty() && !o.dry_run) {
    throw ValueError(
        "[tune] nowhere to write: HEDDLE_TUNING or HEDDLE_CACHE_DIR is empty; give --output FILE or --dry-run");
  }
  request.budget = o.budget;
  request.time_limit = o.time_limit;
  request.dry_run = o.dry_run;
  request.json = o.json;
  for (const std::string& name : o.devices.empty() ? std::vector<std::string>{""} : o.devices)
    request.devices.push_back(name);
  return run_tuner(request);
}
#else
int run(const TuneOptions&) {
  throw ValueError("[tune] this build has no benchmarks; configure with -DHEDDLE_BENCH=ON");
}
#endif

void add_table_commands(CLI::App& command) {
  auto merged = std::make_shared<MergeOptions>();
  CLI::App* merge_command =
      command.add_subcommand("merge", "Join files of tuned values; where several have one entry, the last wins");
  merge_command->add_option("files", merged->files, "Files that `heddle tune` wrote")->required();
  merge_command->add_option("-o,--output", merged->output, "The file to write")->required();
  add_json_option(*merge_command, merged->json);
  merge_command->callback([merged] { merge(*merged); });

  auto shown = std::make_shared<ShowOptions>();
  CLI::App* show_command = command.add_subcommand("show", "Print a file of tuned values");
  show_command->add_option("file", shown->file, "Default: the user's file");
  add_json_option(*show_command, shown->json);
  show_command->callback([shown] { show(*shown); });
}

}  // namespace

void add_tune(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("tune", "Search for faster schedules of kernels on a device, and remember them");
  auto options = std::make_shared<TuneOptions>();
  TuneOptions& o = *options;
  o.dtypes = {"f32"};
  command->add_option("name", o.names, "Families of `heddle bench`, or bodies with tunables; default: all");
  command->add_option("--cases", o.cases, "Cases of the family, separated by commas; default: its standard list")
      ->delimiter(',');
  command->add_option("--suite", o.suite, "Cases of a suite instead (see `heddle bench --help`)");
  command->add_option("--dtype", o.dtypes, "f32, f16, bf16, ... separated by commas")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--device", o.devices, "Device, e.g. vulkan:0, several separated by commas; default: as everywhere")
      ->delimiter(',');
  command->add_option("--budget", o.budget, "Seconds of search for each device")->capture_default_str();
  command->add_option("--time-limit", o.time_limit, "Seconds after which a candidate counts as hung")
      ->capture_default_str();
  command->add_option("-o,--output", o.output,
                      "File to add the winners to; default: $HEDDLE_TUNING, else tuning.json in the cache folder");
  command->add_flag("--dry-run", o.dry_run, "Search, and write nothing");
  command->add_flag("--worker", o.worker)->group("");
  add_json_option(*command, o.json);
  command->footer(
      "Ctrl-C (exit code 130) and SIGTERM (143) end the search; the winners so far are kept. A second one of either "
      "ends at once.\nExample:\n  heddle tune matmul --cases 768x384x128 --device opencl:0 --budget 60");
  add_table_commands(*command);
  command->callback([options, command, &cli] {
    if (!command->get_subcommands().empty()) return;
#ifdef HEDDLE_HAS_BENCH
    if (options->worker) return run_tune_worker(options->devices.empty() ? "" : options->devices[0]);
#endif
    cli.exit_code = run(*options);
  });
}

}  // namespace heddle::tools
