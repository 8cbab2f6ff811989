// ONNX export, row by row: each against the function itself, as functions of the file and without them.
#include <set>
#include <string_view>

#include "heddle/core/functions/nn/norms.h"
#include "heddle/core/op/op.h"
#include "heddle/onnx/export/expression.h"
#include "heddle/onnx/export/rows.h"
#include "tests/onnx/export_case.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

// Rows that no op of ONNX, and no few of them, compute.
const std::set<std::string_view>& without_op() {
  static const std::set<std::string_view> names = {"erfinv", "lgamma", "shift_left", "shift_right"};
  return names;
}

TEST_F(OnnxExport, EveryElementwiseRowIsWritten) {
  for (const OpDef* op : all_ops()) {
    if (op->kind != OpKind::elementwise) continue;
    const bool whole = op->rule == DTypeRule::whole, logical = op->rule == DTypeRule::logical;
    const DType t = whole ? DType::i32 : logical ? DType::boolean : DType::f32;
    EXPECT_EQ(onnx::find_export_row(op->name, false, 21, t) == nullptr, without_op().count(op->name) != 0)
        << op->name << ": a line in onnx/export/rows.inc, or its name here";
  }
  for (const onnx::ExportRow& row : onnx::export_rows()) {
    if (row.expression) EXPECT_FALSE(onnx::parse_expression(row.expression).empty()) << row.name;
  }
}

TEST_F(OnnxExport, ElementwiseRows) {
  const auto skipped = [&](std::string_view name) {
    return without_op().count(name) != 0 || name.starts_with("bitwise");
  };
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc)      \
  if (!skipped(#name)) {                                                  \
    SCOPED_TRACE(#name);                                                  \
    expect_same([](const Tensor& x) { return heddle::name(x); }, {2, 5}); \
  }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc)                         \
  if (!skipped(#name)) {                                                                      \
    SCOPED_TRACE(#name);                                                                      \
    const DType t = std::string_view(#rule) == "whole" ? DType::i32 : DType::f32;             \
    expect_same(                                                                              \
        [&](const Tensor& x) {                                                                \
          return heddle::name(x, slice(flip(x, {0}), 0, {0, 1}) + (t == DType::i32 ? 1 : 0)); \
        },                                                                                    \
        {2, 5}, t);                                                                           \
  }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
}

TEST_F(OnnxExport, RowsOfWholeNumbersAndBool) {
  const Shape shape{2, 3};
  expect_same([](const Tensor& x) { return mod(x - 3, 4) + integer_quotient(x - 3, 2); }, shape, DType::i32);
  expect_same([](const Tensor& x) { return relu(-abs(x)) * sign(x); }, shape, DType::i64);
  expect_same([](const Tensor& x) { return cast(x > 2, DType::i64) + cast(x != 3, DType::i64); }, shape, DType::i32);
  expect_same([](const Tensor& x) { return cast((x > 2) > (x < 5), DType::f32); }, shape, DType::i32);
  expect_same([](const Tensor& x) { return where(x > 3, x, -1); }, shape, DType::i32);
  const ExportFunction bits = [](const std::vector<Tensor>& x) {
    return std::vector{bitwise_and(x[0], 5) + bitwise_or(x[0], 2), bitwise_xor(bitwise_not(x[0]), 1)};
  };
  const std::vector<ExportInput> inputs{{"x", DType::i32, sizes({2, 3})}};
  expect_error<ValueError>([&] { exported(bits, inputs, {}); }, {"opset 17", "bitwise_and (1 node)"});
  const std::vector<Tensor> found = exported(bits, inputs, {.opset = 18}).call({random(shape, DType::i32)});
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i].to_bytes(), bits({random(shape, DType::i32)})[i].to_bytes());
}

TEST_F(OnnxExport, Movement) {
  const Shape shape{3, 4, 5};
  expect_same([](const Tensor& x) { return reshape(permute(x, {2, 0, 1}), {5, 12}); }, shape);
  expect_same([](const Tensor& x) { return x[Slice{}][Slice{1, 4, 2}] + slice(x, 2, {0, 1}) * 2; }, shape);
  expect_same([](const Tensor& x) { return flip(slice(x, 2, {-1, {}, -2}), {0, 1}); }, shape);
  expect_same([](const Tensor& x) { return pad(x, {{1, 0}, {0, 2}}, 3); }, shape);
  expect_same([](const Tensor& x) { return concat({x, x * 2, slice(x, 1, {0, 2})}, 1); }, shape);
  expect_same([](const Tensor& x) { return expand(slice(x, 0, {0, 1}), {6, 4, 5}); }, shape);
  expect_same(
      [](const Tensor& x) {
        return unsqueeze(x, 1) + arange(0, 4, 1, DType::f32, &x.device()).reshape({4, 1});
      },
      shape);
  expect_same([](const Tensor& x) { return full({2, 3}, 4, DType::f32, &x.device()); }, shape);
}

TEST_F(OnnxExport, ReductionsAndOrder) {
  const Shape shape{3, 4, 5};
  expect_same([](const Tensor& x) { return sum(x, {0, 2}); }, shape);
  expect_same([](const Tensor& x) { return prod(x, {1}, true); }, shape);
  expect_same([](const Tensor& x) { return max(x, {1}) - min(x, {1}); }, shape);
  expect_same([](const Tensor& x) { return mean(x); }, shape);
  expect_same([](const Tensor& x) { return var(x, {1}) + logsumexp(x, {1}); }, shape);
  expect_same([](const Tensor& x) { return argmax(x, 1) * 10 + argmin(x, 1); }, shape);
  expect_same([](const Tensor& x) { return topk(x, 2).indices; }, shape);
  expect_same([](const Tensor& x) { return cumsum(x, 1, true, true); }, shape);
  expect_same([](const Tensor& x) { return softmax(x, 1) + log_softmax(x, 2); }, shape);
  expect_same([](const Tensor& x) { return sum(x, {0}); }, shape, DType::i32);
}

TEST_F(OnnxExport, Indices) {
  const Shape shape{3, 4};
  const Tensor rows = Tensor::from_vector(std::vector<int32_t>{2, 0, -1, 1}, {2, 2}, &host());
  expect_same([&](const Tensor& x) { return take(x, rows, 0); }, shape);
  expect_same([&](const Tensor& x) { return gather(x, 1, rows); }, shape);
  const Tensor targets = Tensor::from_vector(std::vector<int32_t>{2, 0, 1}, {3}, &host());
  expect_same([&](const Tensor& x) { return cross_entropy(x, targets); }, shape);
}

TEST_F(OnnxExport, Products) {
  const Tensor w = random({5, 6}), b = random({6}), batch = random({2, 1, 5, 4});
  expect_same([&](const Tensor& x) { return matmul(x, w) + b; }, {3, 4, 5});
  expect_same([&](const Tensor& x) { return matmul(x, batch); }, {3, 4, 5});
  expect_same([&](const Tensor& x) { return linear(x, transpose(w), b); }, {4, 5});
  expect_same([&](const Tensor& x) { return matmul(x, slice(w, 1, {0, 1}).reshape({5})); }, {4, 5});
}

TEST_F(OnnxExport, ConvolutionsAndPools) {
  const Tensor w = random({4, 2, 3, 3}), b = random({4}), depth = random({4, 1, 3, 3}), back = random({4, 2, 3, 3});
  const Shape shape{2, 4, 9, 8};
  expect_same(
      [&](const Tensor& x) {
        return conv2d(x, w, b, {.stride = {2}, .padding = {1, 0, 2, 1}, .groups = 2});
      },
      shape);
  expect_same([&](const Tensor& x) { return conv2d(x, depth, {}, {.dilation = {2}, .groups = 4}); }, shape);
  expect_same(
      [&](const Tensor& x) {
        return conv_transpose2d(x, back, {}, {.stride = {2}, .padding = {1}, .output_padding = {1}});
      },
      shape);
  expect_same(
      [&](const Tensor& x) {
        return conv2d(permute(x, {0, 2, 3, 1}), depth, b, {.groups = 4, .layout = ConvLayout::channels_last});
      },
      shape);
  expect_same([](const Tensor& x) { return max_pool2d(x, {3}, {.stride = {2}, .padding = {1}}); }, shape);
  expect_same([](const Tensor& x) { return max_pool2d(x, {2}, {.ceil = true}); }, shape);
  expect_same([](const Tensor& x) { return avg_pool2d(x, {2}); }, shape);
  expect_same(
      [](const Tensor& x) { return avg_pool2d(x, {3}, {.stride = {2}, .padding = {1}, .count_padding = true}); },
      shape);
  expect_same(
      [](const Tensor& x) { return avg_pool2d(x, {3}, {.stride = {2}, .padding = {1}, .count_padding = false}); },
      shape);
  expect_same([](const Tensor& x) { return adaptive_avg_pool2d(x, {1}); }, shape);
  expect_same([](const Tensor& x) { return interpolate(x, {.scale = {2}, .mode = Interpolation::linear}); }, shape);
}

TEST_F(OnnxExport, Norms) {
  const Tensor w = random({4}), b = random({4}), mean_of = random({4}), var_of = abs(random({4}));
  eval({w, b, mean_of, var_of});
  const Shape shape{2, 4, 3, 4};
  expect_same([&](const Tensor& x) { return layer_norm(x, {4}, w, b) + layer_norm(x, {3, 4}); }, shape);
  expect_same([&](const Tensor& x) { return group_norm(x, 2, w, b) + group_norm(x, 4); }, shape);
  expect_same([&](const Tensor& x) { return batch_norm(x, mean_of, var_of, w, b, false); }, shape);
  expect_same([&](const Tensor& x) { return batch_norm(x, mean_of, var_of, {}, {}, false); }, shape);
  expect_same([&](const Tensor& x) { return rms_norm(x, w); }, shape);
}

TEST_F(OnnxExport, Attention) {
  const Shape shape{2, 2, 5, 4};
  const Tensor bias = random({1, 2, 5, 5});
  const Tensor mask = Tensor::from_vector(std::vector<float>{1, 1, 0, 1, 0, 0, 0, 0, 0, 0}, {2, 5}, &host()) > 0;
  eval({bias, mask});
  const auto attend = [](const Tensor& x, const AttentionOptions& how) {
    return scaled_dot_product_attention(x, x * 2, x + 1, how);
  };
  AttentionOptions causal, biased, masked, scaled, both;
  causal.causal = both.causal = true;
  biased.bias = both.bias = bias;
  masked.key_mask = mask;
  for (const AttentionOptions& how : {AttentionOptions{}, causal, biased, masked, both})
    expect_same([&](const Tensor& x) { return attend(x, how); }, shape);
  // Of what has no function, as near as simpler rows come.
  scaled.scale = 0.3;
  const onnx::Model model = exported([&](const std::vector<Tensor>& x) { return std::vector{attend(x[0], scaled)}; },
                                     {{"x", DType::f32, sizes({2, 2, 5, 4})}}, {});
  expect_near(model.call({random(shape)})[0], attend(random(shape), scaled), 17);
}

TEST_F(OnnxExport, OtherDtypes) {
  for (const DType t : {DType::f64, DType::f16, DType::bf16}) {
    const Tensor w = random({5, 6}, t);
    expect_same([&](const Tensor& x) { return gelu(matmul(x, w)) * 0.5; }, {3, 5}, t);
  }
}

}  // namespace
}  // namespace heddle::tests
