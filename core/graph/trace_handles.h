// What an active trace hears of tensor handles: the hooks of core/graph/trace_hooks.h are defined here, above Tensor.
//
// Purpose: handles that a compiled function reads again must still be there: watch() says when one is not. Thread
// safety: watched handles are process-wide, under a lock of their own.
#pragma once

#include <atomic>
#include <memory>

#include "heddle/core/graph/tensor.h"

namespace heddle::trace {

// Sets `valid` to false when the handle is destroyed.
void watch(const Tensor& handle, std::shared_ptr<std::atomic<bool>> valid);
void unwatch(const Tensor* handle, const std::shared_ptr<std::atomic<bool>>& valid);

}  // namespace heddle::trace
