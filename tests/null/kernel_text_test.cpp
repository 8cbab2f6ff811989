// What generated kernels say and what they are launched with, read as a person would. Needs no device.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/lower/emit_text.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/null/null_device.h"
#include "tests/support/planned.h"

namespace heddle {
namespace {

using test::leaf;
using test::lower_pending;
using test::null_device;

std::smatch found(const std::string& text, const char* pattern) {
  std::smatch match;
  EXPECT_TRUE(std::regex_search(text, match, std::regex(pattern))) << pattern << " in\n" << text;
  return match;
}

// The number that `name` stands for in a launch: a constant, or itself.
int64_t number(const LoweredKernel& kernel, const std::string& name) {
  for (size_t i = 0; i < kernel.constants.size(); ++i) {
    if (kernel.source.constants[i].name == name) return static_cast<int32_t>(kernel.constants[i]);
  }
  return std::stoll(name);
}

TEST(KernelText, LiteralsAreOfTheOperandsType) {
  const std::vector<std::string> operands{"a", "b"};
  for (const DType dtype : {DType::f32, DType::f16, DType::i32}) {
    EXPECT_EQ(substitute("x * 0.1f + max(y, 1e-3f)", operands, dtype), "a * 0.1f + max(b, 1e-3f)") << name_of(dtype);
  }
  EXPECT_EQ(substitute("x * 0.1f + max(y, 1e-3f)", operands, DType::f64), "a * F64(0.1) + max(b, F64(1e-3))");
  EXPECT_EQ(substitute("2.5f", operands, DType::f64), "F64(2.5)");
  EXPECT_EQ(substitute("x2 + 3", operands, DType::f64), "x2 + 3");
}

TEST(KernelText, CastsEndAtTheLargestNumber) {
  const std::map<DType, std::string> largest{{DType::u8, "255"}, {DType::i8, "127"}, {DType::i32, "2147483647"}};
  for (const auto& [to, most] : largest) {
    const std::string text = saturating_helper(DType::f32, to);
    EXPECT_EQ(found(text, "\\? \\(?(\\d+)\\)? : w;")[1], most) << text;
  }
}

// x * 0 is NaN where x is: the zero, not x, is what compilers must not see through.
TEST(KernelText, AProductWithZeroReadsItsOtherFactor) {
  const Tensor a = exp(leaf({40}) * 0.0), b = exp(0.0 * leaf({41}));
  for (const LoweredKernel& kernel : lower_pending(false)) {
    const std::string text = kernel.source.body;
    found(text, "float t_v1 = (\\(CAST\\(float, t_c\\d+\\)\\) \\* t_v0|t_v0 \\* \\(CAST\\(float, t_c\\d+\\)\\));");
  }
  eval_pending();
}

TEST(KernelText, OnlyDifferencesFromItselfArePrecise) {
  const Tensor x = leaf({40}), y = leaf({40});
  const auto precise = [](const Tensor& result) {
    const std::vector<LoweredKernel> kernels = lower_pending(false);
    EXPECT_EQ(kernels.size(), 1u);
    eval({result});
    return kernels.at(0).source.body.find("PRECISE") != std::string::npos;
  };
  EXPECT_FALSE(precise(x - y));
  EXPECT_FALSE(precise(x / y));
  EXPECT_TRUE(precise(x - x));
}

// A joined launch has its numbers in a table: the zero must be one of the zeros there.
TEST(KernelText, TheZeroOfASegmentIsZero) {
  std::vector<Tensor> results;
  for (const int64_t n : {5, 700, 64}) results.push_back(exp(flip(leaf(Shape{n}), {0}) * 0.0));
  const std::vector<LoweredKernel> kernels = lower_pending(true);
  ASSERT_EQ(kernels.size(), 1u);
  ASSERT_EQ(kernels[0].joined.size(), 3u);
  const std::string text = kernels[0].source.body;
  const size_t at = std::stoull(found(text, "CAST\\(float, t_c(\\d+)\\)")[1]);
  for (const LoweredKernel::JoinedRow& row : kernels[0].joined) EXPECT_EQ(row.constants.at(at), 0u) << text;
  eval_pending();
}

// Units of 96 by 64 of a transposed matrix, in tiles of 32: as many as cover it.
TEST(KernelText, TilesCoverAMatrix) {
  const ScopedTuning forced({"elementwise", "", {}},
                            {{"STREAM", 0}, {"TILE", 1}, {"TILE_I", 32}, {"TILE_S", 96}, {"TILE_Q", 64}});
  const Tensor y = exp(transpose(leaf({130, 70})));  // 70 x 130: written along 130, read along 70
  const std::vector<LoweredKernel> kernels = lower_pending(true);
  ASSERT_EQ(kernels.size(), 1u);
  const std::string text = kernels[0].source.body;
  EXPECT_EQ(number(kernels[0], found(text, "t_i0 = t_unit % (\\w+) \\* 96;")[1]), 2) << text;
  EXPECT_EQ(number(kernels[0], found(text, "t_above = t_unit / (\\w+);")[1]), 2) << text;
  EXPECT_EQ(number(kernels[0], found(text, "t_qb = t_above % (\\w+) \\*")[1]), 2) << text;
  EXPECT_EQ(number(kernels[0], found(text, "if \\(t_unit < (\\w+)\\)")[1]), 4) << text;
  found(text, "for \\(int t_ib = t_i0; t_ib < t_ie; t_ib \\+= 32\\)");
  found(text, "TILE_LOAD\\(.*, 32 \\* \\w+\\);");  // rows of 70 are short: the next tile's are asked for
  eval_pending();
}

// Rows that indices pick are asked for as far ahead as some 2 KiB reach, from a row on that the unit still copies; rows
// in their order, short ones and single elements are not.
TEST(KernelText, PickedRowsAreAskedForAhead) {
  const auto text_of = [](const Tensor& result) {
    std::string text;
    for (const LoweredKernel& kernel : lower_pending(true)) text += kernel.source.body;
    eval({result});
    return text;
  };
  const auto ahead_in = [](const std::string& text) {
    found(text, "t_k < t_high - t_low; t_k \\+= 16\\) \\{\\s*WILL_READ\\(t_b\\d");
    return found(text, "if \\(t_row \\+ (\\d+) < t_last\\)")[1].str();
  };
  const Tensor indices = leaf({40}, DType::i32);  // functions of their own: no size is another one's
  EXPECT_EQ(ahead_in(text_of(exp(take(leaf({50, 64}), indices)))), "4");
  EXPECT_EQ(ahead_in(text_of(sin(take(leaf({50, 256}), indices)))), "2");
  EXPECT_EQ(ahead_in(text_of(tanh(take(leaf({50, 1024}), indices)))), "1");
  EXPECT_EQ(text_of(cos(take(leaf({50, 8}), indices))).find("WILL_READ"), std::string::npos);
  EXPECT_EQ(text_of(log(take(leaf({50, 64}), indices, 1))).find("WILL_READ"), std::string::npos);
  EXPECT_EQ(text_of(exp(concat({leaf({50, 64}), leaf({3, 64})}, 0))).find("WILL_READ"), std::string::npos);
}

// The lanes of a group take the rows of a tile in turns, until all are taken.
TEST(KernelText, LanesCoverATile) {
  const ScopedTuning forced({"elementwise", "", {}}, {{"TILE", 1}, {"TILE_I", 16}});
  const Tensor y = exp(transpose(leaf({130, 70})));
  const std::vector<LoweredKernel> kernels = lower_pending(false);
  ASSERT_EQ(kernels.size(), 1u);
  const std::string text = kernels[0].source.body;
  const std::smatch loop = found(text, "t_k < (\\d+); t_k \\+= (\\d+)");
  const int64_t side = std::stoll(loop[1]), step = std::stoll(loop[2]);
  EXPECT_EQ(side, 16);
  EXPECT_EQ(step * side, kernels[0].source.group[0]) << text;
  eval_pending();
}

// ---- products

// One matrix for all batches: the rows of all of them are one product, and row i of it begins where that of the operand
// does.
TEST(KernelLaunch, RowsOfAllBatchesAreOneProduct) {
  for (const Shape& shape : {Shape{6, 3, 5}, Shape{6, 1, 5}, Shape{2, 3, 1, 5}}) {
    const Tensor y = matmul(leaf(shape), leaf({5, 7}));
    const std::vector<LoweredKernel> kernels = lower_pending(false);
    ASSERT_EQ(kernels.size(), 1u);
    const Bindings expected{{"M", shape.numel() / 5}, {"N", 7}, {"K", 5}, {"BATCH", 1}, {"A_SM", 5}, {"A_SK", 1}};
    for (const auto& [name, value] : expected) {
      EXPECT_EQ(number(kernels[0], name), value) << name << " of " << shape.str();
    }
    eval_pending();
  }
}

// What is looked up in the tuning tables is the product that is computed.
TEST(KernelLaunch, SchedulesAreAskedForByTheProduct) {
  const ScopedTuning whole({"matmul_parts", "", {}}, {{"PARTS", 1}});
  const Tensor a = leaf({4, 33, 600}, DType::f16), b = leaf({4, 600, 21}, DType::f16);
  const TuningRecorder recorder;
  const Tensor y = matmul(a, b);
  eval({y});
  const std::vector<int64_t> sizes{4, 33, 21, 600};
  std::map<std::string, std::string> variants;
  for (const TuningUse& use : recorder.uses()) {
    if (!use.key.body.starts_with("matmul")) continue;
    variants[use.key.body] = use.key.variant;
    EXPECT_EQ(use.key.sizes, sizes) << use.key.str();
  }
  ASSERT_TRUE(variants.contains("matmul") && variants.contains("matmul_parts"));
  for (const auto& [body, variant] : variants) EXPECT_TRUE(variant.ends_with(" f16 f16")) << body << " " << variant;
}

// A product cut along k: the parts of both operands side by side, and what is left over by itself.
TEST(KernelLaunch, PartsOfAProduct) {
  const ScopedTuning forced({"matmul_parts", "", {}}, {{"PARTS", 3}});
  for (const auto& [k, products] : {std::pair<int64_t, size_t>{768, 1}, {767, 2}}) {
    const Tensor y = matmul(leaf({5, k}), leaf({k, 7}));
    const Plan planned = test::planned_pending(null_device().caps());
    std::vector<std::string> shapes;
    for (const IrNode& node : planned.scheduled.graph.nodes) {
      if (node.op == &ops::matmul_op) shapes.push_back(node.shape.str());
    }
    EXPECT_EQ(shapes.size(), products);
    EXPECT_EQ(shapes.at(0), "(3, 5, 7)");
    for (const LoweredKernel& kernel : planned.kernels) {
      if (kernel.source.name.find("matmul") == std::string::npos || number(kernel, "BATCH") != 3) continue;
      const Bindings expected{{"M", 5}, {"N", 7}, {"K", k / 3}, {"A_SM", k}, {"A_SK", 1}, {"B_SK", 7}, {"B_SN", 1}};
      for (const auto& [name, value] : expected) EXPECT_EQ(number(kernel, name), value) << name;
    }
    eval_pending();
  }
}

}  // namespace
}  // namespace heddle
