#include "heddle/deploy/compile_function.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/contract/driver_programs.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/device/storage.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/run/chains.h"
#include "heddle/core/run/compiled_graph.h"
#include "heddle/core/run/evaluation.h"
#include "heddle/core/run/graph_result.h"
#include "heddle/core/run/image_binaries.h"
#include "heddle/core/simplify/passes.h"
#include "heddle/deploy/planned_device.h"

namespace heddle {
namespace {

std::vector<int64_t> sizes_of(const Shape& shape) { return {shape.begin(), shape.end()}; }

std::vector<uint8_t> drawn(const ModelFunction::Input& input, uint64_t seed, uint32_t number) {
  const auto count = static_cast<size_t>(input.shape.numel());
  std::vector<uint8_t> bytes(count * size_of(input.dtype));
  const std::array<uint32_t, 4> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), number, 0};
  for (size_t i = 0; i < count; ++i) {
    const double value = philox_uniform(key, i);
    store_element(bytes.data(), input.dtype, i, is_float(input.dtype) ? value : value < 0.5 ? 0 : 1);
  }
  return bytes;
}

std::vector<Tensor> tensors_of(DeviceContext& device, const ModelFunction& function,
                               const std::vector<std::vector<uint8_t>>& values) {
  std::vector<Tensor> tensors;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const ModelFunction::Input& input = function.inputs[i];
    const auto count = static_cast<size_t>(input.shape.numel());
    tensors.push_back(Tensor::from_bytes(values[i].data(), count, input.dtype, input.shape, &device));
  }
  return tensors;
}

std::vector<std::vector<uint8_t>> drawn_inputs(const ModelFunction& function, uint64_t seed) {
  std::vector<std::vector<uint8_t>> values;
  for (const ModelFunction::Input& input : function.inputs)
    values.push_back(drawn(input, seed, static_cast<uint32_t>(values.size())));
  return values;
}

void check_count(const ModelFunction& function, const std::vector<Tensor>& results) {
  if (results.size() != function.outputs.size())
    throw ValueError(
        fmt::format("[compile] the function gives {} tensors, {} are named", results.size(), function.outputs.size()));
}

// A value that is there already, of the closure or an argument, becomes the result of an operation.
Tensor computed(const Tensor& result, DeviceContext& device) {
  if (!result.node()->has_value()) return result;
  return where(full({}, 1.0, DType::boolean, &device), result, result);
}

// What the function records for those inputs; `results` keep it alive.
struct Recorded {
  std::vector<Tensor> inputs, results;
  Capture captured;
};

Recorded record(DeviceContext& device, const ModelFunction& function) {
  Recorded made;
  made.inputs = tensors_of(device, function, drawn_inputs(function, 0));
  if (anything_pending()) evaluate_pending();
  const NoGradScope no_gradients;
  function.call(made.inputs);  // what is uploaded by the first call is there in the next
  Trace trace;
  made.results = function.call(made.inputs);
  check_count(function, made.results);
  for (Tensor& result : made.results) result = computed(result, device);
  trace.end();
  if (!trace.refusal().empty()) throw ValueError("[compile] the model cannot be written: " + trace.refusal());
  if (!trace.actions.empty())
    throw ValueError("[compile] the model cannot be written: it draws random numbers or counts steps");
  std::vector<NodePtr> roots;
  for (const Tensor& result : made.results) roots.push_back(result.node());
  const std::vector<std::vector<NodePtr>> lists = take_pending(roots);
  if (lists.size() != 1 || lists[0].front()->device != &device)
    throw ValueError("[compile] the model cannot be written: it computes on more than one device");
  made.captured = capture(lists[0]);
  return made;
}

// What the driver made of the kernels, once they have run; empty where it does not say.
std::vector<std::vector<uint8_t>> programs_of(DeviceContext& device, const GraphImage& image) {
  std::vector<const KernelSource*> sources;
  for (const GraphImage::Kernel* kernel : kernels_of(image)) {
    if (!kernel->source) return {};
    sources.push_back(&*kernel->source);
  }
  const std::vector<KernelId> ids = device.kernels(sources);
  const auto locked = device.lock();
  auto* const driver = dynamic_cast<DriverPrograms*>(&locked.device);
  if (driver == nullptr) return {};
  std::vector<std::vector<uint8_t>> programs;
  for (const KernelId id : ids) {
    programs.push_back(driver->program_of(id));
    if (programs.back().empty()) return {};
  }
  return programs;
}

void place_weights(DeviceContext& device, const Recorded& made, ModelImage& image, WeightStore& weights) {
  for (size_t slot = 0; slot < made.captured.storages.size(); ++slot) {
    const StoragePtr& storage = made.captured.storages[slot];
    const auto is_input = [&](const Tensor& t) { return t.node()->storage == storage; };
    if (std::any_of(made.inputs.begin(), made.inputs.end(), is_input)) continue;
    const uint64_t base = made.captured.bases[slot];
    std::vector<uint8_t> bytes(storage->bytes() - base);
    device.read(*storage, base, bytes.data(), bytes.size());
    image.weights.push_back(weights.place(static_cast<int32_t>(slot), bytes));
  }
}

void name_ports(const ModelFunction& function, const Recorded& made, ModelImage& image) {
  const Capture& captured = made.captured;
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const ModelFunction::Input& input = function.inputs[i];
    const auto at = std::find(captured.storages.begin(), captured.storages.end(), made.inputs[i].node()->storage);
    const bool read = at != captured.storages.end();
    image.inputs.push_back({input.name, input.dtype, sizes_of(input.shape),
                            read ? static_cast<int32_t>(at - captured.storages.begin()) : -1});
  }
  for (size_t i = 0; i < function.outputs.size(); ++i) {
    const NodePtr& node = made.results[i].node();
    const auto at = std::find(captured.outputs.begin(), captured.outputs.end(), node);
    if (at == captured.outputs.end())
      throw ValueError(fmt::format("[compile] output {} is not computed", function.outputs[i]));
    image.outputs.push_back(
        {function.outputs[i], node->dtype, sizes_of(node->shape), static_cast<int32_t>(at - captured.outputs.begin())});
  }
}

// What only the process that planned it has a use for.
void forget_lines(GraphImage& image) {
  for (GraphImage::Launch& launch : image.launches) launch.facts.lines.clear();
  for (GraphImage::Loop& loop : image.loops) {
    for (GraphImage::Launch& launch : loop.body) launch.facts.lines.clear();
  }
  for (GraphImage& once : image.once) forget_lines(once);
}

// The units of a CPU's core are no need of kernels that leave them alone.
void need_used_units(const Caps& caps, ModelImage& image) {
  const auto uses_them = [](const GraphImage::Kernel* kernel) {
    return kernel->source && (kernel->source->body + kernel->source->helpers).find("CU_PRODUCT") != std::string::npos;
  };
  const std::vector<const GraphImage::Kernel*> kernels = kernels_of(image.image);
  if (caps.machine() == Machine::cpu_loops && std::none_of(kernels.begin(), kernels.end(), uses_them))
    image.needs.matrix_units.clear();
}

}  // namespace

ModelImage compile_function(DeviceContext& device, const ModelFunction& function, WeightStore& weights) {
  if (device.caps().target == Target::none)
    throw ValueError(fmt::format("[compile] {} takes no kernels, so that there is nothing to write", device.id()));
  // Memory of a written model has no order that a joined launch could reach it by.
  const bool for_c = device.caps().target == Target::c;
  const PassScope scope(for_c ? active_passes().without(Pass::horizontal) : active_passes());
  const Recorded made = record(device, function);
  ModelImage image;
  image.device = device.id();
  image.driver = fmt::format("{}, {}", device.info().name, device.info().driver);
  image.needs = needs_of(device.caps());
  const RepeatedScope repeated;
  const auto graph = CompiledGraph::compile(device, made.captured, true, {});
  image.image = graph->image();
  need_used_units(device.caps(), image);
  if (!image.image.assigned.empty()) throw ValueError("[compile] the model cannot be written: it updates tensors");
  if (!only_plans(device)) {
    graph->run(made.captured);
    device.synchronize();
    image.programs = programs_of(device, image.image);
  }
  if (!for_c) add_binaries(image.image, device.caps());
  forget_lines(image.image);
  image.value_bytes = graph->memory().all_values;
  name_ports(function, made, image);
  place_weights(device, made, image, weights);
  for (const HostValue& value : made.captured.host_values)
    image.host_words.insert(image.host_words.end(), value.words.begin(), value.words.end());
  if (const std::string fault = model_image_fault(image); !fault.empty())
    throw ValueError("[compile] the model cannot be written: " + fault);
  return image;
}

Golden golden_of(DeviceContext& device, const ModelFunction& function, uint64_t seed) {
  const std::vector<std::vector<uint8_t>> values = drawn_inputs(function, seed);
  Golden golden{device.id(), seed, {}, {}};
  for (size_t i = 0; i < function.inputs.size(); ++i) {
    const ModelFunction::Input& input = function.inputs[i];
    golden.inputs.push_back({input.name, input.dtype, sizes_of(input.shape), values[i]});
  }
  const NoGradScope no_gradients;
  const std::vector<Tensor> results = function.call(tensors_of(device, function, values));
  check_count(function, results);
  for (size_t i = 0; i < results.size(); ++i)
    golden.outputs.push_back(
        {function.outputs[i], results[i].dtype(), sizes_of(results[i].shape()), results[i].to_bytes()});
  return golden;
}

}  // namespace heddle
