// heddle bench
#include <fmt/format.h>

#include <memory>
#include <vector>

#include "core/base/error.h"
#include "tools/cli.h"

#ifdef HEDDLE_HAS_BENCH
#include "bench/bench.h"
#endif

namespace heddle::tools {
namespace {

struct BenchOptions {
  std::string bench, device;
  std::vector<std::string> cases, peers;
  int repetitions = 15;
  bool json = false;
};

#ifdef HEDDLE_HAS_BENCH
void report_json(const bench::Row& row) {
  const bool compared = !row.peer.empty();
  print_json({{"bench", row.bench},
              {"case", row.name},
              {"dtype", row.dtype},
              {"device", row.device},
              {"seconds", row.seconds},
              {"value", row.value},
              {"unit", row.unit},
              {"peer", compared ? Json(row.peer) : Json(nullptr)},
              {"peer_value", compared ? Json(row.peer_value) : Json(nullptr)},
              {"ratio", compared ? Json(row.ratio) : Json(nullptr)}});
}

void report_text(const bench::Row& row) {
  fmt::print("{} {:<18} {} {}  {:>9.1f} us  {:>8.1f} {}{}\n", row.bench, row.name, row.dtype, row.device,
             row.seconds * 1e6, row.value, row.unit,
             row.peer.empty() ? "" : fmt::format("  {} {:.1f}, ratio {:.2f}", row.peer, row.peer_value, row.ratio));
  std::fflush(stdout);
}

void run(const BenchOptions& o) {
  bench::run(o.bench, {.cases = o.cases, .peers = o.peers, .repetitions = o.repetitions}, open_device(o.device, true),
             o.json ? report_json : report_text);
}
#else
void run(const BenchOptions&) {
  throw ValueError("[bench] this build has no benchmarks; configure with -DHEDDLE_BENCH=ON");
}
#endif

}  // namespace

void add_bench(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("bench", "Measure kernels, beside other libraries");
  auto options = std::make_shared<BenchOptions>();
  BenchOptions& o = *options;
  command
      ->add_option("bench", o.bench,
                   "matmul (cases MxNxK: an MxN result over an inner dimension K) or elementwise (y = 2a + b; cases N)")
      ->required();
  command->add_option("--cases", o.cases, "Sizes, separated by commas; default: a standard list")->delimiter(',');
  command->add_option("--peers", o.peers, "Libraries to compare with, separated by commas: onednn, openblas")
      ->delimiter(',');
  command->add_option("--repetitions", o.repetitions, "At least 10; medians are printed")->capture_default_str();
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle bench matmul --cases 1024x1024x1024 --peers onednn --json");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
