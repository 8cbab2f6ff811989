// heddle summary
#include "nn/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "io/safetensors.h"
#include "nn/init.h"
#include "nn/models/known.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

struct SummaryOptions {
  std::string model;
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
    rows.push_back({{"path", row.path}, {"kind", row.kind}, {"output", row.calls == 0 ? Json() : shape_json(row.output)}, {"calls", row.calls}, {"parameters", row.parameters},
                    {"flops", row.flops}, {"output_bytes", row.output_bytes}, {"kept_bytes", row.kept_bytes}});
  }
  return {{"model", name},
          {"input", shape_json(input)},
          {"parameters", summary.parameters},
          {"trained", summary.trained},
          {"parameter_bytes", summary.parameter_bytes},
          {"flops", summary.flops},
          {"output_bytes", summary.output_bytes},
          {"kept_bytes", summary.kept_bytes},
          {"layers", rows}};
}

Shape input_shape(const SummaryOptions& o, const nn::KnownModel& known) {
  const Shape& usual = known.input;
  if (o.batch < 1) throw ValueError(fmt::format("[summary] --batch is {}, expected 1 or more", o.batch));
  if (!o.input.empty() && static_cast<int>(o.input.size()) != usual.rank() - 1) {
    throw ValueError(fmt::format("[summary] --input {} has {} sizes; {} takes {}, such as {}", fmt::join(o.input, "x"), o.input.size(), known.name, usual.rank() - 1, usual.str()));
  }
  Shape shape{o.batch};
  for (int axis = 1; axis < usual.rank(); ++axis) {
    const int64_t size = o.input.empty() ? usual[axis] : o.input[static_cast<size_t>(axis - 1)];
    if (size < 1) throw ValueError(fmt::format("[summary] --input {}: sizes must be positive", fmt::join(o.input, "x")));
    shape.push_back(size);
  }
  return shape;
}

void summarize_model(const SummaryOptions& o) {
  const nn::KnownModel& known = nn::find_model(o.model);
  const Shape shape = input_shape(o, known);
  const std::unique_ptr<DeviceContext> device = nn::blank_device();
  const nn::init::SkipScope skip;
  const std::unique_ptr<nn::Module> model = known.make(device.get());
  const nn::Summary summary = nn::summarize(*model, zeros(shape, known.dtype, device.get()));
  if (o.json) return print_json(to_json(o.model, shape, summary));
  fmt::print("{} of {}\n{}", o.model, shape.str(), summary.str());
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
    rows.push_back({{"name", name}, {"shape", shape_json(tensor.shape())}, {"dtype", std::string(name_of(tensor.dtype()))}, {"elements", tensor.numel()}});
  }
  if (o.json) return print_json({{"file", o.model}, {"elements", elements}, {"bytes", bytes}, {"metadata", file.metadata}, {"tensors", rows}});
  fmt::print("{:<{}}  {:<6}{:<20}{:>14}\n", "tensor", width, "dtype", "shape", "elements");
  for (const auto& [name, tensor] : file.tensors) fmt::print("{:<{}}  {:<6}{:<20}{:>14}\n", name, width, name_of(tensor.dtype()), tensor.shape().str(), tensor.numel());
  fmt::print("{:<{}}  {:<6}{:<20}{:>14}\n", "total", width, "", fmt::format("{} bytes", bytes), elements);
}

}  // namespace

void add_summary(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("summary", "Print the layers of a model: shapes, parameters, operations, activations");
  auto options = std::make_shared<SummaryOptions>();
  SummaryOptions& o = *options;
  std::vector<std::string> names;
  for (const nn::KnownModel& model : nn::known_models()) names.push_back(model.name);
  command->add_option("model", o.model, fmt::format("A .safetensors file, or any of: {}", fmt::join(names, ", ")))->required();
  command->add_option("--batch", o.batch, "Examples of a call")->capture_default_str();
  command->add_option("--input", o.input, "Size of an example, such as 3x64x64; default: the model's usual one")->delimiter('x');
  add_json_option(*command, o.json);
  command->footer(
      "flop: 2 for each multiply and add of matrix products, convolutions and attention. output: bytes of the layers' results. kept: bytes that the gradient reads.\n"
      "Example:\n  heddle summary resnet18 --batch 32\n  heddle summary runs/mnist-mlp/model.safetensors --json");
  command->callback([options] { std::filesystem::path(options->model).extension() == ".safetensors" ? summarize_file(*options) : summarize_model(*options); });
}

}  // namespace heddle::tools
