#include "heddle/core/compile/ordered_call.h"

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compiled_call_builder.h"
#include "heddle/core/graph/evaluate_in_order.h"

namespace heddle {

using Step = CompiledCall::Step;

void hand_over(const std::vector<Tensor*>& results, const Made& made) {
  if (results.empty()) throw ValueError("[compile] results that are handed over need one more behind them");
  std::vector<Tensor> values;
  for (size_t r = 0; r + 1 < results.size(); ++r) values.push_back(std::exchange(*results[r], Tensor()));
  evaluate_in_order(std::move(values), made);
}

OrderedCall::OrderedCall(Trace& trace, const std::vector<const Tensor*>& arguments, const std::vector<Tensor*>& results)
    : trace_(trace), results_(results), lender_(LenderScope::current()) {
  if (results.empty()) return;
  const std::vector<const Tensor*> handed(results.begin(), results.end() - 1), last{results.back()};
  note([&] { builder_ = std::make_unique<CompiledCall::Builder>(trace_, arguments, last, handed); });
}

OrderedCall::~OrderedCall() = default;

// What refuses is said once; the call itself goes on.
template <class Change>
void OrderedCall::note(const Change& change) {
  if (!listens_) return;
  if (!trace_.refusal().empty()) return builder_.reset();
  try {
    change();
  } catch (const NotReplayable& why) {
    builder_.reset();
    trace_.refuse(why.why);
  }
}

void OrderedCall::run(const Made& made) {
  const EvaluationWatch watch([this](const Evaluation& evaluation) {
    if (listens_) latest_ = evaluation.graph;
    note([&] { builder_->add(evaluation); });
  });
  const LenderScope scope(lender_ != nullptr ? this : nullptr);
  hand_over(results_, [&](size_t place, const Tensor& value) {
    note([&] { builder_->add({.kind = Step::Kind::hand_over, .number = place}); });
    listens_ = false;
    made(place, value);
    listens_ = true;
  });
}

std::unique_ptr<CompiledCall> OrderedCall::finish() {
  std::unique_ptr<CompiledCall> call;
  note([&] { call = builder_->finish(); });
  return call;
}

void OrderedCall::fetch(size_t group) {
  note([&] { builder_->add({.kind = Step::Kind::fetch, .number = group}); });
  lender_->fetch(group);
}

void OrderedCall::lend(size_t group) {
  note([&] { builder_->add({.kind = Step::Kind::lend, .number = group}); });
  lender_->lend(group);
}

void OrderedCall::take_back(size_t group) {
  note([&] { builder_->add({.kind = Step::Kind::take_back, .number = group}); });
  lender_->take_back(group);
}

}  // namespace heddle
