#include "heddle/train/early_stopping.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/shortened.h"
#include "heddle/train/trainer.h"

namespace heddle::train {

EarlyStopping::EarlyStopping(int64_t patience) : patience_(patience) {
  if (patience < 1) throw ValueError(fmt::format("[EarlyStopping] the patience is {}, expected at least 1", patience));
}

void EarlyStopping::on_evaluate(Trainer& trainer, const Evaluation& evaluation) {
  bad_ = evaluation.loss < best_ ? 0 : bad_ + (bad_ < patience_ ? 1 : 0);
  best_ = std::min(best_, evaluation.loss);
  if (bad_ >= patience_) trainer.stop();
}

// The shortest digits that read back as the same number; fmt prints {:a} with the locale's point, and older files hold
// that.
Metadata EarlyStopping::state() const {
  return {{"early_stopping.bad", std::to_string(bad_)}, {"early_stopping.best", fmt::format("{}", best_)}};
}

void EarlyStopping::load_state(const Metadata& state) {
  const auto bad = state.find("early_stopping.bad"), best = state.find("early_stopping.best");
  if (bad == state.end() || best == state.end()) return;  // a run that had none
  const std::optional<int64_t> count = parse_number<int64_t>(bad->second);
  const std::optional<double> least = parse_hex_float(best->second);
  if (!count || *count < 0 || !least)
    throw IoError(fmt::format("[EarlyStopping] the state '{}', '{}' cannot be read", shortened(bad->second),
                              shortened(best->second)));
  bad_ = *count;
  best_ = *least;
}

}  // namespace heddle::train
