// Collectives as ops of recorded programs: values, gradients, second derivatives, forward mode and vmap against what
// they are by hand over the values of all ranks in one list; on devices with kernels values and gradients of some.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/device/context.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/shard_map.h"
#include "tests/distributed/ranks_by_hand.h"
#include "tests/support/devices.h"

namespace heddle::distributed {
namespace {

using test::by_groups;
using test::drawn;
using test::List;
using test::Names;
using test::stacked;

struct OpCase {
  std::string name;
  std::function<Tensor(const Tensor& x, const Names& axes)> op;
  std::function<Tensor(const List& group, int64_t place)> by_hand;
};

const std::vector<OpCase>& cases() {
  static const std::vector<OpCase> all = {
      {"psum", [](const Tensor& x, const Names& a) { return psum(x, a); },
       [](const List& group, int64_t) { return test::total(group); }},
      {"pmean", [](const Tensor& x, const Names& a) { return pmean(x, a); },
       [](const List& group, int64_t) { return test::total(group) / static_cast<double>(group.size()); }},
      {"pmax", [](const Tensor& x, const Names& a) { return pmax(x, a); },
       [](const List& group, int64_t) { return test::largest(group); }},
      {"pmin", [](const Tensor& x, const Names& a) { return pmin(x, a); },
       [](const List& group, int64_t) {
         List negative;
         for (const Tensor& x : group) negative.push_back(-x);
         return -test::largest(negative);
       }},
      {"all_gather", [](const Tensor& x, const Names& a) { return all_gather(x, a, 1); },
       [](const List& group, int64_t) { return concat(group, 1); }},
      {"reduce_scatter", [](const Tensor& x, const Names& a) { return reduce_scatter(x, a, -1); },
       [](const List& group, int64_t place) {
         return test::part_of(test::total(group), 1, place, static_cast<int64_t>(group.size()));
       }},
      {"all_to_all", [](const Tensor& x, const Names& a) { return all_to_all(x, a, 1, 0); },
       [](const List& group, int64_t place) {
         List parts;
         for (const Tensor& x : group) parts.push_back(test::part_of(x, 1, place, static_cast<int64_t>(group.size())));
         return concat(parts, 0);
       }},
      {"ppermute",  // place 0 gets none
       [](const Tensor& x, const Names& a) {
         std::vector<std::pair<int64_t, int64_t>> pairs;
         for (int64_t i = 1; i < axis_size(a); ++i) pairs.emplace_back(i - 1, i);
         return ppermute(x, a, pairs);
       },
       [](const List& group, int64_t place) {
         return place == 0 ? zeros_like(group[0]) : group[static_cast<size_t>(place - 1)];
       }},
  };
  return all;
}

// (device, axes): the mesh is dp=2,tp=2.
struct Along {
  std::string device;
  Names axes;
};

void PrintTo(const Along& along, std::ostream* out) { *out << along.device; }

class CollectiveOps : public testing::TestWithParam<Along> {
 protected:
  const Mesh mesh{{{"dp", 2}, {"tp", 2}}, 4};
  const Names everywhere{"dp", "tp"};
  DeviceContext& device() const { return heddle::device(GetParam().device); }
  bool exact() const { return GetParam().device == "reference:0"; }
  DType dtype() const { return exact() ? DType::f64 : DType::f32; }

  void expect_same(const Tensor& got, const Tensor& expected, const std::string& what) const {
    ASSERT_EQ(got.shape(), expected.shape()) << what;
    const std::vector<double> a = got.to_doubles(), b = expected.to_doubles();
    for (size_t i = 0; i < a.size(); ++i)
      ASSERT_NEAR(a[i], b[i], (exact() ? 1e-12 : 2e-5) * (1 + std::abs(b[i]))) << what << " at " << i;
  }
};

// f over each rank's value and weight; results by rank.
TEST_P(CollectiveOps, ValuesAndDerivativesAreThoseByHand) {
  const Names& axes = GetParam().axes;
  DeviceContext& reference = heddle::device("reference:0");
  const Shape shape{3, 4};
  List x, v, batch;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    x.push_back(drawn(shape, 10 + rank, DType::f64, reference));
    v.push_back(drawn(shape, 20 + rank, DType::f64, reference));
    batch.push_back(drawn(Shape{2, 3, 4}, 30 + rank, DType::f64, reference));
  }
  const auto here = [&](const List& of_ranks) { return cast(stacked(of_ranks), dtype()).to(device()); };
  for (const OpCase& c : cases()) {
    if (!exact() && c.name != "reduce_scatter" && c.name != "ppermute") continue;  // the others: shard_map_test.cpp
    SCOPED_TRACE(c.name);
    // Of all ranks together: what each gets, and a loss that is not linear.
    const auto by_hand = [&](const List& of_ranks) { return by_groups(mesh, axes, of_ranks, c.by_hand); };
    const auto weight = [&](const Tensor& like, uint32_t rank) {
      return drawn(like.shape(), 40 + rank, DType::f64, reference);
    };
    const auto loss_by_hand = [&](const List& of_ranks) {
      List cubes, terms;
      for (const Tensor& t : of_ranks) cubes.push_back(t * t * t);
      const List y = by_hand(cubes);
      for (size_t r = 0; r < y.size(); ++r) terms.push_back(sum(weight(y[r], static_cast<uint32_t>(r)) * y[r] * y[r]));
      return test::total(terms);
    };
    const List y = by_hand(x);
    List weights;
    for (size_t r = 0; r < y.size(); ++r) weights.push_back(weight(y[r], static_cast<uint32_t>(r)));

    const Spec per_rank{{everywhere}};
    const auto program = [&](const List& in) {
      const Tensor mine = squeeze(in[0], 0), direction = squeeze(in[1], 0), examples = squeeze(in[2], 0),
                   w = squeeze(in[3], 0);
      const auto op = [&](const Tensor& t) { return c.op(t, axes); };
      const auto loss = [&](const Tensor& t) {
        const Tensor r = op(t * t * t);
        return psum(sum(w * r * r), everywhere);
      };
      List out{op(mine), loss(mine), grad(loss)(mine)};
      if (exact()) {
        out.push_back(hvp(loss, mine, direction));
        out.push_back(jvp(op, mine, direction).second);
        out.push_back(vmap(op)(examples));
        out.push_back(vmap(grad(loss))(examples));
      }
      for (Tensor& t : out) t = unsqueeze(t, 0);
      return out;
    };
    const List got =
        shard_map(program, mesh, std::vector<Spec>(4, per_rank),
                  std::vector<Spec>(exact() ? 7 : 3, per_rank))({here(x), here(v), here(batch), here(weights)});

    expect_same(got[0], stacked(y), "value");
    for (int rank = 0; rank < 4; ++rank)
      expect_same(select(got[1], 0, rank), loss_by_hand(x), "loss of rank " + std::to_string(rank));
    expect_same(got[2], stacked(grad(loss_by_hand)(x)), "gradient");
    if (!exact()) continue;
    expect_same(got[3], stacked(hvp(loss_by_hand, x, v)), "second derivative");
    expect_same(got[4], stacked(jvp(by_hand, x, v).second), "forward mode");
    for (int e = 0; e < 2; ++e) {
      List example;
      for (const Tensor& t : batch) example.push_back(select(t, 0, e));
      expect_same(select(got[5], 1, e), stacked(by_hand(example)), "vmap");
      expect_same(select(got[6], 1, e), stacked(grad(loss_by_hand)(example)), "gradient under vmap");
    }
  }
}

std::vector<Along> alongs() {
  std::vector<Along> all;
  for (const Names& axes : std::vector<Names>{{"tp"}, {"dp"}, {"dp", "tp"}}) all.push_back({"reference:0", axes});
  for (const std::string& id : heddle::test::kernel_devices()) all.push_back({id, {"tp"}});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Devices, CollectiveOps, testing::ValuesIn(alongs()), [](const auto& at) {
  std::string name = at.param.device;
  for (const std::string& axis : at.param.axes) name += "_" + axis;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace heddle::distributed
