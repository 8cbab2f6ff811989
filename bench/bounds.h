// What a device can do at best, measured beside the cases: floating-point peak, copy and read bandwidth.
//
// Purpose: the roof of the roofline. Each probe is the best of several candidates, chosen when it is first asked for:
// kernels of multiply-adds in registers with different numbers and widths of accumulators; the device's copy command,
// copy kernels and, where the device is the CPU, memcpy on all cores; kernels that add up what they read. Invariants: a
// probe's bytes count what is read and what is written once each. Thread safety: none.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "bench/bench.h"
#include "bench/measure.h"

namespace heddle::bench {

struct Probe {
  Side side;
  double amount = 0;  // flops or bytes of one call
  std::string how;    // the candidate that won
};

class Bounds {
 public:
  explicit Bounds(DeviceContext& device);
  ~Bounds();
  // False for devices that take no kernels.
  bool measurable() const;
  // Null when there is none. Bandwidth is probed with about `bytes` bytes of traffic, so that what fits a cache is
  // compared with what fits a cache.
  const Probe* probe(Bound bound, double bytes);
  // Every figure measured so far (flops/s or bytes/s), by the size it was measured with; add() is called after each
  // case.
  void add(Bound bound, double amount, const std::vector<double>& seconds);
  // Median of the figures of the largest size; measures when there is none.
  double rate(Bound bound, const Timing& timing);

 private:
  Probe make_compute();
  Probe make_bandwidth(Bound bound, uint64_t floats);

  DeviceContext& device_;
  std::map<std::pair<Bound, uint64_t>, Probe> probes_;
  std::map<std::pair<Bound, double>, std::vector<double>> rates_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace heddle::bench
