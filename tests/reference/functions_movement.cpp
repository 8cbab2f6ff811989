#include "heddle/core/device/context.h"
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

std::vector<std::pair<int64_t, int64_t>> pairs(const Arguments& a, const std::string& key) {
  return a.raw(key).get<std::vector<std::pair<int64_t, int64_t>>>();
}

}  // namespace

void add_movement(Functions& t) {
  t["reshape"] = one([](Inputs in, const Arguments& a) { return reshape(in[0], a.integers("shape")); });
  t["permute"] = one([](Inputs in, const Arguments& a) { return permute(in[0], a.axes("order")); });
  t["transpose"] =
      one([](Inputs in, const Arguments& a) { return transpose(in[0], a.axis("axis0", -2), a.axis("axis1", -1)); });
  t["expand"] = one([](Inputs in, const Arguments& a) {
    const std::vector<int64_t> shape = a.integers("shape");
    return expand(in[0], Shape(shape));
  });
  t["squeeze"] = one([](Inputs in, const Arguments& a) { return squeeze(in[0], a.maybe_axis("axis")); });
  t["unsqueeze"] = one([](Inputs in, const Arguments& a) { return unsqueeze(in[0], a.axis("axis")); });
  t["slice"] = one([](Inputs in, const Arguments& a) {
    return slice(in[0], a.axis("axis"),
                 {.start = a.maybe_integer("start"), .stop = a.maybe_integer("stop"), .step = a.integer("step", 1)});
  });
  t["flip"] = one([](Inputs in, const Arguments& a) { return flip(in[0], a.axes("axes")); });
  t["pad"] = one([](Inputs in, const Arguments& a) { return pad(in[0], pairs(a, "amounts"), a.real("value")); });
  t["concat"] = one([](Inputs in, const Arguments& a) { return concat(in, a.axis("axis")); });
  t["split"] = [](Inputs in, const Arguments& a) { return split(in[0], a.integers("sizes"), a.axis("axis")); };
  t["take"] = one([](Inputs in, const Arguments& a) { return take(in[0], in[1], a.axis("axis", 0)); });
  t["gather"] = one([](Inputs in, const Arguments& a) { return gather(in[0], a.axis("axis"), in[1]); });
  t["embedding"] = one([](Inputs in, const Arguments&) { return embedding(in[0], in[1]); });
  t["one_hot"] = one([](Inputs in, const Arguments& a) { return one_hot(in[0], a.integer("classes")); });
  t["scatter_add"] =
      one([](Inputs in, const Arguments& a) { return scatter_add(in[0], a.axis("axis"), in[1], in[2]); });
  t["index_add"] = one([](Inputs in, const Arguments&) { return index_add(in[0], in[1], in[2]); });
  t["eye"] = one([](Inputs in, const Arguments&) { return eye(4, 6, in[0].dtype(), &in[0].device()) * in[0]; });
  t["matmul"] = one([](Inputs in, const Arguments&) { return matmul(in[0], in[1]); });
}

}  // namespace heddle::tests
