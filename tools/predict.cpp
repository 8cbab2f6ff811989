// heddle predict
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/device/context.h"
#include "heddle/train/recipe.h"
#include "tools/cli.h"
#include "tools/output.h"
#include "tools/predictions.h"

namespace heddle::tools {
namespace {

struct PredictCommand {
  std::string model, device, csv;
  std::vector<std::string> files;
  train::PredictOptions options;
  int64_t top = 5;
  bool json = false;
};

void run(const PredictCommand& o) {
  if (o.top < 1) throw ValueError(fmt::format("[predict] --top is {}, expected at least 1", o.top));
  DeviceContext& device = open_device(o.device, true);
  train::ModelFile file = train::read_model_file(o.model, device);
  const std::unique_ptr<train::Predictor> predictor = train::make_predictor(file, device);
  std::optional<PredictionFile> csv;
  if (!o.csv.empty()) csv.emplace(o.csv);
  predictor->predict(o.files, o.options, [&](const train::Prediction& prediction) {
    if (csv) csv->add(prediction);
    if (o.json)
      print_out(prediction_json(prediction, o.top) + '\n');
    else if (!csv)
      print_out(prediction_text(prediction, o.top) + '\n');
  });
  if (csv) csv->finish();
  for (const std::string& remark : predictor->remarks()) print_error("heddle: {}\n", one_line(remark));
}

}  // namespace

void add_predict(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("predict", "Ask a trained model about images, or about the rows of a table");
  auto options = std::make_shared<PredictCommand>();
  PredictCommand& o = *options;
  command->add_option("model", o.model, "Folder of a run, or its model.safetensors or a checkpoint")->required();
  command
      ->add_option("files", o.files,
                   "Images (.png, .jpg), folders of images, or .csv tables with the columns of the training")
      ->required();
  command->add_option("--csv", o.csv, "File for the answers, one row each, instead of text")->type_name("FILE");
  command->add_option("--top", o.top, "Classes of an answer, the likeliest first")->capture_default_str();
  command->add_flag("--skip-broken", o.options.skip_broken,
                    "Leave out images that cannot be read, and count them, instead of ending at the first");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer(
      "Files are prepared as the evaluations of the training prepared theirs; all it takes is in the model's file.\n"
      "Example:\n  heddle predict runs/image-classifier photo.jpg --json\n"
      "  heddle predict runs/table houses.csv --csv prices.csv");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
