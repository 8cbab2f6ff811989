// Several rows that are one function to its caller. Internal to core/functions, beside build.h. Thread safety:
// recording is per thread.
#pragma once

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/graph/autocast.h"

namespace heddle::build {

// f(x, ...), of f16 and bf16 computed in f32 and rounded once, at the end. `policy`: how autocast takes its rows.
template <class F, class... More>
Tensor rounded_once(F f, Autocast policy, const Tensor& x, const More&... more) {
  return is_half(x.dtype()) ? cast(f(widen(x), widen(more)...), autocast_dtype(policy, x.dtype())) : f(x, more...);
}
template <class F, class... More>
Tensor rounded_once(F f, const Tensor& x, const More&... more) {
  return rounded_once(f, Autocast::widest, x, more...);
}

}  // namespace heddle::build
