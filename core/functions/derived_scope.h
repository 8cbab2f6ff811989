// The recording of nodes that follow from recorded ones: gradients, tangents, mapped copies, decompositions. Internal
// to core and autograd.
//
// Purpose: what the user's scopes ask of a call (casts of an AutocastScope, checks of an IndexGuardScope) was done when
// the call was recorded and is not done again for what follows from it. Thread safety: a scope belongs to its thread.
#pragma once

#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {

class DerivedScope {
  AutocastScope autocast_ = AutocastScope::off();
  IndexGuardScope indices_{false};
};

}  // namespace heddle
