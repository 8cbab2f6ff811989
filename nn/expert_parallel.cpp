#include "heddle/nn/expert_parallel.h"

#include <string>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/node.h"
#include "heddle/distributed/collectives.h"
#include "heddle/nn/rank_part.h"

namespace heddle::nn {
namespace {

constexpr const char* name = "ExpertParallelMixture";

// Values of its own: the whole layer's router stays as it is.
Linear copied(const Linear& router) {
  const Tensor& w = router.weight;
  return Linear(Tensor::from_bytes(w.detach().to_bytes().data(), static_cast<size_t>(w.numel()), w.dtype(), w.shape(),
                                   &w.device()));
}

// (n, ...): the same values for each of n ranks, in the memory of one. A single expert is copied: rows of all ranks
// would be one product by it, which is another kernel.
Tensor for_each_rank(const Tensor& parameter, int64_t n) {
  const Tensor one = unsqueeze(parameter.detach(), 0);
  Tensor leaf = parameter.dim(0) > 1 ? expand(one, parameter.shape().inserted(0, n))
                                     : concat(std::vector<Tensor>(static_cast<size_t>(n), one), 0);
  leaf.set_requires_grad(parameter.requires_grad());
  return leaf;
}

}  // namespace

ExpertParallelMixture::ExpertParallelMixture(const MixtureOfExperts& whole, const distributed::AxisNames& axes)
    : MixtureOfExperts(name, whole.options(), copied(whole.router), rank_part(name, whole.up, 0, axes),
                       rank_part(name, whole.down, 0, axes)),
      axes_(axes) {
  train(whole.training());
}

ExpertParallelMixture::ExpertParallelMixture(const MixtureOptions& options, const Linear& routes, const Tensor& first,
                                             const Tensor& second, const distributed::AxisNames& axes)
    : MixtureOfExperts(name, options, routes, first, second), axes_(axes) {}

Tensor ExpertParallelMixture::forward(const Tensor& x) {
  return MixtureOfExperts::forward(distributed::pvary(x, axes_));
}

void ExpertParallelMixture::begin_apart() {
  const int64_t n = distributed::axis_size(axes_);
  apart_ = {for_each_rank(typed_part(up, axes_), n), for_each_rank(typed_part(down, axes_), n)};
}

// Experts are cut over the ranks and tokens of all ranks come together; then the other way.
Tensor ExpertParallelMixture::computed(const Tensor& batches) {
  if (apart_.up.defined()) return computed_apart(batches);
  typed_part(up, axes_);
  typed_part(down, axes_);
  const Tensor arrived = distributed::all_to_all(batches, axes_, 0, 1);
  return distributed::all_to_all(through(arrived, up, down), axes_, 1, 0);
}

// By rank and by expert: as many matrices as one process has, and as large ones.
Tensor ExpertParallelMixture::computed_apart(const Tensor& batches) {
  const int64_t n = distributed::axis_size(axes_);
  const Shape& all = batches.shape();
  const Tensor arrived = reshape(distributed::all_to_all(batches, axes_, 0, 0), all.with(0, all[0] / n).inserted(0, n));
  const Tensor results = through(arrived, apart_.up, apart_.down);
  return distributed::all_to_all(reshape(results, all), axes_, 0, 0);
}

RoutingFindings ExpertParallelMixture::findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes) const {
  if (apart_.up.defined()) return MixtureOfExperts::findings(sums, tokens, sizes);
  const MeshScope& scope = MeshScope::required(name);
  const AxisMask along = sums.node()->varying;
  std::vector<std::string> names;
  for (size_t i = 0; i < scope.axes().size(); ++i) {
    if ((along >> i & 1) != 0) names.push_back(scope.axes()[i].name);
  }
  return routing_findings(distributed::psum(sums, names), tokens * scope.size(along), sizes);
}

}  // namespace heddle::nn
