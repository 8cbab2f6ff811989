#include "heddle/nn/expert_parallel.h"

#include <string>
#include <vector>

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

// Experts are cut over the ranks and tokens of all ranks come together; then the other way.
Tensor ExpertParallelMixture::computed(const Tensor& batches) {
  typed_part(up, axes_);
  typed_part(down, axes_);
  const Tensor arrived = distributed::all_to_all(batches, axes_, 0, 1);
  return distributed::all_to_all(through_experts(arrived), axes_, 1, 0);
}

RoutingFindings ExpertParallelMixture::findings(const Tensor& sums, int64_t tokens, const RoutingSizes& sizes) const {
  const MeshScope& scope = MeshScope::required(name);
  const AxisMask along = sums.node()->varying;
  std::vector<std::string> names;
  for (size_t i = 0; i < scope.axes().size(); ++i) {
    if ((along >> i & 1) != 0) names.push_back(scope.axes()[i].name);
  }
  return routing_findings(distributed::psum(sums, names), tokens * scope.size(along), sizes);
}

}  // namespace heddle::nn
