// OrderedCall: a traced call whose results are handed over one after the other, while they are made.
//
// Purpose: such a call is several evaluations, between which a lender is asked for groups of leaves
// (core/graph/lender.h) and results leave. All of it is heard while it happens, and is what a replay does again.
// Invariants: stands in the place of this thread's lender while the results are made. Errors: those of
// evaluate_in_order(). Thread safety: none.
#pragma once

#include <memory>
#include <vector>

#include "heddle/core/compile/compiled_call.h"
#include "heddle/core/graph/lender.h"
#include "heddle/core/run/evaluation.h"

namespace heddle {

class OrderedCall final : private Lender {
 public:
  // The trace has ended, nothing was evaluated. `results`: all but the last are handed over.
  OrderedCall(Trace& trace, const std::vector<const Tensor*>& arguments, const std::vector<Tensor*>& results);
  ~OrderedCall() override;

  // Computes everything; results that are handed over are empty handles then.
  void run(const Made& made);
  // What does the same again; null with a refusal of the trace.
  std::unique_ptr<CompiledCall> finish();
  // Of the last evaluation; null: there was none.
  const std::shared_ptr<CompiledGraph>& latest() const { return latest_; }

 private:
  uint64_t bytes_of(size_t group) const override { return lender_->bytes_of(group); }
  bool keeps() const override { return lender_->keeps(); }
  void fetch(size_t group) override;
  void lend(size_t group) override;
  void take_back(size_t group) override;
  template <class Change>
  void note(const Change& change);

  Trace& trace_;
  std::vector<Tensor*> results_;
  Lender* lender_;
  bool listens_ = true;                             // what whoever takes a result evaluates is not the call's
  std::unique_ptr<CompiledCall::Builder> builder_;  // null: the call cannot be repeated
  std::shared_ptr<CompiledGraph> latest_;
};

// Hands over all results but the last, and computes the rest.
void hand_over(const std::vector<Tensor*>& results, const Made& made);

}  // namespace heddle
