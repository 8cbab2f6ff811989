// EarlyStopping: ends a run whose evaluation loss no longer falls.
//
// Invariants: its state is part of checkpoints. Errors: ValueError for a patience below 1. Thread safety: none.
#pragma once

#include <limits>

#include "heddle/train/callback.h"

namespace heddle::train {

class EarlyStopping final : public Callback {
 public:
  // Evaluations in a row without a lower loss after which the run ends.
  explicit EarlyStopping(int64_t patience);
  void on_evaluate(Trainer& trainer, const Evaluation& evaluation) override;
  Metadata state() const override;
  void load_state(const Metadata& state) override;

 private:
  int64_t patience_, bad_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace heddle::train
