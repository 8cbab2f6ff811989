// Arrangement, positions of sequences, bags, unpooling.
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

BagMode bag_mode(const Arguments& a) {
  const std::string name = a.text("mode", "mean");
  return name == "sum" ? BagMode::sum : name == "max" ? BagMode::max : BagMode::mean;
}

PoolOptions pool(const Arguments& a) {
  PoolOptions how;
  if (a.has("stride")) how.stride = {a.integer("stride")};
  if (a.has("padding")) how.padding = {a.integer("padding")};
  return how;
}

template <class U>
Function unpool(U up) {
  return one([up](Inputs in, const Arguments& a) {
    return up(in[0], in[1], std::vector<int64_t>{a.integer("kernel")}, pool(a), a.integers("size"));
  });
}

}  // namespace

void add_arrange(Functions& t) {
  t["select"] = one([](Inputs in, const Arguments& a) { return select(in[0], a.axis("axis"), a.integer("index")); });
  t["narrow"] = one([](Inputs in, const Arguments& a) {
    return narrow(in[0], a.axis("axis"), a.integer("start"), a.integer("length"));
  });
  t["tensor_split"] = [](Inputs in, const Arguments& a) {
    return a.raw("parts").is_array() ? tensor_split(in[0], a.integers("parts"), a.axis("axis", 0))
                                     : tensor_split(in[0], a.integer("parts"), a.axis("axis", 0));
  };
  t["column_stack"] = one([](Inputs in, const Arguments&) { return column_stack(in); });
  t["block_diag"] = one([](Inputs in, const Arguments&) { return block_diag(in); });
  t["cartesian_prod"] = one([](Inputs in, const Arguments&) { return cartesian_prod(in); });
  t["vander"] =
      one([](Inputs in, const Arguments& a) { return vander(in[0], a.integer("columns", -1), a.flag("increasing")); });
  t["cumulative_trapezoid"] =
      one([](Inputs in, const Arguments& a) { return cumulative_trapezoid(in[0], a.real("dx", 1), a.axis("axis")); });
  t["dist"] = one([](Inputs in, const Arguments& a) { return dist(in[0], in[1], a.real("p", 2)); });
  t["msort"] = one([](Inputs in, const Arguments&) { return msort(in[0]); });
  t["nanmedian"] = [](Inputs in, const Arguments& a) {
    const Ordered m = nanmedian(in[0], a.axis("axis"), a.flag("keepdim"));
    return std::vector<Tensor>{m.values, m.indices};
  };
  t["mode"] = [](Inputs in, const Arguments& a) {
    const Ordered m = mode(in[0], a.axis("axis"), a.flag("keepdim"));
    return std::vector<Tensor>{m.values, m.indices};
  };
  t["combinations"] = one([](Inputs in, const Arguments& a) {
    return combinations(in[0], a.integer("count", 2), a.flag("with_replacement"));
  });
  t["unique_consecutive"] = [](Inputs in, const Arguments&) {
    const Unique u = unique_consecutive(in[0]);
    return std::vector<Tensor>{u.values, u.inverse, u.counts};
  };
  t["rotary_embedding"] = one([](Inputs in, const Arguments& a) {
    RotaryOptions how{.base = a.real("base", 10000),
                      .positions = {},
                      .interleaved = a.flag("interleaved"),
                      .dims = a.integer("dims")};
    if (in.size() > 1) how.positions = in[1];
    return rotary_embedding(in[0], how);
  });
  t["embedding_bag"] = one([plain = t.at("embedding_bag")](Inputs in, const Arguments& a) {
    if (in.size() == 2) return plain(in, a)[0];
    return embedding_bag(in[0], in[1], in[2], bag_mode(a), in.size() > 3 ? in[3] : Tensor());
  });
#define HEDDLE_ADD(rank) t["max_unpool" #rank "d"] = unpool([](auto&&... a) { return max_unpool##rank##d(a...); })
  HEDDLE_ADD(1);
  HEDDLE_ADD(2);
  HEDDLE_ADD(3);
#undef HEDDLE_ADD
  t["lp_pool3d"] =
      one([](Inputs in, const Arguments& a) { return lp_pool3d(in[0], a.real("p"), {a.integer("kernel")}, pool(a)); });
  t["rrelu"] = one([](Inputs in, const Arguments&) { return rrelu(in[0]); });
}

}  // namespace heddle::tests
