// Cluster: machines and the links between them, and two that are known by name.
//
// Thread safety: plain value, pure functions.
#pragma once

#include <string>

#include "heddle/distributed/forecast/links.h"
#include "heddle/distributed/forecast/machine.h"

namespace heddle::distributed {

struct Cluster {
  std::string name;
  Machine machine;
  Links links;
};

// "dgx-a100": NVIDIA A100 80 GB, NVLink 3 within a node of eight, an HDR InfiniBand adapter a GPU; "dgx-h100": H100
// SXM, NVLink 4, 400 Gbit/s a GPU. Peaks, memory and links are those of the data sheets, links at 80 % of their bytes a
// second in one direction; the efficiency is fitted on a published run each (tests/unit/published_scaling_test.cpp).
// ValueError, which lists them, for another name.
Cluster known_cluster(const std::string& name);

}  // namespace heddle::distributed
