// MixtureOfExperts: a layer of several MLPs, the experts, of which each token passes a few.
//
//   nn::MixtureOfExperts mixture(512, 2048, {.experts = 8, .top_k = 2});
//   nn::RoutingScope routing;                                // nn/routing.h
//   const Tensor y = x + mixture(x);                         // a token that was dropped passes by the residual
//   const Tensor own = mean(square(y));
//   const Tensor loss = own + 0.01 * routing.balance();      // else a few experts get everything
//
// Purpose: more parameters for the same work a token. y = sum over a token's experts of weight *
// down(activation(up(x))) without biases; the weights are the softmax over the chosen logits of a linear router, which
// computes in f32 also under autocast. Shazeer et al. 2017, "Outrageously large neural networks", eq. 1 to 3 without
// noise; one expert a token as Fedus et al. 2021, "Switch Transformers". Experts are batched products over (experts,
// capacity, width). In training an expert takes ceil(capacity_factor * tokens * top_k / experts) tokens of a call,
// earlier ones first, and the rest is dropped: their part of the sum is 0. In evaluation none is, so that a token's
// result does not depend on the others. Invariants: modules are handles (nn/module.h). Errors: ValueError for sizes,
// ShapeError for inputs. Thread safety: none.
#pragma once

#include <cstdint>

#include "heddle/nn/activations.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/module.h"
#include "heddle/nn/routing.h"

namespace heddle::nn {

struct MixtureOptions {
  int64_t experts = 8;
  int64_t top_k = 2;              // experts of each token, 1 to `experts`
  double capacity_factor = 1.25;  // places for each pick, if picks were even; 0: none, infinity: nothing is dropped
  Activation activation = Activation::gelu;
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};
// ValueError in the name of `who`.
const MixtureOptions& checked_mixture(const char* who, const MixtureOptions& options);

class MixtureOfExperts : public Module {
 public:
  // First values as Linear's.
  MixtureOfExperts(int64_t width, int64_t hidden, const MixtureOptions& options = {});
  // x (..., width), floating, gives the same shape.
  Tensor forward(const Tensor& x) override;
  const MixtureOptions& options() const { return options_; }
  // Places of an expert in a call with so many tokens.
  int64_t capacity(int64_t tokens) const;

  Linear router;  // "router.weight" (experts, width)
  Tensor up;      // (experts, hidden, width)
  Tensor down;    // (experts, width, hidden)

 protected:
  // Of parts that there are: experts may lie on several ranks (nn/expert_parallel.h).
  MixtureOfExperts(const char* kind, const MixtureOptions& options, const Linear& router, const Tensor& up,
                   const Tensor& down);
  // Batches (..., n, places, width) of the n experts of these weights, to the same shape.
  Tensor through(const Tensor& batches, const Tensor& first, const Tensor& second) const;
  // What ranks exchange; here nothing. (experts, capacity, width) of the experts' tokens to their results.
  virtual Tensor computed(const Tensor& batches) { return through(batches, up, down); }
  // Routing::sums() of `tokens` tokens over all that counts as one batch.
  virtual RoutingFindings findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes) const;

 private:
  void check_input(const Tensor& x) const;

  MixtureOptions options_;
};

}  // namespace heddle::nn
