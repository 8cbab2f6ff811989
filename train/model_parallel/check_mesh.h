// What a mesh of parts of a model does not go with, in lines that name what was asked for.
//
// Errors: ValueError. Thread safety: pure functions.
#pragma once

#include "heddle/nn/models/gpt.h"
#include "heddle/train/config.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

// Sizes that the ranks do not divide, and options that do not go with parts of a model.
void check_mesh(const Config& config, const Replicas& replicas, const nn::GptOptions& model);
// Whether each part of a batch goes through a program of ranks, which cuts a pass where experts' rows are exchanged: of
// a mixture under --parts, for the same bits wherever its experts lie, one process included. With an
// option that parts of a model do not go with, parts are one compiled function each, as of other models.
bool computes_experts_apart(const Config& config);
// Options of axes that the mesh has not. `replicas` may be null.
void check_axis_options(const Config& config, const Replicas* replicas);

}  // namespace heddle::train
