// heddle dump
#include "heddle/core/compile/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>

#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/io/atomic_file.h"
#include "tools/cli.h"
#include "tools/dump_draw.h"

namespace heddle::tools {
namespace {

constexpr std::array<std::pair<std::string_view, DumpWhat>, 6> views = {{{"graph", DumpWhat::graph},
                                                                         {"simplified", DumpWhat::simplified},
                                                                         {"groups", DumpWhat::groups},
                                                                         {"source", DumpWhat::source},
                                                                         {"plan", DumpWhat::plan},
                                                                         {"passes", DumpWhat::passes}}};

struct DumpOptions {
  std::string step, device, what = "groups", format = "text", out;
  bool json = false, passes = false;
};

DumpWhat parse_what(const std::string& name) {
  const auto found = std::find_if(views.begin(), views.end(), [&](const auto& v) { return v.first == name; });
  if (found == views.end())
    throw ValueError(
        fmt::format("[dump] unknown view '{}'; known: graph, simplified, groups, source, plan, passes", name));
  return found->second;
}

std::string render(const DumpOptions& o, DumpWhat what, const DeviceContext& device) {
  if (o.format == "text") return dump_pending(what);
  const FullPlan full = plan_pending_in_full();
  const std::string title = fmt::format("{} on {}", o.step, device.id());
  if (o.format == "html") return step_html(full, title);
  if (what == DumpWhat::graph) return graph_dot(full.recorded, title);
  if (what == DumpWhat::simplified) return graph_dot(full.prepared, title);
  return kernels_dot(full, title);
}

void run(const DumpOptions& o) {
  const DumpWhat what = o.passes ? DumpWhat::passes : parse_what(o.what);
  if (o.format != "text" && o.format != "dot" && o.format != "html")
    throw ValueError(fmt::format("[dump] unknown format '{}'; known: text, dot, html", o.format));
  if (!o.out.empty()) {
    const std::string folder = fs::path(o.out).parent_path().string();
    require_writable_folder(folder.empty() ? "." : folder);
  }
  DeviceContext& device = open_device(o.device, false);
  const bench::TrainingStep step = bench::make_training_step(o.step, device);
  // The first step makes the optimizer's state; the second is the one that all later ones are.
  step.record();
  eval_pending();
  device.synchronize();  // a driver may still compile for what was submitted (PoCL, lavapipe), and crashes when the
                         // process ends under it
  const Tensor loss = step.record();
  const std::string text = render(o, what, device);
  if (!o.out.empty()) write_file_atomically(o.out, text);
  if (o.json)
    print_json({{"step", o.step},
                {"device", device.id()},
                {"what", o.passes ? "passes" : o.what},
                {"format", o.format},
                {"text", text}});
  else if (o.out.empty())
    fmt::print("{}", text);
  else
    fmt::print("{}: {} bytes\n", o.out, text.size());
}

}  // namespace

void add_dump(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("dump", "Print a training step: its graph, passes, groups, kernel sources or memory plan");
  auto options = std::make_shared<DumpOptions>();
  DumpOptions& o = *options;
  command->add_option("step", o.step, std::string(bench::training_step_form))->required();
  command
      ->add_option("--what", o.what,
                   "graph (as recorded), simplified, groups, source, plan or passes; dot draws kernels but for the "
                   "first two, html shows everything")
      ->capture_default_str();
  command->add_flag("--passes", o.passes, "What each pass changed, in order: the same as --what passes");
  command->add_option("--format", o.format, "text, dot (for Graphviz) or html (one file with the arena as a picture)")
      ->capture_default_str();
  command->add_option("--out", o.out, "Write to this file instead of standard output");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle dump gpt:4x128x2x128 --format html --out step.html --device opencl:0");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
