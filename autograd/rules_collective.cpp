#include <utility>
#include <vector>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/collective.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

AxisMask along(const RuleCall& call) { return CollectiveAttrs(call.node.attrs).axes; }

void permuted_back(RuleCall& call) {
  const CollectiveAttrs attrs(call.node.attrs);
  std::vector<std::pair<int64_t, int64_t>> back;
  for (const auto& [from, to] : attrs.pairs) back.emplace_back(to, from);
  call.result[0] = collective::ppermute(call.g, attrs.axes, back);
}

// To the extremes; where several ranks have one they share it evenly, as elements along an axis do.
void extreme_of_ranks(RuleCall& call) {
  const AxisMask axes = along(call);
  const Tensor chosen = cast(eq(call.in[0], collective::pvary(call.out, axes)), call.g.dtype());
  const Tensor share = chosen / collective::pvary(collective::psum(chosen, axes), axes);
  call.result[0] = collective::pvary(call.g, axes) * share;
}

}  // namespace

void add_collective_rules(RuleTable& table) {
  table[&ops::psum_op].rule = [](RuleCall& call) { call.result[0] = collective::pvary(call.g, along(call)); };
  table[&ops::pvary_op].rule = [](RuleCall& call) { call.result[0] = collective::psum(call.g, along(call)); };
  table[&ops::all_gather_op].rule = [](RuleCall& call) {
    call.result[0] = collective::reduce_scatter(call.g, along(call));
  };
  table[&ops::reduce_scatter_op].rule = [](RuleCall& call) {
    call.result[0] = collective::all_gather(call.g, along(call));
  };
  table[&ops::all_to_all_op].rule = [](RuleCall& call) {
    call.result[0] = collective::all_to_all(call.g, along(call));
  };
  table[&ops::ppermute_op].rule = permuted_back;
  table[&ops::pmax_op].rule = extreme_of_ranks;
  table[&ops::pmin_op].rule = extreme_of_ranks;
}

}  // namespace heddle::autograd
