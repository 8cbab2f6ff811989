// heddle profile
#include "heddle/core/inspect/profile.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "bench/training_step.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/device/context.h"
#include "heddle/core/run/replay.h"
#include "heddle/io/atomic_file.h"
#include "heddle/train/recipe.h"
#include "heddle/train/trainer.h"
#include "tools/cli.h"
#include "tools/profile_report.h"
#include "tools/trace_file.h"
#include "tools/train_command.h"

#ifdef HEDDLE_HAS_BENCH
#include "bench/run.h"
#endif

namespace heddle::tools {
namespace {

constexpr int64_t warm_up = 3;  // steps before the first that counts: they plan, compile and make the optimizer's state

struct ProfileOptions {
  std::string device, trace;
  int64_t steps = 10;
  size_t top = 40;
  bool overlap = false, no_bounds = false, json = false;
};

void add_options(CLI::App& command, ProfileOptions& o, bool device) {
  if (device) {
    add_device_option(command, o.device);
    command.add_option("--steps", o.steps, "Steps to look at")->capture_default_str();
    command.add_flag("--overlap", o.overlap,
                     "Record a step while the device runs the one before it also where the device is the CPU; there "
                     "the two compete for its cores");
  }
  command.add_option("--trace", o.trace,
                     "Also write a trace for Perfetto (ui.perfetto.dev) or chrome://tracing to this file");
  command.add_option("--top", o.top, "Rows of the table")->capture_default_str();
  command.add_flag("--no-bounds", o.no_bounds, "Do not measure what the device could do");
  add_json_option(command, o.json);
}

void check(const ProfileOptions& o) {
  if (o.steps < 1 || o.steps > 100000)
    throw ValueError(fmt::format("[profile] --steps is {}, expected 1 to 100000", o.steps));
  if (o.trace.empty()) return;
  const std::string folder = fs::path(o.trace).parent_path().string();
  require_writable_folder(folder.empty() ? "." : folder);
}

void report(const ProfileOptions& o, const Profile& profile, const std::string& what, int64_t steps, double wall,
            double untimed) {
  if (!o.trace.empty()) write_file_atomically(o.trace, trace_json(profile));
  report_profile(profile, {what, steps, o.top, wall, untimed, !o.no_bounds, o.json});
  if (!o.trace.empty() && !o.json)
    fmt::print("{}: trace of {} kernels; open it in ui.perfetto.dev\n", o.trace, profile.runs.size());
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

// Makes the recordings with time stamps and puts the launches on disk, before anything counts.
void record_timed(const std::function<void()>& step) {
  Profiler unseen;
  step();
  unseen.stop();
}

// Calls step() a few times, then under a profiler. Where the device is the CPU that also records the next step, each
// step is waited for: otherwise the operating system takes cores from kernels for the host's work, which looks like
// slow kernels and gaps. Each such step takes turns with a replay without time stamps (which a profiler does not see),
// so that both meet the machine in the same state; a trace would show the pauses, so there the replays come after.
void profile_steps(const ProfileOptions& o, DeviceContext& device, const std::string& what,
                   const std::function<void()>& step) {
  for (int64_t i = 0; i < warm_up; ++i) step();
  const Replay untimed = Replay::capture(step);
  record_timed(step);
  const auto replay = [&] {
    untimed.run();
    device.synchronize();
  };
  replay();
  const bool apart = device.caps().device_class == DeviceClass::cpu && !o.overlap, in_turns = apart && o.trace.empty();
  double replayed = 0, wall = 0;
  Profiler profiler;
  for (int64_t i = 0; i < o.steps; ++i) {
    wall += seconds_of([&] {
      step();
      if (apart || i + 1 == o.steps) device.synchronize();
    });
    if (in_turns) replayed += seconds_of(replay);
  }
  profiler.stop();
  if (!in_turns) {
    for (int64_t i = 0; i < o.steps; ++i) replayed += seconds_of(replay);
  }
  report(o, profiler.stop(), what, o.steps, wall, replayed / static_cast<double>(o.steps));
}

DeviceContext& kernel_device(const std::string& name) {
  DeviceContext& device = open_device(name, false);
  if (device.caps().target == Target::none)
    throw ValueError(fmt::format("[profile] {} takes no kernels, so there is nothing to time", device.id()));
  return device;
}

void run_step(const ProfileOptions& o, const std::string& text) {
  check(o);
  DeviceContext& device = kernel_device(o.device);
  const bench::TrainingStep step = bench::make_training_step(text, device);
  profile_steps(o, device, "step " + text, [&] {
    step.record();
    eval_pending();
  });
}

void run_bench(const ProfileOptions& o, const std::string& family, const std::string& text, const std::string& dtype) {
  check(o);
#ifdef HEDDLE_HAS_BENCH
  DeviceContext& device = kernel_device(o.device);
  const bench::Case c = bench::make_case(bench::find_family(family), text, parse_dtype(dtype));
  if (c.host)
    throw ValueError(fmt::format("[profile] {} {} measures the host; there are no kernels to look at", family, text));
  bench::check_room(c, device);
  const bench::Workload workload = c.make({device, {}});
  profile_steps(o, device, fmt::format("bench {} {} {}", family, text, dtype), [&] {
    const std::vector<Tensor> results = workload.run();
    if (results.empty())
      eval_pending();
    else
      eval(std::span<const Tensor>(results));
  });
#else
  throw ValueError(
      fmt::format("[profile] this build has no benchmarks (asked for {} {} {}); configure with -DHEDDLE_BENCH=ON",
                  family, text, dtype));
#endif
}

// Profiles the updates behind the warm-up.
class ProfileSteps final : public train::Callback {
 public:
  void on_batch_start(train::Trainer& trainer) override {
    const int64_t done = trainer.step() - trainer.first_step();
    if (done == warm_up - 1 || done == warm_up) {  // the first of the two makes the recordings with time stamps
      profiler_.reset();
      profiler_.emplace();
    }
    steps_ = done + 1 - warm_up;
  }
  void on_train_end(train::Trainer&, train::Outcome) override {
    if (profiler_) profiler_->stop();
  }
  Profile result() {
    if (!profiler_ || steps_ < 1)
      throw ValueError(fmt::format("[profile] the run ended within its first {} steps, which do not count", warm_up));
    return profiler_->stop();
  }
  int64_t steps() const { return steps_; }

 private:
  std::optional<Profiler> profiler_;
  int64_t steps_ = 0;
};

void run_train(const ProfileOptions& o, const TrainCommand& command) {
  check(o);
  train::Config config = command.config();
  if (config.training.limit_steps == 0) config.training.limit_steps = 100;
  if (config.training.limit_steps <= warm_up)
    throw ValueError(fmt::format("[profile] --limit-steps is {}; the first {} steps do not count",
                                 config.training.limit_steps, warm_up));
  DeviceContext& device = open_device(config.run.device, true);
  const std::unique_ptr<train::Task> task = train::make_task(config, device);
  std::optional<train::RunFolder> folder;  // outlives the trainer
  train::Trainer trainer(*task, config, device);
  if (!config.run.out.empty()) trainer.write_to(folder.emplace(config.run.out, command.resume));
  if (command.resume) trainer.resume();
  const auto steps = std::make_shared<ProfileSteps>();
  trainer.add(steps);
  trainer.run(false);
  const Profile profile = steps->result();
  report(o, profile, "train " + config.run.recipe, steps->steps(), profile.seconds, 0);
}

}  // namespace

void add_profile(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("profile", "Show where the device's time goes, kernel by kernel");
  command->require_subcommand(1);
  struct All {
    ProfileOptions step_options, bench_options, train_options;
    TrainCommand train;
    std::string step, family, text, dtype = "f32";
  };
  auto all = std::make_shared<All>();

  CLI::App* step = command->add_subcommand("step", "A training step on random data");
  step->add_option("step", all->step, std::string(bench::training_step_form))->required();
  add_options(*step, all->step_options, true);
  step->footer("Example:\n  heddle profile step gpt:4x128x12x128 --trace step.json");
  step->callback([all] { run_step(all->step_options, all->step); });

  CLI::App* bench = command->add_subcommand("bench", "A case of heddle bench");
  bench->add_option("family", all->family, "As heddle bench knows it, e.g. matmul")->required();
  bench->add_option("case", all->text, "Its sizes, e.g. 1024x1024x1024")->required();
  bench->add_option("--dtype", all->dtype, "f32, f16, bf16, ...")->capture_default_str();
  add_options(*bench, all->bench_options, true);
  bench->footer("Example:\n  heddle profile bench softmax 4096x1024");
  bench->callback([all] { run_bench(all->bench_options, all->family, all->text, all->dtype); });

  CLI::App* train =
      command->add_subcommand("train", "The steps of a training run, 100 unless --limit-steps says otherwise");
  all->train.add_to(*train);
  add_options(*train, all->train_options, false);
  train->footer(
      "Nothing is saved unless --out is given.\nExample:\n  heddle profile train mnist-mlp --device opencl:0");
  train->callback([all] { run_train(all->train_options, all->train); });
  command->footer(
      "Each takes --device, --trace, --json and --no-bounds; see heddle profile step --help.\nExample:\n  heddle "
      "profile step mlp:32 --trace step.json");
}

}  // namespace heddle::tools
