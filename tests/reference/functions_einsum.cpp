// Contractions, named products and distances.
#include <functional>
#include <limits>

#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

double power(const Arguments& a) {
  return a.text("p_text") == "infinity" ? std::numeric_limits<double>::infinity() : a.real("p", 2);
}

}  // namespace

void add_einsum(Functions& t) {
  const auto two = [&t](const char* name, std::function<Tensor(const Tensor&, const Tensor&)> f) {
    t[name] = one([f](Inputs in, const Arguments&) { return f(in[0], in[1]); });
  };
  two("outer", outer);
  two("inner", inner);
  two("dot", dot);
  two("vdot", vdot);
  two("mv", mv);
  two("mm", mm);
  two("bmm", bmm);
  two("kron", kron);
  t["einsum"] = one([](Inputs in, const Arguments& a) { return einsum(a.text("equation"), in); });
  t["tensordot"] = one([](Inputs in, const Arguments& a) {
    return a.has("axes_a") ? tensordot(in[0], in[1], a.axes("axes_a"), a.axes("axes_b"))
                           : tensordot(in[0], in[1], a.axis("axes", 2));
  });
  t["addmv"] = one(
      [](Inputs in, const Arguments& a) { return addmv(in[0], in[1], in[2], a.real("beta", 1), a.real("alpha", 1)); });
  t["addmm"] = one(
      [](Inputs in, const Arguments& a) { return addmm(in[0], in[1], in[2], a.real("beta", 1), a.real("alpha", 1)); });
  t["baddbmm"] = one([](Inputs in, const Arguments& a) {
    return baddbmm(in[0], in[1], in[2], a.real("beta", 1), a.real("alpha", 1));
  });
  t["linear"] = one(
      [](Inputs in, const Arguments&) { return in.size() == 3 ? linear(in[0], in[1], in[2]) : linear(in[0], in[1]); });
  t["bilinear"] = one([](Inputs in, const Arguments&) {
    return in.size() == 4 ? bilinear(in[0], in[1], in[2], in[3]) : bilinear(in[0], in[1], in[2]);
  });
  t["cross"] = one([](Inputs in, const Arguments& a) { return cross(in[0], in[1], a.axis("axis")); });
  t["matrix_power"] = one([](Inputs in, const Arguments& a) { return matrix_power(in[0], a.integer("n")); });
  t["multi_dot"] = one([](Inputs in, const Arguments&) { return multi_dot(in); });
  t["cdist"] = one([](Inputs in, const Arguments& a) { return cdist(in[0], in[1], power(a)); });
  t["pairwise_distance"] = one([](Inputs in, const Arguments& a) {
    return pairwise_distance(in[0], in[1], power(a), a.real("epsilon", 1e-6), a.flag("keepdim"));
  });
  t["cosine_similarity"] = one([](Inputs in, const Arguments& a) {
    return cosine_similarity(in[0], in[1], a.axis("axis", 1), a.real("epsilon", 1e-8));
  });
  t["normalize"] = one([](Inputs in, const Arguments& a) {
    return normalize(in[0], power(a), a.axis("axis", 1), a.real("epsilon", 1e-12));
  });
}

}  // namespace heddle::tests
