// MPI as a transport: a library that is opened at run time, as drivers are.
//
// Invariants: a process has one MPI world in its life. Only messages between pairs are asked of MPI; algorithms are
// Heddle's (schedules.h), so their results do not depend on the library. HEDDLE_MPI names another library.
// Errors: TransportUnavailable where no library can be opened, names what was tried and the package; where the library
// is not the launcher's, or lacks something; where the process has had its world. CommunicationError where MPI does not
// start. A world that goes on without lost ranks needs ULFM, and a launcher that lets it: TransportUnavailable else.
// Its ranks leave without MPI_Finalize, which waits for processes that are gone. Thread safety: none; the thread that
// opens makes all calls.
#pragma once

#include <memory>

#include "heddle/distributed/launch.h"
#include "heddle/distributed/transport.h"

namespace heddle::distributed {

std::unique_ptr<Transport> open_mpi_transport(const Launch& launch, bool survives = false);

}  // namespace heddle::distributed
