// elementwise: y = 2a + b over N elements. chain: ten operations in one kernel; unfused:N is one kernel an operation.
#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

double elementwise_tolerance(DType dtype) { return dtype == DType::f32 ? 1e-6 : dtype == DType::f16 ? 2e-3 : 1.6e-2; }

Case parse_elementwise(const std::string& name, DType dtype) {
  const int64_t n = parse_sizes("elementwise", name, 1, "N")[0];
  Case c;
  c.tensor({n}, dtype, 3);
  c.flops = 2.0 * static_cast<double>(n);
  c.bound = Bound::copy;
  c.tolerance = elementwise_tolerance(dtype);
  c.make = [=](const Environment& env) {
    const Tensor a = random_tensor({n}, dtype, 1, env.device), b = random_tensor({n}, dtype, 2, env.device);
    Workload w;
    w.run = [=] { return std::vector<Tensor>{2.0 * a + b}; };
    return w;
  };
  return c;
}

// Cheap operations of several kinds, so that memory is the bound.
Tensor ten_operations(const Tensor& x, const Tensor& y) {
  Tensor t = x * y;
  t = t + x;
  t = t * 0.5;
  t = abs(t);
  t = t - y;
  t = maximum(t, x);
  t = t * t;
  t = t + 1.0;
  t = sqrt(t);
  return t - x;
}

Case parse_chain(const std::string& name, DType dtype) {
  const bool unfused = name.starts_with("unfused:");
  const int64_t n = parse_sizes("chain", unfused ? name.substr(8) : name, 1, "N or unfused:N")[0];
  Case c;
  c.tensor({n}, dtype, 3);
  c.flops = 10.0 * static_cast<double>(n);
  c.bound = Bound::copy;
  c.tolerance = 4 * elementwise_tolerance(dtype);
  c.make = [=](const Environment& env) {
    const Tensor a = random_tensor({n}, dtype, 1, env.device), b = random_tensor({n}, dtype, 2, env.device);
    Workload w;
    w.run = [=] {
      if (!unfused) return std::vector<Tensor>{ten_operations(a, b)};
      const EagerScope eager;
      return std::vector<Tensor>{ten_operations(a, b)};
    };
    return w;
  };
  return c;
}

}  // namespace

Family elementwise_family() { return {"elementwise", "N", {"16777216", "65536"}, float_types, {}, parse_elementwise}; }
Family chain_family() {
  return {"chain", "N or unfused:N", {"16777216", "unfused:16777216"}, float_types, {}, parse_chain};
}

}  // namespace heddle::bench
