// HandOverScope: results of a compiled function that are handed over one after the other, while they are made.
//
//   auto gradients = compile([&](const Tensor& x) { ...; return std::vector{last, first, loss}; });
//   const HandOverScope scope([&](size_t place, const Tensor& value) { send(place, value); });
//   const Tensor loss = gradients(x).back();
//
// Purpose: evaluate_in_order() (core/graph/evaluate_in_order.h) for a call that is recorded once and replayed. The
// first compiled function that this thread calls in the scope hands over all its results but the last, in their order,
// and gives empty handles in their places; it may read leaves that are lent (core/graph/lender.h). Invariants: what is
// computed, and in which pieces, is the same when it is replayed. Errors: those of evaluate_in_order() and of `made`,
// behind which nothing more is handed over; ValueError within another compiled function. Thread safety: a scope belongs
// to its thread.
#pragma once

#include <cstddef>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// A result that is handed over.
using Made = Callable<void(size_t place, const Tensor& value)>;

class HandOverScope {
 public:
  explicit HandOverScope(Made made);
  ~HandOverScope();
  HandOverScope(const HandOverScope&) = delete;
  HandOverScope& operator=(const HandOverScope&) = delete;
  // For a compiled function that is called: takes what this thread's scope has, or nothing.
  static Made take();

 private:
  Made made_;
  Made* outer_;
};

}  // namespace heddle
