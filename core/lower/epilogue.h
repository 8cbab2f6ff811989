// Epilogues of hand-written bodies: the group's elementwise work as the text of a hook.
// Thread safety: pure function of the emitter.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/lower/emit.h"
#include "heddle/core/lower/lower_input.h"

namespace heddle {

// The text of a hand-written body's EPILOGUE hook: the group's elementwise members computed from the anchor's value,
// and stored. The hook's parameters name the value (`value`) and, for each entry of `blocks`, the row-major index over
// that many dimensions of the anchor's shape, in order. Leaves the emitter with the buffers and constants that the text
// needs.
struct EpilogueBlock {
  int dimensions = 1;
  std::string index;
};
std::string print_epilogue(Emitter& emitter, const LowerInput& in, const std::string& value,
                           const std::vector<EpilogueBlock>& blocks);

}  // namespace heddle
