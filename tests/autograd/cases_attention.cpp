// Attention in its forms: small, for finite differences to second order, and for the comparison of devices.
#include <functional>

#include "tests/autograd/cases.h"

namespace heddle::tests {
namespace {

using Options = std::function<AttentionOptions(Inputs)>;

GradientCase attention(std::string name, std::vector<Shape> shapes, Options options) {
  return {"attention " + std::move(name), std::move(shapes), [options = std::move(options)](Inputs in) {
            return scaled_dot_product_attention(in[0], in[1], in[2], options(in));
          }};
}

Tensor mask(Inputs in, const std::vector<int32_t>& values, const Shape& shape) {
  return Tensor::from_vector(values, shape, &in[0].device()) != 0;
}

}  // namespace

std::vector<GradientCase> attention_cases() {
  std::vector<GradientCase> t;
  t.push_back(
      attention("plain", {{2, 2, 5, 3}, {2, 2, 7, 3}, {2, 2, 7, 4}}, [](Inputs) { return AttentionOptions{}; }));
  t.push_back(attention("causal", {{1, 2, 6, 5}, {1, 2, 6, 5}, {1, 2, 6, 5}}, [](Inputs) {
    AttentionOptions o;
    o.causal = true;
    o.scale = 0.7;
    return o;
  }));
  t.push_back(attention("causal grouped", {{2, 4, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}}, [](Inputs) {
    AttentionOptions o;
    o.causal = true;
    return o;
  }));
  t.push_back(attention("queries without keys", {{1, 2, 6, 2}, {1, 1, 4, 2}, {1, 1, 4, 3}}, [](Inputs) {
    AttentionOptions o;
    o.causal = true;
    return o;
  }));
  t.push_back(attention("mask and bias of heads", {{2, 2, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}, {2, 3, 5}}, [](Inputs in) {
    AttentionOptions o;
    o.bias = in[3];
    o.key_mask = mask(in, {1, 1, 0, 1, 0, 0, 1, 1, 1, 1}, {2, 5});
    return o;
  }));
  t.push_back(attention("lengths and bias of keys", {{2, 2, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}, {5}}, [](Inputs in) {
    AttentionOptions o;
    o.bias = in[3];
    o.key_lengths = Tensor::from_vector(std::vector<int32_t>{5, 2}, {2}, &in[0].device());
    return o;
  }));
  t.push_back(
      attention("bias of batch and queries", {{2, 2, 3, 2}, {2, 2, 5, 2}, {2, 2, 5, 2}, {2, 1, 3, 1}}, [](Inputs in) {
        AttentionOptions o;
        o.bias = in[3];
        return o;
      }));
  t.push_back(attention("dropout", {{1, 2, 3, 2}, {1, 2, 5, 2}, {1, 2, 5, 2}, {3, 5}}, [](Inputs in) {
    static Generator generator;
    generator = {7, 0};
    AttentionOptions o;
    o.bias = in[3];
    o.dropout = 0.4;
    o.generator = &generator;
    return o;
  }));
  t.push_back({"attention of one projection", {{2, 4, 3, 2, 3}}, [](Inputs in) {
                 const Tensor x = permute(in[0], {2, 0, 3, 1, 4});  // (3, B, H, T, D)
                 const auto piece = [&](int64_t i) { return squeeze(slice(x, 0, {i, i + 1}), 0); };
                 AttentionOptions o;
                 o.causal = true;
                 const Tensor y = scaled_dot_product_attention(piece(0), piece(1), piece(2), o);
                 return reshape(permute(y, {0, 2, 1, 3}), Shape{2, 4, 6});
               }});
  return t;
}

}  // namespace heddle::tests
