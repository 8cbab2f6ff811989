#include "heddle/core/graph/evaluate_in_order.h"

#include <algorithm>
#include <utility>

#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/lender.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/run/chains.h"
#include "heddle/core/run/lent_segments.h"
#include "heddle/core/run/segments.h"

namespace heddle {
namespace {

using HandOver = Callable<void(size_t place)>;

// While the device computes a value the one before is handed over.
void compute(std::vector<NodePtr> ends, std::vector<NodePtr> rest, const HandOver& hand_over) {
  const size_t count = ends.size();
  Segments segments(std::move(ends), rest);
  rest.clear();  // what is held is not freed
  for (size_t i = 0; i < count; ++i) {
    segments.evaluate(i);
    if (i > 0) hand_over(i - 1);
  }
  if (count > 0) hand_over(count - 1);
}

void borrow(std::vector<NodePtr> ends, std::vector<NodePtr> rest, Lender& lender, const HandOver& hand_over) {
  const size_t count = ends.size();
  LentSegments segments(std::move(ends), rest, lender);
  rest.clear();
  size_t last = 0, next = 0;
  for (size_t i = 0; i < count; ++i) last = std::max(last, segments.segment_of_end(i));
  for (size_t s = 0; count > 0 && s <= last; ++s) {
    segments.evaluate(s);
    while (next < count && segments.segment_of_end(next) < s) hand_over(next++);
  }
  while (next < count) hand_over(next++);
}

}  // namespace

void evaluate_in_order(std::vector<Tensor> values, const Callable<void(size_t place, const Tensor& value)>& made) {
  const RepeatedScope repeated;
  {
    std::vector<NodePtr> ends;
    for (const Tensor& value : values) ends.push_back(value.node());
    std::vector<NodePtr> rest = held_pending();
    std::erase_if(rest, [&](const NodePtr& node) { return std::ranges::find(ends, node) != ends.end(); });
    const auto hand_over = [&](size_t place) { made(place, std::exchange(values[place], Tensor())); };
    if (Lender* const lender = LenderScope::current())
      borrow(std::move(ends), std::move(rest), *lender, hand_over);
    else
      compute(std::move(ends), std::move(rest), hand_over);
  }
  evaluate_pending();
}

}  // namespace heddle
