// Mixed precision: within a scope, products take f16 or bf16 and what would lose digits takes f32.
//
//   Tensor loss;
//   {
//     const AutocastScope precision(DType::bf16);
//     loss = cross_entropy(model(x), y);
//   }
//   backward(loss);
//
// Purpose: parameters stay f32 (they are the master weights of their optimizer) and are cast where a product reads
// them; equal casts are one, made once for the forward and once for the backward pass (core/specialise/recompute.cpp).
// What a function does with f32, f16 and bf16 says its row in the op table (its column `autocast`); functions that are
// composed follow from their rows; integers, bool and f64 are never touched. docs/types.md has the table. Invariants: a
// scope is a matter of recording: what is recorded within one is the same nodes that explicit casts would make, so
// compile(), checkpoint(), vmap() and loops know nothing of it. Gradients are recorded outside of any scope: they have
// the dtypes of the values they belong to, those of parameters f32. Scopes nest; the innermost says what happens. f16
// gradients need a scaled loss (nn/loss_scale.h), bf16 ones do not. Errors: DTypeError for another dtype than f16 and
// bf16. Thread safety: a scope belongs to its thread. Micikevicius et al. 2018, "Mixed precision training".
#pragma once

#include <optional>
#include <type_traits>
#include <utility>

#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/op.h"

namespace heddle {

class AutocastScope {
 public:
  explicit AutocastScope(DType low);
  // Within it nothing is cast, whatever stands around it. The library's own late recording (gradients, optimizers,
  // decompositions) is done in one.
  static AutocastScope off() { return AutocastScope(std::optional<DType>()); }
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

  // The dtype of this thread's products, if it is within a scope.
  static std::optional<DType> active();

 private:
  explicit AutocastScope(std::optional<DType> low);
  std::optional<DType> before_;
};

// The dtype in which values of dtype t are taken under that policy: t itself outside of a scope, and for anything but
// f32, f16 and bf16.
DType autocast_dtype(Autocast policy, DType t);
// The same by the column of a row.
DType autocast_dtype(const OpDef& row, DType t);

// f, whose tensors are cast by `policy` within a scope, and which itself runs outside of any: how a function of one's
// own, or one with a derivative given by hand (custom_vjp), states its policy.
//   auto energy = autocast_as(Autocast::f32, [](const Tensor& x) { return sum(exp(x)); });
template <class F>
auto autocast_as(Autocast policy, F f) {
  return [policy, f = std::move(f)]<class... Arguments>(const Arguments&... arguments) {
    const auto given = [&](const auto& argument) {
      if constexpr (std::is_same_v<std::decay_t<decltype(argument)>, Tensor>) {
        return argument.defined() ? argument.to(autocast_dtype(policy, argument.dtype())) : argument;
      } else {
        return argument;
      }
    };
    return [&](const auto&... taken) {
      const AutocastScope scope = AutocastScope::off();
      return f(taken...);
    }(given(arguments)...);
  };
}

}  // namespace heddle
