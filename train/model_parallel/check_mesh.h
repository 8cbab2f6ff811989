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
// Options of axes that the mesh has not. `replicas` may be null.
void check_axis_options(const Config& config, const Replicas* replicas);

}  // namespace heddle::train
