// The op cases of what networks are made of: products, random bits, attention, losses, convolutions.
#include <fmt/format.h>

#include <functional>

#include "checks/op_case_table.h"
#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/linalg/packed.h"

namespace heddle::checks {

// ---- matrix products

void add_matmul(Table& table) {
  const auto add = [&table](std::string_view form, InputSpec a, InputSpec b) {
    table.add("matmul", form, {std::move(a), std::move(b)}, [](In t) { return matmul(t[0], t[1]); });
  };
  const std::array<int64_t, 3> sizes[] = {{1, 1, 1},   {7, 5, 3},   {33, 17, 65}, {1, 129, 33},
                                          {129, 1, 7}, {65, 31, 1}, {64, 64, 64}, {130, 70, 90},
                                          {0, 4, 5},   {4, 0, 5},   {4, 5, 0}};
  for (const auto& [m, n, k] : sizes) add("", x({m, k}), x({k, n}));
  const Layout layouts[] = {Layout::transposed, Layout::strided, Layout::flipped, Layout::offset, Layout::expanded};
  for (Layout layout : layouts) {
    add("", x({33, 17}, DType::f32, layout), x({17, 9}));
    add("", x({33, 17}), x({17, 9}, DType::f32, layout));
  }
  add("both transposed", x({33, 17}, DType::f32, Layout::transposed), x({17, 9}, DType::f32, Layout::transposed));
  add("vectors", x({17}), x({17}));
  add("vector matrix", x({17}), x({17, 9}));
  add("matrix vector", x({9, 17}), x({17}));
  add("vector batch", x({5}), x({3, 5, 4}));
  add("batch vector", x({3, 4, 5}), x({5}));
  add("batches", x({3, 9, 5}), x({3, 5, 7}));
  add("broadcast batches", x({2, 1, 9, 5}), x({3, 5, 7}));
  add("shared matrix", x({3, 9, 5}), x({5, 7}));
  add("integers", whole({9, 33}, -9, 9), whole({33, 7}, -9, 9));
  add("wrapping u8", whole({9, 33}, 0, 255, DType::u8), whole({33, 7}, 0, 255, DType::u8));
  add("i64", whole({5, 6}, -9, 9, DType::i64), whole({6, 7}, -9, 9, DType::i64));
  add("half", x({17, 33}, DType::f16), x({33, 9}, DType::f16));
  add("bfloat", x({17, 33}, DType::bf16), x({33, 9}, DType::bf16));
  add("mixed", x({17, 33}, DType::bf16), x({33, 9}));
  add("double", x({17, 33}, DType::f64), x({33, 9}, DType::f64));
  table.add("matmul", "transposed views", {x({9, 5}), x({7, 5})}, [](In t) { return matmul(t[0], transpose(t[1])); });
  // Blocks of Q8_0 with a scale of 2^-6 in front of drawn bytes.
  const auto blocks = [](const Tensor& drawn) {
    const Shape scale = drawn.shape().with(2, 1);
    const auto byte = [&](double value) { return full(scale, value, DType::u8, &drawn.device()); };
    return reshape(concat({byte(0), byte(0x24), drawn}, 2), {drawn.dim(0), 34 * drawn.dim(1)});
  };
  const InputSpec drawn = whole({7, 2, 32}, 0, 255, DType::u8);
  table.add("unpack_blocks", "", {drawn}, [blocks](In t) { return unpack_blocks(blocks(t[0]), GgmlType::q8_0); })
      .differentiable = false;
  for (const int64_t rows : {1, 3, 20}) {
    table.add("matmul_packed", "", {x({rows, 64}), drawn},
              [blocks](In t) { return matmul_packed(t[0], blocks(t[1]), GgmlType::q8_0); });
    table.add("matmul_packed_input_grad", "", {x({rows, 7}), drawn},
              [blocks](In t) { return packed::input_grad(t[0], blocks(t[1]), GgmlType::q8_0); });
  }
  table.add("matmul", "chain", {x({9, 5}), x({5, 7}), x({7, 3})},
            [](In t) { return matmul(matmul(t[0], t[1]), t[2]); });
}

// ---- random: one generator a case, so that every run draws the same

void add_random(Table& table) {
  const auto add = [&table](std::string_view op, std::string_view form,
                            std::function<Tensor(DeviceContext*, Generator*)> f) {
    table.add_on(op, form, {}, [f](DeviceContext& device, In) {
      Generator g{0x123456789abcdefull, 5};
      return f(&device, &g);
    });
  };
  add("uniform", "", [](DeviceContext* d, Generator* g) { return uniform({33, 7}, 0, 1, d, g); });
  add("uniform", "in a range", [](DeviceContext* d, Generator* g) { return uniform({1000}, -3, 5, d, g); });
  add("uniform", "one", [](DeviceContext* d, Generator* g) { return uniform({}, 0, 1, d, g); });
  add("uniform", "two draws", [](DeviceContext* d, Generator* g) {
    const Tensor first = uniform({129}, 0, 1, d, g);
    return first - uniform({129}, 0, 1, d, g);
  });
  add("random_uniform", "empty", [](DeviceContext* d, Generator* g) { return uniform({0, 3}, 0, 1, d, g); });
  add("normal", "", [](DeviceContext* d, Generator* g) { return normal({33, 7}, 1, 2, d, g); });
  add("bernoulli", "", [](DeviceContext* d, Generator* g) { return bernoulli({1000}, 0.3, d, g); });
  for (double p : {0.0, 0.25, 1.0}) {
    table.add("dropout", fmt::format("{}", p), {x({33, 7})}, [p](In t) {
      Generator g{77, 0};
      return dropout(t[0], p, true, &g);
    });
  }
  table.add("dropout", "not training", {x({33, 7})}, [](In t) { return dropout(t[0], 0.5, false); });
}

// ---- attention

namespace {

// The gradient of input `which` for a cotangent that differs from element to element.
Tensor attention_gradient(In t, size_t which, const AttentionOptions& options) {
  std::vector<Tensor> in;
  for (size_t i = 0; i < 3; ++i) in.push_back(stop_gradient(t[i]));
  AttentionOptions o = options;
  if (o.bias.defined()) in.push_back(o.bias = stop_gradient(o.bias));
  in[which].set_requires_grad();
  if (which == 3) o.bias = in[3];
  const Tensor y = scaled_dot_product_attention(in[0], in[1], in[2], o);
  return grad(sum(y * (y + 1)), in[which]);
}

}  // namespace

void add_attention(Table& table) {
  const auto add = [&table](std::string_view op, std::string_view form, std::vector<InputSpec> in,
                            std::function<Tensor(In)> f) -> OpCase& {
    return table.add(op, form, std::move(in), std::move(f));
  };
  AttentionOptions causal;
  causal.causal = true;
  const std::vector<InputSpec> grouped{x({2, 4, 5, 6}), x({2, 2, 9, 6}), x({2, 2, 9, 7})};
  add("attention", "", {x({1, 2, 7, 5}), x({1, 2, 11, 5}), x({1, 2, 11, 3})},
      [](In t) { return scaled_dot_product_attention(t[0], t[1], t[2]); });
  add("attention", "causal", grouped,
      [causal](In t) { return scaled_dot_product_attention(t[0], t[1], t[2], causal); });
  add("attention", "biased, strided",
      {x({2, 2, 5, 4}, DType::f32, Layout::transposed), x({2, 1, 6, 4}, DType::f32, Layout::strided),
       x({2, 1, 6, 4}, DType::f32, Layout::flipped), x({2, 1, 6})},
      [](In t) {
        AttentionOptions o;
        o.bias = t[3];
        return scaled_dot_product_attention(t[0], t[1], t[2], o);
      });
  add("attention", "half", {x({1, 2, 9, 8}, DType::f16), x({1, 2, 9, 8}, DType::f16), x({1, 2, 9, 8}, DType::f16)},
      [causal](In t) { return scaled_dot_product_attention(t[0], t[1], t[2], causal); });
  add("attention", "no queries", {x({1, 2, 0, 5}), x({1, 2, 3, 5}), x({1, 2, 3, 5})},
      [](In t) { return scaled_dot_product_attention(t[0], t[1], t[2]); });
  add("attention", "no keys", {x({1, 2, 3, 5}), x({1, 2, 0, 5}), x({1, 2, 0, 5})},
      [](In t) { return scaled_dot_product_attention(t[0], t[1], t[2]); });
  add("attention_query_gradient", "", grouped, [causal](In t) {
    return attention_gradient(t, 0, causal);
  }).differentiable = false;
  add("attention_key_gradient", "", grouped, [causal](In t) {
    return attention_gradient(t, 1, causal);
  }).differentiable = false;
  add("attention_key_gradient", "of values", grouped, [causal](In t) {
    return attention_gradient(t, 2, causal);
  }).differentiable = false;
  std::vector<InputSpec> biased = grouped;
  biased.push_back(x({4, 1, 9}));
  add("attention_bias_gradient", "", biased, [causal](In t) {
    AttentionOptions o = causal;
    o.bias = t[3];
    return attention_gradient(t, 3, o);
  }).differentiable = false;
}

// ---- softmax and losses

void add_losses(Table& table) {
  const std::pair<std::string_view, Tensor (*)(const Tensor&, int, Caller)> rows[] = {{"softmax", &softmax},
                                                                                      {"log_softmax", &log_softmax}};
  for (const auto& row : rows) {
    const auto add = [&table, op = row.first, f = row.second](std::string_view form, InputSpec in,
                                                              int axis) -> OpCase& {
      return table.add(op, form, {std::move(in)}, [f, axis](In t) { return f(t[0], axis, Caller::current()); });
    };
    add("", range({33, 65}, -9, 9), -1);
    add("first axis", range({33, 9}, -9, 9), 0);
    add("middle axis", range({3, 9, 5}, -9, 9), 1);
    add("one element", x({5, 1}), 1);
    add("large values", range({5, 17}, 9000, 9090), 1);
    add("half", range({5, 17}, -9, 9, DType::f16), 1);
    add("double", range({5, 17}, -9, 9, DType::f64), 1);
    add("empty", x({0, 5}), 1);
    add("empty axis", x({5, 0}), 1);
    add("transposed", x({7, 33}, DType::f32, Layout::transposed), 1);
    add("specials", special({3, 7}), 1).differentiable = false;
  }
  const Reduction reductions[] = {Reduction::mean, Reduction::sum, Reduction::none};
  const std::string_view names[] = {"mean", "sum", "none"};
  for (size_t i = 0; i < 3; ++i) {
    const Reduction r = reductions[i];
    table.add("cross_entropy", names[i], {range({33, 10}, -5, 5), whole({33}, 0, 9)},
              [r](In t) { return cross_entropy(t[0], t[1], r); });
    table.add("nll_loss", names[i], {range({33, 10}, -5, 0), whole({33}, 0, 9, DType::i64)},
              [r](In t) { return nll_loss(t[0], t[1], r); });
    table.add("mse_loss", names[i], {x({7, 9}), x({7, 9})}, [r](In t) { return mse_loss(t[0], t[1], r); });
    table.add("l1_loss", names[i], {x({7, 9}), x({7, 9})}, [r](In t) { return l1_loss(t[0], t[1], r); });
    table.add("bce_with_logits", names[i], {range({7, 9}, -60, 60), range({7, 9}, 0, 1)},
              [r](In t) { return bce_with_logits(t[0], t[1], r); });
    table.add("huber_loss", names[i], {x({7, 9}), x({7, 9})}, [r](In t) { return huber_loss(t[0], t[1], 0.7, r); });
    table.add("kl_div", names[i], {range({7, 9}, -3, 0), range({7, 9}, 0.01, 1)},
              [r](In t) { return kl_div(t[0], t[1], r); });
  }
  table.add("cross_entropy", "half logits", {range({33, 10}, -5, 5, DType::f16), whole({33}, 0, 9)},
            [](In t) { return cross_entropy(t[0], t[1]); });
  table.add("cross_entropy", "large logits", {range({9, 1000}, -900, 900), whole({9}, 0, 999)},
            [](In t) { return cross_entropy(t[0], t[1]); });
  table.add("kl_div", "with zeros", {range({7, 9}, -3, 0), whole({7, 9}, 0, 1)},
            [](In t) { return kl_div(t[0], t[1]); });
}

// Each shape of kernel is a kernel of its own to compile: few cases, many options in each.
void add_conv(Table& table) {
  const auto with_bias = [](In t, const ConvOptions& o) { return relu(conv2d(t[0], t[1], t[2], o)); };
  const ConvOptions strided{{2, 1}, {1, 0, 2, 1}, {1, 2}, 1, ConvLayout::channels_first, {}};
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    OpCase& c = table.add("conv", "2d strided, padded, dilated, bias and relu",
                          {x({2, 5, 9, 11}, t), x({19, 5, 3, 3}, t), x({19}, t)},
                          [=](In in) { return with_bias(in, strided); });
    c.extra = t == DType::bf16;
  }
  const ConvOptions grouped{{2}, {1}, {}, 3, ConvLayout::channels_first, {}};
  table.add("conv", "1d grouped",
            {x({2, 6, 21}, DType::f32, Layout::strided), x({9, 2, 4}, DType::f32, Layout::transposed)},
            [=](In t) { return conv1d(t[0], t[1], grouped); });
  table.add("conv", "3d", {x({2, 3, 4, 5, 6}, DType::f32, Layout::offset), x({4, 3, 2, 3, 3})}, [](In t) {
    return conv3d(t[0], t[1], {{1, 2, 1}, {0, 1, 1}, {}, 1, {}, {}});
  });
  const ConvOptions last{{2}, {1}, {}, 1, ConvLayout::channels_last, {}};
  table.add("conv", "2d channels last", {x({2, 8, 7, 6}, DType::f32, Layout::flipped), x({20, 6, 3, 3}), x({20})},
            [=](In t) { return relu(conv2d(t[0], t[1], t[2], last)); });
  table.add("conv", "depthwise", {x({2, 7, 9, 18}), x({7, 1, 3, 3})}, [](In t) {
    return conv2d(t[0], t[1], {{}, {1}, {}, 7, {}, {}});
  });
  table.add("conv", "pointwise", {x({3, 20, 5, 7}), x({33, 20, 1, 1})}, [](In t) { return conv2d(t[0], t[1]); });
  const ConvOptions tall{{2, 1}, {2, 0}, {}, 1, {}, {}};
  table.add("conv", "along the height", {x({2, 5, 33, 1}), x({9, 5, 5, 1}), x({9})},
            [=](In t) { return relu(conv2d(t[0], t[1], t[2], tall)); });
  table.add("conv_input_grad", "along the height", {x({2, 9, 17, 1}), x({9, 5, 5, 1})},
            [=](In t) { return conv_transpose2d(t[0], t[1], tall); });
  table.add("conv", "few pixels", {x({1, 21, 1, 7}), x({37, 21, 1, 3}), x({37})}, [](In t) {
    return relu(conv2d(t[0], t[1], t[2], {{1, 2}, {0, 1}, {}, 1, {}, {}}));
  });
  // Sums of hundreds of products, scaled to size 1.
  const Shape images{4, 64, 12, 13};
  table.add("conv", "3x3 of many channels", {x(images), x({64, 64, 3, 3}), x({64})}, [](In t) {
    return relu(conv2d(t[0] * 0.25f, t[1] * 0.25f, t[2], {{}, {1}, {}, 1, {}, {}}));
  });
  table.add("conv", "pointwise strided", {x({3, 20, 9, 8}), x({33, 20, 1, 1})}, [](In t) {
    return conv2d(t[0], t[1], {{2}, {}, {}, 1, {}, {}});
  });
  table.add("conv_input_grad", "3x3 of many channels", {x(images), x({64, 64, 3, 3})}, [](In t) {
    return conv_transpose2d(t[0] * 0.25f, t[1] * 0.25f, {{}, {1}, {}, 1, {}, {}});
  });
  table.add("conv_input_grad", "pointwise strided", {x({3, 20, 5, 7}), x({20, 17, 1, 1})}, [](In t) {
    return conv_transpose2d(t[0], t[1], {{2}, {}, {}, 1, {}, {1}});
  });
  table.add("conv_input_grad", "depthwise", {x({2, 7, 9, 18}), x({7, 1, 3, 4}, DType::f32, Layout::transposed)},
            [](In t) {
              return conv_transpose2d(t[0], t[1], {{}, {1, 2}, {1, 2}, 7, {}, {}});
            });
  table.add("conv_input_grad", "depthwise strided", {x({2, 7, 5, 21}), x({7, 1, 3, 3}), x({7})}, [](In t) {
    return relu(conv_transpose2d(t[0], t[1], t[2], {{2}, {1}, {}, 7, {}, {1}}));
  });
  table.add("conv", "no images", {x({0, 3, 5, 5}), x({4, 3, 3, 3})}, [](In t) { return conv2d(t[0], t[1]); });
  table.add("conv", "one pixel", {x({1, 3, 1, 1}), x({4, 3, 3, 3})}, [](In t) {
    return conv2d(t[0], t[1], {{}, {1}, {}, 1, {}, {}});
  });
  table.add("conv_input_grad", "2d strided, output padding", {x({2, 6, 5, 4}), x({6, 9, 3, 3}), x({9})}, [](In t) {
    return tanh(conv_transpose2d(t[0], t[1], t[2], {{2}, {1}, {}, 1, {}, {1}}));
  });
  table.add("conv_input_grad", "1d grouped, channels last", {x({2, 9, 6}), x({6, 4, 5})}, [](In t) {
    return conv_transpose1d(t[0], t[1], {{3}, {2}, {2}, 2, ConvLayout::channels_last, {}});
  });
  table.add("conv_input_grad", "3d", {x({1, 3, 3, 4, 5}), x({3, 2, 2, 3, 2})}, [](In t) {
    return conv_transpose3d(t[0], t[1], {{1, 2, 2}, {}, {}, 1, {}, {}});
  });
  const auto weight_grad = [](In t, const Shape& w, ConvOptions o) {  // strides, padding and dilation spelled out
    Attrs attrs;
    attrs.ints = {o.layout == ConvLayout::channels_last, o.groups};
    for (const auto* list : {&o.stride, &o.dilation, &o.padding})
      attrs.ints.insert(attrs.ints.end(), list->begin(), list->end());
    return conv::weight_grad(t[0], t[1], attrs, w);
  };
  for (DType t : {DType::f32, DType::f16}) {
    table.add("conv_weight_grad", "2d", {x({4, 5, 17, 18}, t), x({4, 20, 9, 16}, t)}, [=](In in) {
      return 0.5 * weight_grad(in, {20, 5, 3, 3}, {{2, 1}, {1, 0}, {1, 1}, 1, {}, {}});
    });
  }
  table.add("conv_weight_grad", "3x3 of many channels", {x(images), x({4, 64, 12, 13})}, [=](In t) {
    return 0.0625f * weight_grad(t, {64, 64, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 1, {}, {}});
  });
  table.add("conv_weight_grad", "1d grouped", {x({3, 6, 30}), x({3, 4, 28})}, [=](In t) {
    return weight_grad(t, {4, 3, 5}, {{1}, {1}, {1}, 2, {}, {}});
  });
  table.add("conv_weight_grad", "depthwise, channels last", {x({2, 9, 9, 5}), x({2, 9, 9, 5})}, [=](In t) {
    return weight_grad(t, {5, 1, 3, 3}, {{1, 1}, {1, 1}, {1, 1}, 5, ConvLayout::channels_last, {}});
  });
  table.add("conv_weight_grad", "no images", {x({0, 3, 5, 5}), x({0, 4, 3, 3})}, [=](In t) {
    return weight_grad(t, {4, 3, 3, 3}, {{1, 1}, {0, 0}, {1, 1}, 1, {}, {}});
  });
}

}  // namespace heddle::checks
