// heddle import: what a model of another maker takes and gives, and what of it cannot run; its table of ops.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "tools/cli.h"
#if HEDDLE_HAS_ONNX
#include "heddle/onnx/op_page.h"
#include "heddle/onnx/package.h"
#include "tools/compile_model.h"
#include "tools/import_model.h"
#endif

namespace heddle::tools {
namespace {

struct ImportOptions {
  std::string file, output, golden = "reference:0";
  std::vector<std::string> shapes;
  bool json = false, ops = false;
};

#if HEDDLE_HAS_ONNX
void show(const onnx::Report& report) {
  for (const onnx::Port& port : report.inputs)
    fmt::print("input   {}  {} {}\n", port.name, type_name(port.type), sizes_of(port));
  for (const onnx::Port& port : report.outputs)
    fmt::print("output  {}  {} {}\n", port.name, type_name(port.type), sizes_of(port));
  for (const auto& [domain, version] : report.opsets)
    fmt::print("opset   {}{}{}\n", domain, domain.empty() ? "" : " ", version);
  fmt::print("nodes   {}\n", report.nodes);
  if (!report.waits.empty())
    fmt::print("sized by values, so that the host waits there: {}\n", fmt::join(report.waits, ", "));
  if (!report.runs()) fmt::print("cannot run:\n{}\n", report.text());
}

// With what the model gives for drawn inputs, where it runs without more being said about its sizes.
void write(const ImportOptions& o, const onnx::Report& report, const onnx::InputShapes& shapes) {
  const onnx::Package package = onnx::package_of(o.file, shapes);
  std::vector<ModelPart> parts = package.parts();
  std::vector<uint8_t> bytes;
  if (const std::optional<Golden> golden = GoldenMaker(o.file, o.golden).make(report.inputs, {})) {
    bytes = golden_bytes(*golden);
    parts.push_back(golden_part(*golden, "", bytes));
  }
  write_model_parts(o.output, parts, package.metadata);
}

void run(Cli& cli, const ImportOptions& o) {
  if (o.ops) return fmt::print("{}", onnx::op_page());
  if (o.file.empty()) throw ValueError("[import] which file? heddle import net.onnx");
  if (!o.output.empty() && !onnx::is_package(o.output))
    throw ValueError(fmt::format("[import] {}: a model is written as a .heddle file", o.output));
  if (!o.output.empty() && onnx::is_package(o.file))
    throw ValueError(fmt::format("[import] {} is a .heddle file already", o.file));
  onnx::Report report = onnx::inspect(o.file);
  onnx::InputShapes shapes;
  for (const std::string& shape : o.shapes) {
    const onnx::Port& input = set_shape(report, shape);
    shapes[input.name] = *input.shape;
  }
  if (report.runs() && !o.output.empty()) write(o, report, shapes);
  if (o.json)
    print_json(report_json(report));
  else
    show(report);
  if (!report.runs()) cli.exit_code = exit_user_error;
}
#else
void run(Cli&, const ImportOptions&) {
  throw ValueError("[import] this build reads no ONNX" + std::string(without_onnx));
}
#endif

}  // namespace

void add_import(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("import", "Read a model of another maker (ONNX): inputs, outputs, what cannot run");
  auto options = std::make_shared<ImportOptions>();
  ImportOptions& o = *options;
  command->add_option("file", o.file, "A .onnx file, or a .heddle file made of one");
  command->add_option("-o,--output", o.output, "Write the model and its weights as one .heddle file");
  command->add_option("--golden", o.golden, "Device that gives the golden vectors of that file, or none")
      ->capture_default_str();
  command->add_option("--shape", o.shapes,
                      "Sizes of an input, such as 'x=N,3,H,W': numbers, or names of sizes that vary");
  command->add_flag("--ops", o.ops, "Print the ops that are known, as docs/onnx.md");
  add_json_option(*command, o.json);
  command->footer(
      "Exit code 2 when a node cannot run; all of them are named, with what they would need, and nothing is written.\n"
      "Example:\n  heddle import net.onnx -o net.heddle\n  heddle run net.heddle --input x=x.npy --output out");
  command->callback([options, &cli] { run(cli, *options); });
}

}  // namespace heddle::tools
