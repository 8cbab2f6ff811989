// Routing: which tokens go to which experts of a mixture, and back.
//
// Purpose: what lies between a router and its experts (nn/mixture_of_experts.h). Every token picks the experts with its
// largest logits, of equal ones those with lower numbers; an expert takes up to `capacity` tokens, in the order of the
// tokens, so that what becomes of a token depends on those before it alone. What is picked behind is dropped. Rows are
// brought to the experts' batches and back by picks of rows in both directions, forward and backward: memory is
// (tokens, picks, experts) integers and (experts, capacity, width) rows. Invariants: weights of a token's picks are the
// softmax over its picks; of a single pick, whose softmax would be 1 and without gradient, the share among all experts.
// Errors: ShapeError and ValueError of the functions; sizes are the caller's to check. Thread safety: recording is per
// thread; a RoutingScope belongs to its thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle::nn {

struct RoutingSizes {
  int64_t experts = 1, picks = 1, capacity = 1;  // 1 <= picks <= experts; all above 0
};

class Routing {
 public:
  // Logits (N, experts), f32 or f64, N > 0.
  Routing(const Tensor& logits, const RoutingSizes& sizes);

  // (N, D) gives the experts' batches (experts, capacity, D); places without a token are 0.
  Tensor dispatch(const Tensor& tokens) const;
  // What the experts made of them, (experts, capacity, E), gives (N, E): the weighted sum over a token's picks, without
  // those that were dropped.
  Tensor combine(const Tensor& results) const;

  // (2 experts + 2) in the logits' dtype, sums over the tokens, which ranks may add: picks of each expert, shares
  // (softmax over all) of each expert, squares of the logarithms of the sums of exponentials, dropped picks. Shares and
  // squares have gradients.
  const Tensor& sums() const { return sums_; }

 private:
  int64_t tokens_;
  RoutingSizes sizes_;
  Tensor weights_;  // (N, picks)
  Tensor slots_;    // (N * picks) i32: the place of each pick among (experts * capacity); -1: dropped
  Tensor sources_;  // (experts * capacity) i32: the pick of each place; -1: none
  Tensor sums_;
};

// What a router adds to the loss, and what it drops: rank 0.
struct RoutingFindings {
  // experts * sum over experts of (share of the picks) * (mean share of the softmax): 1 when even, `experts` when all
  // pick one. Fedus, Zoph, Shazeer 2021, "Switch Transformers", eq. 4 to 6, without its factor.
  Tensor balance;
  // Mean square of logsumexp of the logits: the router z-loss. Zoph et al. 2022, "ST-MoE", eq. 5.
  Tensor z;
  // Share of the picks that no expert took; without gradient.
  Tensor dropped;
};
// Of Routing::sums() over `tokens` tokens in all.
RoutingFindings routing_findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes);

// Collects what the mixtures find that this thread calls within it:
//   nn::RoutingScope routing;
//   const Tensor own = cross_entropy(model(x), y);
//   const Tensor loss = own + 0.01 * routing.balance();   // behind the call
// Scopes nest; the innermost collects.
class RoutingScope {
 public:
  RoutingScope();
  ~RoutingScope();
  RoutingScope(const RoutingScope&) = delete;
  RoutingScope& operator=(const RoutingScope&) = delete;

  // Calls of mixtures so far.
  size_t count() const { return found_.size(); }
  // Balance and z-loss are summed over the calls, dropped is their mean. ValueError without any call.
  Tensor balance() const;
  Tensor z() const;
  Tensor dropped() const;

  // For mixtures: whether there is a scope; what it gets, which is nothing outside of one.
  static bool active();
  static void note(const RoutingFindings& findings);

 private:
  Tensor sum_of(Tensor RoutingFindings::*part) const;

  std::vector<RoutingFindings> found_;
  RoutingScope* before_;
};

}  // namespace heddle::nn
