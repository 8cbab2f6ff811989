// Benchmarks: Heddle's kernels as a step replays them, beside peers and the machine's bounds, measured in the same run.
//
// Vocabulary. A *family* (matmul, softmax, ...) reads the text of a case ("1024x512x64") and knows its standard cases,
// dtypes and peers: one file bench/cases_<family>.cpp with one function `Family <name>_family()`, listed in
// bench/families.cpp. A *case* knows its flops and bytes and makes a *workload*: random inputs on a device, a function
// that records Heddle's expression, the peers' prepared calls, and optionally its own check. bench/run.h measures a
// case and gives a *row*; suites and tools/bench.cpp print rows.
//
// Method: random data; Heddle's expression is evaluated once and checked (against the peers' results, else against the
// reference evaluator where that is quick, else by the case's own check): a wrong result is an error, not a figure.
// Then Heddle's recorded step is replayed, as peers call a primitive that was created once. Warm-up; at least ten
// repetitions; a repetition repeats the call until it has run for a few milliseconds and ends when the device has
// finished; Heddle, peers and the kernel that measures the bound take turns, repetition by repetition, in rotating
// order, each after a short rest so that no thread pool of the others still spins. Medians and quartiles are reported;
// a ratio is the median over repetitions of peer seconds / Heddle seconds: above 1, Heddle is faster. Thread safety:
// none.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::bench {

// What limits a case: `compute` floating-point peak, `copy` bandwidth of reading and writing, `read` of reading only,
// `none` nothing that is measured.
enum class Bound : uint8_t { compute, copy, read, none };
std::string_view name_of(Bound bound);

// A peer's side of a case. `call` runs once and returns when it has finished; everything it needs was prepared before.
struct PeerCall {
  std::string peer;
  std::function<void()> call;
  std::function<std::vector<float>()>
      result;                    // of the latest call: what Heddle's first result should be; empty: not compared
  double settle_seconds = 4e-3;  // how long its threads spin after a call
};

struct Workload {
  // Records Heddle's side and returns the tensors to evaluate (none when it evaluated by itself, as an optimizer's step
  // does). Called several times.
  std::function<std::vector<Tensor>()> run;
  std::vector<PeerCall> peers;
  // Own check of the first evaluation's results (row-major, as floats): empty text when right. Optional.
  std::function<std::string(const std::vector<std::vector<float>>& results)> check;
};

// Where a workload is to be made.
struct Environment {
  DeviceContext& device;
  std::vector<std::string> peers;
  bool wants(std::string_view peer) const;
};

struct Case {
  std::string family, name;
  DType dtype = DType::f32;
  double flops = 0;           // the algorithm's, not the kernel's: 2 M N K
  double bytes = 0;           // least traffic: every input read once, every output written once
  double largest_bytes = 0;   // of one tensor
  double resident_bytes = 0;  // of all tensors, with room for the checks on the host
  Bound bound = Bound::compute;
  double tolerance = 1e-5;  // largest error of a result / largest magnitude of the expected result
  bool stateful =
      false;  // running it changes what it computes (an optimizer): results are only checked after the first run
  std::function<Workload(const Environment&)> make;
  // For the reference evaluator, of a case that is long there: a part of this case, whose results are the last elements
  // of `make`'s. Optional.
  std::function<Workload(const Environment&)> last_part;
  // Instead of a workload: a figure of the host, in seconds, one sample a repetition or more. Such a case also runs on
  // null:0.
  std::function<std::vector<double>(DeviceContext&, int repetitions)> host;

  // Adds a tensor to largest_bytes, resident_bytes and, `passes` times, to bytes.
  Case& tensor(std::span<const int64_t> shape, DType type, double passes = 1);
  Case& tensor(std::initializer_list<int64_t> shape, DType type, double passes = 1) {
    return tensor(std::span(shape.begin(), shape.size()), type, passes);
  }
};

struct Family {
  std::string name;
  std::string form;  // for help and errors: "MxNxK or tn:MxNxK"
  std::vector<std::string> standard;
  std::vector<DType> dtypes;
  std::vector<std::string> peers;  // that take part where this build has them
  // ValueError for text of another form and for sizes that no device could hold.
  std::function<Case(const std::string& name, DType dtype)> parse;
};

// ---- families.cpp
const std::vector<Family>& families();
// ValueError "[bench] unknown benchmark 'x'; known: ...".
const Family& find_family(std::string_view name);
// Checks the dtype, parses, and fills family, name and dtype.
Case make_case(const Family& family, const std::string& name, DType dtype);
// Peers of this build; ValueError for another name.
std::vector<std::string> known_peers();
void check_peers(std::span<const std::string> names);

// ---- inputs.cpp: for families
// Of families that compute in floating point.
inline const std::vector<DType> float_types = {DType::f32, DType::f16, DType::bf16};
// "1024x512x64" -> {1024, 512, 64}; ValueError "[bench] case 'x' is not of the form MxNxK". Every size is at least 1
// and below 2^31.
std::vector<int64_t> parse_sizes(std::string_view family, const std::string& text, size_t count, std::string_view form);
// Values in [-0.5, 0.5), the same for every device and peer.
std::vector<float> random_floats(int64_t count, uint32_t stream);
// As a tensor of `dtype`, rounded from the same floats.
Tensor random_tensor(const Shape& shape, DType dtype, uint32_t stream, DeviceContext& device);
// A tensor's elements, row-major; observes.
std::vector<float> floats_of(const Tensor& tensor);
// i32 in [0, below).
std::vector<int32_t> random_indices(int64_t count, int64_t below, uint32_t stream);
// Empty when all |a - b| <= tolerance * (largest |b|, at least 1e-3); else the first element that differs.
std::string difference(std::span<const float> ours, std::span<const float> expected, double tolerance);

}  // namespace heddle::bench
