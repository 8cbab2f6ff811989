// Whether a factorization went well: known when its kernel has run, asked when somebody looks. Internal to
// core/functions/linalg.
//
// Purpose: functions of linear algebra compute an `info` beside their result (0, or the pivot where it failed) and have
// no reason to wait for it. They watch it (core/graph/watched.h): the next observation of any tensor on this thread
// throws a LinAlgError for the first that is not 0, with the place of the call that made it. Not watched, so that NaN
// and infinity are all there is (use the _ex function and look at its info): inside functions that compile() traces,
// vmap maps or a scan repeats, where there is no value to look at. Thread safety: per thread, as recording is.
#pragma once

#include <string>

#include "heddle/core/graph/tensor.h"

namespace heddle {

enum class Failure : uint8_t { not_positive_definite, singular, not_converged, rank };

// info: i32 (batch..).
void watch_info(const Tensor& info, const char* function, Failure failure);

}  // namespace heddle
