// The passes' names and switches, the verifier, and what each single pass does to a graph. Needs no device.
#include "heddle/core/simplify/passes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/describe.h"
#include "heddle/core/run/planner.h"
#include "heddle/core/simplify/simplifier.h"
#include "heddle/core/simplify/verify.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"
#include "tests/support/random_graph.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;

Graph recorded() { return import_graph(capture(held_pending())); }
// The pending graph with that pass alone, and what is dead dropped.
Graph with_only(Pass pass) { return simplify(recorded(), PassSet::required().with(pass).with(Pass::dead)); }
size_t count(const Graph& graph, const OpDef& op) {
  return static_cast<size_t>(
      std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const IrNode& node) { return node.op == &op; }));
}

TEST(Passes, SwitchesAreReadFromLeftToRight) {
  EXPECT_EQ(parse_passes(""), PassSet::all());
  EXPECT_EQ(parse_passes("-cse, -fold"), PassSet::all().without(Pass::cse).without(Pass::fold));
  EXPECT_EQ(parse_passes("none,+cse"), PassSet::required().with(Pass::cse));
  EXPECT_EQ(parse_passes("-cse,all"), PassSet::all());
  EXPECT_EQ(parse_passes("-cse,+cse"), PassSet::all());
}

TEST(Passes, AnUnknownNameListsTheKnownOnes) {
  for (const char* text : {"-sce", "+nothing", "cse2", "-"}) {
    try {
      parse_passes(text);
      ADD_FAILURE() << text;
    } catch (const ValueError& e) {
      EXPECT_NE(std::string(e.what()).find("unknown pass"), std::string::npos) << e.what();
      for (const PassInfo& info : all_passes())
        EXPECT_NE(std::string(e.what()).find(info.name), std::string::npos) << info.name;
    }
  }
  EXPECT_THROW(parse_passes("cse"), ValueError);    // neither on nor off
  EXPECT_THROW(parse_passes("-sort"), ValueError);  // no kernel without it
}

TEST(Passes, NamesAreUniqueAndInOrder) {
  std::set<std::string_view> names;
  int i = 0;
  for (const PassInfo& info : all_passes()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(static_cast<int>(info.pass), i++);
    EXPECT_FALSE(info.doc.empty());
  }
}

TEST(Passes, AScopeHoldsForItsThreadAndEnds) {
  const PassSet before = active_passes();
  {
    const PassScope scope("-cse");
    EXPECT_FALSE(active_passes().has(Pass::cse));
    {
      const PassScope inner("-fold");
      EXPECT_TRUE(active_passes().has(Pass::cse));
    }
    EXPECT_FALSE(active_passes().has(Pass::cse));
  }
  EXPECT_EQ(active_passes(), before);
}

TEST(Passes, PlansOfOtherSwitchesAreOtherPlans) {
  const auto step = [] {
    const Tensor x = leaf({4, 4});
    const Tensor y = x * 1.0 + x * 1.0;
    eval_pending();
  };
  step();
  const auto planned = [&] { return null_device().counters().steps_compiled; };
  const auto before = planned();
  step();
  EXPECT_EQ(planned(), before);
  {
    const PassScope scope("-identities");
    step();
    EXPECT_EQ(planned(), before + 1);
  }
  step();
  EXPECT_EQ(planned(), before + 1);
}

TEST(Passes, EachRuleAnswersToItsPass) {
  {
    const Tensor y = leaf({3}) * exp(full({3}, 0.0, DType::f32, &null_device()));
    EXPECT_EQ(count(with_only(Pass::fold), ops::exp_op), 0u);
    EXPECT_EQ(count(with_only(Pass::cse), ops::exp_op), 1u);
  }
  {
    const Tensor x = leaf({3}), y = x * 1.0 + 0.0;
    EXPECT_EQ(with_only(Pass::identities).nodes.size(), 1u);
    EXPECT_EQ(count(with_only(Pass::fold), ops::add_op), 1u);
  }
  {
    const Tensor x = leaf({2, 3}), y = transpose(transpose(x));
    EXPECT_EQ(count(with_only(Pass::movement), ops::permute_op), 0u);
    EXPECT_EQ(count(with_only(Pass::cse), ops::permute_op), 2u);
  }
  {
    const Tensor x = leaf({2, 3}), y = exp(x) + exp(x);
    EXPECT_EQ(count(with_only(Pass::cse), ops::exp_op), 1u);
    EXPECT_EQ(count(with_only(Pass::fold), ops::exp_op), 2u);
  }
  {
    const Tensor y = transpose(matmul(leaf({2, 3}), leaf({3, 4})));
    EXPECT_EQ(count(with_only(Pass::products), ops::permute_op), 2u);
    EXPECT_EQ(count(with_only(Pass::movement), ops::permute_op), 1u);
  }
}

TEST(Passes, CastsThatLoseNothingVanish) {
  const auto casts = [](DType from, DType through, DType to) {
    const Tensor x = Tensor::from_bytes(std::vector<uint8_t>(32, 0).data(), 4, from, {4}, &null_device());
    const Tensor y = cast(cast(x, through), to);
    return count(with_only(Pass::casts), ops::cast_op);
  };
  EXPECT_EQ(casts(DType::f16, DType::f32, DType::f16), 0u);
  EXPECT_EQ(casts(DType::bf16, DType::f32, DType::f16), 1u);
  EXPECT_EQ(casts(DType::f32, DType::f16, DType::f32), 2u);   // rounds
  EXPECT_EQ(casts(DType::f16, DType::bf16, DType::f32), 2u);  // rounds
  EXPECT_EQ(casts(DType::u8, DType::i32, DType::f32), 1u);
  EXPECT_EQ(casts(DType::i8, DType::u8, DType::i32), 2u);    // wraps
  EXPECT_EQ(casts(DType::i32, DType::f32, DType::i32), 2u);  // 24 bits
  EXPECT_EQ(casts(DType::u8, DType::f32, DType::i8), 2u);    // a float beyond the range does not wrap
  EXPECT_EQ(casts(DType::i8, DType::f32, DType::i32), 1u);
  EXPECT_EQ(casts(DType::boolean, DType::f16, DType::boolean), 0u);
}

Shape shape_of_product(const Graph& graph) {
  for (const IrNode& node : graph.nodes) {
    if (node.op == &ops::matmul_op) return node.shape;
  }
  return {};
}

// The sum over batches, reshaped there and back by the gradient of a broadcast, has one reader: it is computed
// transposed, as the weight lies.
TEST(Passes, AWeightGradientOfBatchesLiesAsTheWeightDoes) {
  const Tensor x = leaf({3, 8, 12}), dy = leaf({3, 8, 4});
  const auto sums = [&] { return sum(matmul(transpose(x), dy), {0}); };
  const auto update = [](const Tensor& summed) {
    const Tensor gradient = transpose(reshape(reshape(summed, {1, 12, 4}), {12, 4}));
    return gradient * 2.0 + square(gradient);
  };
  {
    const Tensor updated = update(sums());
    EXPECT_EQ(shape_of_product(simplify(recorded())).str(), "(4, 12)");
  }
  const Tensor held = sums();
  const Tensor updated = update(held);
  EXPECT_EQ(shape_of_product(simplify(recorded())).str(), "(12, 4)");
}

TEST(Passes, VerifierNamesThePassAndTheVertex) {
  const Tensor x = leaf({2, 3}), y = sum(exp(x) + x, {1});
  const Graph good = simplify(recorded());
  verify_graph(good, good, "test");
  const auto broken = [&](const auto& change) {
    Graph graph = good;
    change(graph);
    try {
      verify_graph(graph, good, "culprit");
    } catch (const std::logic_error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  const auto find = [&](Graph& graph, const OpDef& op) -> IrNode& {
    return *std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const IrNode& node) { return node.op == &op; });
  };
  EXPECT_NE(
      broken([&](Graph& g) { find(g, ops::add_op).inputs[0] = static_cast<int>(g.nodes.size()) - 1; }).find("culprit"),
      std::string::npos);
  EXPECT_NE(broken([&](Graph& g) { find(g, ops::exp_op).shape = Shape{3, 2}; }).find("exp"), std::string::npos);
  EXPECT_NE(broken([&](Graph& g) { find(g, ops::exp_op).dtype = DType::f16; }).find("exp"), std::string::npos);
  EXPECT_NE(broken([&](Graph& g) { find(g, ops::sum_op).attrs.ints = {0}; }).find("sum"), std::string::npos);
  EXPECT_NE(broken([&](Graph& g) { g.outputs[0].node = 0; }).find("output"), std::string::npos);
  EXPECT_NE(broken([&](Graph& g) { g.outputs.pop_back(); }).find("outputs"), std::string::npos);
  EXPECT_NE(broken([&](Graph& g) { g.leaves.pop_back(); }), "");
}

TEST(Passes, RandomProgramsVerifyWithEachPassOff) {
  for (uint64_t seed = 301; seed <= 330; ++seed) {
    const test::RandomProgram program = test::random_program(null_device(), seed, 30);
    const Graph imported = recorded();
    for (const PassInfo& info : all_passes()) {
      if (info.required) continue;
      SCOPED_TRACE(std::string(info.name) + " off, seed " + std::to_string(seed));
      const PassSet passes = PassSet::all().without(info.pass);
      make_plan(prepare(imported, null_device().caps(), true, passes), null_device().caps(), true, passes);
    }
    const PassSet none = PassSet::required();
    make_plan(prepare(imported, null_device().caps(), true, none), null_device().caps(), true, none);
    eval_pending();
  }
}

TEST(Passes, DumpShowsWhatChangedAndNothingElse) {
  const Tensor x = leaf({2, 3}), y = exp(x * 1.0) + exp(x);
  const std::string text = dump_pending(DumpWhat::passes);
  EXPECT_NE(text.find("\nidentities: "), std::string::npos) << text;
  EXPECT_NE(text.find("- %"), std::string::npos) << text;
  EXPECT_NE(text.find("\ncse: "), std::string::npos) << text;
  EXPECT_NE(text.find("\nfuse: "), std::string::npos) << text;
  EXPECT_EQ(text.find("\nmovement: "), std::string::npos) << text;
  EXPECT_EQ(text.find("\nhorizontal: "), std::string::npos) << text;
}

TEST(Passes, DiffComparesWithoutNumbers) {
  EXPECT_EQ(diff_lines("%0 = a\n%1 = b\n%2 = c\n", "%0 = a\n%1 = c\n%2 = d\n"), "    - %1 = b\n    + %2 = d\n");
  EXPECT_EQ(diff_lines("%0 = a\n", "%7 = a\n"), "");
  EXPECT_EQ(diff_lines("", "%0 = a\n"), "    + %0 = a\n");
}

}  // namespace
}  // namespace heddle
