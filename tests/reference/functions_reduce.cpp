#include "tests/reference/functions.h"

namespace heddle::tests {

void add_reduce(Functions& t) {
  const auto over = [&t](const char* name, auto f) {
    t[name] = one([f](Inputs in, const Arguments& a) { return f(in[0], a.axes("axes"), a.flag("keepdim")); });
  };
  over("sum", [](const Tensor& x, auto axes, bool keep) { return sum(x, axes, keep); });
  over("mean", [](const Tensor& x, auto axes, bool keep) { return mean(x, axes, keep); });
  over("prod", [](const Tensor& x, auto axes, bool keep) { return prod(x, axes, keep); });
  over("max", [](const Tensor& x, auto axes, bool keep) { return max(x, axes, keep); });
  over("min", [](const Tensor& x, auto axes, bool keep) { return min(x, axes, keep); });
  over("logsumexp", [](const Tensor& x, auto axes, bool keep) { return logsumexp(x, axes, keep); });
  t["var"] = one([](Inputs in, const Arguments& a) {
    return var(in[0], a.axes("axes"), a.flag("keepdim"), a.real("correction", 1));
  });
  t["argmax"] =
      one([](Inputs in, const Arguments& a) { return argmax(in[0], a.maybe_axis("axis"), a.flag("keepdim")); });
  t["argmin"] =
      one([](Inputs in, const Arguments& a) { return argmin(in[0], a.maybe_axis("axis"), a.flag("keepdim")); });
  t["cumsum"] = one([](Inputs in, const Arguments& a) { return cumsum(in[0], a.axis("axis")); });
  t["cumprod"] = one([](Inputs in, const Arguments& a) { return cumprod(in[0], a.axis("axis")); });
  t["argsort"] =
      one([](Inputs in, const Arguments& a) { return argsort(in[0], a.axis("axis"), a.flag("descending")); });
  t["sort"] = [](Inputs in, const Arguments& a) {
    const Ordered sorted = sort(in[0], a.axis("axis"), a.flag("descending"));
    return std::vector<Tensor>{sorted.values, sorted.indices};
  };
  t["topk"] = [](Inputs in, const Arguments& a) {
    const Ordered best = topk(in[0], a.integer("k"), a.axis("axis"), a.flag("largest", true));
    return std::vector<Tensor>{best.values, best.indices};
  };
}

}  // namespace heddle::tests
