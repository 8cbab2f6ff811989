// Summary: what a network is made of and what a call of it costs, read off the graph that the call records. Nothing is
// computed.
//
//   std::cout << nn::summarize(model, zeros({1, 3, 224, 224})).str();
//
// Purpose: one row for each module, in the order of registration: the shape of its result, its parameters, the
// operations of its own functions, and the bytes of its result and of what the gradient will read. A module's numbers
// leave out those of its parts; totals are sums of the rows.
//   forward     operations: 2 for each multiply and add of matrix products, convolutions and attention (a causal one
//   counted whole), as PyTorch's FlopCounterMode; other functions count nothing backward    those of the gradients that
//   the recorded graph has: as many again for each operand that a gradient flows into; of attention five products for
//   its two, because its gradient
//               computes the weights again
//   bytes       of the results that the module's own functions compute
//   kept        bytes of what its functions compute that the gradient of the parameters reads, before the planner has
//   any of it computed again (`heddle plan` shows what is left)
// Invariants: parameters and buffers are as before, as is the default generator. Parameters that several modules share
// count for the first one. Errors: those of the module. Thread safety: as the module.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/device/context.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct SummaryRow {
  std::string path, kind;  // "layer1.0.conv1", "Conv2d"; the network itself has the path ""
  Shape output;            // of its last call
  int64_t calls = 0;       // 0: the module was not called, as such that only name their parts
  int64_t parameters = 0;
  double flops = 0, backward_flops = 0;
  uint64_t output_bytes = 0, kept_bytes = 0;
};

struct Summary {
  std::vector<SummaryRow> rows;
  int64_t parameters = 0, trained = 0;  // trained: of those, the ones that collect a gradient
  uint64_t parameter_bytes = 0;
  double flops = 0, backward_flops = 0;
  uint64_t output_bytes = 0, kept_bytes = 0;
  std::string str() const;  // a table; rows without numbers of their own are left out
};

// `forward` calls the module and gives its result.
Summary summarize(Module& module, const Callable<Tensor()>& forward);
Summary summarize(Module& module, const Tensor& input);

// A null device without limits, on which networks of any size can be made under an init::SkipScope; it outlives what
// lies on it.
std::unique_ptr<DeviceContext> blank_device();

}  // namespace heddle::nn
