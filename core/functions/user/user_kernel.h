// Kernels that a user writes at run time, in the dialect of shaders/README.md, and calls like built-in functions.
//
//   const UserKernel lambert_w = elementwise_kernel({
//       .name = "lambert_w", .inputs = {"x"}, .outputs = {"w"},
//       .text = R"(w = log1p(x);
//                  for (int i = 0; i < 12; ++i) {
//                    T e = exp(w), f = w * e - x;
//                    w = w - f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
//                  })",
//       .iterations = 12,
//       .vjp = [](const UserCall& c) { return std::vector{c.cotangents[0] / (exp(c.outputs[0]) * (1 + c.outputs[0]))};
//       }});
//   Tensor w = lambert_w(x);
//
// elementwise_kernel(): one element of each output from one of each input. It is a row like a built-in elementwise one:
// inputs broadcast and may be any views, it is fused into elementwise neighbours, reductions and epilogues of products,
// and works in compile(), vmap(), checkpoint(), scan() and, with a vjp or jvp, in all derivatives. body_kernel(): a
// whole kernel with its own groups, shared memory and launch rule; operands that are not dense are copied first.
//
// The text of an elementwise kernel is an expression, or, where it contains a `;`, statements that set the outputs (0
// before). It may use float, int, uint, bool, F64, I64 and `T`, the arithmetic type of inputs without a dtype of their
// own (float for f16, bf16 and f32; F64 for f64); if, for, while, do, break, continue; the functions that
// shaders/README.md lists for one element, and CAST(type, x). A literal with a point or an exponent is of type T.
// Variables are the text's own. There are no buffers, barriers, preprocessor lines or `return`.
//
// A definition is kept for the life of the process, as a row of the op table is: make it once, not in the loop that
// calls it. Plans and kernels are found by name, text and signature, so an equal definition made elsewhere shares them.
// On reference:0 `host` computes it, in double precision; without one a call there is a ValueError.
// Errors: ValueError for a definition that cannot be right, with the line of the text; DTypeError, ShapeError and
// ValueError for arguments; UserKernelError for a text that a driver refuses, at the first call with those dtypes on
// that device, before anything is recorded. Derivatives without a rule: GradError. Thread safety: kernels are
// immutable; calls record per thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/core/functions/user/user_types.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

struct UserDefinition;

class UserKernel {
 public:
  explicit UserKernel(const UserDefinition* definition) : definition_(definition) {}
  // The only result; ValueError where there are several.
  Tensor operator()(UserOperand x) const;
  Tensor operator()(UserOperand x, UserOperand y) const;
  Tensor operator()(UserOperand x, UserOperand y, UserOperand z) const;
  Tensor operator()(UserOperand x, UserOperand y, UserOperand z, UserOperand w) const;
  // All results, of any number of arguments.
  std::vector<Tensor> call(std::span<const UserOperand> operands) const;
  std::vector<Tensor> call(const std::vector<Tensor>& inputs, Caller caller = Caller::current()) const;
  const std::string& name() const;

 private:
  Tensor only(std::span<const UserOperand> operands) const;
  const UserDefinition* definition_;
};

UserKernel elementwise_kernel(UserElementwise definition);
// ValueError also for a text that does not parse, with its line.
UserKernel body_kernel(UserBody definition);

}  // namespace heddle
