// The world that a launcher made.
//
// Invariants: without a launcher, and with one that started one rank, it is this process alone, and no library is
// opened. Errors: those of open_mpi_transport(), ValueError for options without sense. Thread safety: any thread; a
// process opens one world in its life.
#pragma once

#include <memory>

#include "heddle/distributed/world.h"

namespace heddle::distributed {

std::unique_ptr<World> open_world(const WorldOptions& options = {});

}  // namespace heddle::distributed
