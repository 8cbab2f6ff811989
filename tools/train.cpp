// heddle train, heddle resume
#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "checks/self_test.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/train/metrics_lines.h"
#include "heddle/train/option_uses.h"
#include "heddle/train/recipe.h"
#include "heddle/train/run_folder.h"
#include "heddle/train/stall_watch.h"
#include "heddle/train/trainer.h"
#include "tools/cli.h"
#include "tools/interrupt.h"
#include "tools/output.h"
#include "tools/train_command.h"
#include "tools/train_report.h"

namespace heddle::tools {
namespace {

std::atomic<train::Trainer*> running{nullptr};

void interrupt_run() {
  if (train::Trainer* current = running) current->interrupt();
}

// "runs/mnist-mlp", or with the first free number behind it.
std::string new_folder(const std::string& recipe) {
  const std::string first = default_folder(recipe);
  std::string path = first;
  for (int number = 2; fs::exists(path); ++number) path = fmt::format("{}-{}", first, number);
  return path;
}

// What a device was given since it was opened: as long as that grows, nothing hangs.
uint64_t progress_of(const DeviceContext& device) {
  const DeviceCounters counters = device.counters();
  return counters.kernels + counters.kernels_compiled + counters.submissions + counters.bytes_read;
}

// The thread that trains is inside of a driver and cannot be told: the process ends here, as when a device is lost.
void end_stalled(const DeviceContext& device, double seconds) {
  const DeviceInfo& info = device.info();
  print_error(
      "heddle: [{}] nothing was finished for {:.0f} s: {}, {} hangs, or needs longer for one kernel; resume the run "
      "from its last checkpoint; HEDDLE_TIMEOUT sets the seconds (default {:.0f}; 0: for ever)\n",
      device.id(), seconds, info.name, info.driver, train::stall_seconds);
  std::_Exit(4);
}

}  // namespace

std::string default_folder(const std::string& recipe) { return "runs/" + recipe; }

int run_training(train::Config config, bool resume, bool json) {
  if (config.run.out.empty())
    config.run.out = resume ? default_folder(config.run.recipe) : new_folder(config.run.recipe);
  DeviceContext& device = open_device(config.run.device, true);
  const train::StallWatch watch(
      train::stall_limit(), [&device] { return progress_of(device); },
      [&device](double seconds) { end_stalled(device, seconds); });
  checks::self_test(device);
  const std::unique_ptr<train::Task> task = train::make_task(config, device);
  for (const std::string& remark : task->remarks()) print_error("heddle: {}\n", one_line(remark));
  std::optional<train::RunFolder>
      folder;  // outlives the trainer, and is made after it: a run that cannot begin leaves nothing
  train::Trainer trainer(*task, config, device);
  trainer.write_to(folder.emplace(config.run.out, resume));
  if (json) {
    trainer.add(std::make_shared<train::MetricsLines>([](const std::string& line) { print_out(line + '\n'); }));
  } else {
    trainer.add(std::make_shared<TrainReport>());
  }
  if (resume) {
    for (const std::string& remark : trainer.resume()) print_error("heddle: {}\n", one_line(remark));
  }
  running = &trainer;
  const InterruptScope on_interrupt(interrupt_run);
  const train::Outcome outcome = trainer.run();
  running = nullptr;
  return outcome == train::Outcome::interrupted ? InterruptScope::exit_code() : 0;
}

namespace {

constexpr const char* about_interrupts =
    "Ctrl-C saves a checkpoint and ends with exit code 130, SIGTERM with 143; a second one of either ends at once.";

}  // namespace

void add_train(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("train", "Train a recipe and save the model");
  auto options = std::make_shared<TrainCommand>();
  options->add_to(*command);
  add_json_option(*command, options->json);
  command->footer(fmt::format("{}\nExample:\n  heddle train mnist-mlp --device vulkan:0 --epochs 2 --out runs/first",
                              about_interrupts));
  command->callback(
      [options, &cli] { cli.exit_code = run_training(options->config(), options->resume, options->json); });
}

void add_resume(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("resume", "Go on with a training run, with the options that it was begun with");
  struct All {
    std::string folder;
    ConfigOptions options;
    bool json = false;
  };
  auto all = std::make_shared<All>();
  command->add_option("run", all->folder, "Folder of the run")->required();
  all->options.add_to(*command);
  add_json_option(*command, all->json);
  command->footer(fmt::format(
      "Options given here replace those of the run's config.toml. {}\nExample:\n  heddle resume runs/mnist-mlp",
      about_interrupts));
  command->callback([all, &cli] {
    const train::Config begun = train::Config::load((fs::path(all->folder) / "config.toml").string());
    train::Config config = begun;
    all->options.apply(config);
    train::refuse_unused_options(config, begun);
    config.run.out = all->folder;
    cli.exit_code = run_training(std::move(config), true, all->json);
  });
}

}  // namespace heddle::tools
