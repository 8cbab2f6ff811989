// What Tensor and its users tell an active trace (core/graph/trace.h): which handles are touched, and which numbers of
// the host change. Thread safety: any thread; slow paths look for the trace of their own.
#pragma once

#include <utility>

#include "heddle/core/base/host_epoch.h"

namespace heddle {

class Tensor;

namespace trace {

// How many traces are active in the process: what a thread asks before it looks for its own.
// Compilers' own atomic functions: <atomic> is 4 MB of what a program would compile.
extern int active;
inline bool any() { return __atomic_load_n(&active, __ATOMIC_RELAXED) != 0; }

// Slow paths of Tensor: no effect unless this thread traces. Tensor stands below what they need: they are defined in
// core/graph/trace_handles.cpp.
void touched(const Tensor& handle) noexcept;
void moved(const Tensor& from, const Tensor& to) noexcept;     // before `to` takes over what `from` has
void copied(const Tensor& from, const Tensor& made) noexcept;  // `made` is new
void destroyed(const Tensor& handle, bool watched) noexcept;

}  // namespace trace

// A number (or flag) of the host that compiled functions read: a change is noticed at the next call. Thread safety: as
// T's.
template <class T>
class Watched {
 public:
  Watched(T value = {}) : value_(std::move(value)) {}
  Watched(const Watched&) = default;
  Watched& operator=(T value) {
    if (!(value == value_)) trace::host_state_changed();
    value_ = std::move(value);
    return *this;
  }
  Watched& operator=(const Watched& other) { return *this = other.value_; }
  operator const T&() const { return value_; }
  const T& value() const { return value_; }
  ~Watched() { trace::host_state_changed(); }

 private:
  T value_;
};

}  // namespace heddle
