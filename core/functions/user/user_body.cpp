// Whole bodies that users write: definition and calls.
#include "heddle/core/functions/user/user_body.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <set>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {
namespace {

std::string dtype_of_buffer(const KernelFile& file, const KernelBuffer& buffer, std::span<const TensorType> inputs) {
  size_t next = 0;
  for (const KernelBuffer& other : file.buffers) {
    if (other.access != Access::read) continue;
    if (other.dtype == buffer.dtype && next < inputs.size()) return std::string(name_of(inputs[next].dtype));
    ++next;
  }
  return {};
}

bool is_parameter(const KernelFile& file, const std::string& type) {
  return std::find(file.types.begin(), file.types.end(), type) != file.types.end();
}

std::vector<const KernelBuffer*> buffers_of(const KernelFile& file, Access access) {
  std::vector<const KernelBuffer*> found;
  for (const KernelBuffer& buffer : file.buffers) {
    if (buffer.access == access) found.push_back(&buffer);
  }
  return found;
}

// The dtype that the text gives a buffer for these inputs.
DType declared(const UserDefinition& definition, const KernelBuffer& buffer, std::span<const TensorType> inputs) {
  if (!is_parameter(definition.file, buffer.dtype)) return parse_dtype(buffer.dtype);
  const std::string found = dtype_of_buffer(definition.file, buffer, inputs);
  return found.empty() ? definition.file.dtypes_of(buffer.dtype).front() : parse_dtype(found);
}

void check_inputs(const UserDefinition& definition, std::span<const TensorType> inputs) {
  const std::vector<const KernelBuffer*> in = buffers_of(definition.file, Access::read);
  for (size_t i = 0; i < in.size(); ++i) {
    const DType wanted = declared(definition, *in[i], inputs);
    if (inputs[i].dtype != wanted) {
      throw DTypeError(fmt::format("[{}] argument {} ('{}') is {}; it must be {}; cast() it", definition.name, i,
                                   in[i]->name, name_of(inputs[i].dtype), name_of(wanted)));
    }
  }
}

void check_outputs(const UserDefinition& definition, std::span<const TensorType> inputs,
                   const std::vector<TensorType>& outputs) {
  const std::vector<const KernelBuffer*> out = buffers_of(definition.file, Access::write);
  if (outputs.size() != out.size()) {
    throw ValueError(fmt::format("[{}] its function `outputs` gave {} results; the text declares {}", definition.name,
                                 outputs.size(), out.size()));
  }
  for (size_t i = 0; i < out.size(); ++i) {
    const DType wanted = declared(definition, *out[i], inputs);
    if (outputs[i].dtype != wanted || outputs[i].dtype != outputs[0].dtype) {
      throw DTypeError(fmt::format(
          "[{}] result {} ('{}') is to be {}; {}", definition.name, i, out[i]->name, name_of(outputs[i].dtype),
          outputs[i].dtype != wanted
              ? fmt::format("the text says {}", name_of(wanted))
              : fmt::format("all must have one dtype, as the first, {}", name_of(outputs[0].dtype))));
    }
  }
}

// Each constant's bits, in the order of the text.
std::vector<int64_t> constant_bits(const UserDefinition& definition, std::span<const TensorType> inputs) {
  const std::map<std::string, double> values =
      definition.body.constants ? definition.body.constants(inputs) : std::map<std::string, double>{};
  std::vector<int64_t> bits;
  for (const ConstParam& constant : definition.file.constants) {
    const auto found = values.find(constant.name);
    if (found == values.end())
      throw ValueError(
          fmt::format("[{}] its function `constants` gave no value for '{}'", definition.name, constant.name));
    const double value = found->second;
    if (constant.type == ConstParam::Type::f32) {
      bits.push_back(std::bit_cast<int32_t>(static_cast<float>(value)));
      continue;
    }
    const double low = constant.type == ConstParam::Type::u32 ? 0.0 : -2147483648.0,
                 high = constant.type == ConstParam::Type::u32 ? 4294967295.0 : 2147483647.0;
    if (!(value >= low && value <= high) || value != std::floor(value))
      throw ValueError(fmt::format("[{}] constant '{}' is to be {}; it must be a whole number of 32 bits",
                                   definition.name, constant.name, value));
    bits.push_back(static_cast<int32_t>(static_cast<uint32_t>(static_cast<int64_t>(value))));
  }
  for (const auto& [name, value] : values) {
    const bool known = std::any_of(definition.file.constants.begin(), definition.file.constants.end(),
                                   [&, n = name](const ConstParam& c) { return c.name == n; });
    if (!known)
      throw ValueError(
          fmt::format("[{}] its function `constants` gave a value for '{}', which the text does not declare",
                      definition.name, name));
  }
  return bits;
}

void check_bounds(const UserDefinition& definition, std::span<const TensorType> inputs,
                  const std::vector<TensorType>& outputs, const Bindings& constants) {
  size_t in = 0, out = 0;
  for (const KernelBuffer& buffer : definition.file.buffers) {
    const Shape& shape = buffer.access == Access::read ? inputs[in++].shape : outputs[out++].shape;
    const auto [first, end] = definition.file.bounds(buffer.name, definition.body.tunables, constants);
    if (first < 0 || end > shape.numel()) {
      throw ShapeError(fmt::format("[{}] it would touch elements {} to {} of '{}', which is {} and has {}",
                                   definition.name, first, end, buffer.name, shape.str(), shape.numel()));
    }
  }
}

}  // namespace

Bindings user_body_constants(const KernelFile& file, std::span<const int64_t> bits) {
  Bindings named;
  for (size_t i = 0; i < file.constants.size(); ++i) {
    if (file.constants[i].type == ConstParam::Type::f32) continue;
    named[file.constants[i].name] = file.constants[i].type == ConstParam::Type::u32
                                        ? static_cast<int64_t>(static_cast<uint32_t>(bits[i]))
                                        : bits[i];
  }
  return named;
}

KernelSource user_body_source(const UserDefinition& definition, std::span<const TensorType> inputs, DType result) {
  const KernelFile& file = definition.file;
  KernelFile::Options options;
  options.tunables = definition.body.tunables;
  for (const KernelBuffer& buffer : file.buffers) {
    if (is_parameter(file, buffer.dtype)) options.types[buffer.dtype] = declared(definition, buffer, inputs);
  }
  const std::vector<const KernelBuffer*> out = buffers_of(file, Access::write);
  if (out.size() == 1) return file.instantiate(options);
  for (size_t i = 0; i < out.size(); ++i) {
    options.dropped_buffers.push_back(out[i]->name);
    options.extra_constants.push_back({fmt::format("t_part{}", i), ConstParam::Type::i32});
  }
  options.extra_buffers.push_back({"t_flat", result, Access::write, false});
  KernelSource source = file.instantiate(options);
  for (size_t i = 0; i < out.size(); ++i) {
    source.defines.emplace_back(fmt::format("STORE_{}(t_index, t_value)", out[i]->name),
                                fmt::format("STORE_t_flat(CAST(INDEX, t_part{}) + (t_index), t_value)", i));
  }
  return source;
}

std::vector<Tensor> call_user_body(const UserDefinition& definition, std::span<const UserOperand> operands) {
  std::vector<TensorType> types;
  std::vector<NodePtr> inputs;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].tensor == nullptr)
      throw ValueError(fmt::format("[{}] argument {} is a number; a body takes tensors (numbers are its constants)",
                                   definition.name, i));
    const Tensor x = cast(*operands[i].tensor, autocast_dtype(definition.body.autocast, operands[i].tensor->dtype()));
    build::check_device(*operands[0].tensor, x, definition.name.c_str());
    types.push_back({x.shape(), x.dtype()});
    inputs.push_back(x.node());
  }
  DeviceContext& device = *inputs[0]->device;
  check_user_host(device, definition);
  check_inputs(definition, types);
  const std::vector<TensorType> outputs = definition.body.outputs(types);
  check_outputs(definition, types, outputs);
  Attrs attrs;
  attrs.ints = constant_bits(definition, types);
  const Bindings constants = user_body_constants(definition.file, attrs.ints);
  check_bounds(definition, types, outputs, constants);
  definition.file.groups(definition.body.tunables, constants);
  int64_t total = 0;
  for (const TensorType& output : outputs) {
    if (outputs.size() > 1) attrs.ints.push_back(total);
    total += output.shape.numel();
  }
  const KernelSource source = user_body_source(definition, types, outputs[0].dtype);
  if (source.buffers.size() > device.caps().max_bindings) {
    throw LimitError(fmt::format("[{}] {} buffers; {} takes at most {}", definition.name, source.buffers.size(),
                                 device.id(), device.caps().max_bindings));
  }
  compile_user_text(device, definition, source);
  const Shape shape = outputs.size() == 1 ? outputs[0].shape : Shape{total};
  return split_flat(Tensor(make_node(definition.rows[0], inputs, std::move(attrs), shape, outputs[0].dtype)), outputs);
}

const UserDefinition* define_user_body(UserBody body) {
  check_user_name(body.name);
  auto made = std::make_unique<UserDefinition>();
  made->name = body.name;
  try {
    made->file = KernelFile::parse(body.text, body.name);
    if (const std::string refused = made->file.refusal(body.tunables); !refused.empty()) throw ValueError(refused);
  } catch (const UserError& error) {
    throw ValueError(fmt::format("[{}] {}", body.name, error.what()));
  }
  made->file.name = body.name;
  std::string contents = fmt::format("body\n{}\n{}\n{}\n", body.name, body.text, body.iterations);
  for (const auto& [name, value] : body.tunables) contents += fmt::format("{}={} ", name, value);
  for (const KernelBuffer& buffer : made->file.buffers) {
    if (buffer.access == Access::read_write)
      throw ValueError(fmt::format("[{}] buffer '{}' is inout; a kernel of tensors reads `in` and writes `out` buffers",
                                   body.name, buffer.name));
  }
  if (buffers_of(made->file, Access::read).empty() || buffers_of(made->file, Access::write).empty())
    throw ValueError(fmt::format("[{}] its text declares no `in` or no `out` buffer", body.name));
  if (!body.outputs)
    throw ValueError(fmt::format("[{}] it has no function `outputs`, which says the shapes of its results", body.name));
  made->vjp = body.vjp;
  made->jvp = body.jvp;
  OpDef row;
  row.kind = OpKind::body;
  row.arity = -1;
  row.rule = DTypeRule::any;
  made->body = std::move(body);
  return publish_user_kernel(std::move(made), row, 1, contents);
}

}  // namespace heddle
