#include "heddle/train/evaluation_scope.h"

namespace heddle::train {

EvaluationScope::EvaluationScope(nn::Module& model, const std::optional<nn::ExponentialAverage>& average)
    : model_(model), was_training_(model.training()) {
  if (average) averaged_.emplace(*average);
  model_.eval();
}

EvaluationScope::~EvaluationScope() { model_.train(was_training_); }

void EvaluationScope::end() {
  if (averaged_) averaged_->end();
}

}  // namespace heddle::train
