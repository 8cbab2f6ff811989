// Writer's constants, and sizes that vary as small tensors.
#include <fmt/format.h>

#include "heddle/onnx/export/writer.h"

namespace heddle::onnx {
namespace {

HostTensor list_of(const std::vector<int64_t>& values) {
  return HostTensor::of_ints(Type::i64, Shape{static_cast<int64_t>(values.size())}, values);
}

}  // namespace

std::string Writer::constant(const HostTensor& value, const std::string& base) {
  const std::string key = fmt::format("{} {} ", static_cast<int>(value.type), value.shape.str()) + *value.bytes;
  const auto [known, added] = constants_.try_emplace(key);
  if (added) {
    known->second = fresh(base);
    model_.graph.constants[known->second] = value;
  }
  return known->second;
}

std::string Writer::number(double value, DType dtype) {
  const Type type = type_of(dtype);
  const HostTensor host = is_float(dtype) ? HostTensor::of_reals(type, Shape{}, {value})
                                          : HostTensor::of_ints(type, Shape{}, {static_cast<int64_t>(value)});
  return constant(host, "number");
}

std::string Writer::wholes(const std::vector<int64_t>& values) { return constant(list_of(values), "numbers"); }

std::string Writer::whole(const Size& size) {
  if (size.fixed()) return constant(HostTensor::of_ints(Type::i64, Shape{}, {size.number()}), "numbers");
  return node(*root_, "Squeeze", {this->size(size), wholes({0})});
}

std::string Writer::symbol(size_t index) {
  const Size alone = Size::of_name(index);
  std::string& known = sizes_[alone.terms()];
  if (!known.empty()) return known;
  for (size_t i = 0; i < recorded_.inputs.size() && known.empty(); ++i) {
    for (size_t axis = 0; axis < recorded_.inputs[i].size(); ++axis) {
      if (recorded_.inputs[i][axis] != alone) continue;
      const auto at = static_cast<int64_t>(axis);
      return known = node(*root_, "Shape", {options_.inputs[i]}, {{"start", {at}}, {"end", {at + 1}}});
    }
  }
  return known;
}

// A sum of products, in the order of the terms.
std::string Writer::size(const Size& size) {
  if (size.fixed()) return wholes({size.number()});
  if (const auto known = sizes_.find(size.terms()); known != sizes_.end()) return known->second;
  std::string sum;
  for (size_t mask = 0; mask < size.terms().size(); ++mask) {
    const int64_t factor = size.terms()[mask];
    if (factor == 0) continue;
    std::string product;
    for (size_t i = 0; i < symbols().names().size(); ++i) {
      if ((mask >> i & 1) == 0) continue;
      product = product.empty() ? symbol(i) : node(*root_, "Mul", {product, symbol(i)});
    }
    if (product.empty())
      product = wholes({factor});
    else if (factor != 1)
      product = node(*root_, "Mul", {product, wholes({factor})});
    sum = sum.empty() ? product : node(*root_, "Add", {sum, product});
  }
  return sizes_[size.terms()] = sum;
}

std::string Writer::sizes(const Sizes& sizes) {
  if (all_fixed(sizes)) return wholes(numbers_of(sizes));
  std::vector<std::string> parts;
  for (const Size& each : sizes) parts.push_back(size(each));
  if (parts.size() == 1) return parts[0];
  return node(*root_, "Concat", parts, {{"axis", {int64_t{0}}}});
}

}  // namespace heddle::onnx
