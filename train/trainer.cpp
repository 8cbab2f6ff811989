#include "heddle/train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/base/median.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/data/image_file.h"
#include "heddle/io/atomic_file.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/compare_ranks.h"
#include "heddle/train/early_stopping.h"
#include "heddle/train/feed.h"
#include "heddle/train/metrics_lines.h"
#include "heddle/train/not_finite.h"
#include "heddle/train/replicas.h"
#include "heddle/train/run_state.h"
#include "heddle/train/step.h"
#include "heddle/train/tensorboard.h"

namespace heddle::train {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double window_seconds = 0.1;
constexpr int64_t shared_window = 10;  // updates; each is waited for anyway

// While it lives, the model is in evaluation mode and holds the averaged parameters.
class EvaluationScope {
 public:
  EvaluationScope(nn::Module& model, const std::optional<nn::ExponentialAverage>& average)
      : model_(model), was_training_(model.training()) {
    if (average) averaged_.emplace(*average);
    model_.eval();
  }
  ~EvaluationScope() { model_.train(was_training_); }
  // Throws where the parameters cannot be given back, which the destructor cannot.
  void end() {
    if (averaged_) averaged_->end();
  }
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;

 private:
  const NoGradScope no_grad_;
  nn::Module& model_;
  bool was_training_;
  std::optional<nn::ExponentialAverage::Scope> averaged_;
};

// Of a stream: those of the run.
int64_t checked_steps_per_epoch(const Feed& feed, const TrainingData& data, const Config& c) {
  if (data.stream) {
    if (c.training.steps == 0)
      throw ValueError(fmt::format(
          "[train] {} is a stream, whose length nobody knows: training.steps must say how many updates the run has",
          data.name));
    return c.training.steps;
  }
  return feed.batches_per_epoch();
}

int64_t steps_of_run(const Config& c, int64_t steps_per_epoch) {
  int64_t steps = c.training.steps;
  if (steps > 0 || !__builtin_mul_overflow(c.training.epochs, steps_per_epoch, &steps)) return steps;
  throw ValueError(fmt::format("[train] {} epochs of {} updates are too many", c.training.epochs, steps_per_epoch));
}

std::string became(const char* what, double value) {
  return fmt::format("{} became {}", what, std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
}

// Empty where all is well. Under a loss scale a gradient that is not finite is what makes it smaller.
std::string not_finite(const StepRecord& record) {
  if (!std::isfinite(record.loss)) return became("the loss", record.loss);
  if (record.loss_scale || !record.grad_norm || std::isfinite(*record.grad_norm)) return {};
  return became("the gradients' norm", *record.grad_norm);
}

int64_t evaluation_interval(const Config& c, int64_t steps_per_epoch) {
  if (c.log.eval_every > 0) return c.log.eval_every;
  return c.training.steps > 0 ? std::max<int64_t>(1, c.training.steps / 10) : steps_per_epoch;
}

}  // namespace

struct Trainer::State {
  Trainer& self;
  Task& task;
  const Config config;
  DeviceContext& device;
  Replicas* replicas;           // may be null
  RunFolder* folder = nullptr;  // may stay null
  DeviceWatch watch;
  Feed feed;
  const int64_t steps_per_epoch, total_steps, eval_every;
  std::shared_ptr<nn::Plateau> plateau;
  Optimizers optimizers;
  std::optional<nn::ExponentialAverage> average;
  TrainingStep training_step;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::optional<CheckpointWriter> checkpoints;

  int64_t step = 0;                     // done so far
  data::Loader::Position stream_begin;  // where a stream goes on
  int64_t first_step = 0;               // where this process began
  std::atomic<bool> interrupted{false};
  bool stopped = false;
  TrainingStep::Wishes agreed;  // of all ranks
  std::string checkpoint_path;  // of the latest
  Evaluation evaluation, tested;
  int64_t evaluated_at = -1, saved_at = -1;
  int64_t model_step = 0;  // of the weights that the run leaves

  // The open window.
  std::vector<double> window_lr;
  std::vector<data::Loader::Position> window_batches;
  Clock::time_point window_start, run_start;
  DeviceCounters window_counters;
  std::vector<double> step_seconds;  // one per closed window; the first, which compiles, only while it is the only one
  int64_t windows = 0;
  double kernels_per_step = 0, training_seconds = 0, last_loss = 0;

  State(Trainer& trainer, Task& t, const Config& c, DeviceContext& d, Replicas* r)
      : self(trainer),
        task(t),
        config(c),
        device(d),
        replicas(r),
        watch(d),
        feed(t.training(), c, d, watch, r),
        steps_per_epoch(checked_steps_per_epoch(feed, t.training(), c)),
        total_steps(steps_of_run(c, steps_per_epoch)),
        eval_every(evaluation_interval(c, steps_per_epoch)),
        plateau(c.schedule.name == "plateau"
                    ? std::make_shared<nn::Plateau>(c.optimizer.lr, nn::PlateauOptions{.factor = c.schedule.gamma,
                                                                                       .patience = c.schedule.patience,
                                                                                       .least = c.schedule.least})
                    : nullptr),
        optimizers(t, c, make_schedule(c, total_steps, plateau), d),
        average(c.training.ema > 0
                    ? std::optional<nn::ExponentialAverage>(std::in_place, t.model().parameters(), c.training.ema)
                    : std::nullopt),
        training_step(t, optimizers, average ? &*average : nullptr, c, d, r) {
    if (replicas != nullptr && !task.loss_weighs_examples_alike())
      throw ValueError(fmt::format("[train] the loss of {} weighs examples differently: ranks cannot share its batches",
                                   config.run.recipe));
    if (replicas != nullptr) compare_ranks(*replicas, config, task, device);
    if (c.training.early_stop > 0) callbacks.push_back(std::make_shared<EarlyStopping>(c.training.early_stop));
  }

  void write_to(RunFolder& f) {
    folder = &f;
    callbacks.push_back(std::make_shared<MetricsLines>([&f](const std::string& line) { f.append(line); }));
    if (config.log.tensorboard || config.log.histograms_every > 0)
      callbacks.push_back(std::make_shared<TensorboardEvents>(f.file("events"), f.path()));
    checkpoints.emplace(f.checkpoints(), CheckpointOptions{.keep_last = config.checkpoint.keep_last,
                                                           .keep_best = config.checkpoint.keep_best});
  }

  template <class Call>
  void tell(Call call) {
    for (const std::shared_ptr<Callback>& callback : callbacks) call(*callback);
  }

  int64_t last_step() const {
    return config.training.limit_steps > 0 ? std::min(config.training.limit_steps, total_steps) : total_steps;
  }
  // What one rank is told ends nothing before all know it.
  bool is_stopped() const { return replicas != nullptr ? agreed.stop : stopped; }
  bool is_interrupted() const { return replicas != nullptr ? agreed.interrupt : interrupted.load(); }
  bool ending() const { return step >= last_step() || is_stopped() || is_interrupted(); }
  bool leads() const { return replicas == nullptr || replicas->leads(); }

  RunState run_state() { return {task, optimizers, average ? &*average : nullptr, plateau.get(), callbacks}; }

  // ---- windows of updates

  void open_window() {
    window_lr.clear();
    window_batches.clear();
    window_counters = device.counters();
    window_start = Clock::now();
    watch.open();
  }
  // By the clock ranks would end theirs, and fail, at different steps.
  bool window_is_full() const {
    if (replicas != nullptr) return training_step.open() >= shared_window;
    return training_step.open() >= TrainingStep::window || seconds_since(window_start) >= window_seconds;
  }

  // Waits for the device, measures, looks at the losses and opens the next window.
  void close_window() {
    const int64_t count = training_step.open();
    if (count == 0) return;
    watch.close();
    const TrainingStep::Results results = training_step.take();
    const double seconds = seconds_since(window_start);
    training_seconds += seconds;
    if (++windows == 2) step_seconds.clear();
    step_seconds.push_back(seconds / static_cast<double>(count));
    kernels_per_step =
        static_cast<double>(device.counters().kernels - window_counters.kernels) / static_cast<double>(count);
    report_steps(results);
    open_window();
  }

  void report_steps(const TrainingStep::Results& results) {
    std::vector<StepRecord> records;
    const int64_t first = step - static_cast<int64_t>(results.losses.size());
    const auto samples = static_cast<double>(examples_per_update(config));
    std::string bad;
    for (size_t i = 0; i < results.losses.size() && bad.empty(); ++i) {
      StepRecord record;
      record.step = first + static_cast<int64_t>(i) + 1;
      record.epoch = static_cast<double>(record.step) / static_cast<double>(steps_per_epoch);
      record.loss = last_loss = results.losses[i];
      record.lr = window_lr[i];
      if (!results.norms.empty()) record.grad_norm = results.norms[i];
      record.loss_scale = results.loss_scale;
      record.skipped = results.skipped;
      for (const auto& [name, values] : results.figures) record.figures.emplace_back(name, values[i]);
      record.samples_per_second = samples / step_seconds.back();
      record.seconds = seconds_since(run_start);
      records.push_back(record);
      bad = not_finite(record);
    }
    tell([&](Callback& c) { c.on_steps(self, records); });
    if (!bad.empty() && !leads()) replicas->wait_for_first();  // who says the same
    if (!bad.empty()) stop_at(bad, records.back().step, origin(window_batches[records.size() - 1]));
  }

  Throughput throughput() const {
    Throughput t = feed.throughput();
    t.idle = watch.idle();
    t.compute = std::max(0.0, training_seconds - watch.idle() - watch.compiling());
    return t;
  }

  std::string last_checkpoint() const {
    return checkpoint_path.empty() ? "no checkpoint had been written yet"
                                   : fmt::format("the last good checkpoint is {}", checkpoint_path);
  }

  // One more run of the batch that failed. An update whose norm was not finite left the weights as they were; one
  // without a norm did not, and those of the last checkpoint are nearest. A fault of this look hides nothing.
  std::string origin(const data::Loader::Position& position) {
    try {
      if (!first_not_finite(task.model().named_parameters()).empty() && !checkpoint_path.empty() && folder != nullptr) {
        checkpoints->wait();
        restore_weights(load_latest_checkpoint(folder->checkpoints(), &device).value().checkpoint, run_state());
      }
      std::vector<Tensor> batch;
      feed.start(position);
      return feed.next(batch) ? training_step.first_not_finite(batch) : std::string();
    } catch (const std::exception&) {
      return {};
    }
  }

  [[noreturn]] void stop_at(const std::string& what, int64_t at, const std::string& where = {}) const {
    throw ValueError(
        fmt::format("[train] {} at step {}{}{}; {}; likely cause: the learning rate {} is too high; --check-numbers "
                    "names the operation",
                    what, at, where.empty() ? "" : ", first in ", where, last_checkpoint(), config.optimizer.lr));
  }

  // ---- the loop

  // Submits one update; does not wait for it.
  void submit_step() {
    tell([&](Callback& c) { c.on_batch_start(self); });
    std::vector<Tensor> batch;
    window_batches.push_back(feed.position());
    const bool keep = config.log.histograms_every > 0 && (step + 1) % config.log.histograms_every == 0;
    try {
      feed.next(batch);
      watch.submitting();
      if (replicas != nullptr)
        agreed = training_step.submit_part(batch, keep, {stopped, interrupted});
      else
        training_step.submit(batch, keep);
      watch.submitted();
      feed.fetch();
    } catch (const NumericError& error) {
      throw NumericError(fmt::format("{}; at step {}; {}", error.what(), step + 1, last_checkpoint()), error.fault());
    }
    window_lr.push_back(optimizers.lr());
    ++step;
    tell([&](Callback& c) { c.on_batch_end(self); });
  }

  void run_epoch(int64_t epoch, bool evaluating) {
    feed.start(task.training().stream
                   ? stream_begin
                   : data::Loader::Position{static_cast<uint64_t>(epoch), step - epoch * steps_per_epoch});
    tell([&](Callback& c) { c.on_epoch_start(self); });
    open_window();
    const int64_t end = (epoch + 1) * steps_per_epoch;
    while (step < end && !ending()) {
      submit_step();
      const bool within = step < last_step();  // the last step is followed by both
      const bool evaluate_now = evaluating && within && step % eval_every == 0;
      const bool sample_now = evaluating && config.log.sample_every > 0 && step % config.log.sample_every == 0;
      // Ranks without a folder see the same windows.
      const bool save_now =
          (folder != nullptr || replicas != nullptr) && within &&
          (config.checkpoint.every > 0 ? step % config.checkpoint.every == 0 : step % eval_every == 0);
      if (evaluate_now || sample_now || save_now || step == end || window_is_full()) close_window();
      if (evaluate_now) evaluate();
      if (sample_now) generate();
      if (save_now) save_checkpoint();
      if (evaluate_now || sample_now || save_now) open_window();
    }
    close_window();
    tell([&](Callback& c) { c.on_epoch_end(self); });
  }

  template <class Measure>
  auto measured(Measure measure) {
    EvaluationScope scope(task.model(), average);
    auto result = measure();
    scope.end();
    return result;
  }

  // As origin(), of an evaluation, which follows the update that spoilt the weights.
  std::string origin_of_evaluation() {
    try {
      if (const std::string name = first_not_finite(task.model().named_parameters()); !name.empty())
        return "the weight " + name;
      const OutputWatch outputs(task.network());
      (void)measured([&] { return task.evaluate(config.data.limit_test); });
      const std::string path = outputs.first();
      return path.empty() ? path : "the output of " + path;
    } catch (const std::exception&) {
      return {};
    }
  }

  void evaluate() {
    evaluation = measured([&] { return task.evaluate(config.data.limit_test); });
    if (replicas != nullptr) evaluation.loss = replicas->of_first(evaluation.loss);  // what decisions are taken by
    evaluated_at = step;
    if (!std::isfinite(evaluation.loss)) {
      if (!leads()) replicas->wait_for_first();
      stop_at(became("the loss", evaluation.loss), step, origin_of_evaluation());
    }
    if (plateau) plateau->observe(evaluation.loss);
    tell([&](Callback& c) { c.on_evaluate(self, evaluation); });
    if (replicas != nullptr) agreed.stop = replicas->any(stopped || agreed.stop);
    if (config.log.sample_every == 0) generate();
  }

  void test() {
    tested = measured([&] { return task.test(config.data.limit_test); });
    if (tested.examples > 0) tell([&](Callback& c) { c.on_test(self, tested); });
  }

  // Of several ranks the first one makes it; all go on with the same random numbers.
  void generate() {
    if (leads()) generate_here();
    if (replicas != nullptr) default_generator().offset = replicas->of_first(default_generator().offset);
  }

  void generate_here() {
    Generated made = measured([&] { return task.generate(); });
    if (made.empty()) return;
    if (folder != nullptr && !made.image.bytes.empty()) {
      made.image_path = fmt::format("samples/step-{}.png", step);
      require_writable_folder(folder->file("samples"));
      data::write_png(folder->file(made.image_path), made.image);
    }
    tell([&](Callback& c) { c.on_sample(self, made); });
  }

  // The window is closed, so every loss so far was finite.
  void save_checkpoint() {
    if (saved_at == step || folder == nullptr) return;
    const std::optional<double> score = evaluated_at == step ? std::optional(evaluation.loss) : std::nullopt;
    checkpoint_path = checkpoints->save(step, checkpoint_of(run_state(), config, {step, feed.position()}), score);
    saved_at = step;
    tell([&](Callback& c) { c.on_checkpoint(self, checkpoint_path); });
  }

  // The weights, and the evaluation, of the best checkpoint. The last one is on the disk before: who goes on with the
  // run goes on from there.
  void take_best() {
    save_checkpoint();
    checkpoints->wait();
    const std::optional<LatestCheckpoint> best = load_best_checkpoint(folder->checkpoints(), &device);
    if (!best || best->step == step) return;
    restore_weights(best->checkpoint, run_state());
    model_step = best->step;
    evaluation = measured([&] { return task.evaluate(config.data.limit_test); });
  }

  void save_model() {
    Metadata metadata = task.metadata();
    metadata["recipe"] = config.run.recipe;
    metadata["config"] = config.str();
    EvaluationScope scope(task.model(), average);
    train::save_checkpoint(self.model_path(), {task.model().state_dict(), metadata});
    if (!is_interrupted()) task.write_beside(folder->path());
    scope.end();
  }

  std::vector<std::string> resume(const std::string& path) {
    std::optional<LatestCheckpoint> latest = load_latest_checkpoint(RunFolder::checkpoints_of(path), &device);
    if (!latest) return {fmt::format("[train] {} holds no checkpoint yet: the run begins again", path)};
    const Place place = restore(latest->checkpoint, latest->path, run_state(), config);
    step = place.step;
    stream_begin = place.stream;
    if (step > total_steps)
      throw ValueError(
          fmt::format("[train] {} is at step {}, this run ends at step {}", latest->path, step, total_steps));
    saved_at = step;
    checkpoint_path = latest->path;
    for (std::string& broken : latest->broken) broken += fmt::format("; going on from {}", latest->path);
    return latest->broken;
  }

  // From here on ranks differ in chance alone.
  void begin_with_others() {
    replicas->require_equal("checkpoints", fmt::format("{}", step));
    if (replicas->mixed()) training_step.follow_first();
    replicas->require_equal("weights", parameters_sha256(task.model()));
    if (!leads())
      default_generator().seed = hash_combine(default_generator().seed, static_cast<uint64_t>(replicas->rank()));
  }

  Outcome run(bool evaluating) {
    if (folder != nullptr) {
      folder->write_config(config);
      folder->write_environment(device);
    }
    std::optional<NumberGuardScope> guard;
    if (config.run.check_numbers) guard.emplace();
    first_step = step;
    run_start = Clock::now();
    device.reset_peak_memory();
    if (replicas != nullptr) begin_with_others();
    tell([&](Callback& c) { c.on_train_start(self); });
    for (int64_t epoch = step / steps_per_epoch; !ending(); ++epoch) run_epoch(epoch, evaluating);
    if (replicas != nullptr) replicas->require_equal("weights after the last update", parameters_sha256(task.model()));
    model_step = step;
    if (!is_interrupted() && evaluating) {
      if (evaluated_at != step) evaluate();
      if (config.checkpoint.use_best && folder != nullptr) take_best();
      if (leads()) test();
    }
    if (folder != nullptr) {
      save_checkpoint();
      save_model();
      checkpoints->wait();
    }
    const Outcome outcome = is_interrupted() ? Outcome::interrupted
                            : is_stopped()   ? Outcome::stopped
                                             : Outcome::finished;
    tell([&](Callback& c) { c.on_train_end(self, outcome); });
    return outcome;
  }
};

Trainer::Trainer(Task& task, const Config& config, DeviceContext& device, Replicas* replicas)
    : state_(std::make_unique<State>(*this, task, config, device, replicas)) {}
Trainer::~Trainer() = default;
void Trainer::write_to(RunFolder& folder) { state_->write_to(folder); }
void Trainer::add(std::shared_ptr<Callback> callback) { state_->callbacks.push_back(std::move(callback)); }
std::vector<std::string> Trainer::resume() {
  if (state_->folder == nullptr) throw ValueError("[train] there is no folder to resume from");
  return state_->resume(state_->folder->path());
}
std::vector<std::string> Trainer::resume(const std::string& folder) { return state_->resume(folder); }
Outcome Trainer::run(bool evaluate) { return state_->run(evaluate); }
void Trainer::stop() { state_->stopped = true; }
void Trainer::interrupt() noexcept { state_->interrupted = true; }

const Config& Trainer::config() const { return state_->config; }
Task& Trainer::task() const { return state_->task; }
DeviceContext& Trainer::device() const { return state_->device; }
int64_t Trainer::step() const { return state_->step; }
int64_t Trainer::first_step() const { return state_->first_step; }
int64_t Trainer::last_step() const { return state_->last_step(); }
int64_t Trainer::steps_per_epoch() const { return state_->steps_per_epoch; }
int64_t Trainer::epoch() const { return state_->step / state_->steps_per_epoch; }
int64_t Trainer::epochs() const {
  return (state_->total_steps + state_->steps_per_epoch - 1) / state_->steps_per_epoch;
}
double Trainer::seconds() const { return seconds_since(state_->run_start); }
const std::vector<Tensor>& Trainer::gradients() const { return state_->training_step.gradients(); }
double Trainer::last_loss() const { return state_->last_loss; }
const Evaluation& Trainer::evaluation() const { return state_->evaluation; }
const Evaluation& Trainer::tested() const { return state_->tested; }
int64_t Trainer::model_step() const { return state_->model_step; }
const Replicas* Trainer::replicas() const { return state_->replicas; }
std::string Trainer::checkpoint_path() const { return state_->checkpoint_path; }
std::string Trainer::model_path() const {
  return state_->folder != nullptr ? state_->folder->file("model.safetensors") : std::string();
}

RunReport Trainer::report() const {
  const State& s = *state_;
  const double samples =
      static_cast<double>(s.step - s.first_step) * static_cast<double>(examples_per_update(s.config));
  return {s.training_seconds, median(s.step_seconds),       s.training_seconds > 0 ? samples / s.training_seconds : 0,
          s.kernels_per_step, s.device.memory().peak_bytes, s.throughput()};
}

}  // namespace heddle::train
