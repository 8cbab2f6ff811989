#include "heddle/train/update_window.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/base/seconds_since.h"

namespace heddle::train {
namespace {

constexpr double most_seconds = 0.1, early_seconds = 0.02;
constexpr int64_t early_updates = 5;

// Empty where all is well. Under a loss scale a gradient that is not finite is what makes it smaller.
std::string not_finite(const StepRecord& record) {
  if (!std::isfinite(record.loss)) return became("the loss", record.loss);
  if (record.loss_scale || !record.grad_norm || std::isfinite(*record.grad_norm)) return {};
  return became("the gradients' norm", *record.grad_norm);
}

}  // namespace

std::string became(const char* what, double value) {
  return fmt::format("{} became {}", what, std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value);
}

double UpdateWindow::run_seconds() const { return seconds_since(run_start_); }

void UpdateWindow::open() {
  rates_.clear();
  batches_.clear();
  counters_ = device_.counters();
  start_ = Clock::now();
  watch_.open();
}

void UpdateWindow::add(double rate, const data::Loader::Position& batch) {
  rates_.push_back(rate);
  batches_.push_back(batch);
}

bool UpdateWindow::is_full(int64_t updates, bool early) const {
  if (early && updates >= early_updates && seconds_since(start_) >= early_seconds) return true;
  return updates >= TrainingStep::window || seconds_since(start_) >= most_seconds;
}

void UpdateWindow::measure(int64_t updates) {
  const double seconds = seconds_since(start_);
  training_seconds_ += seconds;
  if (++windows_ == 2) step_seconds_.clear();
  step_seconds_.push_back(seconds / static_cast<double>(updates));
  kernels_per_step_ =
      static_cast<double>(device_.counters().kernels - counters_.kernels) / static_cast<double>(updates);
}

UpdateWindow::Seen UpdateWindow::close(const TrainingStep::Results& results, const Config& config, int64_t step,
                                       int64_t steps_per_epoch) {
  const auto updates = static_cast<int64_t>(results.losses.size());
  measure(updates);
  const auto samples = static_cast<double>(examples_per_update(config));
  Seen seen;
  for (size_t i = 0; i < results.losses.size() && seen.bad.empty(); ++i) {
    StepRecord record;
    record.step = step - updates + static_cast<int64_t>(i) + 1;
    record.epoch = static_cast<double>(record.step) / static_cast<double>(steps_per_epoch);
    record.loss = last_loss_ = results.losses[i];
    record.lr = rates_[i];
    if (!results.norms.empty()) record.grad_norm = results.norms[i];
    record.loss_scale = results.loss_scale;
    record.skipped = results.skipped;
    for (const auto& [name, values] : results.figures) record.figures.emplace_back(name, values[i]);
    record.samples_per_second = samples / step_seconds_.back();
    record.seconds = run_seconds();
    seen.bad = not_finite(record);
    if (!seen.bad.empty()) seen.bad_batch = batches_[i];
    seen.records.push_back(std::move(record));
  }
  return seen;
}

}  // namespace heddle::train
