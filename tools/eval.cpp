// heddle eval
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/device/context.h"
#include "heddle/train/model_file.h"
#include "heddle/train/recipe.h"
#include "tools/cli.h"
#include "tools/config_options.h"
#include "tools/predictions.h"
#include "tools/train_report.h"

namespace heddle::tools {
namespace {

struct EvalOptions {
  std::string recipe, model, predictions;
  ConfigOptions options;
  bool json = false;
};

// A row for each example that the last figure of a run is of.
int64_t write_predictions(const EvalOptions& o, train::Task& task, const train::Config& config) {
  PredictionFile file(o.predictions);
  const bool predicts =
      task.predict(config.data.limit_test, [&](const train::Prediction& prediction) { file.add(prediction); });
  if (!predicts)
    throw ValueError(
        fmt::format("[eval] --predictions: a model of {} predicts neither classes nor numbers", config.run.recipe));
  file.finish();
  return file.size();
}

// A single argument is the model.
void resolve(EvalOptions& o) {
  if (o.model.empty()) o.model = std::exchange(o.recipe, "");
  const bool is_recipe = std::ranges::any_of(train::recipes(), [&](const auto& r) { return r.name == o.model; });
  if (o.model.empty() || (is_recipe && !fs::exists(o.model)))
    throw ValueError("[eval] which model? heddle eval RUN, or --model RUN");
}

void run(const EvalOptions& o) {
  train::Config given;
  o.options.apply(given);
  DeviceContext& device = open_device(given.run.device, true);
  const train::ModelFile file = train::read_model_file(o.model, device);
  if (!o.recipe.empty() && o.recipe != file.config.run.recipe)
    throw ValueError(fmt::format("[eval] {} is a model of {}, not of {}", file.path, file.config.run.recipe, o.recipe));
  train::Config config = file.config;
  o.options.apply(config);
  const std::unique_ptr<train::Task> task = train::make_task(config, device, file.metadata);
  task->model().load_state_dict(file.state);
  task->model().eval();
  for (const std::string& remark : task->remarks()) print_error("heddle: {}\n", one_line(remark));
  const NoGradScope no_grad;
  const auto start = std::chrono::steady_clock::now();
  train::Evaluation e = task->test(config.data.limit_test);
  if (e.examples == 0) e = task->evaluate(config.data.limit_test);
  const double seconds = seconds_since(start);
  const int64_t written = o.predictions.empty() ? 0 : write_predictions(o, *task, config);
  if (!o.json) {
    fmt::print("{} on {} examples of {}, on {}\n{}", evaluation_line(e), with_commas(static_cast<double>(e.examples)),
               task->training().name, device.id(), evaluation_tables(e));
    if (written > 0) fmt::print("{} predictions in {}\n", with_commas(static_cast<double>(written)), o.predictions);
    return;
  }
  Json done = {{"event", "done"},
               {"device", device.id()},
               {"split", e.split},
               {"examples", e.examples},
               {e.split + "_loss", e.loss}};
  for (const auto& [name, value] : e.metrics) done[e.split + "_" + name] = value;
  if (!e.confusion.empty()) done["confusion"] = e.confusion;
  for (const train::RiskPoint& point : e.curve) done["curve"].push_back({point.threshold, point.coverage, point.risk});
  if (written > 0) done["predictions"] = written;
  done["seconds"] = seconds;
  print_json(done);
}

}  // namespace

void add_eval(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("eval", "Test a saved model");
  auto options = std::make_shared<EvalOptions>();
  EvalOptions& o = *options;
  command->add_option("model_or_recipe", o.recipe,
                      "Folder of a run, or its model.safetensors or a checkpoint; with --model what it was trained as");
  command->add_option("--model", o.model, "The same as the first argument");
  command->add_option("--predictions", o.predictions, "File for what the model says of each example, in rows of CSV")
      ->type_name("FILE");
  o.options.add_to(*command);
  add_json_option(*command, o.json);
  command->footer(
      "Options are those of the run that made the model, unless given here. Of data of one's own with --validation 0 "
      "all is looked at, not the part that the run held out.\nExample:\n  heddle eval runs/mnist-mlp");
  command->callback([options] {
    resolve(*options);
    run(*options);
  });
}

}  // namespace heddle::tools
