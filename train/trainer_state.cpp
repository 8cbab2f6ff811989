#include "heddle/train/trainer_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "heddle/core/functions/random/generator.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/data/image_file.h"
#include "heddle/io/atomic_file.h"
#include "heddle/train/compare_ranks.h"
#include "heddle/train/early_stopping.h"
#include "heddle/train/metrics_lines.h"
#include "heddle/train/not_finite.h"
#include "heddle/train/tensorboard.h"

namespace heddle::train {
namespace {

std::shared_ptr<nn::Plateau> make_plateau(const Config& c) {
  if (c.schedule.name != "plateau") return nullptr;
  const nn::PlateauOptions options{
      .factor = c.schedule.gamma, .patience = c.schedule.patience, .least = c.schedule.least};
  return std::make_shared<nn::Plateau>(c.optimizer.lr, options);
}

// Ranks that share parameters keep averages of their own elements.
std::optional<nn::ExponentialAverage> make_average(const nn::Module& model, const Config& c, const Replicas& replicas) {
  if (c.training.ema <= 0 || shares_parameters(c, &replicas)) return std::nullopt;
  return std::optional<nn::ExponentialAverage>(std::in_place, model.parameters(), c.training.ema);
}

}  // namespace

Trainer::State::State(Trainer& trainer, Task& t, const Config& c, DeviceContext& d, Replicas* r)
    : self(trainer),
      task(t),
      config(c),
      device(d),
      ranks(r),
      replicas(r != nullptr ? *r : alone.emplace().replicas),
      watch(d),
      feed(t.training(), config, d, watch, &replicas),
      length(feed, t.training(), c),
      plateau(make_plateau(c)),
      optimizers(t, c, make_schedule(c, length.steps, plateau), d),
      average(make_average(t.model(), c, replicas)),
      training_step(t, optimizers, average ? &*average : nullptr, config, d, &replicas),
      window(d, watch) {
  if (PartedModel* model = task.parted()) parted.emplace(*model);
  compare_ranks(replicas, config, task, device);
  if (parted && replicas.mixed())
    throw ValueError(fmt::format("[mesh] {}: ranks whose devices differ share batches (dp) alone", replicas.mesh()));
  if (replicas.world().survives()) check_survivable(config, replicas);
  if (c.training.early_stop > 0) callbacks.push_back(std::make_shared<EarlyStopping>(c.training.early_stop));
}

void Trainer::State::write_to(RunFolder& f) {
  folder = &f;
  callbacks.push_back(std::make_shared<MetricsLines>([&f](const std::string& line) { f.append(line); }));
  if (config.log.tensorboard || config.log.histograms_every > 0)
    callbacks.push_back(std::make_shared<TensorboardEvents>(f.file("events"), f.path()));
  checkpoints.emplace(f.checkpoints(), CheckpointOptions{.keep_last = config.checkpoint.keep_last,
                                                         .keep_best = config.checkpoint.keep_best});
}

int64_t Trainer::State::last_step() const {
  return config.training.limit_steps > 0 ? std::min(config.training.limit_steps, length.steps) : length.steps;
}

// What one rank is told ends nothing before all know it.
bool Trainer::State::is_stopped() const { return agreed.stop || (replicas.alone() && stopped); }
bool Trainer::State::is_interrupted() const { return agreed.interrupt || (replicas.alone() && interrupted); }

// ---- windows of updates

void Trainer::State::open_window() {
  window.open();
  pace.open();
}

// By the clock of each of them ranks would end theirs, and fail, at different steps.
bool Trainer::State::window_is_full() const {
  return replicas.alone() ? window.is_full(training_step.open()) : agreed.look;
}

// Waits for the device, measures, looks at the losses and opens the next window.
void Trainer::State::close_window() {
  if (training_step.open() == 0) return;
  watch.close();
  const int64_t updates = training_step.open();
  const UpdateWindow::Seen seen = window.close(training_step.take(), config, step, length.steps_per_epoch);
  untold = seen.records;
  settle_copies();  // what callbacks are told of is not lost with a rank
  look_at_ranks(updates);
  untold.clear();
  tell_of_steps(seen.records);
  if (!seen.bad.empty()) {
    if (!replicas.leads()) replicas.wait_for_first();  // who says the same
    stop_at(seen.bad, seen.records.back().step, origin(seen.bad_batch));
  }
  open_window();
}

// Those that the others wait for are named, and get less where that is asked for.
void Trainer::State::look_at_ranks(int64_t updates) {
  for (const Straggler& straggler : pace.close(updates)) tell([&](Callback& c) { c.on_straggler(self, straggler); });
  if (!balance.follow(pace.counts() ? pace.seconds() : std::vector<double>())) return;
  feed.share();
  training_step.share();
  pace.begin_again();
  tell([&](Callback& c) { c.on_shares(self, replicas.shares_of(config.training.batch)); });
}

std::string Trainer::State::last_checkpoint() const {
  return checkpoint_path.empty() ? "no checkpoint had been written yet"
                                 : fmt::format("the last good checkpoint is {}", checkpoint_path);
}

// One more run of the batch that failed. An update whose norm was not finite left the weights as they were; one
// without a norm did not, and those of the last checkpoint are nearest. A fault of this look hides nothing. Of parts of
// a model no rank can run a batch alone.
std::string Trainer::State::origin(const data::Loader::Position& position) {
  if (in_parts()) return {};
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

// As origin(), of an evaluation, which follows the update that spoilt the weights.
std::string Trainer::State::origin_of_evaluation() {
  if (in_parts()) return {};
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

void Trainer::State::stop_at(const std::string& what, int64_t at, const std::string& where) const {
  throw ValueError(
      fmt::format("[train] {} at step {}{}{}; {}; likely cause: the learning rate {} is too high; --check-numbers "
                  "names the operation",
                  what, at, where.empty() ? "" : ", first in ", where, last_checkpoint(), config.optimizer.lr));
}

// ---- the loop

// Of several ranks the first windows are short, so that one that is slow is known soon.
Wishes Trainer::State::wishes() const {
  const bool early = !replicas.alone() && step - first_step < RankPace::early_updates;
  return {stopped, interrupted, window.is_full(training_step.open() + 1, early)};
}

// The next batch, while the device has the gradients to compute and the update is not submitted.
void Trainer::State::fetch_beside() {
  watch.submitted();
  feed.fetch();
  settle_copies();
  watch.submitting();
}

// Submits one update; one process does not wait for it.
void Trainer::State::submit_step() {
  tell([&](Callback& c) { c.on_batch_start(self); });
  std::vector<Tensor> batch;
  const data::Loader::Position position = feed.position();
  begun = {position, default_generator().offset};
  const bool keep = config.log.histograms_every > 0 && (step + 1) % config.log.histograms_every == 0;
  try {
    feed.next(batch);
    watch.submitting();
    training_step.begin(step);
    const uint64_t sent_before = replicas.bytes_sent();
    agreed = training_step.submit(batch, keep, wishes(), [&] { fetch_beside(); });
    bytes_sent += replicas.bytes_sent() - sent_before;
    watch.submitted();
    feed.fetch();
  } catch (const NumericError& error) {
    throw NumericError(fmt::format("{}; at step {}; {}", error.what(), step + 1, last_checkpoint()), error.fault());
  }
  window.add(optimizers.lr(), position);
  ++step;
  begun.reset();
  if (buddies && step % copies_every == 0) keep_copies(feed.position());
  tell([&](Callback& c) { c.on_batch_end(self); });
}

void Trainer::State::run_epoch(int64_t epoch, bool evaluating) {
  feed.start(task.training().stream
                 ? stream_begin
                 : data::Loader::Position{static_cast<uint64_t>(epoch), step - epoch * length.steps_per_epoch});
  tell([&](Callback& c) { c.on_epoch_start(self); });
  open_window();
  const int64_t end = (epoch + 1) * length.steps_per_epoch;
  while (step < end && !ending()) {
    submit_step();
    const bool within = step < last_step();  // the last step is followed by both
    const bool evaluate_now = evaluating && within && step % length.eval_every == 0;
    const bool sample_now = evaluating && config.log.sample_every > 0 && step % config.log.sample_every == 0;
    // Ranks without a folder see the same windows.
    const bool save_now =
        (folder != nullptr || !replicas.alone()) && within &&
        (config.checkpoint.every > 0 ? step % config.checkpoint.every == 0 : step % length.eval_every == 0);
    if (evaluate_now || sample_now || save_now || step == end || window_is_full()) close_window();
    if (evaluate_now) evaluate();
    if (sample_now) generate();
    if (buddies && (evaluate_now || sample_now)) keep_copies(feed.position());  // what they have drawn and decided
    if (save_now) save_checkpoint();
    if (evaluate_now || sample_now || save_now) open_window();
  }
  close_window();
  tell([&](Callback& c) { c.on_epoch_end(self); });
}

void Trainer::State::evaluate() {
  evaluation = measured([&] { return task.evaluate(config.data.limit_test); });
  evaluation.loss = replicas.of_first(evaluation.loss);  // what decisions are taken by
  evaluated_at = step;
  if (!std::isfinite(evaluation.loss)) {
    if (!replicas.leads()) replicas.wait_for_first();
    stop_at(became("the loss", evaluation.loss), step, origin_of_evaluation());
  }
  if (plateau) plateau->observe(evaluation.loss);
  tell([&](Callback& c) { c.on_evaluate(self, evaluation); });
  agreed.stop = replicas.any(stopped || agreed.stop);
  if (config.log.sample_every == 0) generate();
}

void Trainer::State::test() {
  tested = measured([&] { return task.test(config.data.limit_test); });
  if (tested.examples > 0) tell([&](Callback& c) { c.on_test(self, tested); });
}

// Of several ranks the first one makes it, or all the same where they share parameters; all go on with the same random
// numbers.
void Trainer::State::generate() {
  const uint64_t seed = default_generator().seed;
  if (shared_parameters() != nullptr) default_generator().seed = replicas.of_first(seed);
  if (replicas.leads() || in_parts()) generate_here();
  default_generator().seed = seed;
  default_generator().offset = replicas.of_first(default_generator().offset);
}

void Trainer::State::generate_here() {
  Generated made = measured([&] { return task.generate(); });
  if (made.empty() || !replicas.leads()) return;
  if (folder != nullptr && !made.image.bytes.empty()) {
    made.image_path = fmt::format("samples/step-{}.png", step);
    require_writable_folder(folder->file("samples"));
    data::write_png(folder->file(made.image_path), made.image);
  }
  tell([&](Callback& c) { c.on_sample(self, made); });
}

// ---- begin and end

// From here on ranks differ in chance alone.
void Trainer::State::begin_with_others() {
  if (optimizers.keeps_shards())
    shared_folder = replicas.of_first(folder != nullptr ? folder->checkpoints() : std::string());
  if (replicas.alone()) return;
  replicas.require_equal("checkpoints", fmt::format("{}", step));
  if (replicas.mixed()) training_step.follow_first();
  // Of parameters in parts each element is its owner's, also where devices round differently.
  if (const ShardedParameters* const shared = shared_parameters(); shared == nullptr)
    compare_weights("weights");
  else if (!replicas.mixed())
    replicas.require_equal("weights", shared->first_sha256());
  first_seed = default_generator().seed;
  begin_copies();
  if (const int64_t place = replicas.along_batch().place; place > 0)
    default_generator().seed = hash_combine(default_generator().seed, static_cast<uint64_t>(place));
}

void Trainer::State::compare_weights(const std::string& what) {
  weights_sha256 = parted ? parted->parameters_sha256() : train::parameters_sha256(task.model());
  replicas.require_equal(what, weights_sha256);
}

void Trainer::State::finish(bool evaluating) {
  ShardedParameters* const shared = shared_parameters();
  if ((parted || !replicas.alone()) && shared == nullptr) compare_weights("weights after the last update");
  if (parted) bubble = task.parted()->bubble();
  model_step = step;
  if (!is_interrupted() && evaluating && evaluated_at != step) evaluate();
  if (!shared_folder.empty() || parted) save_checkpoint();  // all ranks; what follows is the first one's
  const bool with_folder = folder != nullptr || (shared != nullptr && !shared_folder.empty());
  if (!is_interrupted() && evaluating) {
    if (config.checkpoint.use_best && with_folder) take_best();
    if (replicas.leads() || shared != nullptr) test();
  }
  const WholeParameters whole = shared != nullptr ? shared->gathered(replicas.leads()) : WholeParameters();
  if (shared != nullptr) weights_sha256 = shared->sha256(whole);
  if (folder != nullptr || parted) {
    save_checkpoint();
    save_model(whole);
  }
  wait_for_files();
}

Outcome Trainer::State::run(bool evaluating) {
  if (folder != nullptr) {
    folder->write_config(config);
    folder->write_environment(device);
  }
  std::optional<NumberGuardScope> guard;
  if (config.run.check_numbers) guard.emplace();
  first_step = step;
  window.start_run();
  device.reset_peak_memory();
  begin_with_others();
  tell([&](Callback& c) { c.on_train_start(self); });
  tell_of_survival();
  for (int64_t epoch = step / length.steps_per_epoch; !ending(); ++epoch) run_epoch(epoch, evaluating);
  finish(evaluating);
  const Outcome outcome = is_interrupted() ? Outcome::interrupted : is_stopped() ? Outcome::stopped : Outcome::finished;
  tell([&](Callback& c) { c.on_train_end(self, outcome); });
  return outcome;
}

}  // namespace heddle::train
