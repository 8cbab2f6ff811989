#include "train/early_stopping.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "train/trainer.h"

namespace heddle::train {

EarlyStopping::EarlyStopping(int64_t patience) : patience_(patience) {
  if (patience < 1) throw ValueError(fmt::format("[EarlyStopping] the patience is {}, expected at least 1", patience));
}

void EarlyStopping::on_evaluate(Trainer& trainer, const Evaluation& evaluation) {
  bad_ = evaluation.loss < best_ ? 0 : bad_ + 1;
  best_ = std::min(best_, evaluation.loss);
  if (bad_ >= patience_) trainer.stop();
}

Metadata EarlyStopping::state() const { return {{"early_stopping.bad", std::to_string(bad_)}, {"early_stopping.best", fmt::format("{:a}", best_)}}; }

void EarlyStopping::load_state(const Metadata& state) {
  const auto bad = state.find("early_stopping.bad"), best = state.find("early_stopping.best");
  if (bad == state.end() || best == state.end()) return;  // a run that had none
  bad_ = std::strtoll(bad->second.c_str(), nullptr, 10);
  best_ = std::strtod(best->second.c_str(), nullptr);
}

}  // namespace heddle::train
