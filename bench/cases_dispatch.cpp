// dispatch: what a launch costs: N tiny kernels, each of which needs the one before, one submission each. Replayed it
// is the cost of submission and launch; with --loop, recording and lookup are added. record_per_op and replay_per_step
// are host time (host_time.cpp); on null:0 there is nothing else to measure.
#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {

// host_time.cpp
std::vector<double> record_per_op(DeviceContext& device, int repetitions);
std::vector<double> replay_per_step(DeviceContext& device, int repetitions);

namespace {

Case parse_dispatch(const std::string& name, DType dtype) {
  if (name == "record_per_op" || name == "replay_per_step") {
    Case c;
    c.bound = Bound::none;
    c.host = name == "record_per_op" ? record_per_op : replay_per_step;
    return c;
  }
  const int64_t n = parse_sizes("dispatch", name, 1, "KERNELS")[0];
  if (n > 10000) throw ValueError("[bench] dispatch case '" + name + "': at most 10000 kernels");
  Case c;
  c.tensor({64, 64}, dtype);
  c.bytes = 0;
  c.bound = Bound::none;
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor({64}, dtype, 1, env.device);
    Workload w;
    w.run = [=] {
      const EagerScope eager;  // nothing fuses
      Tensor t = x;
      for (int64_t i = 0; i < n; ++i) t = t + 1.0;
      return std::vector<Tensor>{t};
    };
    return w;
  };
  return c;
}

}  // namespace

Family dispatch_family() {
  return {"dispatch",
          "KERNELS, record_per_op or replay_per_step",
          {"record_per_op", "replay_per_step", "1", "64"},
          {DType::f32},
          {},
          parse_dispatch};
}

}  // namespace heddle::bench
