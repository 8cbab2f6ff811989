// Pooling.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

PoolOptions pooling(const Arguments& a) {
  PoolOptions how;
  if (a.has("stride")) how.stride = a.integers("stride");
  if (a.has("padding")) how.padding = a.integers("padding");
  if (a.has("dilation")) how.dilation = a.integers("dilation");
  how.ceil = a.flag("ceil");
  how.count_padding = a.flag("count_padding", true);
  return how;
}

template <class F>
Function pool(F f) {
  return one([f](Inputs in, const Arguments& a) { return f(in[0], a.integers("kernel"), pooling(a)); });
}
template <class F>
Function pool_indices(F f) {
  return [f](Inputs in, const Arguments& a) {
    const Pooled made = f(in[0], a.integers("kernel"), pooling(a));
    return std::vector<Tensor>{made.values, made.indices};
  };
}
template <class F>
Function lp(F f) {
  return one([f](Inputs in, const Arguments& a) { return f(in[0], a.real("p"), a.integers("kernel"), pooling(a)); });
}
template <class F>
Function adaptive(F f) {
  return one([f](Inputs in, const Arguments& a) { return f(in[0], a.integers("size")); });
}

}  // namespace

void add_pool(Functions& t) {
  t["max_pool1d"] = pool([](auto&&... a) { return max_pool1d(a...); });
  t["max_pool2d"] = pool([](auto&&... a) { return max_pool2d(a...); });
  t["max_pool3d"] = pool([](auto&&... a) { return max_pool3d(a...); });
  t["max_pool1d_with_indices"] = pool_indices([](auto&&... a) { return max_pool1d_with_indices(a...); });
  t["max_pool2d_with_indices"] = pool_indices([](auto&&... a) { return max_pool2d_with_indices(a...); });
  t["max_pool3d_with_indices"] = pool_indices([](auto&&... a) { return max_pool3d_with_indices(a...); });
  t["avg_pool1d"] = pool([](auto&&... a) { return avg_pool1d(a...); });
  t["avg_pool2d"] = pool([](auto&&... a) { return avg_pool2d(a...); });
  t["avg_pool3d"] = pool([](auto&&... a) { return avg_pool3d(a...); });
  t["lp_pool1d"] = lp([](auto&&... a) { return lp_pool1d(a...); });
  t["lp_pool2d"] = lp([](auto&&... a) { return lp_pool2d(a...); });
  t["adaptive_avg_pool1d"] = adaptive([](auto&&... a) { return adaptive_avg_pool1d(a...); });
  t["adaptive_avg_pool2d"] = adaptive([](auto&&... a) { return adaptive_avg_pool2d(a...); });
  t["adaptive_avg_pool3d"] = adaptive([](auto&&... a) { return adaptive_avg_pool3d(a...); });
  t["adaptive_max_pool1d"] = adaptive([](auto&&... a) { return adaptive_max_pool1d(a...); });
  t["adaptive_max_pool2d"] = adaptive([](auto&&... a) { return adaptive_max_pool2d(a...); });
  t["adaptive_max_pool3d"] = adaptive([](auto&&... a) { return adaptive_max_pool3d(a...); });
  t["fractional_max_pool2d"] = [](Inputs in, const Arguments& a) {
    const Pooled made = fractional_max_pool2d(in[0], a.integers("kernel"), a.integers("output"), in[1]);
    return std::vector<Tensor>{made.values, made.indices};
  };
  t["global_avg_pool"] = one([](Inputs in, const Arguments&) { return global_avg_pool(in[0]); });
  t["global_max_pool"] = one([](Inputs in, const Arguments&) { return global_max_pool(in[0]); });
}

}  // namespace heddle::tests
