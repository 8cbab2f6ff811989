// heddle dump
#include "core/exec/dump.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "autograd/autograd.h"
#include "core/base/error.h"
#include "tools/cli.h"
#include "tools/mnist_mlp.h"

namespace heddle::tools {
namespace {

constexpr std::array<std::pair<std::string_view, DumpWhat>, 6> views = {{{"graph", DumpWhat::graph},
                                                                         {"simplified", DumpWhat::simplified},
                                                                         {"groups", DumpWhat::groups},
                                                                         {"source", DumpWhat::source},
                                                                         {"plan", DumpWhat::plan},
                                                                         {"passes", DumpWhat::passes}}};

struct DumpOptions {
  std::string recipe, device, what = "groups";
  int64_t batch = 32;
  bool json = false, passes = false;
};

DumpWhat parse_what(const std::string& name) {
  const auto found = std::find_if(views.begin(), views.end(), [&](const auto& v) { return v.first == name; });
  if (found == views.end())
    throw ValueError(fmt::format("[dump] unknown view '{}'; known: graph, simplified, groups, source, plan, passes", name));
  return found->second;
}

// What is pending when one training step is recorded. A first step has run before, so that the optimizer has its state.
std::string dump_training_step(const DumpOptions& o, DumpWhat what, DeviceContext& device) {
  nn::Sequential model = make_mnist_mlp(1, device);
  nn::Adam optimizer(model.parameters(), nn::AdamOptions{});
  const data::Batch host{o.batch, std::vector<float>(static_cast<size_t>(o.batch) * 784, 0.5f),
                         std::vector<int32_t>(static_cast<size_t>(o.batch), 3)};
  Tensor loss;
  const auto record = [&] {
    const DeviceBatch batch = upload(host, device);
    loss = cross_entropy(model(batch.images), batch.labels);
    backward(loss);
    optimizer.update();
    optimizer.zero_grad();
  };
  record();
  eval_pending();
  record();
  std::string text = dump_pending(what);
  eval_pending();
  return text;
}

void run(const DumpOptions& o) {
  check_recipe(o.recipe);
  const DumpWhat what = o.passes ? DumpWhat::passes : parse_what(o.what);
  if (o.batch < 1 || o.batch > 1 << 20)
    throw ValueError(fmt::format("[dump] --batch is {}, expected 1 to {}", o.batch, 1 << 20));
  DeviceContext& device = open_device(o.device, false);
  const std::string text = dump_training_step(o, what, device);
  if (o.json) {
    print_json({{"recipe", o.recipe}, {"device", device.id()}, {"what", o.passes ? "passes" : o.what}, {"text", text}});
  } else {
    fmt::print("{}", text);
  }
}

}  // namespace

void add_dump(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("dump", "Print a training step: its graph, passes, groups, kernel sources or memory plan");
  auto options = std::make_shared<DumpOptions>();
  DumpOptions& o = *options;
  command->add_option("recipe", o.recipe, "mnist-mlp (with Adam)")->required();
  command->add_option("--what", o.what, "graph (as recorded), simplified, groups, source, plan or passes")
      ->capture_default_str();
  command->add_flag("--passes", o.passes, "What each pass changed, in order: the same as --what passes");
  command->add_option("--batch", o.batch, "Images in the step")->capture_default_str();
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle dump mnist-mlp --what source --device opencl:0");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
