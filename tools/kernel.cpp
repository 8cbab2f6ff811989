// heddle kernel
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/system/terminal.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/dialect/harness.h"
#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/dialect/printer.h"
#include "heddle/core/graph/philox.h"
#include "tools/cli.h"
#include "tools/kernel_binary.h"

namespace heddle::tools {
namespace {

struct KernelOptions {
  std::string file, device, print;
  std::vector<std::string> set, constants, types, sizes;
  int repeat = 10;
  int sm = 80;
  bool json = false;
};

// "NAME=VALUE" -> both.
std::pair<std::string, std::string> split_setting(const std::string& text, const char* option) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size()) {
    throw ValueError(fmt::format("[kernel] {} '{}' is not of the form NAME=VALUE", option, text));
  }
  return {text.substr(0, at), text.substr(at + 1)};
}

template <class T>
T number_in(const std::string& text, const std::string& whole, const char* option) {
  const std::optional<T> value = parse_number<T>(text);
  if (!value) throw ValueError(fmt::format("[kernel] {} '{}': '{}' is not a number", option, whole, text));
  return *value;
}

KernelFile open_file(const std::string& name) {
  return name.find('/') == std::string::npos && !name.ends_with(".hk") ? KernelFile::builtin(name)
                                                                       : KernelFile::load(name);
}

KernelFile::Options instance_options(const KernelOptions& o) {
  KernelFile::Options options;
  for (const std::string& text : o.set) {
    const auto [name, value] = split_setting(text, "--set");
    options.tunables[name] = number_in<int64_t>(value, text, "--set");
  }
  for (const std::string& text : o.types) {
    const auto [name, value] = split_setting(text, "--type");
    options.types[name] = parse_dtype(value);
  }
  return options;
}

KernelConstants constants_of(const KernelOptions& o) {
  KernelConstants constants;
  for (const std::string& text : o.constants) {
    const auto [name, value] = split_setting(text, "--const");
    constants[name] = number_in<double>(value, text, "--const");
  }
  return constants;
}

// Elements of a buffer that was given no --size: the product of the sizes among the constants bounds what bodies index.
size_t default_size(const KernelConstants& constants) {
  constexpr double least = 1 << 12, most = 1 << 24;
  double product = 1;
  for (const auto& [name, value] : constants) product *= std::max(1.0, value);
  return static_cast<size_t>(std::clamp(product, least, most));
}

KernelArrays arrays_for(const KernelOptions& o, const KernelFile& file, const KernelSource& source,
                        const Bindings& tunables, const KernelConstants& constants) {
  std::map<std::string, size_t> sizes;
  for (const std::string& text : o.sizes) {
    const auto [name, value] = split_setting(text, "--size");
    sizes[name] = number_in<size_t>(value, text, "--size");
    if (sizes[name] > size_t{1} << 30)
      throw ValueError(fmt::format("[kernel] --size '{}': at most {} elements", text, size_t{1} << 30));
  }
  Bindings values;
  for (const auto& [name, value] : constants) values[name] = static_cast<int64_t>(value);
  KernelArrays arrays;
  uint32_t stream = 0;
  for (const BufferParam& buffer : source.buffers) {
    const auto given = sizes.find(buffer.name);
    const int64_t touched = std::clamp<int64_t>(file.bounds(buffer.name, tunables, values)[1], 0, int64_t{1} << 30);
    const size_t fallback = std::max(default_size(constants), static_cast<size_t>(touched));
    KernelArray array = KernelArray::zeros(buffer.dtype, given == sizes.end() ? fallback : given->second);
    ++stream;
    for (size_t i = 0; buffer.access != Access::write && i < array.size(); ++i) {
      const double u = philox_uniform({1, 2, stream, 4}, i);
      store_element(array.bytes.data(), buffer.dtype, i,
                    is_float(buffer.dtype) ? u - 0.5 : static_cast<double>(static_cast<int>(u * 10)));
    }
    if (given != sizes.end()) sizes.erase(given);
    arrays.emplace(buffer.name, std::move(array));
  }
  if (!sizes.empty())
    throw ValueError(
        fmt::format("[kernel] --size names '{}', which is no buffer of {}", sizes.begin()->first, source.name));
  return arrays;
}

void print_resources(const KernelOptions& o, const KernelSource& source) {
  const Resources r = resources_of(source, o.sm);
  if (o.json) {
    return print_json({{"kernel", source.name},
                       {"sm", o.sm},
                       {"registers", r.registers},
                       {"shared_bytes", r.shared_bytes},
                       {"stack_bytes", r.stack_bytes},
                       {"spill_stores", r.spill_stores},
                       {"spill_loads", r.spill_loads}});
  }
  fmt::print(
      "{} on sm_{}: {} registers a lane, {} bytes of shared memory a group, {} bytes of stack, {} bytes of spill "
      "stores, {} of spill loads\n",
      source.name, o.sm, r.registers, r.shared_bytes, r.stack_bytes, r.spill_stores, r.spill_loads);
}

void print_text(const KernelOptions& o, const KernelSource& source) {
  if (o.print == "source") return fmt::print("{}", source.str());
  if (o.print == "glsl") return fmt::print("{}", heddle::print(source, Target::glsl));
  if (o.print == "opencl") return fmt::print("{}", heddle::print(source, Target::opencl));
  if (o.print == "cuda") return fmt::print("{}", heddle::print(source, Target::cuda));
  if (o.print == "ptx") return fmt::print("{}", ptx_of(source, o.sm));
  if (o.print == "resources") return print_resources(o, source);
  if (o.print != "spirv")
    throw ValueError(fmt::format(
        "[kernel] unknown --print '{}'; known: source, glsl, opencl, cuda, ptx, resources, spirv", o.print));
  const std::vector<uint32_t> words = spirv_of(source);
  if (os::is_terminal(os::Stream::output))
    throw ValueError(
        "[kernel] SPIR-V is binary; send it to a file or to spirv-dis: heddle kernel ... --print spirv | spirv-dis");
  std::fwrite(words.data(), sizeof(uint32_t), words.size(), stdout);
}

Json json_of(const std::string& name, const KernelArray& array) {
  double sum = 0;
  for (size_t i = 0; i < array.size(); ++i) sum += array[i];
  std::vector<double> first;
  for (size_t i = 0; i < std::min<size_t>(array.size(), 8); ++i) first.push_back(array[i]);
  return {{"name", name}, {"dtype", name_of(array.dtype)}, {"count", array.size()}, {"sum", sum}, {"first", first}};
}

void run_on_device(const KernelOptions& o, const KernelFile& file, const KernelSource& source,
                   const KernelFile::Options& options) {
  if (o.repeat < 1) throw ValueError(fmt::format("[kernel] --repeat is {}, expected at least 1", o.repeat));
  DeviceContext& context = open_device(o.device, true);
  const KernelConstants constants = constants_of(o);
  const KernelRun request{
      .arrays = arrays_for(o, file, source, options.tunables, constants), .constants = constants, .timed = o.repeat};
  auto locked = context.lock();
  const KernelOutcome outcome = run_kernel(locked.device, file, options, request);
  Json outputs = Json::array();
  for (const BufferParam& buffer : source.buffers) {
    if (buffer.access != Access::read) outputs.push_back(json_of(buffer.name, outcome.arrays.at(buffer.name)));
  }
  if (o.json) {
    return print_json({{"kernel", source.name},
                       {"device", context.id()},
                       {"groups", outcome.groups},
                       {"seconds", outcome.seconds},
                       {"outputs", outputs}});
  }
  fmt::print("{} on {}: {:.2f} us in {}x{}x{} groups of {} lanes\n", source.name, context.id(), outcome.seconds * 1e6,
             outcome.groups[0], outcome.groups[1], outcome.groups[2],
             source.group[0] * source.group[1] * source.group[2]);
  for (const Json& output : outputs)
    fmt::print("{} {}[{}]: sum {}, first {}\n", output["name"].get<std::string>(), output["dtype"].get<std::string>(),
               output["count"].get<size_t>(), output["sum"].get<double>(), output["first"].dump());
}

void run(const KernelOptions& o) {
  const KernelFile file = open_file(o.file);
  const KernelFile::Options options = instance_options(o);
  const KernelSource source = file.instantiate(options);
  o.print.empty() ? run_on_device(o, file, source, options) : print_text(o, source);
}

}  // namespace

void add_kernel(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("kernel", "Run or print one kernel body alone");
  auto options = std::make_shared<KernelOptions>();
  KernelOptions& o = *options;
  command->add_option("file", o.file, "A .hk file, or the name of a built-in body (matmul)")->required();
  command->add_option("--set", o.set, "Tunables, e.g. TM=64,TN=32")->delimiter(',');
  command->add_option("--const", o.constants, "Constants, e.g. M=33,N=17,K=5; each one is needed to run")
      ->delimiter(',');
  command->add_option("--type", o.types, "Type parameters, e.g. TA=f16; default f32")->delimiter(',');
  command
      ->add_option("--size", o.sizes,
                   "Elements of buffers, e.g. lhs=165; default: the product of the constants, 4096 to 16777216, or "
                   "more where they reach further")
      ->delimiter(',');
  command->add_option("--print", o.print,
                      "Do not run; print: source, glsl, opencl, cuda, ptx, resources (registers, shared memory and "
                      "spills on CUDA) or spirv (binary)");
  command->add_option("--sm", o.sm, "Compute capability for --print ptx and resources")->capture_default_str();
  command->add_option("--repeat", o.repeat, "Timed runs; the best one is printed")->capture_default_str();
  add_device_option(*command, o.device);
  add_json_option(*command, o.json);
  command->footer(
      "Inputs are filled with random numbers; bytes around each buffer are guarded.\n"
      "Example:\n  heddle kernel shaders/matmul.hk --set SCHEDULE=1,TM=32 --print opencl");
  command->callback([options] { run(*options); });
}

}  // namespace heddle::tools
