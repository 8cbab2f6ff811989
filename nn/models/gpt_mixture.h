// What the mixtures of experts of a Gpt are.
//
// Thread safety: a pure function.
#pragma once

#include "heddle/nn/mixture_of_experts.h"
#include "heddle/nn/models/gpt.h"

namespace heddle::nn {

// Of options with experts.
MixtureOptions mixture_options(const GptOptions& options, const ParameterOptions& parameters = {});

}  // namespace heddle::nn
