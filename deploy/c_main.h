// main() of a model that is written as C99: golden vectors, and how long a run takes. Thread safety: pure function.
#pragma once

#include <string>

#include "heddle/deploy/c_model.h"

namespace heddle {

// Of each bucket with golden vectors: runs them, prints the largest difference of each output (integers: how many
// differ), and returns 1 where one is over golden_tolerance(). With an argument n it also prints the least and the
// median time of n runs.
std::string c_main(const CModel& model);

}  // namespace heddle
