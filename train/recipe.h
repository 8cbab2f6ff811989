// Recipes: tasks by name, with the options that suit them.
//
//   train::Config config = train::recipe_config("mnist-mlp");
//   config.set("training.epochs", "2");
//   auto task = train::make_task(config, device);
//   train::Trainer(*task, config, device).run();
//
// Errors: ValueError for an unknown recipe or model option, those of the data. Thread safety: the table is immutable.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/data/preprocess.h"
#include "heddle/train/config.h"
#include "heddle/train/model_file.h"
#include "heddle/train/predictor.h"
#include "heddle/train/task.h"

namespace heddle::train {

// What a task is made of.
struct TaskRequest {
  Config& config;  // a task that is made settles what depends on the device: the run's config.toml has it
  DeviceContext& device;
  const data::Preprocessing& stored;  // of the model that is to be used; empty for a new one
  const Metadata& metadata;           // the same as it stands in the file
};

// A network without its data, and what one call of it takes: a batch of one.
struct Network {
  std::shared_ptr<nn::Module> model;
  Shape input;
  DType dtype = DType::f32;  // i32: tokens
};

struct Recipe {
  std::string name;
  std::string help;                 // one line
  std::vector<ModelOption> model;   // keys of [model]
  std::vector<std::string> unused;  // options that it has no meaning for, e.g. "data.mixup": they are refused
  void (*defaults)(Config& config);
  std::unique_ptr<Task> (*make)(const TaskRequest& request);
  // A model of it, to be used without its training data; null: it predicts nothing.
  std::unique_ptr<Predictor> (*predictor)(const TaskRequest& request) = nullptr;
  // The network of a stored model.
  Network (*network)(const TaskRequest& request);
};

std::span<const Recipe> recipes();
// ValueError that lists what there is.
const Recipe& find_recipe(std::string_view name);
// The recipe's defaults over those of Config.
Config recipe_config(std::string_view name);
// Weights are drawn from config.run.seed, the same on every device, or read from config.run.init_from unless a stored
// model is to be used; parameters that config.run.freeze names do not train; data is read. Refuses options of [model]
// that the recipe does not have, and those that it has no use for. `stored`: the metadata of the model whose
// preprocessing is to be used.
std::unique_ptr<Task> make_task(Config& config, DeviceContext& device, const Metadata& stored = {});
// A trained model, ready to be used. ValueError for one of a recipe that predicts nothing, IoError for one without what
// its recipe stores.
std::unique_ptr<Predictor> make_predictor(ModelFile& file, DeviceContext& device);
// The network of a trained model with its weights, in evaluation mode, whatever its recipe. IoError for one without
// what its recipe stores.
Network make_network(ModelFile& file, DeviceContext& device);

}  // namespace heddle::train
