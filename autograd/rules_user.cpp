// Derivatives of users' kernels (core/functions/user/user_kernel.h): what the definition says.
#include <fmt/format.h>

#include <unordered_set>

#include "heddle/autograd/batching.h"
#include "heddle/autograd/record.h"
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/user/user_definition.h"

namespace heddle::autograd {
namespace {

using Tensors = std::vector<Tensor>;

Tensors zeros_for(std::span<const Tensor> like) {
  Tensors made;
  for (const Tensor& x : like) made.push_back(zeros_like(x));
  return made;
}

// What a rule gave, checked against what it belongs to.
void check(const UserDefinition& definition, const char* which, const Tensors& given, std::span<const Tensor> like,
           const char* of) {
  if (given.size() != like.size()) {
    throw GradError(
        fmt::format("[{}] its {} gave {} tensors; it must give one for each of the {} {}s (an undefined one is zero)",
                    definition.name, which, given.size(), like.size(), of));
  }
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined() || !is_float(like[i].dtype())) continue;
    if (given[i].shape() == like[i].shape() && given[i].dtype() == like[i].dtype()) continue;
    throw GradError(fmt::format("[{}] its {} gave {} {} for {} {}, which is {} {}; both must be the same",
                                definition.name, which, given[i].shape().str(), name_of(given[i].dtype()), of, i,
                                like[i].shape().str(), name_of(like[i].dtype())));
  }
}

Tensors run_vjp(const UserDefinition& definition, const UserCall& call) {
  const Tensors given = definition.vjp(call);
  check(definition, "vjp", given, call.inputs, "input");
  return given;
}

Tensors run_jvp(const UserDefinition& definition, const UserCall& call) {
  const Tensors given = definition.jvp(call);
  check(definition, "jvp", given, call.outputs, "output");
  return given;
}

// Outputs of a call and what arrives at each. The node of an elementwise kernel is one of them.
UserCall call_of(const RuleCall& call, const UserRow& user) {
  const UserDefinition& definition = *user.definition;
  UserCall made;
  made.inputs = call.in;
  std::vector<NodePtr> inputs;
  std::vector<TensorType> types;
  for (const Tensor& x : call.in) {
    inputs.push_back(x.node());
    types.push_back({x.shape(), x.dtype()});
  }
  if (definition.is_body()) {
    const std::vector<TensorType> parts = user_outputs(definition, types);
    made.outputs = split_flat(call.out, parts);
    made.cotangents = split_flat(call.g, parts);
    return made;
  }
  if (definition.rows.size() > 1) made.outputs = record_user(definition, inputs, call.node.shape);
  made.outputs.resize(definition.rows.size());
  made.outputs[user.output] = call.out;
  made.cotangents = zeros_for(made.outputs);
  made.cotangents[user.output] = call.g;
  return made;
}

// A forward rule transposed. Of one element only the same element of each input counts, so its factor is the tangent's.
void transpose_element(RuleCall& call, const UserRow& user, UserCall made) {
  for (size_t i = 0; i < call.in.size(); ++i) {
    if (!call.wants(i)) continue;
    made.tangents = zeros_for(made.inputs);
    made.tangents[i] = cast(call.g, call.in[i].dtype());
    const Tensor pushed = run_jvp(*user.definition, made)[user.output];
    if (pushed.defined()) call.result[i] = cast(pushed, call.in[i].dtype());
  }
}

void transpose_body(RuleCall& call, const UserRow& user, UserCall made) {
  Tensors outputs;
  {
    const GradMode on(true);
    for (const Tensor& x : made.inputs)
      made.tangents.push_back(is_float(x.dtype()) ? zero_stand_in(*x.node()) : zeros_like(x));
    outputs = run_jvp(*user.definition, made);
  }
  Tensors defined, cotangents;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) continue;
    defined.push_back(outputs[i]);
    cotangents.push_back(made.cotangents[i]);
  }
  if (defined.empty()) return;
  std::unordered_set<const Node*> stops;
  for (const Tensors* list : {&made.inputs, &made.outputs, &made.tangents}) {
    for (const Tensor& x : *list) stops.insert(x.node().get());
  }
  const Tensors pulled = vjp_until(defined, made.tangents, cotangents, std::move(stops));
  for (size_t i = 0; i < pulled.size(); ++i) {
    if (call.wants(i)) call.result[i] = pulled[i];
  }
}

void user_gradient(RuleCall& call) {
  const UserRow& user = *as_user(*call.node.op);
  const UserDefinition& definition = *user.definition;
  if (!definition.vjp && !definition.jvp) {
    throw GradError(fmt::format(
        "[{}] no gradient was given for this kernel: give a vjp or a jvp in its definition, or use stop_gradient()",
        definition.name));
  }
  const UserCall made = call_of(call, user);
  if (!definition.vjp)
    return definition.is_body() ? transpose_body(call, user, made) : transpose_element(call, user, made);
  const Tensors pulled = run_vjp(definition, made);
  for (size_t i = 0; i < pulled.size(); ++i) {
    if (call.wants(i)) call.result[i] = pulled[i];
  }
}

}  // namespace

const GradientRow& user_gradient_row() {
  static const GradientRow row{user_gradient, {}};
  return row;
}

Tensor user_body_batched(const BatchCall& call) {
  const UserDefinition& definition = *as_user(*call.node.op)->definition;
  if (!definition.body.vmap) {
    throw ValueError(fmt::format(
        "[vmap] the kernel '{}' has no batching rule: give one in its definition (vmap), or loop over the examples",
        definition.name));
  }
  std::vector<TensorType> types;
  for (size_t i = 0; i < call.in.size(); ++i) types.push_back({call.example(i), call.in[i].dtype()});
  const std::vector<TensorType> parts = user_outputs(definition, types);
  const Tensors given = definition.body.vmap(call.in, call.mapped, call.size);
  Tensors flat;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape wanted = call.with_axis(parts[i].shape);
    if (i >= given.size() || !given[i].defined() || given[i].shape() != wanted || given[i].dtype() != parts[i].dtype) {
      throw ValueError(fmt::format("[vmap] the rule of '{}' must give {} {} as result {}", definition.name,
                                   wanted.str(), name_of(parts[i].dtype), i));
    }
    flat.push_back(reshape(given[i], {call.size, parts[i].shape.numel()}));
  }
  return reshape(flat.size() == 1 ? flat[0] : concat(flat, 1), call.shape());
}

}  // namespace heddle::autograd
