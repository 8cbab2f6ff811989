// heddle export: a trained model, or a known one, as a .onnx file; language models are tools/export_language.h's.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/data/numpy.h"
#include "heddle/io/weights_file.h"
#include "heddle/nn/models/known.h"
#include "heddle/train/recipe.h"
#include "heddle/train/recipes/base_model.h"
#include "tools/cli.h"
#include "tools/export_language.h"
#if HEDDLE_HAS_ONNX
#include "heddle/onnx/export.h"
#include "tools/import_model.h"
#endif

namespace heddle::tools {
namespace {

struct ExportCommand {
  std::string model, output, shape, weights, example, device, adapter, type;
  int opset = 17;
  bool plain = false, external = false, json = false;
};

#if HEDDLE_HAS_ONNX
// What is exported, and what is said of it in the file.
struct Exported {
  train::Network network;
  Metadata metadata;
};

Exported of_run(const ExportCommand& o, DeviceContext& device) {
  if (!o.weights.empty()) throw ValueError("[export] --weights is for models of `heddle summary`; a run has its own");
  train::ModelFile file = train::read_model_file(o.model, device);
  Exported made{train::make_network(file, device), {}};
  made.metadata = std::move(file.metadata);
  return made;
}

Exported of_known(const ExportCommand& o, DeviceContext& device) {
  const nn::KnownModel& known = nn::find_model(o.model);
  Exported made{{known.make(&device), known.input, known.dtype}, {{"name", known.name}}};
  if (!o.weights.empty()) made.network.model->load_state_dict(load_weights(o.weights, &device).tensors);
  made.network.model->eval();
  return made;
}

std::vector<onnx::Dimension> shape_of(const ExportCommand& o, const Shape& usual) {
  std::vector<onnx::Dimension> shape;
  for (int axis = 0; axis < usual.rank(); ++axis) shape.push_back({usual[axis], ""});
  shape[0] = {{}, "N"};
  if (o.shape.empty()) return shape;
  std::vector<onnx::Dimension> given = dimensions_of(o.shape);
  const auto complete = [](const onnx::Dimension& d) { return d.size ? *d.size > 0 : !d.name.empty(); };
  if (given.size() != shape.size() || !std::ranges::all_of(given, complete))
    throw ValueError(fmt::format("[export] --shape '{}' does not fit: the model takes {} sizes, such as {}", o.shape,
                                 usual.rank(), usual.str()));
  return given;
}

// Two of each size that varies.
Shape example_shape(const std::vector<onnx::Dimension>& shape) {
  Shape sizes;
  for (const onnx::Dimension& d : shape) sizes.push_back(d.size.value_or(2));
  return sizes;
}

void write_array(const std::string& path, const Tensor& tensor) {
  data::write_npy(
      path, array_of(onnx::HostTensor::from_stored(onnx::type_of(tensor.dtype()), tensor.shape(), tensor.to_bytes())));
}

// x.npy, drawn at random, and y.npy, what the model itself makes of it.
void write_example(const ExportCommand& o, nn::Module& model, const onnx::ExportInput& input, DeviceContext& device) {
  std::error_code error;
  fs::create_directories(o.example, error);
  if (error) throw IoError(fmt::format("[export] {}: {}", o.example, error.message()));
  const NoGradScope no_grad;
  const Shape shape = example_shape(input.shape);
  Generator generator{1, 0};
  const Tensor drawn = uniform(shape, 0, 1, &device, &generator);
  // Few tokens, which every vocabulary has.
  const Tensor x = is_float(input.dtype) ? drawn * 2 - 1 : cast(drawn * 8, input.dtype);
  write_array(fs::path(o.example) / "x.npy", x);
  write_array(fs::path(o.example) / "y.npy", model(x));
}

Json json_of(const ExportCommand& o, const onnx::ExportReport& report) {
  onnx::Report ports;
  ports.inputs = report.inputs;
  ports.outputs = report.outputs;
  const Json described = report_json(ports);
  return {{"event", "exported"},
          {"file", o.output},
          {"opset", o.opset},
          {"inputs", described["inputs"]},
          {"outputs", described["outputs"]},
          {"nodes", report.nodes},
          {"functions", report.functions},
          {"parameters", report.parameters},
          {"bytes", report.bytes},
          {"external_bytes", report.external_bytes}};
}

std::string described(const onnx::Port& port) {
  return fmt::format("{} {} {}", port.name, type_name(port.type), sizes_of(port));
}

void run(const ExportCommand& o) {
  if (fs::path(o.output).extension() != ".onnx")
    throw ValueError(fmt::format("[export] {}: a model is written as a .onnx file", o.output));
  DeviceContext& device = open_device(o.device, true);
  const Exported made = fs::exists(o.model) ? of_run(o, device) : of_known(o, device);
  nn::Module& model = *made.network.model;
  const onnx::ExportInput input{"x", made.network.dtype, shape_of(o, made.network.input)};
  onnx::ExportOptions options;
  options.opset = o.opset;
  options.functions = !o.plain;
  options.external_data = o.external;
  options.device = &device;
  options.names = model.state_dict();
  for (const auto& [key, value] : made.metadata) options.properties["heddle." + key] = value;
  const onnx::ExportReport report = onnx::save(
      o.output, [&](const std::vector<Tensor>& x) { return std::vector{model(x[0])}; }, {input}, options);
  if (!o.example.empty()) write_example(o, model, input, device);
  if (o.json) return print_json(json_of(o, report));
  fmt::print("{}: {} -> {}, opset {}, {} nodes, {} functions, {} parameters, {} bytes\n", o.output,
             described(report.inputs[0]), described(report.outputs[0]), o.opset, report.nodes, report.functions,
             report.parameters, report.bytes + report.external_bytes);
}
#else
void run(const ExportCommand&) { throw ValueError("[export] this build writes no ONNX" + std::string(without_onnx)); }
#endif

}  // namespace

void add_export(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand(
      "export", "Write a trained model as a .onnx file, or a language model with its adapter as .gguf or a folder");
  auto options = std::make_shared<ExportCommand>();
  ExportCommand& o = *options;
  command
      ->add_option("model", o.model,
                   "Folder of a run, or its model.safetensors or a checkpoint; or a model of `heddle summary`; or a "
                   "language model: a GGUF file, or a folder of Hugging Face")
      ->required();
  command
      ->add_option("-o,--output,--out", o.output,
                   "The .onnx file; of a language model the .gguf file, or a folder that is empty or not there")
      ->required()
      ->type_name("FILE");
  command->add_option("--adapter", o.adapter,
                      "Folder of PEFT with adapters (heddle finetune), merged into a language model's weights");
  command->add_option(
      "--type", o.type,
      "Of a language model's matrices: f32, f16, bf16, and in a .gguf file q8_0, q6_k, q4_k, q4_1, q4_0; "
      "default: the base's, of a folder as .gguf f16");
  command->add_option("--opset", o.opset, "Version of ONNX's ops, 17 to 21")->capture_default_str();
  command->add_option("--shape", o.shape,
                      "Sizes of the input, such as 'N,3,224,224': numbers, or names of those that vary");
  command->add_flag(
      "--plain", o.plain,
      "Standard ops alone: what ONNX lacks as nodes, not as functions of the file, for readers without those");
  command->add_flag("--external-data", o.external,
                    "Weights in a file of their own, FILE.data, as those of 2 GiB and more always are");
  command->add_option("--weights", o.weights, "Weights of a model of `heddle summary`: .safetensors, or PyTorch's")
      ->type_name("FILE");
  command->add_option("--example", o.example,
                      "Folder for x.npy, a random input, and y.npy, what the model makes of it");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer(
      "The batch varies unless --shape gives a number. What a file is prepared with before it enters the model, and "
      "its\n"
      "classes or tokenizer, are stored as the file's properties. An op that ONNX lacks is named, with its count, and\n"
      "nothing is written.\n"
      "Example:\n  heddle export runs/mnist-cnn -o digits.onnx\n  heddle export runs/char-gpt -o gpt.onnx --shape N,T\n"
      "  heddle export smollm2.gguf --adapter runs/finetune/adapter --type q4_k -o merged.gguf");
  command->callback([options] {
    const ExportCommand& given = *options;
    if (train::is_base_model(given.model))
      return export_language_model({given.model, given.adapter, given.output, given.type, given.device, given.json});
    if (!given.adapter.empty() || !given.type.empty())
      throw ValueError("[export] --adapter and --type are for a GGUF file or a folder of Hugging Face");
    run(given);
  });
}

}  // namespace heddle::tools
