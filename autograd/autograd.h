// Reverse-mode derivatives as a transform of the graph.
//
// Purpose: backward() fills the gradients of leaves, grad() returns gradients, vjp() is the transform under both. Each
// rule answers with nodes, so a gradient is an ordinary pending tensor: it fuses with the forward pass, and with
// create_graph it can be differentiated again, to any order.
// Invariants: only nodes on a path from an output to an input are visited, in an iterative topological order (no stack
// limit); a node's rule runs once, when the sum of its cotangents is complete and after its hooks; only wanted
// cotangents are made; the order of the sums is fixed by the graph, so that two runs agree bit for bit. Without
// create_graph, nothing made here tracks. What a rule records is marked with the place of the operation it is the
// gradient of. Errors: GradError; the text names the call, the tensor or op, and the likely cause. Thread safety: a
// graph is differentiated by the thread that recorded it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct OpDef;

// Gradients of `loss` for every leaf with requires_grad below it, added to Tensor::grad() until zero_grad() clears it.
// `cotangent` (same shape and dtype as loss) may be left out for a loss with one element. With create_graph the
// gradients themselves can be differentiated.
void backward(const Tensor& loss, const Tensor& cotangent = {}, bool create_graph = false,
              Caller caller = Caller::current());

// sum over k of cotangents[k] . d outputs[k] / d inputs[i], for each i; Tensor::grad() stays as it is. Inputs may be
// leaves or intermediate tensors. An input that no output depends on is a GradError, or with allow_unused an undefined
// Tensor; an input without elements gets a gradient without elements. cotangents may be empty when every output has one
// element; single ones may be undefined under the same condition.
std::vector<Tensor> grad(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                         std::span<const Tensor> cotangents = {}, bool create_graph = false, bool allow_unused = false,
                         Caller caller = Caller::current());
// One output, some inputs: grad(loss, {w, b}).
std::vector<Tensor> grad(const Tensor& output, std::span<const Tensor> inputs, const Tensor& cotangent = {},
                         bool create_graph = false, bool allow_unused = false, Caller caller = Caller::current());
inline std::vector<Tensor> grad(const Tensor& output, std::initializer_list<Tensor> inputs,
                                const Tensor& cotangent = {}, bool create_graph = false, bool allow_unused = false,
                                Caller caller = Caller::current()) {
  return grad(output, std::span<const Tensor>(inputs.begin(), inputs.size()), cotangent, create_graph, allow_unused,
              caller);
}
// One output, one input: grad(loss, w).
Tensor grad(const Tensor& output, const Tensor& input, const Tensor& cotangent = {}, bool create_graph = false,
            Caller caller = Caller::current());

// The bare transform: cotangents of `inputs`, undefined where there is no path. `cotangents` are all defined and fit
// their outputs. Records the backward nodes under the thread's present grad mode.
std::vector<Tensor> vjp(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                        std::span<const Tensor> cotangents, Caller caller = Caller::current());

// "yes", or the reason why this op has no gradient. What `heddle ops` shows.
std::string gradient_status(const OpDef& op);

}  // namespace heddle
