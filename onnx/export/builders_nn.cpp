// Builders of rows.inc: products, convolutions, norms, pools, attention.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "heddle/core/op/attrs.h"
#include "heddle/onnx/export/rows.h"

namespace heddle::onnx::write {
namespace {

// A matrix product broadcasts all but the last two axes.
Given operand(RowCall& c, size_t i) {
  const Given& given = c.lazy(i);
  const Sizes& shape = c.in(i).shape;
  const size_t rank = given.shape.size();
  const bool whole =
      rank >= 2 && given.shape[rank - 1] == shape.back() && given.shape[rank - 2] == shape[shape.size() - 2];
  return whole ? given : Given{c.full(i), shape};
}

ConvAttrs attributes_of(const RowCall& c) { return ConvAttrs(Attrs{c.numbers(), 0, 0}); }

std::vector<int64_t> channels_first_order(int rank, bool back) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (back)
    std::rotate(order.begin() + 1, order.begin() + 2, order.end());
  else
    std::rotate(order.begin() + 1, order.end() - 1, order.end());
  return order;
}

// Sizes of the spatial axes.
std::vector<Size> spatial(const Sizes& shape, bool last) {
  return last ? Sizes(shape.begin() + 1, shape.end() - 1) : Sizes(shape.begin() + 2, shape.end());
}

// Both directions: a convolution of images, or the one that leads back.
void convolution(RowCall& c, bool transposed) {
  const ConvAttrs a = attributes_of(c);
  const int rank = a.rank() + 2;
  const Sizes kernel(c.in(1).shape.begin() + 2, c.in(1).shape.end());
  const Sizes in = spatial(c.in(0).shape, a.channels_last), out = spatial(c.vertex.shape, a.channels_last);
  std::vector<int64_t> before = a.padding, after, more;
  for (size_t d = 0; d < a.padding.size(); ++d) {
    const Size reach = (kernel[d] - 1) * a.dilation[d] + 1;
    const Size &large = transposed ? out[d] : in[d], &small = transposed ? in[d] : out[d];
    const Size rest = (small - 1) * a.stride[d] + reach - large - a.padding[d];
    if (!rest.fixed()) return c.lacks("a convolution over a size that varies");
    after.push_back(std::max<int64_t>(rest.number(), 0));
    more.push_back(std::max<int64_t>(-rest.number(), 0));
  }
  std::vector<int64_t> pads = before;
  pads.insert(pads.end(), after.begin(), after.end());
  std::map<std::string, Attribute> attributes{{"dilations", {a.dilation}},
                                              {"group", {a.groups}},
                                              {"kernel_shape", {numbers_of(kernel)}},
                                              {"pads", {pads}},
                                              {"strides", {a.stride}}};
  if (transposed && std::ranges::any_of(more, [](int64_t m) { return m > 0; })) attributes["output_padding"] = {more};
  std::string x = c.full(0);
  if (a.channels_last) x = c.node("Transpose", {x}, {{"perm", {channels_first_order(rank, false)}}});
  std::vector<std::string> inputs{x, c.full(1)};
  if (c.given(2)) inputs.push_back(c.full(2));
  std::string y = c.node(transposed ? "ConvTranspose" : "Conv", std::move(inputs), std::move(attributes));
  if (a.channels_last) y = c.node("Transpose", {y}, {{"perm", {channels_first_order(rank, true)}}});
  c.out(y);
}

// The parameter, or the number that stands for none, a value for each channel.
std::string parameter(RowCall& c, size_t i, const Sizes& shape, double otherwise) {
  if (c.given(i)) return c.full(i);
  return c.writer.full(c.level, {c.writer.number(otherwise, c.vertex.dtype), {}}, shape);
}

}  // namespace

void matmul(RowCall& c) {
  const Given a = operand(c, 0), b = operand(c, 1);
  const Sizes batch_a(a.shape.begin(), a.shape.end() - 2), batch_b(b.shape.begin(), b.shape.end() - 2);
  Sizes shape = broadcast_sizes({&batch_a, &batch_b});
  shape.insert(shape.end(), c.vertex.shape.end() - 2, c.vertex.shape.end());
  c.out(Given{c.node("MatMul", {a.name, b.name}), shape});
}

// x (..., in), weight (out, in), bias (out).
void linear(RowCall& c) {
  if (c.rank(0) == 2) return c.out(c.node("Gemm", {c.full(0), c.full(1), c.full(2)}, {{"transB", {int64_t{1}}}}));
  const std::string weight = c.node("Transpose", {c.full(1)}, {{"perm", {std::vector<int64_t>{1, 0}}}});
  c.out(c.node("Add", {c.node("MatMul", {c.full(0), weight}), c.full(2)}));
}

void conv(RowCall& c) { convolution(c, false); }
void conv_transpose(RowCall& c) { convolution(c, true); }

void layer_norm(RowCall& c) {
  const Sizes& shape = c.vertex.shape;
  const auto first = static_cast<size_t>(c.axis());
  const Sizes part(shape.begin() + static_cast<ptrdiff_t>(first), shape.end());
  std::vector<std::string> inputs{c.full(0), parameter(c, 1, part, 1)};
  if (c.given(2)) inputs.push_back(c.full(2));
  c.out(c.node("LayerNormalization", std::move(inputs), {{"axis", {int64_t{c.axis()}}}, {"epsilon", {c.vertex.real}}}));
}

void batch_norm(RowCall& c) {
  const Sizes channels{c.vertex.shape[1]};
  c.out(c.node("BatchNormalization",
               {c.full(0), parameter(c, 1, channels, 1), parameter(c, 2, channels, 0), c.full(3), c.full(4)},
               {{"epsilon", {c.vertex.real}}}));
}

void group_norm(RowCall& c) {
  const Sizes channels{c.vertex.shape[1]};
  c.out(c.node("GroupNormalization", {c.full(0), parameter(c, 1, channels, 1), parameter(c, 2, channels, 0)},
               {{"epsilon", {c.vertex.real}}, {"num_groups", {c.vertex.ints[0].number()}}}));
}

namespace {

// Of each side: kernel, stride, padding, what is needed behind, dilation.
std::map<std::string, Attribute> windows(const RowCall& c, bool& plain) {
  const std::vector<int64_t> numbers = c.numbers();
  std::vector<int64_t> kernel, stride, before, after, dilation;
  for (size_t i = 0; i < numbers.size(); i += 5) {
    kernel.push_back(numbers[i]);
    stride.push_back(numbers[i + 1]);
    before.push_back(numbers[i + 2]);
    after.push_back(std::max(numbers[i + 2], numbers[i + 3]));
    dilation.push_back(numbers[i + 4]);
  }
  plain = before == after;
  before.insert(before.end(), after.begin(), after.end());
  std::map<std::string, Attribute> attributes{{"kernel_shape", {kernel}}, {"pads", {before}}, {"strides", {stride}}};
  if (std::ranges::any_of(dilation, [](int64_t d) { return d != 1; })) attributes["dilations"] = {dilation};
  return attributes;
}

void average(RowCall& c, bool padding) {
  bool plain = true;
  std::map<std::string, Attribute> attributes = windows(c, plain);
  if (!plain) return c.lacks("a mean over windows that reach over the end");
  if (padding) attributes["count_include_pad"] = {int64_t{1}};
  c.out(c.node("AveragePool", {c.full(0)}, std::move(attributes)));
}

}  // namespace

void max_pool(RowCall& c) {
  bool plain = true;
  c.out(c.node("MaxPool", {c.full(0)}, windows(c, plain)));
}
void average_pool(RowCall& c) { average(c, false); }
void average_pool_with_padding(RowCall& c) { average(c, true); }

// softmax(q k^T / sqrt(D)) v, of q (B, H, M, D), k (B, H, N, D), v (B, H, N, E); the third parameter after these is a
// bias or a mask of the keys (B, N). A query that may see no key gives 0.
void attention(RowCall& c) {
  const bool causal = c.vertex.ints[0].number() != 0, bias = c.given(3), mask = c.given(4);
  std::string scores =
      "MatMul(Mul(x, Reciprocal(Sqrt(CastLike(Shape(x, start=3), x)))), Transpose(y, perm=[0, 1, 3, 2]))";
  if (bias) scores = fmt::format("Add({}, u)", scores);
  if (causal) scores = fmt::format("Where(Greater(n, Unsqueeze(n, [1])), -inf, {})", scores);
  if (mask) scores = fmt::format("Where(Unsqueeze(u, [1, 2]), {}, -inf)", scores);
  std::string text = causal ? "n = Range(#0, Squeeze(Shape(x, start=2, end=3), [0]), #1); " : "";
  // A row that is hidden as a whole has no maximum to subtract.
  if (mask || bias)
    text += fmt::format("p = Softmax({}, axis=-1); MatMul(Where(IsNaN(p), 0, p), z)", scores);
  else
    text += fmt::format("MatMul(Softmax({}, axis=-1), z)", scores);
  std::vector<std::string> inputs{c.full(0), c.full(1), c.full(2)};
  if (bias || mask) inputs.push_back(c.full(bias ? 3 : 4));
  const std::string name = fmt::format("attention{}{}", causal ? "_causal" : "", bias ? "_bias" : mask ? "_mask" : "");
  c.out(c.writer.expression(c.level, name, parse_expression(text), inputs, c.vertex.dtype, false));
}

}  // namespace heddle::onnx::write
