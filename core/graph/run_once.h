// Whether operations may be computed a second time when something went wrong: a decision of the caller.
//
//   set_run_once(true);                // every thread
//   { const RunOnceScope once; ... }   // this thread
//
// Without it (the default) an evaluation that fails because of a tensor that nobody asked for is tried again without
// that tensor, and the guard against NaN and infinity (core/graph/number_guard.h) computes operations again one by one
// to name the one at fault. A process whose operations have to happen in step with those of others switches both off:
// the first failure is thrown, and the guard names the bad result alone. Thread safety: the flag of all threads may be
// changed by any; a scope belongs to its thread.
#pragma once

namespace heddle {

bool run_once();
void set_run_once(bool on);

class RunOnceScope {
 public:
  explicit RunOnceScope(bool on = true);
  ~RunOnceScope();
  RunOnceScope(const RunOnceScope&) = delete;
  RunOnceScope& operator=(const RunOnceScope&) = delete;

 private:
  signed char before_;
};

}  // namespace heddle
