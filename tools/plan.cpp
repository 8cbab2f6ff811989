// heddle plan
#include <fmt/format.h>

#include <cmath>
#include <memory>

#include "bench/training_step.h"
#include "core/base/error.h"
#include "core/exec/dump.h"
#include "core/exec/memory_budget.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

struct PlanOptions {
  std::string step, device;
  bool measure = false, json = false;
  uint64_t budget = 0;
};

// The most memory that a step held, counted from what `before` already held that it does not use.
uint64_t measured_peak(DeviceContext& device, const bench::TrainingStep& step) {
  device.reset_peak_memory();
  step.record();
  eval_pending();
  device.synchronize();
  return device.memory().peak_bytes;
}

Json to_json(const PlanOptions& o, const DeviceContext& device, const StepLedger& l, uint64_t measured) {
  Json json{{"step", o.step}, {"device", device.id()}, {"parameters", l.parameters}, {"optimizer_state", l.optimizer_state}, {"inputs", l.inputs}, {"activations", l.activations}};
  json.update({{"gradients", l.gradients}, {"workspace", l.workspace}, {"lower_bound", l.lower_bound}, {"arena", l.arena}, {"all_values", l.all_values}, {"outputs", l.outputs}, {"offloaded", l.offloaded}});
  json.update({{"peak", l.peak()}, {"kernels", l.kernels}});
  if (o.measure) json["measured_peak"] = measured;
  return json;
}

void run(const PlanOptions& o) {
  DeviceContext& device = open_device(o.device, o.measure);
  const bench::TrainingStep step = bench::make_training_step(o.step, device);
  // The first step makes the optimizer's state; the second is the one that all later ones are.
  step.record();
  eval_pending();
  StepLedger ledger;
  set_memory_budget(device, o.budget);
  {
    const Tensor loss = step.record();
    ledger = plan_pending();
    eval_pending();
  }
  const uint64_t measured = o.measure ? measured_peak(device, step) : 0;
  if (o.json) return print_json(to_json(o, device, ledger, measured));
  fmt::print("{} on {}\n{}", o.step, device.id(), ledger.str());
  if (o.measure) {
    const double peak = static_cast<double>(measured), predicted = static_cast<double>(ledger.peak());
    fmt::print("peak, measured\n  {:<28}{:>12.3f} MB ({:+.1f} %)\n", "all together", peak * 1e-6, 100 * (peak - predicted) / predicted);
  }
}

}  // namespace

void add_plan(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("plan", "Print how much memory a training step needs, and for what");
  auto options = std::make_shared<PlanOptions>();
  PlanOptions& o = *options;
  command->add_option("step", o.step, std::string(bench::training_step_form))->required();
  command->add_flag("--measure", o.measure, "Also run the step and print the measured peak");
  add_budget_option(*command, o.budget);
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle plan gpt-checkpoint:4x128x12x128 --measure\n  heddle plan gpt:4x128x12x128 --memory-budget 80MiB --measure");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
