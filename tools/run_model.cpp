// heddle run: a model of another maker on arrays of .npy files.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/across_runs.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/hash.h"
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
#include "tools/run_inputs.h"
#endif

namespace heddle::tools {
namespace {

struct RunOptions {
  std::string file, output, device;
  std::vector<std::string> inputs, each, carry;
  int repeat = 0;
  bool json = false, verify = false;
};

#if HEDDLE_HAS_ONNX
// Inputs of a call, and what the host knows of them: all of a single call; of several calls integers alone, so that
// numbers that change from call to call (pixels, samples) do not make each of them another program.
struct CallInputs {
  std::vector<Tensor> tensors;
  std::vector<std::optional<onnx::HostTensor>> known;
  std::string key;  // equal where what is known is
};

CallInputs call_inputs(const onnx::Model& model, const RunInputs& inputs, size_t call) {
  CallInputs made;
  for (onnx::HostTensor& host : inputs.of(call)) {
    made.tensors.push_back(model.given(host).tensor());
    const bool known = inputs.calls() == 1 || !onnx::is_float(host.type);
    if (known) made.key += fmt::format("{}{}{};", static_cast<int>(host.type), host.shape.str(), *host.bytes);
    made.known.push_back(known ? std::optional(std::move(host)) : std::nullopt);
  }
  return made;
}

// The model as a function of tensors; `types` are those of its latest results.
struct Program {
  const onnx::Model& model;
  std::vector<std::optional<onnx::HostTensor>> known;
  std::vector<onnx::Type> types;

  std::vector<Tensor> operator()(const std::vector<Tensor>& inputs) {
    std::vector<onnx::Value> values;
    for (size_t i = 0; i < inputs.size(); ++i)
      values.push_back(known[i] ? onnx::Value::given(inputs[i], *known[i])
                                : onnx::Value::computed(inputs[i], onnx::type_of(inputs[i].dtype())));
    std::vector<Tensor> results;
    types.clear();
    for (const onnx::Value& value : model.run(std::move(values))) {
      results.push_back(model.tensor(value));
      types.push_back(value.type());
    }
    return results;
  }
};

// The calls of one `heddle run`, each of which may repeat.
class ModelCalls {
 public:
  ModelCalls(const RunOptions& options, const onnx::Model& model, DeviceContext& device)
      : o_(options), model_(model), device_(device), inputs_(model, o_.inputs, o_.each, o_.carry) {}

  void run() {
    for (size_t call = 0; call < inputs_.calls(); ++call) run(call);
  }

 private:
  using Compiled = decltype(compile(std::declval<std::function<std::vector<Tensor>(const std::vector<Tensor>&)>>()));
  struct Kept {
    std::shared_ptr<Program> program;
    Compiled compiled;
  };

  Kept& program_of(const CallInputs& inputs) {
    const auto found = programs_.find(inputs.key);
    if (found != programs_.end()) return found->second;
    const auto program = std::make_shared<Program>(Program{model_, inputs.known, {}});
    std::function<std::vector<Tensor>(const std::vector<Tensor>&)> f = [program](const std::vector<Tensor>& x) {
      return (*program)(x);
    };
    return programs_.emplace(inputs.key, Kept{program, compile(std::move(f))}).first->second;
  }

  void run(size_t call);
  void report(size_t call, uint64_t compiled, uint64_t kernels, double milliseconds) const;

  const RunOptions& o_;
  const onnx::Model& model_;
  DeviceContext& device_;
  RunInputs inputs_;
  std::map<std::string, Kept> programs_;
  std::vector<Tensor> results_;
};

void write_outputs(const fs::path& folder, const onnx::Model& model, const std::vector<Tensor>& results,
                   const std::vector<onnx::Type>& types) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw IoError(fmt::format("[run] {}: {}", folder.string(), error.message()));
  std::map<std::string, std::string> written;
  for (size_t i = 0; i < results.size(); ++i) {
    const std::string& name = model.outputs()[i].name;
    const std::string file = file_name(name) + ".npy";
    const auto [other, fresh] = written.emplace(file, name);
    if (!fresh)
      throw ValueError(fmt::format("[run] outputs {} and {} would both be written to {}", other->second, name, file));
    const auto host = onnx::HostTensor::from_stored(types[i], results[i].shape(), results[i].to_bytes());
    data::write_npy(folder / file, array_of(host));
  }
}

void ModelCalls::run(size_t call) {
  CallInputs inputs = call_inputs(model_, inputs_, call);
  if (call > 0) {
    for (const auto& [input, output] : inputs_.carried()) inputs.tensors[input] = results_[output];
  }
  Kept& kept = program_of(inputs);
  const auto timed = [&] {
    const auto begin = std::chrono::steady_clock::now();
    results_ = kept.compiled(inputs.tensors);
    eval(results_);
    device_.synchronize();
    return 1000 * seconds_since(begin);
  };
  device_.reset_peak_memory();
  const DeviceCounters start = device_.counters();
  const uint64_t known = across_runs::known_kernels();
  std::vector<double> milliseconds{timed()};
  uint64_t kernels = device_.counters().kernels - start.kernels;
  // The first calls record and plan: with --repeat they do not count.
  if (o_.repeat > 0) {
    for (int i = 0; i < 3; ++i) timed();
    milliseconds.clear();
  }
  for (int i = 0; i < o_.repeat; ++i) {
    const uint64_t before = device_.counters().kernels;
    milliseconds.push_back(timed());
    kernels = device_.counters().kernels - before;
  }
  const fs::path folder = inputs_.calls() == 1 ? fs::path(o_.output) : fs::path(o_.output) / std::to_string(call);
  // Those that the caches had are no compilation.
  const uint64_t compiled =
      device_.counters().kernels_compiled - start.kernels_compiled - (across_runs::known_kernels() - known);
  write_outputs(folder, model_, results_, kept.program->types);
  report(call, compiled, kernels, median(milliseconds));
}

void ModelCalls::report(size_t call, uint64_t compiled, uint64_t kernels, double milliseconds) const {
  const bool single = inputs_.calls() == 1;
  if (!o_.json) {
    fmt::print("{}{} outputs in {}; {}: {:.3f} ms, {} kernels\n", single ? "" : fmt::format("call {}: ", call),
               results_.size(), o_.output, device_.id(), milliseconds, kernels);
    return;
  }
  Json line{{"event", "done"},
            {"device", device_.id()},
            {"median_ms", milliseconds},
            {"kernels", kernels},
            {"peak_device_bytes", device_.memory().peak_bytes},
            {"compiled_kernels", compiled}};
  if (!single) line["call"] = call;
  print_json(line);
}

void verify(const RunOptions& o, const onnx::Model& model, const DeviceContext& device) {
  const size_t compared = onnx::is_package(o.file) ? verify_golden(o.file, model) : 0;
  if (compared == 0) throw ValueError(fmt::format("[run] --verify compares golden vectors, which {} has not", o.file));
  if (o.json)
    print_json({{"event", "verified"}, {"device", device.id()}, {"golden", compared}});
  else
    fmt::print("{} golden vectors agree; {}\n", compared, device.id());
}

// Whether a size of an input is left to the caller.
bool has_open_sizes(const onnx::Model& model) {
  return std::ranges::any_of(model.inputs(), [](const onnx::Port& port) {
    return !port.shape || std::ranges::any_of(*port.shape, [](const onnx::Dimension& d) { return !d.size; });
  });
}

// Of a file by its length and its first bytes, which name its nodes.
uint64_t subject_of(const std::string& path) {
  std::ifstream file(fs::path(path), std::ios::binary);
  std::string first(size_t{1} << 20, '\0');
  file.read(first.data(), static_cast<std::streamsize>(first.size()));
  std::error_code error;
  return hash_combine(fs::file_size(path, error), hash_bytes(first.data(), static_cast<size_t>(file.gcount())));
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
  across_runs::set(has_open_sizes(model), subject_of(o.file));
  ModelCalls(o, model, device).run();
}
#else
void run(const RunOptions&) { throw ValueError("[run] this build reads no ONNX" + std::string(without_onnx)); }
#endif

}  // namespace

void add_run(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("run", "Run a model of another maker (ONNX) on arrays");
  auto options = std::make_shared<RunOptions>();
  RunOptions& o = *options;
  command->add_option("file", o.file, "A .onnx or .heddle file")->required();
  command->add_option("--input", o.inputs,
                      "NAME=FILE.npy for each input; a name with several files makes several calls");
  command->add_option("--each", o.each,
                      "NAME of an input whose array holds, along its first axis, a value for each call");
  command->add_option("--carry", o.carry, "OUTPUT=INPUT: an output that is that input of the next call");
  command->add_option("--output", o.output,
                      "Folder for NAME.npy of each output, of several calls N/NAME.npy; not needed with --verify");
  command->add_option("--repeat", o.repeat, "Timed calls after the first ones")->capture_default_str();
  command->add_flag("--verify", o.verify, "Compare the golden vectors in the file");
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer("Example:\n  heddle run net.onnx --input x=x.npy --output out --device opencl:0 --repeat 20 --json");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
