// Special functions.
#include "tests/reference/functions.h"

namespace heddle::tests {

void add_special(Functions& t) {
#define HEDDLE_ADD(name) t[#name] = one([](Inputs in, const Arguments&) { return name(in[0]); })
  HEDDLE_ADD(bessel_i0);
  HEDDLE_ADD(bessel_i0e);
  HEDDLE_ADD(bessel_i1);
  HEDDLE_ADD(bessel_i1e);
  HEDDLE_ADD(bessel_j0);
  HEDDLE_ADD(bessel_j1);
  HEDDLE_ADD(bessel_y0);
  HEDDLE_ADD(bessel_y1);
  HEDDLE_ADD(ndtr);
  HEDDLE_ADD(log_ndtr);
  HEDDLE_ADD(ndtri);
  HEDDLE_ADD(erfcx);
  HEDDLE_ADD(entr);
#undef HEDDLE_ADD
  t["polygamma"] = one([](Inputs in, const Arguments& a) { return polygamma(a.integer("n"), in[0]); });
  t["zeta"] = one([](Inputs in, const Arguments&) { return zeta(in[0], in[1]); });
  t["igamma"] = one([](Inputs in, const Arguments&) { return igamma(in[0], in[1]); });
  t["igammac"] = one([](Inputs in, const Arguments&) { return igammac(in[0], in[1]); });
  t["multigammaln"] = one([](Inputs in, const Arguments& a) { return multigammaln(in[0], a.integer("p")); });
  t["xlog1py"] = one([](Inputs in, const Arguments&) { return xlog1py(in[0], in[1]); });
  t["logaddexp2"] = one([](Inputs in, const Arguments&) { return logaddexp2(in[0], in[1]); });
}

}  // namespace heddle::tests
