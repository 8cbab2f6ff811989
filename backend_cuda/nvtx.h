// NVTX ranges: what the host does, by name, on the time line of NVIDIA's tools (Nsight Systems, Nsight Compute).
//
// Purpose: the library's spans (core/base/host_span.h), and a range around every launch and every graph with its name.
// NVTX is headers only: nothing is linked, and nothing happens unless a tool is there, which says so by
// NVTX_INJECTION64_PATH when it starts the process. Where the headers were not found when Heddle was built, active() is
// false. Thread safety: every function may be called from any thread.
#pragma once

namespace heddle::cuda::nvtx {

// Whether a tool listens. The first call looks, and from then on the library's spans reach it too.
bool active();

class Range {
 public:
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  bool opened_;
};

}  // namespace heddle::cuda::nvtx
