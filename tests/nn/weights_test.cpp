// Freezing by pattern, partial loading and its report, states that do not fit.
#include "heddle/autograd/autograd.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

nn::ResNet small_resnet(int64_t classes, uint64_t seed = 1) {
  manual_seed(seed);
  return nn::ResNet({.blocks = {1}, .width = 2, .classes = classes, .small_input = true}, {.device = reference()});
}

TEST(Weights, FrozenParametersStayAsTheyWere) {
  nn::ResNet model = small_resnet(3);
  EXPECT_EQ(nn::freeze(model, "*"), 11);
  EXPECT_EQ(nn::unfreeze(model, "fc.*"), 2);
  const nn::StateDict state = model.state_dict();
  const Values conv = state.at("conv1.weight").to_doubles(), head = state.at("fc.weight").to_doubles();
  nn::AdamW optimizer(model.parameters(), 0.1);
  model.eval();
  backward(sum(square(model(ones({2, 3, 5, 5}, DType::f32, &reference())))));
  EXPECT_FALSE(state.at("conv1.weight").grad().defined());
  optimizer.step();
  EXPECT_EQ(state.at("conv1.weight").to_doubles(), conv);
  EXPECT_NE(state.at("fc.weight").to_doubles(), head);
}

TEST(Weights, PatternsAreAShells) {
  nn::ResNet model = small_resnet(3);
  EXPECT_EQ(nn::freeze(model, "layer1.*"), 6);
  EXPECT_EQ(nn::freeze(model, "layer1.0.conv?.weight"), 2);
  EXPECT_EQ(nn::freeze(model, "bn[12].bias"), 1);
  expect_error<ValueError>([&] { nn::freeze(model, "layer2.*"); }, {"[freeze]", "layer2.*", "layer1.0.conv1.weight"});
}

TEST(Weights, AllButTheHead) {
  nn::ResNet trained = small_resnet(7, 1), model = small_resnet(3, 2);
  const Values head = model.state_dict().at("fc.weight").to_doubles();
  const nn::LoadReport report = nn::load_matching(model, trained.state_dict(), {"fc.*"});
  EXPECT_EQ(report.excepted, (std::vector<std::string>{"fc.bias", "fc.weight"}));
  EXPECT_TRUE(report.missing.empty() && report.unexpected.empty() && report.mismatched.empty()) << report.str();
  EXPECT_EQ(model.state_dict().at("layer1.0.conv2.weight").to_doubles(),
            trained.state_dict().at("layer1.0.conv2.weight").to_doubles());
  EXPECT_EQ(model.state_dict().at("fc.weight").to_doubles(), head);
}

TEST(Weights, TheReportNamesWhatDoesNotFit) {
  nn::ResNet model = small_resnet(3, 2);
  nn::StateDict state = small_resnet(7, 1).state_dict();
  const Tensor old = model.state_dict().at("bn1.weight");
  state.erase("bn1.weight");
  state.emplace("bn1.scale", ones({2}, DType::f32, &reference()));
  state.at("conv1.weight") = cast(state.at("conv1.weight").detach(), DType::f16);
  const nn::LoadReport report = nn::load_matching(model, state);
  EXPECT_EQ(report.missing, std::vector<std::string>{"bn1.weight"});
  EXPECT_EQ(report.unexpected, std::vector<std::string>{"bn1.scale"});
  EXPECT_EQ(report.mismatched, (std::vector<std::string>{"fc.bias: (3) f32 here, (7) f32 in the state",
                                                         "fc.weight: (3, 2) f32 here, (7, 2) f32 in the state"}));
  EXPECT_EQ(model.state_dict().at("conv1.weight").to_doubles(), state.at("conv1.weight").to_doubles());
  EXPECT_NE(report.str().find("unexpected: bn1.scale"), std::string::npos);
}

TEST(Weights, AStrictLoadNamesEveryTensorThatDiffers) {
  nn::ResNet model = small_resnet(3);
  expect_error<ShapeError>(
      [&] { model.load_state_dict(small_resnet(7).state_dict()); },
      {"fc.bias has shape (3) but the state has (7)", "fc.weight has shape (3, 2) but the state has (7, 2)"});
}

TEST(Weights, AGpt2ThatIsNone) {
  const nn::StateDict state{{"h.0.attn.c_attn.weight", zeros({5, 7}, DType::f32, &reference())}};
  expect_error<ShapeError>([&] { nn::from_gpt2(state); }, {"h.0.attn.c_attn.weight", "(5, 7)"});
}

}  // namespace
}  // namespace heddle::tests
