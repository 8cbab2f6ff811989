// Builders of heddle.inc.
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {

#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  void row_##name(Call& c) { c.out(heddle::name(c.tensor(0))); }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  void row_##name(Call& c) { c.out(heddle::name(c.tensor(0), c.tensor(1))); }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

namespace {

void attend(Call& c, const AttentionOptions& options) {
  c.out(scaled_dot_product_attention(c.tensor(0), c.tensor(1), c.tensor(2), options), c.type(0));
}

}  // namespace

void own_attention(Call& c) { attend(c, {}); }
void attention_causal(Call& c) {
  AttentionOptions options;
  options.causal = true;
  attend(c, options);
}
void attention_bias(Call& c) {
  AttentionOptions options;
  options.bias = c.tensor(3);
  attend(c, options);
}
void attention_causal_bias(Call& c) {
  AttentionOptions options;
  options.causal = true;
  options.bias = c.tensor(3);
  attend(c, options);
}
void attention_mask(Call& c) {
  AttentionOptions options;
  options.key_mask = c.tensor(3);
  attend(c, options);
}

}  // namespace heddle::onnx::build
