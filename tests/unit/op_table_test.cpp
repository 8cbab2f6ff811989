#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "checks/op_cases.h"
#include "heddle/core/base/error.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

TEST(OpTable, RowsAreCompleteAndFoundByName) {
  std::set<std::string_view> names;
  for (const OpDef* row : all_ops()) {
    SCOPED_TRACE(row->name);
    EXPECT_TRUE(names.insert(row->name).second) << "twice in the table";
    EXPECT_EQ(find_op(row->name), row);
    EXPECT_EQ(&op(row->name), row);
    EXPECT_FALSE(row->doc.empty());
    EXPECT_TRUE(row->kind == OpKind::fused ? row->decompose != nullptr
                                           : row->kind == OpKind::body || row->decompose == nullptr);
    EXPECT_NE(name_of(row->kind), "?");
    EXPECT_GE(row->arity, -1);
  }
  EXPECT_GT(names.size(), 65u);
}

TEST(OpTable, ElementwiseRowsHaveDialectAndHost) {
  for (const OpDef* row : all_ops()) {
    if (row->kind != OpKind::elementwise || row->rule == DTypeRule::any) continue;
    SCOPED_TRACE(row->name);
    EXPECT_FALSE(row->dialect.empty());
    EXPECT_NE(row->host_float, nullptr);
    const bool integers = row->rule == DTypeRule::whole || row->rule == DTypeRule::numeric ||
                          row->rule == DTypeRule::compare || row->rule == DTypeRule::logical;
    EXPECT_EQ(row->host_int != nullptr, integers);
    EXPECT_GE(row->cost, 1);
    EXPECT_EQ(row->transcendental, row->cost >= 10);
    EXPECT_TRUE(row->arity == 1 || row->arity == 2);
    EXPECT_EQ(row->arity == 2, row->dialect.find('y') != std::string_view::npos);
  }
}

TEST(OpTable, KindsStandTogether) {
  std::set<OpKind> closed;
  OpKind current = all_ops()[0]->kind;
  for (const OpDef* row : all_ops()) {
    if (row->kind == current) continue;
    closed.insert(current);
    current = row->kind;
    EXPECT_FALSE(closed.contains(current)) << row->name;
  }
}

TEST(OpTable, UnknownNames) {
  EXPECT_EQ(find_op("hardswishy"), nullptr);
  try {
    op("hardswishy");
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_STREQ(e.what(), "[op] unknown op 'hardswishy'; `heddle ops` lists the known ones");
  }
}

TEST(OpTable, IntegerHostsDoNotOverflow) {
  const int64_t least = INT64_MIN, most = INT64_MAX;
  EXPECT_EQ(ops::add_op.host_int(most, 1, 0), least);
  EXPECT_EQ(ops::mul_op.host_int(least, -1, 0), least);
  EXPECT_EQ(ops::neg_op.host_int(least, 0, 0), least);
  EXPECT_EQ(ops::abs_op.host_int(least, 0, 0), least);
  EXPECT_EQ(ops::mod_op.host_int(least, -1, 0), 0);
  EXPECT_EQ(ops::mod_op.host_int(7, 0, 0), 0);
  EXPECT_EQ(ops::mod_op.host_int(-7, 3, 0), 2);
  EXPECT_EQ(ops::mod_op.host_int(7, -3, 0), -2);
  EXPECT_EQ(ops::lt_op.host_int(least, most, 0), 1);
  EXPECT_EQ(ops::logical_and_op.host_int(1, 0, 0), 0);
}

TEST(OpTable, NanGoesThroughMinimumAndMaximum) {
  for (const OpDef* row : {&ops::minimum_op, &ops::maximum_op}) {
    EXPECT_TRUE(std::isnan(row->host_float(NAN, 1, 0)));
    EXPECT_TRUE(std::isnan(row->host_float(1, NAN, 0)));
  }
  EXPECT_TRUE(std::isnan(ops::relu_op.host_float(NAN, 0, 0)));
  EXPECT_TRUE(std::isnan(ops::sign_op.host_float(NAN, 0, 0)));
}

// Every row and every function has op cases; a new elementwise row gets its own without an edit.
TEST(OpCases, CoverTheTable) {
  std::set<std::string> names, ops_with_cases;
  for (const checks::OpCase& c : checks::op_cases(checks::Coverage::full))
    EXPECT_TRUE(names.insert(c.name).second) << c.name << " is there twice";
  for (const checks::OpCase& c : checks::op_cases(checks::Coverage::brief)) ops_with_cases.insert(c.op);
  // values, tensor_test, index_add, index_copy, tests/autograd/custom_test, control_test; of kind collective
  // tests/distributed
  const std::set<std::string_view> elsewhere{"leaf", "assign",      "scatter_rows", "copy_rows", "loop_arg",
                                             "loop", "loop_result", "while_result", "custom"};
  for (const OpDef* row : all_ops()) {
    if (elsewhere.contains(row->name) || row->kind == OpKind::collective) continue;
    EXPECT_TRUE(ops_with_cases.contains(std::string(row->name))) << row->name;
  }
  for (const char* function :
       {"clamp",     "operators", "mean",     "var",         "transpose", "squeeze",         "unsqueeze",
        "split",     "embedding", "one_hot",  "scatter_add", "index_add", "uniform",         "normal",
        "bernoulli", "dropout",   "nll_loss", "mse_loss",    "l1_loss",   "bce_with_logits", "huber_loss",
        "kl_div",    "sort",      "topk",     "zeros",       "ones",      "full_like",       "arange",
        "linspace",  "eye"}) {
    EXPECT_TRUE(ops_with_cases.contains(function)) << function;
  }
}

}  // namespace
}  // namespace heddle
