// MeshShare: how a mesh divides a step, checked.
//
// Errors: ValueError, one line, for an axis other than dp, tp, pp and cp, an axis or a mesh that is too large, tp that
// does not divide the heads, cp, and tp under sequence parallelism, that do not divide the positions, pp that needs
// more blocks than there are, and batches and microbatches that do not come out even. Thread safety: pure.
#pragma once

#include "heddle/distributed/forecast/block_cost.h"
#include "heddle/distributed/forecast/mesh_forecast.h"

namespace heddle::distributed {

inline constexpr int64_t most_ranks = 1 << 20;

struct MeshShare {
  Mesh mesh;
  int64_t dp = 1, tp = 1, pp = 1, cp = 1;
  int64_t microbatches = 1;
  RankShare rank = {};
  Level pp_level = {};
  Sharers sharers = {};
};

// Of "dp=2,tp=4", without a world.
Mesh parse_mesh(const std::string& text);
MeshShare share_of(const StepLayers& step, const Links& links, const ForecastOptions& options);

}  // namespace heddle::distributed
