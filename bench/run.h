// Measures cases: one row each.
//
// Invariants: see bench/bench.h for the method. Thread safety: none.
#pragma once

#include <memory>
#include <optional>

#include "bench/bench.h"
#include "bench/bounds.h"
#include "bench/measure.h"
#include "heddle/core/base/error.h"

namespace heddle::bench {

struct PeerFigure {
  std::string peer;
  Spread seconds;
  Spread ratio;  // peer seconds / Heddle seconds: above 1, Heddle is faster
};

struct Row {
  std::string family, name, device;
  DType dtype = DType::f32;
  Spread seconds;  // of one call
  double flops = 0, bytes = 0;
  size_t launches = 0;  // kernels of one call
  uint64_t extra_bytes =
      0;  // most device memory of an evaluation beyond what was there before it: results and temporaries
  Bound bound = Bound::none;
  double bound_rate = 0;  // flops/s or bytes/s of the bound, median of this case's repetitions
  Spread fraction;        // of the bound: time that the bound's rate would need / time; 0 when there is no bound
  std::vector<PeerFigure> peers;
  std::string bound_how;                     // what measured the bound
  std::optional<Spread> tuned_over_default;  // seconds of the defaults / seconds with tuned values
  bool tuned_same = false;                   // no tuned value differs from the defaults: the ratio is 1, not measured
  bool host = false;                         // host time of a case without kernels to compare
  std::string checked;                       // "peer", "reference", "case" or "" (nothing to compare with)

  double gflops() const { return seconds.median > 0 ? flops / seconds.median * 1e-9 : 0; }
  double gbytes() const { return seconds.median > 0 ? bytes / seconds.median * 1e-9 : 0; }
};

struct Options {
  std::vector<std::string> peers;
  Timing timing;
  bool loop = false;            // time recording, lookup and submission as well, not only the replayed step
  bool compare_tuning = false;  // also run with TuningOff
  double longest_call = 0;      // seconds; a case that takes longer for one call is TooSlow; 0: no limit
};

// A case that was left out since one call takes longer than Options::longest_call.
class TooSlow : public ValueError {
 public:
  using ValueError::ValueError;
};

// ValueError when the case cannot run on this machine (memory, limits of the device); DeviceError when the result is
// wrong.
Row measure_case(const Case& c, DeviceContext& device, Bounds& bounds, const Options& options);

// Evaluates once and checks; throws DeviceError with the first wrong element. Returns how it was checked.
std::string check_workload(const Case& c, const Workload& workload, DeviceContext& device,
                           std::vector<std::vector<float>>* results = nullptr);
// ValueError when memory or limits do not suffice.
void check_room(const Case& c, const DeviceContext& device);
// Heddle's side of a workload: replayed, or as a loop.
Side heddle_side(const Workload& workload, DeviceContext& device, bool loop, size_t* launches = nullptr);

}  // namespace heddle::bench
