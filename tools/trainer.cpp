#include "tools/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>
#include <numbers>
#include <optional>
#include <vector>

#include "autograd/autograd.h"
#include "core/base/error.h"
#include "core/exec/memory_budget.h"
#include "io/atomic_file.h"
#include "io/safetensors.h"
#include "tools/checkpoint.h"
#include "tools/cli.h"
#include "tools/mnist_mlp.h"
#include "tools/progress.h"

namespace heddle::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t window_steps = 50;
constexpr double window_seconds = 0.1;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

volatile std::sig_atomic_t interrupted = 0;

// The first Ctrl-C asks the loop to end; a second one ends the process at once.
class InterruptScope {
 public:
  InterruptScope() {
    interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { interrupted = 1; };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptScope() { sigaction(SIGINT, &before_, nullptr); }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  struct sigaction before_ {};
};

void check(const TrainOptions& o) {
  check_recipe(o.recipe);
  if (o.epochs < 1) throw ValueError(fmt::format("[train] --epochs is {}, expected at least 1", o.epochs));
  if (o.batch < 1) throw ValueError(fmt::format("[train] --batch is {}, expected at least 1", o.batch));
  if (!std::isfinite(o.lr) || o.lr <= 0)
    throw ValueError(fmt::format("[train] --lr is {}, expected a positive number", o.lr));
  if (!std::isfinite(o.weight_decay) || o.weight_decay < 0)
    throw ValueError(fmt::format("[train] --weight-decay is {}, expected 0 or more", o.weight_decay));
  if (o.checkpoint_every < 0)
    throw ValueError(fmt::format("[train] --checkpoint-every is {}, expected 0 or more steps", o.checkpoint_every));
  if (o.limit_steps < 0)
    throw ValueError(fmt::format("[train] --limit-steps is {}, expected 0 or more steps", o.limit_steps));
  if (o.limit_test < 0)
    throw ValueError(fmt::format("[train] --limit-test is {}, expected 0 or more images", o.limit_test));
  if (o.clip_norm && (!std::isfinite(*o.clip_norm) || *o.clip_norm <= 0))
    throw ValueError(fmt::format("[train] --clip-norm is {}, expected a positive number", *o.clip_norm));
  if (o.optimizer != "sgd" && o.optimizer != "adam" && o.optimizer != "adamw" && o.optimizer != "lion") {
    throw ValueError(
        fmt::format("[train] unknown optimizer '{}'; known: sgd (momentum 0.9), adam, adamw, lion", o.optimizer));
  }
  if (o.schedule != "cosine" && o.schedule != "constant")
    throw ValueError(fmt::format("[train] unknown schedule '{}'; known: cosine, constant", o.schedule));
}

std::unique_ptr<nn::Optimizer> make_unclipped(const TrainOptions& o, const std::vector<Tensor>& parameters) {
  if (o.optimizer == "sgd")
    return std::make_unique<nn::SGD>(parameters,
                                     nn::SgdOptions{.lr = o.lr, .momentum = 0.9, .weight_decay = o.weight_decay});
  if (o.optimizer == "adam")
    return std::make_unique<nn::Adam>(parameters, nn::AdamOptions{.lr = o.lr, .weight_decay = o.weight_decay});
  if (o.optimizer == "lion")
    return std::make_unique<nn::Lion>(parameters, nn::LionOptions{.lr = o.lr, .weight_decay = o.weight_decay});
  return std::make_unique<nn::AdamW>(parameters, nn::AdamOptions{.lr = o.lr, .weight_decay = o.weight_decay});
}

std::unique_ptr<nn::Optimizer> make_optimizer(const TrainOptions& o, const std::vector<Tensor>& parameters) {
  std::unique_ptr<nn::Optimizer> optimizer = make_unclipped(o, parameters);
  optimizer->set_clip_norm(o.clip_norm);
  return optimizer;
}

}  // namespace

struct Trainer::State {
  TrainOptions options;
  data::Split data;
  data::Batcher batcher;
  DeviceContext& device;
  nn::Sequential model;
  std::unique_ptr<nn::Optimizer> optimizer;
  Progress progress;

  int64_t total_steps = 0;  // of the run without --limit-steps; the schedule's length
  int64_t step = 0;         // done so far
  int64_t first_step = 0;   // where this process began
  data::Batch host_batch;
  DeviceBatch batch;  // the last one submitted

  // The open window: steps submitted since the device was last waited for. Their losses are collected on the device, in
  // one tensor whose place never changes, so that every step is the same recording and a window is read at once.
  Tensor losses;
  int64_t in_window = 0;
  Clock::time_point window_start;
  DeviceCounters window_counters;

  std::vector<double> step_seconds;  // one per closed window
  double kernels_per_step = 0;
  double training_seconds = 0;
  double last_loss = 0;
  Clock::time_point run_start;
  bool checkpoint_exists = false;

  explicit State(const TrainOptions& o)
      : options(o),
        data(load_images(o.data)),
        batcher(data.train, {.batch = o.batch, .seed = o.seed}),
        device(open_device(o.device, true)),
        model(make_mnist_mlp(o.seed, device)),
        optimizer(make_optimizer(o, model.parameters())),
        progress(o.json || o.quiet),
        total_steps(batcher.batches_per_epoch() * o.epochs),
        losses(zeros({window_steps}, DType::f32, &device)) {}

  std::string path(const char* name) const { return (std::filesystem::path(options.out) / name).string(); }
  int64_t last_step() const {
    return options.limit_steps > 0 ? std::min(options.limit_steps, total_steps) : total_steps;
  }

  double rate(int64_t at) const {
    if (options.schedule == "constant") return options.lr;
    return options.lr * 0.5 *
           (1 + std::cos(std::numbers::pi * static_cast<double>(at) / static_cast<double>(total_steps)));
  }

  void open_window() {
    in_window = 0;
    window_counters = device.counters();
    window_start = Clock::now();
  }

  // Records one step and hands it to the device; does not wait.
  void submit_step() {
    if (options.before_step) options.before_step(step - first_step);
    std::optional<MemoryBudget> budget;
    if (options.memory_budget > 0) budget.emplace(options.memory_budget);
    batch = upload(host_batch, device);
    const Tensor loss = cross_entropy(model(batch.images), batch.labels);
    backward(loss);
    optimizer->set_lr(rate(step));
    optimizer->update();
    optimizer->zero_grad();
    keep_loss(loss.detach());
    eval_pending();
    ++step;
  }

  void keep_loss(const Tensor& loss) {
    const NoGradScope no_grad;
    const Tensor here =
        arange(0, window_steps, 1, DType::f32, &device) == Tensor::host_scalar(static_cast<float>(in_window), &device);
    losses.assign(where(here, loss, losses));
    ++in_window;
  }

  bool window_is_full() const { return in_window >= window_steps || seconds_since(window_start) >= window_seconds; }

  // Waits for the device, measures, looks at the losses and opens the next window.
  void close_window() {
    if (in_window == 0) return;
    device.synchronize();
    const double seconds = seconds_since(window_start), count = static_cast<double>(in_window);
    training_seconds += seconds;
    step_seconds.push_back(seconds / count);
    kernels_per_step = static_cast<double>(device.counters().kernels - window_counters.kernels) / count;
    inspect_losses();
    const bool compiled = step_seconds.size() > 1;  // the speed of the first window says nothing
    if (compiled && progress.due()) show_progress();
    open_window();
  }

  void inspect_losses() {
    const std::vector<float> values = losses.to_vector<float>();
    const int64_t first = step - in_window;
    for (int64_t i = 0; i < in_window; ++i) {
      last_loss = values[static_cast<size_t>(i)];
      if (options.json) print_json({{"event", "step"}, {"step", first + i + 1}, {"loss", last_loss}});
      if (!std::isfinite(last_loss)) stop_at_bad_loss(first + i + 1, last_loss);
    }
  }

  [[noreturn]] void stop_at_bad_loss(int64_t at, double value) const {
    throw ValueError(fmt::format(
        "[train] the loss became {} at step {}; {}; likely cause: the learning rate {} is too high",
        std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value, at,
        checkpoint_exists ? fmt::format("the last good checkpoint is {}", path("checkpoint.safetensors"))
                          : std::string("no checkpoint had been written yet"),
        options.lr));
  }

  void show_progress() {
    const NoGradScope no_grad;
    ProgressState state;
    state.epochs = options.epochs;
    state.epoch = std::min(options.epochs, (step - 1) / batcher.batches_per_epoch() + 1);
    state.step = step;
    state.steps = last_step();
    state.loss = last_loss;
    state.accuracy = mean(cast(argmax(model(batch.images), 1) == batch.labels, DType::f32)).item();
    state.samples_per_second = static_cast<double>(options.batch) / step_seconds.back();
    state.seconds_left = median(step_seconds) * static_cast<double>(last_step() - step);
    progress.show(state);
  }

  // The window is closed, so every loss so far was finite.
  void write_checkpoint() {
    save_checkpoint(path("checkpoint.safetensors"),
                    {.recipe = options.recipe,
                     .step = step,
                     .seed = options.seed,
                     .batch = options.batch,
                     .optimizer = options.optimizer},
                    model, *optimizer);
    checkpoint_exists = true;
  }

  void resume() {
    step = load_checkpoint(path("checkpoint.safetensors"),
                           {.recipe = options.recipe,
                            .step = 0,
                            .seed = options.seed,
                            .batch = options.batch,
                            .optimizer = options.optimizer},
                           model, *optimizer, device);
    checkpoint_exists = true;
    if (step > total_steps)
      throw ValueError(
          fmt::format("[train] the checkpoint is at step {}, this run ends at step {}", step, total_steps));
    progress.line(fmt::format("resumed at step {}", step));
  }

  // False when the run must end before the epoch does.
  bool train_epoch(int64_t epoch) {
    const int64_t per_epoch = batcher.batches_per_epoch();
    batcher.start_epoch(static_cast<uint64_t>(epoch), step - epoch * per_epoch);
    open_window();
    while (step < last_step() && interrupted == 0 && batcher.next(host_batch)) {
      submit_step();
      const bool save = options.checkpoint_every > 0 && step % options.checkpoint_every == 0;
      if (save || window_is_full()) close_window();
      if (save) {
        write_checkpoint();
        open_window();
      }
    }
    close_window();
    if (interrupted != 0 || step == last_step()) return step % per_epoch == 0 && interrupted == 0 && step < last_step();
    write_checkpoint();
    const Evaluation test = evaluate_if_shown();
    if (!options.json)
      progress.line(fmt::format("epoch {}/{}  loss {:.4f}  test accuracy {:.4f}", epoch + 1, options.epochs, last_loss,
                                test.accuracy));
    return true;
  }

  Evaluation evaluate_if_shown() {
    return options.json ? Evaluation{} : evaluate_images(model, data.test, device, options.limit_test);
  }

  int finish_interrupted() {
    write_checkpoint();
    save_safetensors(path("model.safetensors"), model.state_dict(), {{"recipe", options.recipe}});
    if (options.json) {
      print_json({{"event", "interrupted"},
                  {"device", device.id()},
                  {"steps", step},
                  {"checkpoint", path("checkpoint.safetensors")}});
    } else {
      progress.line(
          fmt::format("interrupted at step {}; saved {}; go on with --resume", step, path("checkpoint.safetensors")));
    }
    return exit_interrupted;
  }

  int finish() {
    const uint64_t peak = device.memory().peak_bytes;
    const Evaluation test = evaluate_images(model, data.test, device, options.limit_test);
    if (!std::isfinite(test.loss)) stop_at_bad_loss(step, test.loss);
    write_checkpoint();
    save_safetensors(path("model.safetensors"), model.state_dict(), {{"recipe", options.recipe}});
    if (options.quiet) return 0;
    options.json ? report_json(test, peak) : report_text(test, peak);
    return 0;
  }

  void report_json(const Evaluation& test, uint64_t peak) const {
    print_json({{"event", "done"},
                {"device", device.id()},
                {"steps", step},
                {"test_accuracy", test.accuracy},
                {"test_loss", test.loss},
                {"seconds", seconds_since(run_start)},
                {"median_step_ms", median(step_seconds) * 1e3},
                {"kernels_per_step", kernels_per_step},
                {"peak_device_bytes", peak}});
  }

  void report_text(const Evaluation& test, uint64_t peak) {
    const double steps = static_cast<double>(step - first_step);
    progress.line(fmt::format("test accuracy  {:.4f} on {} images, loss {:.4f}", test.accuracy,
                              with_commas(static_cast<double>(test.images)), test.loss));
    if (steps > 0) {
      progress.line(
          fmt::format("speed          {} samples/s: {} steps in {:.1f} s, median step {:.3f} ms, {:.0f} kernels a "
                      "step, peak {:.1f} MiB on {} ({})",
                      with_commas(steps * static_cast<double>(options.batch) / training_seconds), with_commas(steps),
                      training_seconds, median(step_seconds) * 1e3, kernels_per_step,
                      static_cast<double>(peak) / (1 << 20), device.id(), device.info().name));
    }
    progress.line(fmt::format("model          {}", path("model.safetensors")));
  }

  int run() {
    progress.line(fmt::format("training {} ({} parameters) on {} ({}), {} training images from {}", options.recipe,
                              with_commas(static_cast<double>(model.parameter_count())), device.id(),
                              device.info().name, with_commas(static_cast<double>(data.train.size())), data.name));
    if (options.resume) resume();
    const InterruptScope on_interrupt;
    first_step = step;
    run_start = Clock::now();
    device.reset_peak_memory();
    for (int64_t epoch = step / batcher.batches_per_epoch(); step < last_step(); ++epoch) {
      if (!train_epoch(epoch)) break;
    }
    if (options.after_steps) options.after_steps();
    return interrupted != 0 ? finish_interrupted() : finish();
  }
};

Trainer::Trainer(const TrainOptions& options) {
  check(options);
  require_writable_folder(options.out);
  state_ = std::make_unique<State>(options);
}
Trainer::~Trainer() = default;
int Trainer::run() { return state_->run(); }

}  // namespace heddle::tools
