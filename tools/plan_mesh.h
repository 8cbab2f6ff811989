// heddle plan MODEL --mesh dp=64,tp=8,pp=4, and --search RANKS: what a step over many ranks needs and takes.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cli.h"

namespace heddle::tools {

struct PlanMeshOptions {
  std::string mesh, link, device, sharding = "none", schedule = "1f1b";
  int64_t batch = 0, microbatches = 0, chunks = 0, search = 0;
  bool no_overlap = false, sequence_parallel = false, json = false;

  bool asked() const { return !mesh.empty() || search != 0; }
};

// The options of `heddle plan` that are of meshes.
void add_plan_mesh_options(CLI::App& command, PlanMeshOptions& options);
// ValueError for an option of meshes without --mesh or --search, and for both of these.
void check_plan_mesh(const CLI::App& command, const PlanMeshOptions& options);
void plan_mesh(const std::string& model, const PlanMeshOptions& options);

}  // namespace heddle::tools
