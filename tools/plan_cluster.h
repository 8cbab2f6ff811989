// The machine and the links of `heddle plan --link`, by name or from a file (docs/distributed.md).
#pragma once

#include <string>

#include "heddle/distributed/forecast/cluster.h"

namespace heddle::tools {

// Errors: IoError for a file that cannot be read, ValueError with file and line for what is no such file, or misses
// something.
distributed::Cluster read_cluster(const std::string& name);

}  // namespace heddle::tools
