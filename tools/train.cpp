// heddle train, heddle resume
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checks/self_test.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/distributed/errors.h"
#include "heddle/distributed/open_world.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/elastic.h"
#include "heddle/train/metrics_lines.h"
#include "heddle/train/model_parallel/parted_task.h"
#include "heddle/train/option_uses.h"
#include "heddle/train/recipe.h"
#include "heddle/train/replicas.h"
#include "heddle/train/run_folder.h"
#include "heddle/train/stall_watch.h"
#include "heddle/train/survivor_state.h"
#include "heddle/train/trainer.h"
#include "tools/cli.h"
#include "tools/interrupt.h"
#include "tools/launched.h"
#include "tools/output.h"
#include "tools/train_command.h"
#include "tools/train_report.h"

namespace heddle::tools {
namespace {

std::atomic<train::Trainer*> running{nullptr};

void interrupt_run() {
  if (train::Trainer* current = running) current->interrupt();
}

// Of ranks that go on without one that is lost; else null.
std::atomic<distributed::World*> surviving{nullptr};

// Asked by the launcher, or without it: ends at once where there is nothing to save, and at the second time. MPI does
// not tell the others of a rank that ends without a signal: they are told here that they shall end as well.
void asked_to_end() {
  static std::atomic<bool> before{false};
  train::Trainer* const current = running;
  if (current == nullptr || before.exchange(true)) {
    if (distributed::World* const world = surviving) {
      world->give_up();
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    std::_Exit(exit_signalled + SIGINT);
  }
  current->interrupt();
}

// While it lives, interrupts are the trainer's, also where the run fails.
class Interruptible {
 public:
  explicit Interruptible(train::Trainer& trainer) { running = &trainer; }
  ~Interruptible() { running = nullptr; }
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  const InterruptScope interrupts_{interrupt_run};
};

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

// A rank that waits for others stands still for no fault of its device; the limit for that is the world's.
uint64_t progress_of(const DeviceContext& device, const train::Replicas* replicas) {
  static std::atomic<uint64_t> looked{0};
  return progress_of(device) + (replicas != nullptr && replicas->waiting() ? ++looked : looked.load());
}

// Where the run goes; the first rank alone makes a name of its own.
void choose_folder(train::Config& config, bool resume) {
  if (config.run.out.empty())
    config.run.out = resume ? default_folder(config.run.recipe) : new_folder(config.run.recipe);
}

void say(const std::vector<std::string>& remarks) {
  for (const std::string& remark : remarks) print_error("heddle: {}\n", one_line(remark));
}

int exit_code_of(train::Outcome outcome) {
  if (outcome != train::Outcome::interrupted) return 0;
  // Told by the launcher, which ends with the code of its own signal, or by another rank.
  if (!InterruptScope::caught()) return is_launched() ? 0 : exit_signalled + SIGINT;
  return InterruptScope::exit_code();
}

// What outlives the trainers of a run, which has another one each time that a rank is lost.
struct TrainingRun {
  train::Config config;
  bool resume = false, json = false, begun = false;
  int64_t copies_every = train::default_copies_every;
  DeviceContext* device = nullptr;
  std::unique_ptr<train::Task> task;
  std::optional<train::RunFolder> folder;  // made after the first trainer: a run that cannot begin leaves nothing
};

// `replicas`: null where this process trains alone.
void make_task(TrainingRun& run, train::Replicas* replicas) {
  run.device = &open_device(run.config.run.device, true);
  const train::StallWatch watch(
      train::stall_limit(), [&run, replicas] { return progress_of(*run.device, replicas); },
      [&run](double seconds) { end_stalled(*run.device, seconds); });
  checks::self_test(*run.device);
  run.task = train::in_parts(train::make_task(run.config, *run.device), run.config, *run.device, replicas);
  if (replicas == nullptr || replicas->leads()) say(run.task->remarks());
}

void lead(TrainingRun& run, train::Trainer& trainer) {
  if (!run.folder) run.folder.emplace(run.config.run.out, run.resume);
  trainer.write_to(*run.folder);
  if (run.json)
    trainer.add(std::make_shared<train::MetricsLines>([](const std::string& line) { print_out(line + '\n'); }));
  else
    trainer.add(std::make_shared<TrainReport>());
}

void go_on(TrainingRun& run, train::Trainer& trainer, bool leads, train::Survival* survival) {
  if (survival != nullptr && survival->lost) {
    trainer.set_lost(*survival->lost);
    if (survival->mine.state) return trainer.go_on(*std::exchange(survival->mine.state, std::nullopt));
    if (run.begun && train::checkpoint_steps(train::RunFolder::checkpoints_of(run.config.run.out)).empty())
      throw ValueError("[train] a rank was lost with its part of the states, and there is no checkpoint to go on from");
  }
  if (run.resume && leads)
    say(trainer.resume());
  else if (run.resume)
    trainer.resume(run.config.run.out);
}

// One trainer. `survival`: null where a lost rank ends the run.
int train_once(TrainingRun& run, train::Replicas* replicas, train::Survival* survival) {
  const bool leads = replicas == nullptr || replicas->leads();
  if (!run.task) make_task(run, replicas);
  const train::StallWatch watch(
      train::stall_limit(), [&run, replicas] { return progress_of(*run.device, replicas); },
      [&run](double seconds) { end_stalled(*run.device, seconds); });
  train::Trainer trainer(*run.task, run.config, *run.device, replicas);
  trainer.set_copies_every(run.copies_every);
  if (leads) lead(run, trainer);
  go_on(run, trainer, leads, survival);
  run.resume = run.begun = true;
  const Interruptible interruptible(trainer);
  try {
    return exit_code_of(trainer.run());
  } catch (const distributed::CommunicationError&) {
    if (survival != nullptr) survival->mine = trainer.remains();
    throw;
  }
}

int train_here(train::Config config, bool resume, bool json, train::Replicas* replicas) {
  choose_folder(config, resume);
  TrainingRun run{.config = std::move(config), .resume = resume, .json = json};
  return train_once(run, replicas, nullptr);
}

// The folder is the first rank's, since another one may come to write there.
int train_elastic(train::Config config, bool resume, bool json, const RankOptions& ranks, distributed::World& world) {
  choose_folder(config, resume);
  TrainingRun run{.config = std::move(config), .resume = resume, .json = json};
  if (ranks.buddy_every) run.copies_every = *ranks.buddy_every;
  const auto once = [&](train::Replicas& replicas, train::Survival& survival) {
    if (!run.task) run.config.run.out = replicas.of_first(run.config.run.out);
    if (replicas.leads() && survival.lost && !run.folder) tell_launcher(launcher_first_lost);
    return train_once(run, &replicas, &survival);
  };
  const int code = train::train_with_survivors(world, ranks.mesh, once);
  if (run.folder) tell_launcher(launcher_over);
  return code;
}

// A rank that ends takes the others along: who failed alone says so before others say that it has gone, and of what
// all say the first one speaks.
void end_rank(distributed::World& world, bool by_another) {
  if (world.survives()) tell_launcher(launcher_failed);
  if (world.size() == 1) return;
  world.give_up();
  const int seconds = by_another ? 6 : world.rank() > 0 ? 3 : 0;
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
}

int train_as_rank(train::Config config, bool resume, bool json, const RankOptions& ranks, distributed::World& world) {
  if (const std::string device = launched_device(world.rank()); !device.empty()) config.run.device = device;
  if (world.survives()) return train_elastic(std::move(config), resume, json, ranks, world);
  std::optional<train::Replicas> replicas;
  if (world.size() > 1 || !ranks.mesh.empty() || config.training.parts > 0) replicas.emplace(world, ranks.mesh);
  return train_here(std::move(config), resume, json, replicas ? &*replicas : nullptr);
}

}  // namespace

std::string default_folder(const std::string& recipe) { return "runs/" + recipe; }

int run_training(train::Config config, bool resume, bool json, const RankOptions& ranks) {
  ranks.check(config);
  if (is_launched()) keep_to_own_processors();
  const std::unique_ptr<distributed::World> world =
      distributed::open_world({.limit_seconds = ranks.timeout, .survives = ranks.elastic});
  std::optional<LauncherWatch> launcher;
  if (world->survives()) surviving = world.get();
  // Any rank may come to be the first one where others are lost.
  const bool first = world->rank() == 0;
  if (is_launched() && (first || world->survives())) launcher.emplace(asked_to_end, first);
  try {
    return train_as_rank(std::move(config), resume, json, ranks, *world);
  } catch (const distributed::MismatchError&) {
    end_rank(*world, false);
    throw;
  } catch (const distributed::CommunicationTimeout&) {
    end_rank(*world, false);
    throw;
  } catch (const distributed::CommunicationError&) {
    end_rank(*world, true);
    throw;
  } catch (...) {
    end_rank(*world, false);
    throw;
  }
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
  command->callback([options, &cli] {
    cli.exit_code = run_training(options->config(), options->resume, options->json, options->ranks);
  });
}

void add_resume(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("resume", "Go on with a training run, with the options that it was begun with");
  struct All {
    std::string folder;
    ConfigOptions options;
    RankOptions ranks;
    bool json = false;
  };
  auto all = std::make_shared<All>();
  command->add_option("run", all->folder, "Folder of the run")->required();
  all->options.add_to(*command);
  all->ranks.add_mesh_to(*command);
  all->ranks.add_timeout_to(*command);
  all->ranks.add_elastic_to(*command);
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
    cli.exit_code = run_training(std::move(config), true, all->json, all->ranks);
  });
}

}  // namespace heddle::tools
