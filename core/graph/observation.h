// The door from an observation to the values that nobody asked for and that are judged with it.
//
// Invariants: Tensor stands below them and needs no more of them than this, which is defined in core/graph/watched.cpp.
// Thread safety: per thread, as recording is.
#pragma once

namespace heddle {

// Called when what an observation asked for has been computed: judges the values that were watched and have been
// computed; throws what their judges throw.
void throw_watched();

}  // namespace heddle
