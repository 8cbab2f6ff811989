#if HEDDLE_HAS_ONNX
#include "tools/compile_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/print_error.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

int64_t size_of_dimension(const onnx::Port& port, const onnx::Dimension& dimension, const Bucket& bucket) {
  if (dimension.size) return *dimension.size;
  const auto found = bucket.find(dimension.name);
  if (!dimension.name.empty() && found != bucket.end()) return found->second;
  throw ValueError(fmt::format(
      "[compile] input {} has a size '{}' without a number: {}", port.name, dimension.str(),
      dimension.name.empty() ? "--shape NAME=SIZES names it" : fmt::format("--buckets {}=1,8", dimension.name)));
}

ModelFunction::Input input_of(const onnx::Port& port, const Bucket& bucket) {
  if (port.kind != onnx::PortKind::tensor || !onnx::is_held(port.type))
    throw ValueError(fmt::format("[compile] input {} is no tensor of numbers", port.name));
  if (!port.shape)
    throw ValueError(fmt::format("[compile] input {} has no shape: --shape {}=SIZES gives one", port.name, port.name));
  std::vector<int64_t> sizes;
  for (const onnx::Dimension& dimension : *port.shape) sizes.push_back(size_of_dimension(port, dimension, bucket));
  return {port.name, onnx::storage(port.type), Shape(sizes)};
}

// Sizes that no bucket gives are 1.
Bucket with_ones(const std::vector<onnx::Port>& inputs, Bucket bucket) {
  for (const onnx::Port& port : inputs) {
    if (!port.shape) continue;
    for (const onnx::Dimension& dimension : *port.shape) {
      if (!dimension.size && !dimension.name.empty()) bucket.try_emplace(dimension.name, 1);
    }
  }
  return bucket;
}

std::vector<int64_t> parse_sizes(const std::string& text, size_t from) {
  std::vector<int64_t> sizes;
  while (from <= text.size()) {
    const size_t comma = std::min(text.find(',', from), text.size());
    const auto size = parse_number<int64_t>(std::string_view(text).substr(from, comma - from));
    if (!size || *size < 1) throw ValueError(fmt::format("[compile] --buckets '{}' is not NAME=SIZE,SIZE,...", text));
    sizes.push_back(*size);
    from = comma + 1;
  }
  return sizes;
}

}  // namespace

std::string bucket_name(const Bucket& bucket) {
  std::vector<std::string> parts;
  for (const auto& [name, size] : bucket) parts.push_back(fmt::format("{}={}", name, size));
  return fmt::format("{}", fmt::join(parts, ","));
}

std::vector<Bucket> parse_buckets(const std::vector<std::string>& texts) {
  constexpr size_t most = 64;
  std::vector<Bucket> buckets{{}};
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw ValueError(fmt::format("[compile] --buckets '{}' is not NAME=SIZE,SIZE,...", text));
    const std::vector<int64_t> sizes = parse_sizes(text, equals + 1);
    std::vector<Bucket> longer;
    for (const Bucket& bucket : buckets) {
      for (const int64_t size : sizes) {
        longer.push_back(bucket);
        if (!longer.back().emplace(text.substr(0, equals), size).second)
          throw ValueError(fmt::format("[compile] --buckets names {} twice", text.substr(0, equals)));
      }
    }
    if (longer.size() > most) throw ValueError(fmt::format("[compile] more than {} buckets", most));
    buckets = std::move(longer);
  }
  return buckets;
}

ModelFunction function_of(const onnx::Model& model, const std::vector<onnx::Port>& inputs, const Bucket& bucket) {
  ModelFunction function;
  for (const onnx::Port& port : inputs) function.inputs.push_back(input_of(port, bucket));
  for (const onnx::Port& port : model.outputs()) function.outputs.push_back(port.name);
  function.call = [model](const std::vector<Tensor>& values) { return model.call(values); };
  return function;
}

std::optional<Golden> GoldenMaker::make(const std::vector<onnx::Port>& inputs, const Bucket& bucket) {
  if (id_ == "none") return std::nullopt;
  DeviceContext& there = open_device(id_, false);
  try {
    if (!model_) {
      onnx::LoadOptions options;
      options.device = &there;
      model_ = onnx::load(file_, options);
    }
    return golden_of(there, function_of(*model_, inputs, with_ones(inputs, bucket)), golden_seed);
  } catch (const UserError& error) {
    print_error("heddle: no golden vectors: {}\n", error.what());
    return std::nullopt;
  }
}

size_t verify_golden(const std::string& file, const onnx::Model& model) {
  const ModelParts parts = ModelParts::map(file);
  size_t compared = 0;
  for (const PartEntry& entry : parts.entries()) {
    if (entry.kind != PartKind::golden) continue;
    const Golden golden = golden_from_bytes(parts.bytes(entry));
    std::vector<Tensor> inputs;
    for (const Golden::Value& value : golden.inputs) {
      const Shape shape(value.shape);
      inputs.push_back(
          model
              .given(onnx::HostTensor{onnx::type_of(value.dtype), shape,
                                      std::make_shared<const std::string>(value.bytes.begin(), value.bytes.end())})
              .tensor());
    }
    const std::vector<Tensor> results = model.call(inputs);
    for (size_t i = 0; i < golden.outputs.size() && i < results.size(); ++i) {
      const std::string difference = golden_difference(golden, golden.outputs[i], results[i].to_bytes());
      if (!difference.empty()) throw ValueError(fmt::format("[verify] {}: {}", file, difference));
    }
    ++compared;
  }
  return compared;
}

}  // namespace heddle::tools
#endif
