#include "heddle/onnx/export.h"

#include <fmt/format.h>

#include <set>

#include "heddle/core/base/error.h"
#include "heddle/core/base/path.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/node.h"
#include "heddle/io/atomic_file.h"
#include "heddle/onnx/export/recorded.h"
#include "heddle/onnx/export/rows.h"
#include "heddle/onnx/export/writer.h"
#include "heddle/onnx/serialize.h"

namespace heddle::onnx {
namespace {

std::vector<std::string> output_names(const std::vector<std::string>& given, size_t count) {
  if (!given.empty() && given.size() != count)
    throw ValueError(fmt::format("[export] {} names for {} outputs", given.size(), count));
  if (!given.empty()) return given;
  if (count == 1) return {"y"};
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(fmt::format("y{}", i));
  return names;
}

void check_names(const WriterOptions& options) {
  std::set<std::string> names;
  for (const std::vector<std::string>* list : {&options.inputs, &options.outputs}) {
    for (const std::string& name : *list) {
      if (name.empty() || !names.insert(name).second)
        throw ValueError(
            fmt::format("[export] the name '{}' of an input or output is {}", name, name.empty() ? "empty" : "taken"));
    }
  }
}

}  // namespace

ModelFile export_model(const ExportFunction& function, const std::vector<ExportInput>& inputs,
                       const ExportOptions& options) {
  if (options.opset < first_exported_opset || options.opset > last_exported_opset)
    throw ValueError(fmt::format("[export] opset {}; {} to {} are written", options.opset, first_exported_opset,
                                 last_exported_opset));
  WriterOptions writing;
  writing.opset = options.opset;
  writing.functions = options.functions;
  eval_pending();  // parameters that were drawn and not yet looked at are values, not a graph
  for (const auto& [name, tensor] : options.names) writing.parameters.try_emplace(tensor.node().get(), name);
  for (const ExportInput& input : inputs) writing.inputs.push_back(input.name);
  DeviceContext& device = options.device ? *options.device : default_device();
  const Recorded recorded =
      record(function, inputs, device, [&](const Composite& note) { return keeps_composite(note, options.opset); });
  writing.outputs = output_names(options.outputs, recorded.graph.results.size());
  check_names(writing);
  ModelFile model = Writer(recorded, writing).finish();
  model.producer = "heddle";
  model.properties = options.properties;
  model.graph.name = "heddle";
  return model;
}

ExportReport save(const std::string& path, const ExportFunction& function, const std::vector<ExportInput>& inputs,
                  const ExportOptions& options) {
  const ModelFile model = export_model(function, inputs, options);
  ExternalFile beside{fs::path(path).filename().string() + ".data"};
  const bool external = options.external_data || needs_external_file(model);
  const std::string bytes = serialize(model, external ? &beside : nullptr);
  if (external) write_file_atomically((fs::path(path).parent_path() / beside.name).string(), beside.parts);
  write_file_atomically(path, bytes);
  ExportReport report;
  report.nodes = model.graph.nodes.size();
  report.functions = model.functions.size();
  report.bytes = bytes.size();
  report.external_bytes = beside.bytes;
  report.inputs = model.graph.inputs;
  report.outputs = model.graph.outputs;
  for (const auto& [name, tensor] : options.names) {
    if (model.graph.constants.count(name) != 0) report.parameters += static_cast<uint64_t>(tensor.numel());
  }
  return report;
}

}  // namespace heddle::onnx
