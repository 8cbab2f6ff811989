// ModuleList and ModuleDict: names as PyTorch's, order, indices, classes, sharing; devices of options.
#include "heddle/nn/containers.h"

#include <type_traits>

#include "heddle/core/device/context.h"
#include "heddle/nn/layers.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

nn::Linear linear(int64_t in, int64_t out) { return nn::Linear(in, out, {.device = reference()}); }

std::vector<std::string> names_of(const nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, parameter] : module.named_parameters()) names.push_back(name);
  return names;
}

struct Deep : nn::Module {
  nn::ModuleList blocks = add("blocks", nn::ModuleList());
  Deep() : Module("Deep") {
    for (int i = 0; i < 2; ++i) blocks.append(linear(3, 3));
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (nn::Module& block : blocks) y = relu(block(y));
    return y;
  }
};

TEST(ModuleList, NamesOrderAndIndices) {
  nn::ModuleList list(linear(2, 3), nn::ReLU());
  list.append(linear(3, 1));
  EXPECT_EQ(names_of(list), (std::vector<std::string>{"0.weight", "0.bias", "2.weight", "2.bias"}));
  EXPECT_EQ(list.size(), 3u);
  EXPECT_FALSE(list.empty());
  EXPECT_TRUE(nn::ModuleList().empty());
  EXPECT_EQ(list[1].kind(), "ReLU");
  EXPECT_EQ(&list[-1], &list[2]);
  EXPECT_EQ(list.at<nn::Linear>(-3).weight.shape(), (Shape{3, 2}));
  std::string kinds;
  for (nn::Module& module : list) kinds += module.kind() + " ";
  EXPECT_EQ(kinds, "Linear ReLU Linear ");
  expect_error<ValueError>([&] { list[3]; }, {"[ModuleList]", "no part 3 among 3"});
  expect_error<ValueError>([&] { list[-4]; }, {"no part -4"});
  expect_error<ValueError>([&] { list.at<nn::Linear>(1); }, {"part '1' is a ReLU"});
  expect_error<ValueError>([&] { list(zeros({1, 2}, DType::f32, &reference())); }, {"no forward"});
}

// A list is a handle: what is added to a copy, and after the list became a part, belongs to all.
TEST(ModuleList, SharesItsParts) {
  Deep deep;
  EXPECT_EQ(names_of(deep),
            (std::vector<std::string>{"blocks.0.weight", "blocks.0.bias", "blocks.1.weight", "blocks.1.bias"}));
  const Tensor x = f32({1, -2, 3}, {1, 3});
  Tensor want = x;
  for (int64_t i = 0; i < 2; ++i) {
    const auto& block = deep.blocks.at<nn::Linear>(i);
    want = relu(heddle::linear(want, block.weight, block.bias));
  }
  EXPECT_EQ(deep(x).to_doubles(), want.to_doubles());
  nn::ModuleList same = deep.blocks;
  same.append(nn::Dropout(0.5));
  EXPECT_EQ(deep.blocks.size(), 3u);
  deep.eval();
  EXPECT_FALSE(deep.blocks[2].training());
  testing::internal::CaptureStderr();
  deep(x);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");  // its parts are known to it
}

TEST(ModuleDict, NamesOrderAndKeys) {
  nn::ModuleDict heads;
  heads.insert("letters", linear(2, 3)).insert("digits", linear(2, 1)).insert("act", nn::Tanh());
  EXPECT_EQ(names_of(heads),
            (std::vector<std::string>{"letters.weight", "letters.bias", "digits.weight", "digits.bias"}));
  EXPECT_EQ(heads.keys(), (std::vector<std::string>{"letters", "digits", "act"}));
  EXPECT_EQ(heads.size(), 3u);
  EXPECT_TRUE(heads.contains("act"));
  EXPECT_FALSE(heads.contains("Act"));
  EXPECT_EQ(heads["digits"](zeros({4, 2}, DType::f32, &reference())).shape(), (Shape{4, 1}));
  EXPECT_EQ(heads.at<nn::Linear>("letters").weight.shape(), (Shape{3, 2}));
  std::string kinds;
  for (const auto& [key, module] : heads) kinds += key + " " + module->kind() + ", ";
  EXPECT_EQ(kinds, "letters Linear, digits Linear, act Tanh, ");
  expect_error<ValueError>([&] { heads["digit"]; }, {"no part 'digit'", "letters, digits, act"});
  expect_error<ValueError>([&] { heads.at<nn::ReLU>("act"); }, {"part 'act' is a Tanh"});
  for (const char* key : {"digits", "", "a.b"}) {
    EXPECT_THROW(heads.insert(key, nn::ReLU()), ValueError) << key;
    EXPECT_EQ(heads.size(), 3u);
  }
}

// A Sequential is a list as well.
TEST(ModuleList, SequentialHasIndices) {
  nn::Sequential net(linear(2, 3), nn::ReLU());
  EXPECT_EQ(net[-1].kind(), "ReLU");
  EXPECT_EQ(net.at<nn::Linear>(0).bias.shape(), Shape{3});
  nn::Sequential same(net);
  same.append(linear(3, 1)).append(nn::Tanh());
  EXPECT_EQ(net.size(), 4u);
}

// Options are named: neither a bool nor a device stands for one.
static_assert(!std::is_constructible_v<nn::Linear, int64_t, int64_t, bool>);
static_assert(!std::is_constructible_v<nn::Linear, int64_t, int64_t, DeviceContext*>);

// A DeviceContext, its address and its id are one device; nothing and null are the default one.
TEST(DeviceRef, WhatNamesADevice) {
  DeviceContext& d = reference();
  for (const DeviceRef& ref :
       {DeviceRef(d), DeviceRef(&d), DeviceRef("reference:0"), DeviceRef(std::string_view(d.id()))}) {
    EXPECT_EQ(&ref.context(), &d);
    EXPECT_EQ(&nn::Linear(2, 1, {.device = ref}).weight.device(), &d);
  }
  DeviceContext* const none = nullptr;
  EXPECT_EQ(&DeviceRef().context(), &default_device());
  EXPECT_EQ(&DeviceRef(none).context(), &default_device());
  EXPECT_EQ(static_cast<DeviceContext*>(DeviceRef()), nullptr);
  EXPECT_THROW(DeviceRef("nothing:0"), DeviceUnavailable);
}

}  // namespace
}  // namespace heddle::tests
