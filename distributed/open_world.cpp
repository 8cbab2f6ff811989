#include "heddle/distributed/open_world.h"

#include "heddle/distributed/launch.h"
#include "heddle/distributed/mpi_transport.h"

namespace heddle::distributed {

std::unique_ptr<World> open_world(const WorldOptions& options) {
  const Launch launch = launch_of_process();
  if (launch.kind == Launch::Kind::none || launch.ranks == 1) return std::make_unique<World>();
  return std::make_unique<World>([launch, survives = options.survives] { return open_mpi_transport(launch, survives); },
                                 options);
}

}  // namespace heddle::distributed
