// Ranks of a mesh that have other examples: those along dp and fsdp, and those along ep, which have some experts of a
// mixture each and send each other rows.
//
// Thread safety: a pure function.
#pragma once

#include "heddle/nn/parameter_cut.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

// How many there are, and which of them this rank is.
nn::CutPlace batch_ranks(const Replicas& replicas);

}  // namespace heddle::train
