// Writes through indices that combine.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

ScatterReduction scatter_reduction(const Arguments& a) {
  const std::string name = a.text("how");
  return name == "prod"   ? ScatterReduction::prod
         : name == "mean" ? ScatterReduction::mean
         : name == "amax" ? ScatterReduction::amax
         : name == "amin" ? ScatterReduction::amin
                          : ScatterReduction::sum;
}

}  // namespace

void add_scatter(Functions& t) {
  t["scatter_reduce"] = one([](Inputs in, const Arguments& a) {
    return scatter_reduce(in[0], a.axis("axis"), in[1], in[2], scatter_reduction(a), a.flag("include_self", true));
  });
  t["index_reduce"] = one([](Inputs in, const Arguments& a) {
    return index_reduce(in[0], a.axis("axis"), in[1], in[2], scatter_reduction(a), a.flag("include_self", true));
  });
  t["index_add"] = one([](Inputs in, const Arguments& a) {
    return a.has("axis") ? index_add(in[0], a.axis("axis"), in[1], in[2], a.real("alpha", 1))
                         : index_add(in[0], in[1], in[2]);
  });
  t["index_copy"] = one([](Inputs in, const Arguments& a) { return index_copy(in[0], a.axis("axis"), in[1], in[2]); });
  t["masked_scatter"] = one([](Inputs in, const Arguments&) { return masked_scatter(in[0], in[1], in[2]); });
}

}  // namespace heddle::tests
