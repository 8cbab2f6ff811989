#include "tools/train_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/data/unicode.h"
#include "heddle/distributed/call.h"
#include "heddle/train/trainer.h"

namespace heddle::tools {
namespace {

// A text as part of a line of a terminal: it may hold control characters, and parts of characters.
std::string beginning(std::string text) {
  constexpr size_t most = 160;
  const bool is_cut = text.size() > most;
  text.resize(std::min(text.size(), most));
  text.resize(data::whole_characters(text));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return (c >= 0 && c < ' ') || c == '\x7f'; }, ' ');
  return is_cut ? text + " ..." : text;
}

}  // namespace

std::string evaluation_line(const train::Evaluation& e) {
  std::string text = fmt::format("{} loss {:.4f}", e.split, e.loss);
  for (const auto& [name, value] : e.metrics) text += fmt::format(", {} {:.4f}", name, value);
  return text;
}

std::string evaluation_tables(const train::Evaluation& e) {
  constexpr size_t most = 20;
  std::string text;
  for (const train::RiskPoint& point : e.curve)
    text += fmt::format("decided {:5.1f} %  wrong of these {:.4f} %  at a probability of at least {:.6f}\n",
                        100 * point.coverage, 100 * point.risk, point.threshold);
  if (e.confusion.size() > most) return text;
  for (const std::vector<int64_t>& row : e.confusion) {
    for (const int64_t count : row) text += fmt::format("{:>6}", count);
    text += '\n';
  }
  return text;
}

void TrainReport::on_train_start(train::Trainer& t) {
  const train::TrainingData& data = t.task().training();
  const std::string examples = data.stream ? "a stream of" : with_commas(static_cast<double>(data.dataset->size()));
  progress_.line(fmt::format("training {} ({} parameters) on {} ({}), {} training examples from {}",
                             t.config().run.recipe,
                             with_commas(static_cast<double>(t.task().model().parameter_count())), t.device().id(),
                             t.device().info().name, examples, data.name));
  if (t.step() > 0) progress_.line(fmt::format("resumed at step {}", t.step()));
}

void TrainReport::on_steps(train::Trainer& t, std::span<const train::StepRecord> steps) {
  if (compiled_ && progress_.due() && !steps.empty()) {
    const train::StepRecord& last = steps.back();
    ProgressState state;
    state.epochs = t.epochs();
    state.epoch = std::min(t.epochs(), (last.step - 1) / t.steps_per_epoch() + 1);
    state.step = last.step;
    state.steps = t.last_step();
    state.loss = last.loss;
    state.lr = last.lr;
    state.samples_per_second = last.samples_per_second;
    state.seconds_left = t.report().median_step_seconds * static_cast<double>(t.last_step() - last.step);
    progress_.show(state);
  }
  compiled_ = true;
}

void TrainReport::on_evaluate(train::Trainer& t, const train::Evaluation& e) {
  if (e.split == "test" && !warned_)
    progress_.line(
        "evaluations look at the test data, and so do plateau, best checkpoint and early stopping: its last figure "
        "flatters; --validation 0.05 holds out training data for them");
  warned_ = true;
  const bool whole = t.step() % t.steps_per_epoch() == 0;
  const std::string where = whole ? fmt::format("epoch {}/{}", t.step() / t.steps_per_epoch(), t.epochs())
                                  : fmt::format("step {}/{}", t.step(), t.last_step());
  const std::string loss = t.step() > t.first_step() ? fmt::format("  loss {:.4f}", t.last_loss())
                                                     : "";  // none of a run that was finished before
  progress_.line(fmt::format("{}{}  {}", where, loss, evaluation_line(e)));
}

void TrainReport::on_sample(train::Trainer& t, const train::Generated& made) {
  progress_.line(fmt::format("sample         {}", made.text.empty()
                                                      ? (fs::path(t.config().run.out) / made.image_path).string()
                                                      : beginning(made.text)));
}

void TrainReport::on_straggler(train::Trainer&, const train::Straggler& straggler) {
  progress_.line(fmt::format("rank {:<10}needs {:.1f} ms for its part of an update, the others {:.1f} ms and wait",
                             straggler.rank, straggler.seconds * 1e3, straggler.others * 1e3));
}

void TrainReport::on_shares(train::Trainer&, const std::vector<int64_t>& examples) {
  progress_.line(fmt::format("shares         of a batch, by rank: {}", fmt::join(examples, ", ")));
}

void TrainReport::on_lost_ranks(train::Trainer& trainer, const train::LostRanks& lost) {
  const std::string back =
      lost.taken_back > 0 ? fmt::format("; {} updates are taken again", lost.taken_back) : std::string();
  progress_.line(fmt::format("lost           {}; {} go{} on from update {}, {:.2f} s later{}",
                             distributed::list_ranks(lost.ranks), lost.left, lost.left == 1 ? "es" : "", trainer.step(),
                             lost.seconds, back));
}

void TrainReport::last_figure(const train::Evaluation& e) {
  if (e.examples > 0)
    progress_.line(fmt::format("{} on {} examples", evaluation_line(e), with_commas(static_cast<double>(e.examples))));
}

void TrainReport::speed(const train::Trainer& t) {
  const auto steps = static_cast<double>(t.step() - t.first_step());
  if (steps == 0) return;
  const train::RunReport r = t.report();
  const double samples = r.samples_per_second;
  const int64_t tokens = t.task().training().tokens;
  const std::string per_second = tokens > 0
                                     ? fmt::format("{} tokens/s", with_commas(samples * static_cast<double>(tokens)))
                                     : fmt::format("{} samples/s", with_commas(samples));
  progress_.line(
      fmt::format("speed          {}: {} steps in {:.1f} s, median step {:.3f} ms, {:.0f} kernels a step, peak {:.1f} "
                  "MiB on {} ({})",
                  per_second, with_commas(steps), r.training_seconds, r.median_step_seconds * 1e3, r.kernels_per_step,
                  static_cast<double>(r.peak_device_bytes) / (1 << 20), t.device().id(), t.device().info().name));
  const train::Throughput& p = r.throughput;
  progress_.line(
      fmt::format("data           fetch {:.1f} s, preprocess {:.1f} s, copy {:.1f} s; the device computed {:.1f} s and "
                  "idled {:.1f} s ({:.0f} %), {:.1f} s of it for want of data: the bottleneck is {}",
                  p.fetch, p.preprocess, p.copy, p.compute, p.idle, 100 * p.idle_share(), p.starved, p.bottleneck()));
}

void TrainReport::on_train_end(train::Trainer& t, train::Outcome outcome) {
  if (outcome == train::Outcome::interrupted) {
    progress_.line(fmt::format("interrupted at step {}; saved {}; go on with `heddle resume {}`", t.step(),
                               t.checkpoint_path(), t.config().run.out));
    return;
  }
  if (outcome == train::Outcome::stopped) progress_.line(fmt::format("stopped early at step {}", t.step()));
  if (t.model_step() != t.step())
    progress_.line(fmt::format("the model is that of step {}, whose validation loss was the lowest", t.model_step()));
  last_figure(t.evaluation());
  last_figure(t.tested());
  speed(t);
  progress_.line(fmt::format("model          {}", t.model_path()));
}

}  // namespace heddle::tools
