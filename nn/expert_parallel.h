// A mixture of experts whose experts lie in parts on the ranks along an axis of a mesh: expert parallelism, for
// functions that every rank runs (distributed/shard_map.h).
//
//   nn::ExpertParallelMixture mine(mixture, "ep");   // each rank: experts / n of them, and all of the router
//   y = mine(x);                                     // x and y: the rank's own tokens
//
// Purpose: more experts than a rank has room for. Every rank routes its own tokens, sends their rows to the ranks that
// have the experts (all_to_all), computes its experts over the tokens of all, and sends the results back; backward
// likewise. Lepikhin et al. 2020, "GShard", section 3.2. What the router adds to the loss is of the tokens of all ranks
// along the axes and along any other along which x varies (one psum of 2 experts + 2 numbers), so it is that of one
// process. Places of experts are counted by each rank over its own tokens, in training: where no token is dropped
// results are those of one process, else other tokens may be. With begin_apart() each rank's tokens are a batch by
// itself: losses of the router are of the rank's own tokens, products are of the rows of one rank, and gradients of
// experts come by the rank that sent the rows. So bits do not depend on which ranks have the experts. Invariants: the
// layer is given the whole mixture, which all ranks have alike, and keeps its experts as parameters, which vary along
// the axes; the router's do not, so their gradients are sums over the ranks. Every rank has as many tokens. Errors:
// AxisError outside of shard_map and for axes that are not there; ShapeError for experts that the ranks do not divide.
// Thread safety: none.
#pragma once

#include "heddle/distributed/axis_names.h"
#include "heddle/nn/mixture_of_experts.h"

namespace heddle::nn {

class ExpertParallelMixture : public MixtureOfExperts {
 public:
  ExpertParallelMixture(const MixtureOfExperts& whole, const distributed::AxisNames& axes);
  // Of the rank's own parts of up and down, options.experts / n experts each. No program of ranks is needed yet.
  ExpertParallelMixture(const MixtureOptions& options, const Linear& router, const Tensor& up, const Tensor& down,
                        const distributed::AxisNames& axes);
  // x (..., width) varies along the axes from here on, and so does the result.
  Tensor forward(const Tensor& x) override;

  // Experts by the rank that sends them rows: leaves (n, experts / n, ...) over the values of up and down, which the
  // calls that follow read in their place, and whose gradients they are. Within a program, before anything is recorded;
  // once a pass.
  void begin_apart();
  void end_apart() { apart_ = {}; }
  struct Apart {
    Tensor up, down;
  };
  const Apart& apart() const { return apart_; }

 protected:
  Tensor computed(const Tensor& batches) override;
  RoutingFindings findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes) const override;

 private:
  Tensor computed_apart(const Tensor& batches);

  distributed::AxisNames axes_;
  Apart apart_;
};

}  // namespace heddle::nn
