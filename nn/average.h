// ExponentialAverage: a slowly moving copy of parameters, which often tests better than the parameters themselves.
//
//   nn::ExponentialAverage average(model.parameters(), 0.999);
//   ... optimizer.update(); average.update(); eval_pending();
//   { const nn::ExponentialAverage::Scope in_place(average); evaluate(model); }
//
// Polyak and Juditsky 1992; the decay of the n-th update is min(decay, (1 + n) / (10 + n)), so that the first values do
// not linger. Invariants: averages are f32 (f64 for f64 parameters), begin as the parameters, and are updated by
// recorded assigns like an optimizer's state: no wait, and inside the one plan of a step. Errors: ValueError for a
// decay outside [0, 1) and for what is no floating leaf. Thread safety: none.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/nn/module.h"

namespace heddle::nn {

class ExponentialAverage {
 public:
  ExponentialAverage(std::vector<Tensor> parameters, double decay);

  // Records the update.
  void update(Caller caller = Caller::current());
  // By parameter, live.
  const std::vector<Tensor>& averages() const { return averages_; }
  int64_t updates() const { return updates_; }

  // "<parameter index>" and "updates" (i64).
  StateDict state_dict() const;
  // Strict, as Optimizer::load_state_dict().
  void load_state_dict(const StateDict& state);

  // While it lives, the parameters hold the averages; what they held comes back with its end. Not to be nested, nor
  // trained in. The parameters are as they were when the constructor throws.
  class Scope {
   public:
    explicit Scope(const ExponentialAverage& average);
    // What fails in end() is a line on stderr here: the parameters still hold the averages.
    ~Scope();
    // Gives the parameters back before its life ends, and throws what fails.
    void end();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    std::vector<Tensor> parameters_, before_;
    bool ended_ = false;
  };

 private:
  std::vector<Tensor> parameters_, averages_;
  double decay_;
  int64_t updates_ = 0;
};

}  // namespace heddle::nn
