// Benchmarks: Heddle's kernels as a program meets them, beside peers measured in the same run.
//
// Method: random data; warm-up until compiled; at least ten repetitions; a repetition repeats the call until it has run
// for a few milliseconds and ends when the device has finished; peers take turns with Heddle, repetition by repetition,
// each after a short rest so that no thread pool of the other still spins; medians are reported. The ratio is the
// median over repetitions of peer seconds / Heddle seconds: above 1, Heddle is faster. Results of matmul are compared
// with the peer's: a wrong result is an error, not a figure. Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/device/context.h"

namespace heddle::bench {

struct Row {
  std::string bench;
  std::string name;  // the case
  std::string dtype;
  std::string device;
  double seconds = 0;  // median of one call
  double value = 0;
  std::string unit;  // of value and peer_value
  std::string peer;  // empty: none
  double peer_value = 0;
  double ratio = 0;
};

struct Options {
  std::vector<std::string> cases;  // empty: the benchmark's own
  std::vector<std::string> peers;
  int repetitions = 15;  // at least 10
};

// A library that Heddle is measured against, with its own threads.
class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::string_view name() const = 0;
  // c = a b, row-major f32: a is m x k, b is k x n.
  virtual void matmul(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) = 0;
};
// ValueError that lists the peers of this build.
std::unique_ptr<Peer> make_peer(std::string_view name);
std::vector<std::string> known_peers();

using Report = std::function<void(const Row& row)>;
// Runs the benchmark of that name; `report` gets each row as it is measured. ValueError for an unknown name or case.
void run(std::string_view bench, const Options& options, DeviceContext& device, const Report& report);
std::vector<std::string> known_benches();

}  // namespace heddle::bench
