#include "heddle/core/functions/user/user_element.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "heddle/core/dialect/types.h"
#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {
namespace {

std::string type_key(const std::optional<DType>& dtype) { return dtype ? std::string(heddle::name_of(*dtype)) : "T"; }

// The common dtype of the inputs that declare none.
DType common_dtype(const UserDefinition& definition, std::span<const UserOperand> operands) {
  const UserElementwise& element = definition.element;
  std::optional<DType> common;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (element.inputs[i].dtype || operands[i].tensor == nullptr) continue;
    const DType t = operands[i].tensor->dtype();
    common = common ? promote(*common, t) : t;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    if (element.inputs[i].dtype || operands[i].tensor != nullptr) continue;
    common = common ? build::number_dtype(operands[i].number, *common) : DType::f32;
  }
  if (!common) return DType::f32;
  if (element.rule == DTypeRule::floating) return build::float_dtype(*common, element.autocast);
  return *common == DType::boolean ? DType::i32 : autocast_dtype(element.autocast, *common);
}

Tensor operand_tensor(const UserDefinition& definition, size_t i, const UserOperand& operand, DType dtype,
                      const Shape& shape, DeviceContext& device) {
  const UserValue& input = definition.element.inputs[i];
  if (operand.tensor == nullptr) {
    if (!is_float(dtype) && operand.number != std::floor(operand.number)) {
      throw DTypeError(fmt::format("[{}] input '{}' is {} and was given {}; give a whole number", definition.name,
                                   input.name, name_of(dtype), operand.number));
    }
    return full(shape, operand.number, dtype, &device);
  }
  const Tensor& x = *operand.tensor;
  // Widening is silent, as everywhere; a declared dtype that would lose values is not.
  if (input.dtype && x.dtype() != dtype && promote(x.dtype(), dtype) != dtype) {
    throw DTypeError(fmt::format("[{}] input '{}' is declared {} and was given {}; cast() it", definition.name,
                                 input.name, name_of(dtype), name_of(x.dtype())));
  }
  return build::broadcast(cast(x, dtype), shape);
}

// ---- the text alone on a device, so that what it does not take is known before anything is recorded

bool has_types(const Caps& caps, const UserDefinition& definition, std::span<const TensorType> types) {
  return std::all_of(types.begin(), types.end(), [&](const TensorType& t) {
    if (t.dtype == DType::i64) return caps.i64;
    return t.dtype != DType::f64 || (caps.f64 && (caps.f64_math || !definition.text.transcendental()));
  });
}

KernelSource element_alone(const UserDefinition& definition, std::span<const TensorType> inputs,
                           std::span<const TensorType> outputs, DType common) {
  KernelSource source;
  source.name = definition.name;
  source.origin = "around the user's text";
  source.buffers = {{"t_in", DType::f32, Access::read}, {"t_out", DType::f32, Access::write}};
  std::vector<UserText::Operand> in, out;
  source.body = "uint t_i = GROUP_ID(0);\n";
  const auto declare = [&](std::vector<UserText::Operand>& list, const char* prefix, DType dtype) {
    list.push_back({std::string(dialect_type(dtype)), fmt::format("{}{}", prefix, list.size())});
    return list.back().type + " " + list.back().variable;
  };
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string left = declare(in, "t_a", inputs[i].dtype);
    source.body += fmt::format("{} = CAST({}, LOAD(t_in, t_i + {}u));\n", left, in.back().type, i);
  }
  for (const TensorType& type : outputs) source.body += declare(out, "t_o", type.dtype) + ";\n";
  source.body += definition.text.block(in, out, common, true) + "\n";
  for (size_t i = 0; i < out.size(); ++i)
    source.body += fmt::format("STORE(t_out, t_i + {}u, CAST(float, {}));\n", i, out[i].variable);
  return source;
}

}  // namespace

std::vector<Tensor> call_user_element(const UserDefinition& definition, std::span<const UserOperand> operands) {
  const UserElementwise& element = definition.element;
  const Tensor* first = nullptr;
  Shape shape;
  for (const UserOperand& operand : operands) {
    if (operand.tensor == nullptr) continue;
    if (first != nullptr) build::check_device(*first, *operand.tensor, definition.name.c_str());
    shape = first == nullptr ? operand.tensor->shape()
                             : broadcast_shapes(shape, operand.tensor->shape(), definition.name.c_str());
    if (first == nullptr) first = operand.tensor;
  }
  if (first == nullptr)
    throw ValueError(fmt::format("[{}] all arguments are numbers; give at least one tensor", definition.name));
  DeviceContext& device = first->device();
  check_user_host(device, definition);
  const DType common = common_dtype(definition, operands);
  std::vector<TensorType> types;
  std::vector<NodePtr> inputs;
  for (size_t i = 0; i < operands.size(); ++i) types.push_back({shape, element.inputs[i].dtype.value_or(common)});
  // Numbers first become tensors: what is wrong with an argument is said before anything is compiled.
  for (size_t i = 0; i < operands.size(); ++i)
    inputs.push_back(operand_tensor(definition, i, operands[i], types[i].dtype, shape, device).node());
  const std::vector<TensorType> results = user_outputs(definition, types);
  if (has_types(device.caps(), definition, types) && has_types(device.caps(), definition, results)) {
    compile_user_text(device, definition, element_alone(definition, types, results, common));
  }
  return record_user(definition, inputs, shape);
}

const UserDefinition* define_user_element(UserElementwise element) {
  check_user_name(element.name);
  if (element.inputs.empty()) throw ValueError(fmt::format("[{}] it has no inputs", element.name));
  if (element.outputs.empty()) throw ValueError(fmt::format("[{}] it has no outputs", element.name));
  if (element.rule != DTypeRule::floating && element.rule != DTypeRule::numeric) {
    throw ValueError(fmt::format(
        "[{}] its rule must be DTypeRule::floating or numeric; declare dtypes of single inputs and outputs instead",
        element.name));
  }
  std::set<std::string> names;
  std::vector<std::string> in, out;
  std::string contents = fmt::format("{}\n{}\n{} {} {}\n", element.name, element.text, static_cast<int>(element.rule),
                                     element.iterations, element.cost);
  for (const auto* list : {&element.inputs, &element.outputs}) {
    for (const UserValue& value : *list) {
      check_user_name(value.name);
      if (!names.insert(value.name).second)
        throw ValueError(fmt::format("[{}] two of its inputs and outputs are called '{}'", element.name, value.name));
      (list == &element.inputs ? in : out).push_back(value.name);
      contents += fmt::format("{} {} ", value.name, type_key(value.dtype));
    }
    contents += "\n";
  }
  const bool common =
      std::any_of(element.inputs.begin(), element.inputs.end(), [](const UserValue& v) { return !v.dtype; });
  if (!common &&
      std::any_of(element.outputs.begin(), element.outputs.end(), [](const UserValue& v) { return !v.dtype; })) {
    throw ValueError(fmt::format("[{}] all inputs declare their dtypes, so each output must, too", element.name));
  }
  auto made = std::make_unique<UserDefinition>();
  made->name = element.name;
  made->text = UserText(element.name, element.text, in, out);
  if (made->text.loops() && element.iterations <= 0) {
    throw ValueError(fmt::format(
        "[{}] its text has loops; say how often all of them run at most for one element (iterations)", element.name));
  }
  if (!made->text.loops()) element.iterations = 0;
  made->vjp = element.vjp;
  made->jvp = element.jvp;
  OpDef row;
  row.kind = OpKind::elementwise;
  row.arity = static_cast<int>(element.inputs.size());
  row.rule = DTypeRule::any;
  row.cost = element.cost > 0 ? element.cost : std::max(1, made->text.cost() * std::clamp(element.iterations, 1, 64));
  if (made->text.loops()) row.cost = std::max(row.cost, 20);
  row.transcendental = made->text.transcendental();
  const size_t outputs = element.outputs.size();
  made->element = std::move(element);
  return publish_user_kernel(std::move(made), row, outputs, "element\n" + contents);
}

}  // namespace heddle
