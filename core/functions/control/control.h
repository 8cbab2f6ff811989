// Loops and branches that stay in the graph: scan, cond and while_loop.
//
// Purpose: a C++ loop over time records every step of it; these record their function once. The planner gives the body
// one plan whose kernels every iteration launches, with other offsets: the number of kernels to compile and the host
// time to record do not depend on the length, and the loop is part of the region around it (nothing is observed, a
// replay submits it as a whole). Gradients of any order flow through initial carries, slices and tensors that the
// function captures. Invariants: the function is called once per call (scan: also for length 0), while it records; it
// sees placeholders without values, so looking at one is a ValueError; a tensor that it leaves somewhere outside has no
// value either. What does not depend on its arguments is computed once, before the loop. Random draws in a body give
// other numbers in every iteration, and the same under the same seed. Errors: ShapeError, DTypeError, ValueError; the
// text names the carry, slice or result. Thread safety: recording is per thread.
#pragma once

#include <optional>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// What the body of a scan gives: the carries of the next iteration and this iteration's results; what a scan gives: the
// last carries, and the results of all iterations, stacked along a new first axis.
struct Scanned {
  std::vector<Tensor> carry;
  std::vector<Tensor> ys;
};
using ScanBody = Callable<Scanned(const std::vector<Tensor>& carry, const std::vector<Tensor>& x)>;

struct ScanOptions {
  std::optional<int64_t> length;    // needed where there are no xs
  bool reverse = false;             // from the last slice to the first; ys[i] belongs to xs[i] all the same
  bool checkpoint_body = false;     // the gradient keeps the carries alone and computes the body again
  DeviceContext* device = nullptr;  // where there are neither carries nor xs; null: the default device
};

// carry = init; for each i: (carry, y) = f(carry, x[i] of each of xs); gives the last carry and all y. xs are cut along
// axis 0 and have one length. f keeps the shapes and dtypes of the carries. Length 0 gives init and empty ys. As
// jax.lax.scan. Every iteration launches the same kernels. For the gradient the values that it reads are stacked,
// length times as long as one iteration's.
Scanned scan(const ScanBody& f, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
             const ScanOptions& options = {}, Caller caller = Caller::current());

// then_branch(operands) where `predicate` (bool, one element) is true, else else_branch(operands). Both give the same
// number of tensors, of equal shapes and dtypes. Both branches are computed and one is selected, as in jax.lax.cond
// under vmap; a constant predicate (full, or a bool of the host) runs one alone. No NaN or infinity of the other branch
// reaches values or gradients, of any order, neither through operands nor through what a branch captures.
using Branch = Callable<std::vector<Tensor>(const std::vector<Tensor>& operands)>;
std::vector<Tensor> cond(const Tensor& predicate, const Branch& then_branch, const Branch& else_branch,
                         const std::vector<Tensor>& operands = {}, Caller caller = Caller::current());
std::vector<Tensor> cond(bool predicate, const Branch& then_branch, const Branch& else_branch,
                         const std::vector<Tensor>& operands = {}, Caller caller = Caller::current());

struct WhileOptions {
  // With it the loop is a scan of so many iterations, of which those after the condition's end keep the carry: one
  // region, differentiable, and the work of all iterations. Without it the loop runs in chunks and looks at the
  // condition between them: a region break each, and no gradient.
  std::optional<int64_t> max_iterations;
  int64_t chunk = 16;  // iterations between two looks
};
struct WhileResult {
  std::vector<Tensor> carry;
  Tensor iterations;  // i32, rank 0: how often the body ran
};

// while (condition(carry)) carry = body(carry); the condition is a bool of one element.
using WhileCondition = Callable<Tensor(const std::vector<Tensor>& carry)>;
using WhileBody = Callable<std::vector<Tensor>(const std::vector<Tensor>& carry)>;
WhileResult while_loop(const WhileCondition& condition, const WhileBody& body, const std::vector<Tensor>& init,
                       const WhileOptions& options = {}, Caller caller = Caller::current());

}  // namespace heddle
