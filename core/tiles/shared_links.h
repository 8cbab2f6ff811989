// SharedLinksScope: kernels that are chosen now become links of chains (core/run/chains.h), whose workers are awake:
// work that is cut for several of them costs no waking.
//
// Purpose: core/tiles gives small products to one group, because a launch of several waits for threads; in a chain they
// are shared out. Invariants: values are the same to the bit either way; whoever keeps plans keeps them by whether
// chains are wanted. Thread safety: a scope belongs to its thread.
#pragma once

namespace heddle {

class SharedLinksScope {
 public:
  explicit SharedLinksScope(bool shared);
  ~SharedLinksScope();
  SharedLinksScope(const SharedLinksScope&) = delete;
  SharedLinksScope& operator=(const SharedLinksScope&) = delete;
  static bool active();

 private:
  bool before_;
};

}  // namespace heddle
