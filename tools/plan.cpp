// heddle plan STEP
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <vector>

#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/median.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/device/context.h"
#include "heddle/core/memory/memory_budget.h"
#include "heddle/core/run/graph_cache.h"
#include "tools/cli.h"
#include "tools/plan_finetune.h"
#include "tools/plan_mesh.h"

namespace heddle::tools {
namespace {

struct PlanOptions {
  std::string step, device;
  bool measure = false, json = false;
  uint64_t budget = 0;
  PlanMeshOptions mesh;
};

// The most memory that a step held, counted from what `before` already held that it does not use.
uint64_t measured_peak(DeviceContext& device, const bench::TrainingStep& step) {
  device.reset_peak_memory();
  step.record();
  eval_pending();
  device.synchronize();
  return device.memory().peak_bytes;
}

// Wall time of a step, recorded and submitted without a look: the median of a few runs of some steps each.
double measured_seconds(DeviceContext& device, const bench::TrainingStep& step) {
  using Clock = std::chrono::steady_clock;
  constexpr double least = 0.05;  // of a run
  std::vector<double> seconds;
  int steps = 1;
  for (int run = 0; run < 7;) {
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < steps; ++i) {
      step.record();
      eval_pending();
    }
    device.synchronize();
    const double taken = seconds_since(start);
    if (taken < least) {
      steps *= 2;
      continue;
    }
    seconds.push_back(taken / steps);
    ++run;
  }
  return median(std::move(seconds));
}

struct Measured {
  uint64_t peak = 0;
  double seconds = 0;
};

Json to_json(const PlanOptions& o, const DeviceContext& device, const MemoryReport& l, const Measured& measured) {
  Json json{{"step", o.step},
            {"device", device.id()},
            {"parameters", l.parameters},
            {"optimizer_state", l.optimizer_state},
            {"inputs", l.inputs},
            {"activations", l.activations}};
  json.update({{"gradients", l.gradients},
               {"workspace", l.workspace},
               {"lower_bound", l.lower_bound},
               {"arena", l.arena},
               {"all_values", l.all_values},
               {"outputs", l.outputs},
               {"offloaded", l.offloaded}});
  json.update({{"peak", l.peak()}, {"kernels", l.kernels}});
  if (o.measure) json.update({{"measured_peak", measured.peak}, {"step_seconds", measured.seconds}});
  return json;
}

void run(const PlanOptions& o) {
  DeviceContext& device = open_device(o.device, o.measure);
  const bench::TrainingStep step = bench::make_training_step(o.step, device);
  // The first step makes the optimizer's state; the second is the one that all later ones are.
  step.record();
  eval_pending();
  MemoryReport report;
  device.synchronize();
  graph_cache(device).clear();  // the first step had an arena without a budget
  set_memory_budget(device, o.budget);
  {
    const Tensor loss = step.record();
    report = plan_pending();
    eval_pending();
  }
  Measured measured;
  if (o.measure) measured = {measured_peak(device, step), measured_seconds(device, step)};
  device
      .synchronize();  // lavapipe may still compile for what was submitted, and crashes when the process ends under it
  if (o.json) return print_json(to_json(o, device, report, measured));
  fmt::print("{} on {}\n{}", o.step, device.id(), report.str());
  if (o.measure) {
    const double peak = static_cast<double>(measured.peak), predicted = static_cast<double>(report.peak());
    fmt::print("peak, measured\n  {:<28}{:>12.3f} MB ({:+.1f} %)\n", "all together", peak * 1e-6,
               100 * (peak - predicted) / predicted);
    fmt::print("step, measured\n  {:<28}{:>12.3f} ms\n", "wall time, median of 7 runs", measured.seconds * 1e3);
  }
}

}  // namespace

void add_plan(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("plan", "Print how much memory a training step needs, and for what");
  CLI::App* finetune = add_plan_finetune(*command);
  auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  command->add_option("step", o.step,
                      fmt::format("{}; with --mesh or --search also a transformer's configuration, FILE.toml or "
                                  "config.json",
                                  bench::training_step_form));
  command->add_flag("--measure", o.measure, "Also run the step and print the measured peak and time");
  add_budget_option(*command, o.budget);
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  add_plan_mesh_options(*command, o.mesh);
  command->footer(
      "Example:\n  heddle plan gpt-checkpoint:4x128x12x128 --measure\n  heddle plan gpt:4x128x12x128 --memory-budget "
      "80MiB --measure\n  heddle plan char-gpt --mesh dp=4\n  heddle plan llama3-405b.toml --search 8192 --batch 2048 "
      "--sharding zero2 --link dgx-h100");
  command->callback([options, command, finetune] {
    if (command->got_subcommand(finetune)) return;
    if (options->step.empty()) throw CLI::RequiredError("step, or finetune MODEL,");
    check_plan_mesh(*command, options->mesh);
    options->mesh.json = options->json;
    options->mesh.device = options->device;
    options->mesh.asked() ? plan_mesh(options->step, options->mesh) : run(*options);
  });
}

}  // namespace heddle::tools
