// heddle eval
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "tools/checkpoint.h"
#include "tools/cli.h"
#include "tools/mnist_mlp.h"

namespace heddle::tools {
namespace {

struct EvalOptions {
  std::string recipe, model, data, device;
  int64_t limit_test = 0;
  bool json = false;
};

void run(const EvalOptions& o) {
  check_recipe(o.recipe);
  if (o.limit_test < 0)
    throw ValueError(fmt::format("[eval] --limit-test is {}, expected 0 or more images", o.limit_test));
  DeviceContext& device = open_device(o.device, true);
  nn::Sequential model = make_mnist_mlp(0, device);
  model.load_state_dict(load_model_state(o.model, device));
  const data::Split data = load_images(o.data);
  const auto start = std::chrono::steady_clock::now();
  const Evaluation result = evaluate_images(model, data.test, device, o.limit_test);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (o.json) {
    print_json({{"event", "done"},
                {"device", device.id()},
                {"test_accuracy", result.accuracy},
                {"test_loss", result.loss},
                {"images", result.images},
                {"seconds", seconds}});
  } else {
    fmt::print("test accuracy  {:.4f} on {} images of {}, loss {:.4f}, on {}\n", result.accuracy, result.images,
               data.name, result.loss, device.id());
  }
}

}  // namespace

void add_eval(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("eval", "Test a saved model");
  auto options = std::make_shared<EvalOptions>();
  EvalOptions& o = *options;
  command->add_option("recipe", o.recipe, "mnist-mlp")->required();
  command->add_option("--model", o.model, "model.safetensors or checkpoint.safetensors written by train")->required();
  command->add_option("--data", o.data,
                      "Folder with MNIST's four IDX files; default: the embedded set of drawn digits");
  add_device_option(*command, o.device);
  command->add_option("--limit-test", o.limit_test, "Test on that many images only; 0: all")->capture_default_str();
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle eval mnist-mlp --model runs/mnist-mlp/model.safetensors");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
