// Profiler: what the library does while it lives: when each kernel ran on its device, what it moved, and what the host
// did meanwhile.
//
// Purpose: `heddle profile`, and programs that want to know:
//     Profiler profiler;
//     for (int i = 0; i < 10; ++i) train_step();
//     const Profile& profile = profiler.stop();
//     for (const KernelRow& row : profile.rows()) ...
// Method: steps are recorded anew with a time stamp around every command, and submitted as always; times are fetched
// later, so the host runs ahead of the device as it does otherwise. On Vulkan and CUDA such a recording runs its
// kernels one after the other, which changes a graph that has independent kernels, and CUDA launches it as a list and
// not as a graph; OpenCL devices run in order anyway. Device clocks are not the host's: each device's times are shifted
// by one number, the smallest that lets no submission start before it was submitted. Steps submitted by a Replay
// (benchmarks) are not seen. Kernels of the reference device: there are none. Invariants: one profiler at a time in a
// process; after stop() the profile does not change. Bytes and flops: core/inspect/traffic.h. Errors: ValueError for a
// second profiler. Faults of a device reach whoever uses the device; a submission whose times cannot be had is left
// out. Thread safety: steps of any thread are seen; the object itself belongs to one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/inspect/kernel_facts.h"

namespace heddle {

// All times are seconds since the profiler began.
struct KernelSpan {
  size_t kernel = 0;  // index into Profile::kernels
  size_t submission = 0;
  double start = 0, end = 0;
};
struct Submission {
  std::string device;
  double submitted = 0;       // by the host
  double start = 0, end = 0;  // first start and last end on the device
};
struct HostRun {
  std::string name;  // record, capture, plan, compile, submit, wait, upload, ...
  int thread = 0;    // 0: the first that was seen
  int depth = 0;     // 0: outermost
  double start = 0, end = 0;
};
struct ProfiledKernel {
  std::string device;
  KernelFacts facts;
};

// All runs of kernels that do the same.
struct KernelRow {
  std::string device;
  KernelFacts facts;
  size_t count = 0;
  double total = 0, median = 0;  // seconds
};

struct Profile {
  std::vector<ProfiledKernel> kernels;  // different ones, in order of appearance
  std::vector<KernelSpan> runs;         // of each device in order
  std::vector<Submission> submissions;
  std::vector<HostRun> host;  // in order of their ends
  size_t dropped = 0;         // submissions whose times could not be had
  double seconds = 0;         // from begin to stop

  // Most time first.
  std::vector<KernelRow> rows() const;
  // Of all kernels together.
  double kernel_seconds() const;
  // From the first start to the last end of each submission, together: kernels, and the gaps between them.
  double device_seconds() const;
};

class Profiler {
 public:
  Profiler();
  ~Profiler();
  Profiler(const Profiler&) = delete;
  Profiler& operator=(const Profiler&) = delete;
  // Waits for what it has seen and stops looking.
  const Profile& stop();

  // ---- for core/run
  static bool active();
  // A submission of a timed recording; `facts` has one entry per command. May wait for an earlier one.
  static void note(DeviceContext& device, Ticket ticket, std::shared_ptr<const std::vector<KernelFacts>> facts,
                   double submitted);
  // Seconds since the profiler began; 0 when there is none.
  static double now();
  // This thread has begun to record, or has finished with it.
  static void recording(bool begins);

 private:
  std::shared_ptr<class ProfilerState> state_;
};

}  // namespace heddle
