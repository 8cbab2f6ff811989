// heddle run: a model of another maker on arrays of .npy files.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/median.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/data/numpy.h"
#include "tools/cli.h"
#if HEDDLE_HAS_ONNX
#include "heddle/onnx/package.h"
#include "tools/compile_model.h"
#include "tools/import_model.h"
#endif

namespace heddle::tools {
namespace {

struct RunOptions {
  std::string file, output, device;
  std::vector<std::string> inputs;
  int repeat = 0;
  bool json = false, verify = false;
};

#if HEDDLE_HAS_ONNX
std::map<std::string, std::string> files_of(const RunOptions& o) {
  std::map<std::string, std::string> files;
  for (const std::string& text : o.inputs) {
    const size_t equals = text.rfind('=');
    if (equals == std::string::npos) throw ValueError(fmt::format("[run] --input '{}' is not NAME=FILE.npy", text));
    if (!files.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
      throw ValueError(fmt::format("[run] input {} is given twice", text.substr(0, equals)));
  }
  return files;
}

std::vector<onnx::HostTensor> read_inputs(const RunOptions& o, const onnx::Model& model) {
  std::map<std::string, std::string> files = files_of(o);
  std::vector<onnx::HostTensor> inputs;
  for (const onnx::Port& port : model.inputs()) {
    if (port.kind != onnx::PortKind::tensor) throw ValueError(fmt::format("[run] input {} is no tensor", port.name));
    const auto file = files.find(port.name);
    if (file == files.end())
      throw ValueError(fmt::format("[run] input {} is missing: --input {}=FILE.npy", port.name, port.name));
    inputs.push_back(host_tensor(data::read_npy(file->second), port));
    files.erase(file);
  }
  if (!files.empty()) throw ValueError(fmt::format("[run] the model has no input {}", files.begin()->first));
  return inputs;
}

// Inputs that a call of the compiled function takes, and values that it gives; `hosts` are known to the host as well.
struct Program {
  const onnx::Model& model;
  const std::vector<onnx::HostTensor>& hosts;
  std::vector<onnx::Type> types;

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) {
    std::vector<onnx::Value> values;
    for (size_t i = 0; i < inputs.size(); ++i) values.push_back(onnx::Value::given(inputs[i], hosts[i]));
    std::vector<Tensor> results;
    types.clear();
    for (const onnx::Value& value : model.run(std::move(values))) {
      results.push_back(model.tensor(value));
      types.push_back(value.type());
    }
    return results;
  }
};

void write_outputs(const RunOptions& o, const onnx::Model& model, const std::vector<Tensor>& results,
                   const std::vector<onnx::Type>& types) {
  std::error_code error;
  fs::create_directories(o.output, error);
  if (error) throw IoError(fmt::format("[run] {}: {}", o.output, error.message()));
  std::map<std::string, std::string> written;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = model.outputs()[i].name;
    const std::string file = file_name(name) + ".npy";
    const auto [other, fresh] = written.emplace(file, name);
    if (!fresh)
      throw ValueError(fmt::format("[run] outputs {} and {} would both be written to {}", other->second, name, file));
    const auto host = onnx::HostTensor::from_stored(types[i], results[i].shape(), results[i].to_bytes());
    data::write_npy(fs::path(o.output) / file, array_of(host));
  }
}

void verify(const RunOptions& o, const onnx::Model& model, const DeviceContext& device) {
  const size_t compared = onnx::is_package(o.file) ? verify_golden(o.file, model) : 0;
  if (compared == 0) throw ValueError(fmt::format("[run] --verify compares golden vectors, which {} has not", o.file));
  if (o.json)
    print_json({{"event", "verified"}, {"device", device.id()}, {"golden", compared}});
  else
    fmt::print("{} golden vectors agree; {}\n", compared, device.id());
}

void run(const RunOptions& o) {
  if (fs::path(o.file).extension() != ".onnx" && !onnx::is_package(o.file))
    throw ValueError(fmt::format("[run] {} is neither a .onnx nor a .heddle file", o.file));
  if (o.output.empty() && !o.verify) throw ValueError("[run] where to? --output FOLDER");
  if (o.repeat < 0) throw ValueError(fmt::format("[run] --repeat is {}, expected 0 or more", o.repeat));
  DeviceContext& device = open_device(o.device, true);
  onnx::LoadOptions options;
  options.device = &device;
  const onnx::Model model = onnx::load(o.file, options);
  if (o.verify) verify(o, model, device);
  if (o.output.empty()) return;
  const std::vector<onnx::HostTensor> hosts = read_inputs(o, model);
  std::vector<Tensor> inputs;
  for (const onnx::HostTensor& host : hosts) inputs.push_back(model.given(host).tensor());
  const auto program = std::make_shared<Program>(Program{model, hosts, {}});
  const auto compiled = compile([program](const std::vector<Tensor>& x) { return (*program)(x); });
  std::vector<Tensor> results;
  const auto timed = [&] {
    const auto begin = std::chrono::steady_clock::now();
    results = compiled(inputs);
    eval(results);
    device.synchronize();
    return 1000 * seconds_since(begin);
  };
  device.reset_peak_memory();
  std::vector<double> milliseconds{timed()};
  // The first calls record and plan: with --repeat they do not count.
  if (o.repeat > 0) {
    for (int i = 0; i < 3; ++i) timed();
    milliseconds.clear();
  }
  uint64_t before = device.counters().kernels;
  for (int i = 0; i < o.repeat; ++i) {
    before = device.counters().kernels;
    milliseconds.push_back(timed());
  }
  const DeviceCounters counters = device.counters();
  const uint64_t kernels = o.repeat > 0 ? counters.kernels - before : counters.kernels;
  write_outputs(o, model, results, program->types);
  const double middle = median(milliseconds);
  if (o.json) {
    print_json({{"event", "done"},
                {"device", device.id()},
                {"median_ms", middle},
                {"kernels", kernels},
                {"peak_device_bytes", device.memory().peak_bytes},
                {"compiled_kernels", counters.kernels_compiled}});
  } else {
    fmt::print("{} outputs in {}; {}: {:.3f} ms, {} kernels\n", results.size(), o.output, device.id(), middle, kernels);
  }
}
#else
void run(const RunOptions&) {
  throw ValueError(
      "[run] this build reads no ONNX: protobuf was not there (libonnx-dev, libprotobuf-dev, protobuf-compiler)");
}
#endif

}  // namespace

void add_run(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("run", "Run a model of another maker (ONNX) on arrays");
  auto options = std::make_shared<RunOptions>();
  RunOptions& o = *options;
  command->add_option("file", o.file, "A .onnx or .heddle file")->required();
  command->add_option("--input", o.inputs, "NAME=FILE.npy for each input");
  command->add_option("--output", o.output, "Folder for NAME.npy of each output; not needed with --verify");
  command->add_option("--repeat", o.repeat, "Timed calls after the first ones")->capture_default_str();
  command->add_flag("--verify", o.verify, "Compare the golden vectors in the file");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle run net.onnx --input x=x.npy --output out --device opencl:0 --repeat 20 --json");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
