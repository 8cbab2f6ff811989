// Statistics.
#include <limits>

#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

// "inf" and "-inf" are no JSON numbers.
double order_of_norm(const Arguments& a) {
  if (!a.has("p")) return 2;
  if (a.raw("p").is_string()) return (a.text("p") == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
  return a.real("p");
}

Tensor quantile_case(const Tensor& x, const Arguments& a) {
  if (a.raw("q").is_array()) return quantile(x, a.reals("q"), a.maybe_axis("axis"), a.flag("keepdim"));
  return quantile(x, a.real("q"), a.maybe_axis("axis"), a.flag("keepdim"));
}

}  // namespace

void add_statistics(Functions& t) {
  const auto over = [&t](const char* name, auto f) {
    t[name] = one([f](Inputs in, const Arguments& a) { return f(in[0], a.axes("axes"), a.flag("keepdim")); });
  };
  const auto ordered = [&t](const char* name, auto f) {
    t[name] = [f](Inputs in, const Arguments& a) {
      const Ordered r = f(in[0], a);
      return std::vector<Tensor>{r.values, r.indices};
    };
  };
  over("any", [](const Tensor& x, auto axes, bool keep) { return any(x, axes, keep); });
  over("all", [](const Tensor& x, auto axes, bool keep) { return all(x, axes, keep); });
  over("count_nonzero", [](const Tensor& x, auto axes, bool keep) { return count_nonzero(x, axes, keep); });
  over("nansum", [](const Tensor& x, auto axes, bool keep) { return nansum(x, axes, keep); });
  over("nanmean", [](const Tensor& x, auto axes, bool keep) { return nanmean(x, axes, keep); });
  t["stddev"] = one([](Inputs in, const Arguments& a) {
    return stddev(in[0], a.axes("axes"), a.flag("keepdim"), a.real("correction", 1));
  });
  t["norm"] = one(
      [](Inputs in, const Arguments& a) { return norm(in[0], order_of_norm(a), a.axes("axes"), a.flag("keepdim")); });
  t["var_mean"] = [](Inputs in, const Arguments& a) {
    const VarMean r = var_mean(in[0], a.axes("axes"), a.flag("keepdim"), a.real("correction", 1));
    return std::vector<Tensor>{r.var, r.mean};
  };
  t["aminmax"] = [](Inputs in, const Arguments& a) {
    const Extremes r = aminmax(in[0], a.axes("axes"), a.flag("keepdim"));
    return std::vector<Tensor>{r.min, r.max};
  };
  t["cov"] = one([](Inputs in, const Arguments& a) { return cov(in[0], a.real("correction", 1)); });
  t["corrcoef"] = one([](Inputs in, const Arguments&) { return corrcoef(in[0]); });
  ordered("median", [](const Tensor& x, const Arguments& a) { return median(x, a.axis("axis"), a.flag("keepdim")); });
  ordered("kthvalue", [](const Tensor& x, const Arguments& a) {
    return kthvalue(x, a.integer("k"), a.axis("axis"), a.flag("keepdim"));
  });
  ordered("cummax", [](const Tensor& x, const Arguments& a) { return cummax(x, a.axis("axis")); });
  ordered("cummin", [](const Tensor& x, const Arguments& a) { return cummin(x, a.axis("axis")); });
  t["quantile"] = one([](Inputs in, const Arguments& a) { return quantile_case(in[0], a); });
  t["histogram"] = one(
      [](Inputs in, const Arguments& a) { return histogram(in[0], a.integer("bins"), a.real("low"), a.real("high")); });
  t["bincount"] = one([](Inputs in, const Arguments& a) {
    return in.size() == 2 ? bincount(in[0], in[1], a.integer("length")) : bincount(in[0], a.integer("length"));
  });
  t["logcumsumexp"] = one([](Inputs in, const Arguments& a) { return logcumsumexp(in[0], a.axis("axis")); });
  t["diff"] = one([](Inputs in, const Arguments& a) {
    return diff(in[0], static_cast<int>(a.integer("times", 1)), a.axis("axis"));
  });
  t["trapezoid"] = one([](Inputs in, const Arguments& a) {
    return in.size() == 2 ? trapezoid(in[0], in[1], a.axis("axis")) : trapezoid(in[0], a.real("dx", 1), a.axis("axis"));
  });
  t["softmin"] = one([](Inputs in, const Arguments& a) { return softmin(in[0], a.axis("axis")); });
}

}  // namespace heddle::tests
