#include "bench/suites.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"

namespace heddle::bench {
namespace {

using Names = std::vector<std::pair<std::string, std::string>>;

Names named(const std::string& family, std::initializer_list<const char*> cases) {
  Names names;
  for (const char* c : cases) names.emplace_back(family, c);
  return names;
}

Names squares() {
  return named("matmul",
               {"256x256x256", "512x512x512", "768x768x768", "1024x1024x1024", "1536x1536x1536", "2048x2048x2048"});
}
// 4096x4096x1 in the order of the others (MxNxK) is an outer product; the matrix-vector product of that size is
// measured beside it.
Names training() {
  return named("matmul", {"768x384x128", "768x128x384", "768x512x128", "768x128x512", "32x128x784", "tn:784x128x32",
                          "tn:128x784x32", "48*64x64x32", "1000x1001x1003", "4096x4096x1", "4096x1x4096"});
}
Names lavapipe_matmul() { return named("matmul", {"512x512x512", "1024x1024x1024", "768x384x128"}); }

// The standard cases of conv are the 3x3 and 1x1 layers of ResNet-18 at batch 8: forward and both gradients of each.
Names resnet18() {
  Names names;
  for (const Family& family : families()) {
    for (const std::string& c : family.name == "conv" ? family.standard : std::vector<std::string>{})
      names.emplace_back(family.name, c);
  }
  return names;
}

// MobileNetV2's different convolutions of pictures of 224 x 224, at batch 8, forward and both gradients of each
// (Sandler et al., "MobileNetV2", 2018, table 2). Its first layer's gradient for the picture is none of a training
// step.
Names mobilenet_v2() {
  Names names;
  for (const char* pass : {"", "x:", "w:"}) {
    for (const char* layer :
         {"8x3x224x224x32x3x2",      "8x32x112x112x32x3x1/32",  "8x32x112x112x16x1x1",     "8x16x112x112x96x1x1",
          "8x96x112x112x96x3x2/96",  "8x96x56x56x24x1x1",       "8x24x56x56x144x1x1",      "8x144x56x56x144x3x1/144",
          "8x144x56x56x24x1x1",      "8x144x56x56x144x3x2/144", "8x144x28x28x32x1x1",      "8x32x28x28x192x1x1",
          "8x192x28x28x192x3x1/192", "8x192x28x28x32x1x1",      "8x192x28x28x192x3x2/192", "8x192x14x14x64x1x1",
          "8x64x14x14x384x1x1",      "8x384x14x14x384x3x1/384", "8x384x14x14x64x1x1",      "8x384x14x14x96x1x1",
          "8x96x14x14x576x1x1",      "8x576x14x14x576x3x1/576", "8x576x14x14x96x1x1",      "8x576x14x14x576x3x2/576",
          "8x576x7x7x160x1x1",       "8x160x7x7x960x1x1",       "8x960x7x7x960x3x1/960",   "8x960x7x7x160x1x1",
          "8x960x7x7x320x1x1",       "8x320x7x7x1280x1x1"}) {
      const std::string name = std::string(pass) + layer;
      if (name != "x:8x3x224x224x32x3x2") names.emplace_back("conv", name);
    }
  }
  return names;
}

using Value = Goal::Value;
using Over = Goal::Over;

const std::vector<Goal>& issue3() {
  static const std::vector<Goal> goals = {
      {"matmul f32 squares, geometric mean to oneDNN", "opencl", squares(), Value::peer_ratio, Over::geometric_mean,
       1.0},
      {"matmul f32 squares, worst to oneDNN", "opencl", squares(), Value::peer_ratio, Over::worst, 0.9},
      {"matmul f32 training shapes, geometric mean to oneDNN", "opencl", training(), Value::peer_ratio,
       Over::geometric_mean, 0.95},
      {"matmul f32 512, 1024, 768x384x128, worst to oneDNN", "vulkan", lavapipe_matmul(), Value::peer_ratio,
       Over::worst, 0.07},
      {"y = 2a + b, 16 M: fraction of copy bandwidth", "opencl", named("elementwise", {"16777216"}), Value::fraction,
       Over::worst, 0.95},
      {"chain of ten, 16 M: fraction of copy bandwidth", "opencl", named("chain", {"16777216"}), Value::fraction,
       Over::worst, 0.85},
      {"chain of ten, 16 M: fused over unfused", "opencl", named("chain", {"16777216", "unfused:16777216"}),
       Value::speedup, Over::worst, 4},
      {"softmax 4096x1024 to oneDNN", "opencl", named("softmax", {"4096x1024"}), Value::peer_ratio, Over::worst, 1.0},
      {"softmax 4096x1024: fraction of copy bandwidth", "opencl", named("softmax", {"4096x1024"}), Value::fraction,
       Over::worst, 0.7},
      {"layernorm 4096x1024 to oneDNN", "opencl", named("layernorm", {"4096x1024"}), Value::peer_ratio, Over::worst,
       1.0},
      {"layernorm 4096x1024: fraction of copy bandwidth", "opencl", named("layernorm", {"4096x1024"}), Value::fraction,
       Over::worst, 0.7},
      {"conv2d of ResNet-18, three passes, geometric mean to oneDNN", "opencl", resnet18(), Value::peer_ratio,
       Over::geometric_mean, 0.85},
      {"attention forward and backward, unfused over fused, worst", "opencl",
       named("attention", {"4x8x1024x64", "grad:4x8x1024x64"}), Value::peer_ratio, Over::worst, 2},
      {"attention T = 8192 forward and backward: memory in GiB", "opencl", named("attention", {"grad:1x8x8192x64"}),
       Value::memory, Over::worst, 1.5},
      {"AdamW, 10 M parameters in 200 tensors: launches", "opencl", named("optimizer", {"adamw:200x50000"}),
       Value::launches, Over::worst, 4},
      {"AdamW, 10 M parameters in 200 tensors: fraction of copy bandwidth", "opencl",
       named("optimizer", {"adamw:200x50000"}), Value::fraction, Over::worst, 0.8},
      {"sum of 64 M: fraction of read bandwidth", "opencl", named("reduce", {"67108864"}), Value::fraction, Over::worst,
       0.9},
  };
  return goals;
}

const std::map<std::string, std::vector<Goal>, std::less<>>& suites() {
  static const std::map<std::string, std::vector<Goal>, std::less<>> table = {
      {"squares", {issue3()[0], issue3()[1]}},
      {"training", {issue3()[2]}},
      {"resnet18", {issue3()[11]}},
      {"mobilenet-v2",
       {{"conv2d of MobileNetV2, three passes, geometric mean to oneDNN", "opencl", mobilenet_v2(), Value::peer_ratio,
         Over::geometric_mean, 1.0},
        {"conv2d of MobileNetV2, worst to oneDNN", "opencl", mobilenet_v2(), Value::peer_ratio, Over::worst, 0.7}}},
      {"issue3", issue3()},
  };
  return table;
}

// Every family's standard cases, steps of the recipes among them; without goals.
constexpr std::string_view everything = "all";

const std::vector<Goal>& goals_of(std::string_view suite) {
  static const std::vector<Goal> none;
  if (suite == everything) return none;
  const auto found = suites().find(suite);
  if (found == suites().end())
    throw ValueError(fmt::format("[bench] unknown suite '{}'; known: {}", suite, fmt::join(suite_names(), ", ")));
  return found->second;
}

std::optional<double> value_of(const Goal& goal, const Row& row) {
  switch (goal.value) {
    case Value::peer_ratio:
      if (row.peers.empty()) return std::nullopt;
      return row.peers.front().ratio.median;
    case Value::fraction:
      if (row.bound == Bound::none) return std::nullopt;
      return row.fraction.median;
    case Value::launches:
      return static_cast<double>(row.launches);
    case Value::memory:
      return static_cast<double>(row.extra_bytes) / (1 << 30);
    case Value::speedup:
      break;
  }
  return row.seconds.median;
}

}  // namespace

std::vector<std::string> suite_names() {
  std::vector<std::string> names = {std::string(everything)};
  for (const auto& [name, goals] : suites()) names.push_back(name);
  return names;
}

std::vector<Case> suite_cases(std::string_view suite) {
  std::vector<Case> cases;
  const auto known = [](const std::string& name) {
    return std::any_of(families().begin(), families().end(), [&](const Family& f) { return f.name == name; });
  };
  if (suite == everything) {
    for (const Family& family : families()) {
      for (const std::string& name : family.standard) cases.push_back(make_case(family, name, DType::f32));
    }
  }
  for (const Goal& goal : goals_of(suite)) {
    for (const auto& [family, name] : goal.cases) {
      if (!known(family)) continue;
      if (std::any_of(cases.begin(), cases.end(),
                      [&, f = family, n = name](const Case& c) { return c.family == f && c.name == n; }))
        continue;
      cases.push_back(make_case(find_family(family), name, DType::f32));
    }
  }
  return cases;
}

bool suits(std::string_view suite, const Case& c, const DeviceContext& device, bool all) {
  constexpr double slow_flops = 3e9;
  if (device.caps().machine() == Machine::cpu_lanes && c.flops > slow_flops) return false;
  if (all) return true;
  const std::string backend = device.id().substr(0, device.id().find(':'));
  bool elsewhere = false;
  for (const Goal& goal : goals_of(suite)) {
    if (std::find(goal.cases.begin(), goal.cases.end(), std::make_pair(c.family, c.name)) == goal.cases.end()) continue;
    if (goal.device == backend) return true;
    elsewhere |= !goal.device.empty();
  }
  // A device that no goal names (a GPU) runs everything.
  return !elsewhere || (backend != "opencl" && backend != "vulkan") || device.caps().device_class != DeviceClass::cpu;
}

std::vector<Verdict> judge(std::string_view suite, const std::vector<Row>& rows) {
  std::vector<Verdict> verdicts;
  for (const Goal& goal : goals_of(suite)) {
    std::vector<double> values;
    for (const auto& [family, name] : goal.cases) {
      for (const Row& row : rows) {
        if (row.family != family || row.name != name || row.device.substr(0, row.device.find(':')) != goal.device)
          continue;
        if (const auto value = value_of(goal, row)) values.push_back(*value);
      }
    }
    if (values.empty()) continue;
    Verdict v{&goal, 0, false, static_cast<int>(values.size())};
    if (goal.value == Value::speedup)
      v.value = values.back() / values.front();
    else if (goal.over == Over::geometric_mean)
      v.value = geometric_mean(values);
    else
      v.value = goal.at_most() ? *std::max_element(values.begin(), values.end())
                               : *std::min_element(values.begin(), values.end());
    v.met = goal.at_most() ? v.value <= goal.limit : v.value >= goal.limit;
    verdicts.push_back(v);
  }
  return verdicts;
}

}  // namespace heddle::bench
