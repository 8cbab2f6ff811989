// The meshes of a number of ranks that a step can be shared over and that fit into memory, the fastest first.
//
// Invariants: axes stand as pp, dp, cp, tp, so that tp has neighbouring ranks, which have the fastest links; sizes of
// tp and cp are powers of two. Meshes of one time keep the order in which they were tried, fewer stages first. Errors:
// those of a forecast that do not come from the mesh; ValueError where nothing fits, with what the smallest one needs.
// Thread safety: pure.
#pragma once

#include <vector>

#include "heddle/distributed/forecast/mesh_forecast.h"

namespace heddle::distributed {

// `options` without a mesh.
std::vector<MeshForecast> search_meshes(const StepLayers& step, const Cluster& cluster, const ForecastOptions& options,
                                        int64_t ranks);

}  // namespace heddle::distributed
