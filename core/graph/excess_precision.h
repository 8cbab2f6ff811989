// What f16 and bf16 values are inside a kernel.
//
//   set_excess_precision(true);                   // every thread; or HEDDLE_EXCESS_PRECISION=1
//   { const ExcessPrecisionScope excess; ... }    // what this thread evaluates
//
// Kernels compute f16 and bf16 in f32. Off, which is the default, each recorded operation rounds its result to its
// dtype, also where a kernel computes the next one at once and nothing is stored: values are those of EagerScope, of
// every other device and of the reference, whatever is fused with what. On, a value is rounded where it is stored and
// where a cast says so, and what lies between operations of one kernel keeps f32's digits and range: more exact and a
// little faster, but dependent on what the planner fuses. Reductions and products accumulate in f32 either way. f32 and
// f64 do not depend on it. Invariants: part of a step's key. Thread safety: the flag of all threads may be changed by
// any; a scope belongs to its thread.
#pragma once

#include "heddle/core/op/op.h"

namespace heddle {

bool excess_precision();
void set_excess_precision(bool on);

class ExcessPrecisionScope {
 public:
  explicit ExcessPrecisionScope(bool on = true);
  ~ExcessPrecisionScope();
  ExcessPrecisionScope(const ExcessPrecisionScope&) = delete;
  ExcessPrecisionScope& operator=(const ExcessPrecisionScope&) = delete;

 private:
  signed char before_;
};

// A product or convolution that is one function with the sum it goes into (linear() and its bias): it is not rounded on
// its own. Said by Attrs::real2, also of the cast that ends such a product when it is cut along its inner dimension.
inline bool is_part_of_sum(const OpDef& op, const Attrs& attrs) {
  return attrs.real2 == 1 && (op.kind == OpKind::contraction || op.name == "conv" || op.name == "cast");
}

}  // namespace heddle
