// Batching rules of collectives: one message for all examples.
#include "heddle/autograd/batching.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/collective.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

AxisMask along(const BatchCall& call) { return CollectiveAttrs(call.attrs()).axes; }

// The first two axes in the other order: examples and parts.
Tensor turned(const Tensor& x) { return transpose(x, 0, 1); }

Tensor element_by_element(const BatchCall& call) { return call.record({call.in[0]}, call.attrs(), call.shape()); }

}  // namespace

void add_collective_batching(BatchTable& table) {
  for (const OpDef* op : {&ops::psum_op, &ops::pmax_op, &ops::pmin_op, &ops::ppermute_op, &ops::pvary_op})
    table[op].rule = element_by_element;
  table[&ops::all_gather_op].rule = [](const BatchCall& call) {
    return turned(collective::all_gather(call.in[0], along(call)));
  };
  table[&ops::reduce_scatter_op].rule = [](const BatchCall& call) {
    return collective::reduce_scatter(turned(call.in[0]), along(call));
  };
  table[&ops::all_to_all_op].rule = [](const BatchCall& call) {
    return turned(collective::all_to_all(turned(call.in[0]), along(call)));
  };
}

}  // namespace heddle::autograd
