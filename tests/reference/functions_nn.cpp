#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

ConvOptions convolution(const Arguments& a) {
  ConvOptions how;
  if (a.has("stride")) how.stride = a.integers("stride");
  if (a.has("padding")) how.padding = a.integers("padding");
  if (a.has("dilation")) how.dilation = a.integers("dilation");
  if (a.has("output_padding")) how.output_padding = a.integers("output_padding");
  how.groups = a.integer("groups", 1);
  return how;
}

template <class F>
Function conv(F f) {
  return one([f](Inputs in, const Arguments& a) { return f(in[0], in[1], in[2], convolution(a)); });
}

template <class F>
Function loss(F f) {
  return one([f](Inputs in, const Arguments& a) { return f(in[0], in[1], reduction(a)); });
}

}  // namespace

void add_nn(Functions& t) {
  t["softmax"] = one([](Inputs in, const Arguments& a) { return softmax(in[0], a.axis("axis")); });
  t["log_softmax"] = one([](Inputs in, const Arguments& a) { return log_softmax(in[0], a.axis("axis")); });
  t["scaled_dot_product_attention"] = one([](Inputs in, const Arguments& a) {
    AttentionOptions how;
    how.causal = a.flag("causal");
    how.scale = a.maybe_real("scale");
    return scaled_dot_product_attention(in[0], in[1], in[2], how);
  });
  t["cross_entropy"] = loss([](auto&&... a) { return cross_entropy(a...); });
  t["nll_loss"] = loss([](auto&&... a) { return nll_loss(a...); });
  t["mse_loss"] = loss([](auto&&... a) { return mse_loss(a...); });
  t["l1_loss"] = loss([](auto&&... a) { return l1_loss(a...); });
  t["bce_with_logits"] = loss([](auto&&... a) { return bce_with_logits(a...); });
  t["kl_div"] = loss([](auto&&... a) { return kl_div(a...); });
  t["huber_loss"] =
      one([](Inputs in, const Arguments& a) { return huber_loss(in[0], in[1], a.real("delta", 1), reduction(a)); });
  t["conv1d"] = conv([](auto&&... a) { return conv1d(a...); });
  t["conv2d"] = conv([](auto&&... a) { return conv2d(a...); });
  t["conv3d"] = conv([](auto&&... a) { return conv3d(a...); });
  t["conv_transpose1d"] = conv([](auto&&... a) { return conv_transpose1d(a...); });
  t["conv_transpose2d"] = conv([](auto&&... a) { return conv_transpose2d(a...); });
  t["conv_transpose3d"] = conv([](auto&&... a) { return conv_transpose3d(a...); });
}

}  // namespace heddle::tests
