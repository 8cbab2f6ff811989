// heddle summary
#include "heddle/nn/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/io/safetensors.h"
#include "heddle/nn/init.h"
#include "heddle/nn/models/known.h"
#include "heddle/train/feed.h"
#include "heddle/train/recipe.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

struct SummaryOptions {
  std::string model, data;
  std::vector<int64_t> input;
  int64_t batch = 1;
  bool json = false;
};

Json shape_json(const Shape& shape) {
  Json sizes = Json::array();
  for (int axis = 0; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
  return sizes;
}

Json to_json(const std::string& name, const Shape& input, const nn::Summary& summary) {
  Json rows = Json::array();
  for (const nn::SummaryRow& row : summary.rows) {
    rows.push_back({{"path", row.path},
                    {"kind", row.kind},
                    {"output", row.calls == 0 ? Json() : shape_json(row.output)},
                    {"calls", row.calls},
                    {"parameters", row.parameters},
                    {"flops", row.flops},
                    {"backward_flops", row.backward_flops},
                    {"output_bytes", row.output_bytes},
                    {"kept_bytes", row.kept_bytes}});
  }
  return {{"model", name},
          {"input", shape_json(input)},
          {"parameters", summary.parameters},
          {"trained", summary.trained},
          {"parameter_bytes", summary.parameter_bytes},
          {"flops", summary.flops},
          {"backward_flops", summary.backward_flops},
          {"output_bytes", summary.output_bytes},
          {"kept_bytes", summary.kept_bytes},
          {"layers", rows}};
}

Shape input_shape(const SummaryOptions& o, const nn::KnownModel& known) {
  const Shape& usual = known.input;
  if (!o.input.empty() && static_cast<int>(o.input.size()) != usual.rank() - 1) {
    throw ValueError(fmt::format("[summary] --input {} has {} sizes; {} takes {}, such as {}", fmt::join(o.input, "x"),
                                 o.input.size(), known.name, usual.rank() - 1, usual.str()));
  }
  Shape shape{o.batch};
  for (int axis = 1; axis < usual.rank(); ++axis) {
    const int64_t size = o.input.empty() ? usual[axis] : o.input[static_cast<size_t>(axis - 1)];
    if (size < 1)
      throw ValueError(fmt::format("[summary] --input {}: sizes must be positive", fmt::join(o.input, "x")));
    shape.push_back(size);
  }
  return shape;
}

void show(const SummaryOptions& o, const Shape& input, const nn::Summary& summary) {
  if (o.json) return print_json(to_json(o.model, input, summary));
  fmt::print("{} of {}\n{}", o.model, input.str(), summary.str());
}

void summarize_model(const SummaryOptions& o) {
  const nn::KnownModel& known = nn::find_model(o.model);
  const Shape shape = input_shape(o, known);
  const std::unique_ptr<DeviceContext> device = nn::blank_device();
  const nn::init::SkipScope skip;
  const std::unique_ptr<nn::Module> model = known.make(device.get());
  show(o, shape, nn::summarize(*model, zeros(shape, known.dtype, device.get())));
}

// The loss of a batch of the recipe's data.
void summarize_recipe(const SummaryOptions& o) {
  if (!o.input.empty())
    throw ValueError("[summary] --input is for models; what a recipe takes is as large as its data");
  train::Config config = train::recipe_config(o.model);
  config.training.batch = o.batch;
  config.data.path = o.data;
  const std::unique_ptr<DeviceContext> device = nn::blank_device();
  const nn::init::SkipScope skip;
  const std::unique_ptr<train::Task> task = train::make_task(config, *device);
  const std::vector<Tensor> batch = train::first_batch(task->training(), config, *device);
  if (batch.empty())
    throw ValueError(fmt::format("[summary] {} has no batch of {} examples", task->training().name, o.batch));
  show(o, batch.at(0).shape(), nn::summarize(task->model(), [&] { return task->loss(batch); }));
}

// Only what a file says: names, shapes and dtypes of tensors.
void summarize_file(const SummaryOptions& o) {
  const SafetensorsFile file = load_safetensors(o.model, &heddle::device("reference:0"));
  int64_t elements = 0;
  uint64_t bytes = 0;
  size_t width = 6;
  Json rows = Json::array();
  for (const auto& [name, tensor] : file.tensors) {
    elements += tensor.numel();
    bytes += static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
    width = std::max(width, name.size());
    rows.push_back({{"name", name},
                    {"shape", shape_json(tensor.shape())},
                    {"dtype", std::string(name_of(tensor.dtype()))},
                    {"elements", tensor.numel()}});
  }
  if (o.json)
    return print_json(
        {{"file", o.model}, {"elements", elements}, {"bytes", bytes}, {"metadata", file.metadata}, {"tensors", rows}});
  fmt::print("{:<{}}  {:<6}{:<20}{:>14}\n", "tensor", width, "dtype", "shape", "elements");
  for (const auto& [name, tensor] : file.tensors)
    fmt::print("{:<{}}  {:<6}{:<20}{:>14}\n", name, width, name_of(tensor.dtype()), tensor.shape().str(),
               tensor.numel());
  fmt::print("{:<{}}  {:<6}{:<20}{:>14}\n", "total", width, "", fmt::format("{} bytes", bytes), elements);
}

bool is_model(const std::string& name) {
  return std::ranges::any_of(nn::known_models(), [&](const nn::KnownModel& model) { return model.name == name; });
}

bool is_recipe(const std::string& name) {
  return std::ranges::any_of(train::recipes(), [&](const train::Recipe& recipe) { return recipe.name == name; });
}

void run(const SummaryOptions& o) {
  if (o.batch < 1) throw ValueError(fmt::format("[summary] --batch is {}, expected 1 or more", o.batch));
  if (fs::path(o.model).extension() == ".safetensors") return summarize_file(o);
  if (!is_model(o.model) && is_recipe(o.model)) return summarize_recipe(o);
  summarize_model(o);
}

}  // namespace

void add_summary(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("summary", "Print the layers of a model: shapes, parameters, operations, activations");
  auto options = std::make_shared<SummaryOptions>();
  SummaryOptions& o = *options;
  std::vector<std::string> names;
  for (const nn::KnownModel& model : nn::known_models()) names.push_back(model.name);
  command
      ->add_option(
          "model", o.model,
          fmt::format("A model ({}), a recipe of `heddle train`, or a .safetensors file", fmt::join(names, ", ")))
      ->required();
  command->add_option("--batch", o.batch, "Examples of a call")->capture_default_str();
  command->add_option("--input", o.input, "Size of an example, such as 3x64x64; default: the model's usual one")
      ->delimiter('x');
  command->add_option("--data", o.data, "File or folder of a recipe's data; default: what it brings along");
  add_json_option(*command, o.json);
  command->footer(
      "forward, backward: 2 operations for each multiply and add of matrix products, convolutions and attention, and "
      "of their gradients. bytes: those of the layers' results. kept: bytes that the "
      "gradient reads.\n"
      "Example:\n  heddle summary resnet18 --batch 32\n  heddle summary runs/mnist-mlp/model.safetensors --json");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
