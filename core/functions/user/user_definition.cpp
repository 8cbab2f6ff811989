#include "heddle/core/functions/user/user_definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "heddle/core/base/hash.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

std::mutex definitions_mutex;

// The first definition of those contents. Definitions are kept for good: nodes and plans name their rows.
const UserDefinition& first_of(const std::string& contents, const UserDefinition& made) {
  static auto* const all = new std::map<std::string, std::vector<const UserDefinition*>>();
  const std::lock_guard lock(definitions_mutex);
  std::vector<const UserDefinition*>& same = (*all)[contents];
  same.push_back(&made);
  return *same.front();
}

std::string first_error(const std::string& log, const std::string& name) {
  std::string best;
  for (size_t at = 0; at < log.size();) {
    const size_t end = std::min(log.find('\n', at), log.size());
    const std::string row = log.substr(at, end - at);
    const bool error = row.find("error") != std::string::npos || row.find("ERROR") != std::string::npos;
    if (error && (best.empty() || (best.find(name) == std::string::npos && row.find(name) != std::string::npos)))
      best = row;
    at = end + 1;
  }
  return best.empty() ? log.substr(0, log.find('\n')) : best;
}

}  // namespace

const UserDefinition* publish_user_kernel(std::unique_ptr<UserDefinition> made, const OpDef& row, size_t outputs,
                                          const std::string& contents) {
  UserDefinition& definition = *made.release();
  definition.rows.resize(outputs);
  const UserDefinition& first = first_of(contents, definition);
  for (size_t i = 0; i < outputs; ++i) {
    static_cast<OpDef&>(definition.rows[i]) = row;
    definition.rows[i].name = definition.name;
    definition.rows[i].doc = user_row_doc;
    definition.rows[i].definition = &definition;
    definition.rows[i].output = i;
    definition.rows[i].id = hash_combine(hash_string(contents), i);
    definition.rows[i].planned = &first.rows[i];
  }
  return &definition;
}

void check_user_name(const std::string& name) {
  if (is_user_name(name)) return;
  throw ValueError(fmt::format(
      "[user kernel] '{}' cannot be a name: letters, digits and single underscores, and no word of the dialect", name));
}

void compile_user_text(DeviceContext& device, const UserDefinition& definition, const KernelSource& source) {
  if (device.caps().target == Target::none) return;
  static auto* const done = new std::set<std::pair<const DeviceContext*, uint64_t>>();
  const std::pair<const DeviceContext*, uint64_t> key{&device, source.hash()};
  {
    const std::lock_guard lock(definitions_mutex);
    if (done->contains(key)) return;
  }
  try {
    device.kernel(source);
  } catch (const CompileError& error) {
    const std::string log = UserText::with_own_names(error.log());
    const int line = UserText::line_in(log, definition.name);
    throw UserKernelError(with_line(fmt::format("[{}] {}its text does not compile on {}: {}", definition.name,
                                                line > 0 ? fmt::format("line {} of ", line) : "", device.id(),
                                                first_error(log, definition.name))),
                          log, line);
  }
  const std::lock_guard lock(definitions_mutex);
  done->insert(key);
}

void check_user_host(DeviceContext& device, const UserDefinition& definition) {
  const bool reference = device.caps().target == Target::none;
  const bool given = definition.is_body() ? definition.body.host != nullptr : definition.element.host != nullptr;
  if (reference && !given) {
    throw ValueError(
        fmt::format("[{}] {} computes in double precision on the host, and this kernel has no host function; give one "
                    "in its definition (host), or use a device with kernels",
                    definition.name, device.id()));
  }
}

std::vector<TensorType> user_outputs(const UserDefinition& definition, std::span<const TensorType> inputs) {
  if (definition.is_body()) return definition.body.outputs(inputs);
  std::vector<TensorType> found;
  std::optional<DType> common;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!definition.element.inputs[i].dtype) common = inputs[i].dtype;
  }
  for (const UserValue& output : definition.element.outputs)
    found.push_back({inputs[0].shape, output.dtype ? *output.dtype : *common});
  return found;
}

std::vector<Tensor> record_user(const UserDefinition& definition, const std::vector<NodePtr>& inputs,
                                const Shape& shape) {
  std::vector<TensorType> types;
  for (const NodePtr& input : inputs) types.push_back({input->shape, input->dtype});
  const std::vector<TensorType> results = user_outputs(definition, types);
  std::vector<Tensor> made;
  for (size_t i = 0; i < definition.rows.size(); ++i)
    made.emplace_back(make_node(definition.rows[i], inputs, {}, shape, results[i].dtype));
  return made;
}

std::vector<Tensor> split_flat(const Tensor& flat, std::span<const TensorType> parts) {
  if (parts.size() == 1) return {reshape(flat, parts[0].shape)};
  std::vector<Tensor> made;
  int64_t first = 0;
  for (const TensorType& part : parts) {
    const int64_t count = part.shape.numel();
    made.push_back(reshape(slice(flat, 0, {first, first + count}), part.shape));
    first += count;
  }
  return made;
}

}  // namespace heddle
