// nn::summarize(): counts against PyTorch's (tests/parity/outputs.json), rows against arithmetic done here.
#include "heddle/nn/summary.h"

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "heddle/core/device/context.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

std::map<std::string, nn::SummaryRow> by_path(const nn::Summary& summary) {
  std::map<std::string, nn::SummaryRow> rows;
  for (const nn::SummaryRow& row : summary.rows) rows.emplace(row.path, row);
  return rows;
}

TEST(Summary, ParametersAndOperationsAsPyTorchCountsThem) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/parity/outputs.json");
  const nlohmann::json counts = nlohmann::json::parse(file).at("counts");
  const std::unique_ptr<DeviceContext> none = nn::blank_device();
  const nn::init::SkipScope skip;
  for (const auto& [name, expected] : counts.items()) {
    const nn::KnownModel& known = nn::find_model(name);
    const std::unique_ptr<nn::Module> model = known.make(none.get());
    const nn::Summary summary = nn::summarize(*model, zeros(known.input, known.dtype, none.get()));
    EXPECT_EQ(summary.parameters, expected.at("parameters").get<int64_t>()) << name;
    EXPECT_EQ(summary.flops, expected.at("flops").get<double>()) << name;
  }
}

TEST(Summary, RowsOfAnMlp) {
  nn::Mlp model({.in = 4, .hidden = {3}, .out = 2}, {.device = reference()});
  const nn::Summary summary = nn::summarize(model, zeros({5, 4}, DType::f32, &reference()));
  ASSERT_EQ(summary.rows.size(), 4u);
  EXPECT_EQ(summary.rows[1].path, "0");
  EXPECT_EQ(summary.rows[1].kind, "Linear");
  EXPECT_EQ(summary.rows[1].output, (Shape{5, 3}));
  EXPECT_EQ(summary.rows[1].parameters, 4 * 3 + 3);
  EXPECT_EQ(summary.rows[1].flops, 2 * 5 * 4 * 3);
  EXPECT_EQ(summary.rows[1].backward_flops, 2 * 5 * 4 * 3);  // of the weight: nobody asks for the gradient of the input
  EXPECT_EQ(summary.rows[3].backward_flops, 2 * 2 * 5 * 3 * 2);  // of the weight and of what comes in
  EXPECT_EQ(summary.backward_flops, 2 * 5 * (4 * 3 + 2 * 3 * 2));
  EXPECT_EQ(summary.rows[1].output_bytes, 5u * 3 * 4);
  EXPECT_EQ(summary.rows[1].kept_bytes, 0u);          // the gradient of ReLU reads its result
  EXPECT_EQ(summary.rows[2].kept_bytes, 5u * 3 * 4);  // as does that of the second weight
  EXPECT_EQ(summary.parameters, 4 * 3 + 3 + 3 * 2 + 2);
  EXPECT_EQ(summary.flops, 2 * 5 * (4 * 3 + 3 * 2));
  EXPECT_EQ(summary.output_bytes, 5u * (3 + 3 + 2) * 4);
  EXPECT_EQ(summary.kept_bytes, 5u * 3 * 4);
}

TEST(Summary, WhatAModuleDoesItselfIsItsOwn) {
  nn::Gpt model({.vocabulary = 11, .context = 8, .layers = 2, .heads = 2, .width = 4, .dropout = 0},
                {.device = reference()});
  const auto rows = by_path(nn::summarize(model, zeros({3, 8}, DType::i32, &reference())));
  EXPECT_EQ(rows.at("").flops, 2 * 3 * 8 * 4 * 11);              // the product with the embedding
  EXPECT_EQ(rows.at("h.0").flops, 2 * 3 * 2 * 8 * 8 * (2 + 2));  // attention: batch, heads, queries, keys, sizes
  EXPECT_EQ(rows.at("h.1.attn.c_attn").flops, 2 * 3 * 8 * 4 * 12);
  EXPECT_EQ(rows.at("").backward_flops, 2 * rows.at("").flops);
  EXPECT_EQ(rows.at("h.0").backward_flops, 2 * 3 * 2 * 8 * 8 * (3 * 2 + 2 * 2));
  EXPECT_EQ(rows.at("h.0.attn.c_attn").backward_flops,
            2 * rows.at("h.0.attn.c_attn").flops);  // the embedding before it is trained
  EXPECT_EQ(rows.at("wte").parameters, 11 * 4);
  EXPECT_EQ(rows.at("wte").calls, 0);
}

// N = 2 texts of T = 6 tokens, width 3, hidden 5, 7 tokens; four gates.
TEST(Summary, RecurrentLayersAreARowOfTheirOwn) {
  nn::RecurrentLm model({.vocabulary = 7, .width = 3, .hidden = 5, .layers = 1}, {.device = reference()});
  const nn::Summary summary = nn::summarize(model, zeros({2, 6}, DType::i32, &reference()));
  const auto rows = by_path(summary);
  EXPECT_EQ(rows.at("").flops, 0);
  EXPECT_EQ(rows.at("").kept_bytes, 0u);
  EXPECT_EQ(rows.at("rnn").flops, 2.0 * 2 * 6 * (3 * 20 + 5 * 20));
  EXPECT_EQ(rows.at("rnn").backward_flops, 2 * rows.at("rnn").flops);  // weights and what they multiply, in each step
  EXPECT_EQ(rows.at("rnn").output, (Shape{2, 6, 5}));
  EXPECT_EQ(rows.at("rnn").output_bytes, 2u * 6 * 5 * 4);
  EXPECT_GE(rows.at("rnn").kept_bytes, 2u * 6 * 5 * 4);  // the states at least
  EXPECT_EQ(rows.at("decoder").flops, 2.0 * 2 * 6 * 5 * 7);
  EXPECT_EQ(rows.at("decoder").backward_flops, 2 * rows.at("decoder").flops);
  EXPECT_EQ(rows.at("encoder").output_bytes, 2u * 6 * 3 * 4);
  EXPECT_EQ(summary.flops, 2.0 * 2 * 6 * (3 * 20 + 5 * 20 + 5 * 7));
  EXPECT_EQ(summary.output_bytes, 2u * 6 * (3 + 5 + 7) * 4);
}

// Frozen: the recurrent weights collect no gradient, and nothing before them does.
TEST(Summary, ALoopWhoseWeightsAreFrozenHasNoGradient) {
  nn::RecurrentLm model({.vocabulary = 7, .width = 3, .hidden = 5, .layers = 1}, {.device = reference()});
  nn::freeze(model, "encoder.*");
  nn::freeze(model, "rnn.*");
  const auto rows = by_path(nn::summarize(model, zeros({2, 6}, DType::i32, &reference())));
  EXPECT_EQ(rows.at("rnn").backward_flops, 0);
  EXPECT_EQ(rows.at("decoder").backward_flops, rows.at("decoder").flops);  // the weight's only
  nn::GRU alone(3, 5, {.batch_first = true, .device = reference()});
  nn::freeze(alone, "weight_ih_l0");
  const nn::Summary gru = nn::summarize(alone, zeros({2, 6, 3}, DType::f32, &reference()));
  EXPECT_EQ(gru.flops, 2.0 * 2 * 6 * (3 * 15 + 5 * 15));
  EXPECT_EQ(gru.backward_flops, 2 * 2.0 * 2 * 6 * 5 * 15);  // of weight_hh, and of the state that it multiplies
}

TEST(Summary, BackwardOfConvolutions) {
  nn::Sequential model(nn::Conv2d(3, 8, {3}, {.stride = {2}, .device = reference()}), nn::ReLU(),
                       nn::Conv2d(8, 4, {3}, {.device = reference()}), nn::Flatten(),
                       nn::Linear(4, 5, {.device = reference()}));
  const nn::Summary summary = nn::summarize(model, zeros({2, 3, 7, 7}, DType::f32, &reference()));
  EXPECT_EQ(summary.flops, 9008);  // both as PyTorch's FlopCounterMode says of the same network
  EXPECT_EQ(summary.backward_flops, 10240);
  nn::Conv2d depthwise(8, 8, {3}, {.groups = 8, .device = reference()});
  const nn::Summary grouped = nn::summarize(depthwise, zeros({2, 8, 5, 5}, DType::f32, &reference()));
  EXPECT_EQ(grouped.flops, 2.0 * 2 * 8 * 3 * 3 * 9);
  EXPECT_EQ(grouped.backward_flops, grouped.flops);  // of the weight
}

TEST(Summary, FrozenPartsKeepNothingAndNothingChanges) {
  manual_seed(5);
  nn::LeNet model({.height = 8, .width = 8, .stages = {2}, .hidden = 3}, {.device = reference()});
  const Tensor x = ones({2, 1, 8, 8}, DType::f32, &reference());
  const Values before = model.state_dict().at("features.0.1.running_mean").to_doubles();
  const uint64_t draws = default_generator().offset;
  const nn::Summary whole = nn::summarize(model, x);
  eval_pending();
  EXPECT_EQ(model.state_dict().at("features.0.1.running_mean").to_doubles(), before);
  EXPECT_EQ(default_generator().offset, draws);
  nn::freeze(model, "features.*");
  const nn::Summary head = nn::summarize(model, x);
  EXPECT_EQ(head.trained, whole.trained - 2 * 9 - 4);
  EXPECT_LT(head.kept_bytes, whole.kept_bytes);
  EXPECT_EQ(by_path(head).at("features.0.0").kept_bytes, 0u);
  EXPECT_NE(head.str().find("parameters are trained"), std::string::npos);
}

TEST(Summary, AnUnknownModelIsNotGuessed) {
  expect_error<ValueError>([] { nn::find_model("resnet19"); }, {"resnet19", "did you mean", "resnet18"});
}

}  // namespace
}  // namespace heddle::tests
