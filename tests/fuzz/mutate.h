// Mutation without a compiler's help: input `number` of a target is a function of the two, so that any can be made
// again.
#pragma once

#include "tests/fuzz/target.h"

namespace heddle::fuzz {

// The first inputs are the seeds as they are.
std::string input_of(const Target& target, const std::vector<std::string>& seeds, uint64_t number);

}  // namespace heddle::fuzz
