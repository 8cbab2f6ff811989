// EvaluationScope: while it lives, the model is in evaluation mode and holds the averaged parameters.
//
// Errors: those of the device. Thread safety: none.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"
#include "heddle/nn/average.h"
#include "heddle/nn/module.h"

namespace heddle::train {

class EvaluationScope {
 public:
  EvaluationScope(nn::Module& model, const std::optional<nn::ExponentialAverage>& average);
  ~EvaluationScope();
  EvaluationScope(const EvaluationScope&) = delete;
  EvaluationScope& operator=(const EvaluationScope&) = delete;
  // Throws where the parameters cannot be given back, which the destructor cannot.
  void end();

 private:
  const NoGradScope no_grad_;
  nn::Module& model_;
  bool was_training_;
  std::optional<nn::ExponentialAverage::Scope> averaged_;
};

}  // namespace heddle::train
