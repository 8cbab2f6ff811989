// What models with the names of other libraries share: modules that only name their parts, and attention over a joined
// projection.
//
// Invariants: modules are handles (nn/module.h). Errors: those of the functions. Thread safety: none.
#pragma once

#include <string>

#include "heddle/core/functions/functions.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

// "attn.c_attn" is a child of the child "attn", which computes nothing.
class Parts : public Module {
 public:
  explicit Parts(std::string kind) : Module(std::move(kind)) {}
  using Module::add;
  using Module::add_parameter;
};

// A joined projection's queries, keys and values, (B, heads, T, D) each, and what attention made of them back to (B, T,
// heads * D).
struct Heads {
  Tensor queries, keys, values;
};
Heads split_heads(const Tensor& joined, int64_t heads);
Tensor join_heads(const Tensor& mixed);

// Queries, keys and values side by side (B, T, 3 * C), each of `heads` heads side by side -> (B, T, C).
Tensor self_attention(const Tensor& joined, int64_t heads, const AttentionOptions& how);

}  // namespace heddle::nn
