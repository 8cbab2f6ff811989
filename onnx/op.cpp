#include "heddle/onnx/op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/shortened.h"

namespace heddle::onnx {
namespace {

// Those of every node that makers of files use for themselves.
constexpr std::string_view ignored = "doc_string";

std::string described(const Attribute& attribute) {
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) return std::to_string(*i);
  if (const auto* s = std::get_if<std::string>(&attribute.value)) return "'" + shortened(*s) + "'";
  return "of another type";
}

std::string value_text(const Attribute& attribute) {
  if (const auto* i = std::get_if<int64_t>(&attribute.value)) return std::to_string(*i);
  if (const auto* s = std::get_if<std::string>(&attribute.value)) return *s;
  return "?";
}

// The values that a row lists for an attribute; false: none is listed, any goes.
bool listed(std::string_view attributes, std::string_view name, std::vector<std::string>& values, bool& known) {
  known = false;
  while (!attributes.empty()) {
    const size_t space = std::min(attributes.find(' '), attributes.size());
    const std::string_view word = attributes.substr(0, space);
    attributes.remove_prefix(std::min(space + 1, attributes.size()));
    const size_t equals = std::min(word.find('='), word.size());
    if (word.substr(0, equals) != name) continue;
    known = true;
    if (equals == word.size()) return false;
    for (std::string_view rest = word.substr(equals + 1);;) {
      const size_t bar = std::min(rest.find('|'), rest.size());
      values.emplace_back(rest.substr(0, bar));
      if (bar == rest.size()) return true;
      rest.remove_prefix(bar + 1);
    }
  }
  return false;
}

template <class T>
const T* as(const Attribute* attribute) {
  return attribute ? std::get_if<T>(&attribute->value) : nullptr;
}

}  // namespace

const Attribute* NodeView::find(std::string_view name) const {
  const auto found = node_.attributes.find(std::string(name));
  if (found == node_.attributes.end()) return nullptr;
  const auto* of_function = std::get_if<Attribute::OfFunction>(&found->second.value);
  if (!of_function) return &found->second;
  if (!bound_) return nullptr;
  const auto outer = bound_->find(of_function->name);
  return outer == bound_->end() ? nullptr : &outer->second;
}

void NodeView::fail(const std::string& what) const {
  throw ValueError(fmt::format("[onnx] node {} ({}): {}", node_.label, shortened(node_.op), what));
}

void NodeView::unsupported(const std::string& what) const {
  throw Unsupported(fmt::format("[onnx] node {} ({}) cannot run: {}", node_.label, shortened(node_.op), what));
}

int64_t NodeView::integer(std::string_view name, std::optional<int64_t> fallback) const {
  const Attribute* attribute = find(name);
  if (const auto* value = as<int64_t>(attribute)) return *value;
  if (attribute || !fallback) fail(fmt::format("attribute {} must be an integer", name));
  return *fallback;
}

double NodeView::real(std::string_view name, std::optional<double> fallback) const {
  const Attribute* attribute = find(name);
  if (const auto* value = as<double>(attribute)) return *value;
  if (attribute || !fallback) fail(fmt::format("attribute {} must be a float", name));
  return *fallback;
}

std::string NodeView::text(std::string_view name, std::optional<std::string> fallback) const {
  const Attribute* attribute = find(name);
  if (const auto* value = as<std::string>(attribute)) return *value;
  if (attribute || !fallback) fail(fmt::format("attribute {} must be a text", name));
  return *fallback;
}

std::vector<int64_t> NodeView::integers(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (const auto* value = as<std::vector<int64_t>>(attribute)) return *value;
  if (attribute) fail(fmt::format("attribute {} must be a list of integers", name));
  return {};
}

std::vector<double> NodeView::reals(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (const auto* value = as<std::vector<double>>(attribute)) return *value;
  if (attribute) fail(fmt::format("attribute {} must be a list of floats", name));
  return {};
}

std::vector<std::string> NodeView::texts(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (const auto* value = as<std::vector<std::string>>(attribute)) return *value;
  if (attribute) fail(fmt::format("attribute {} must be a list of texts", name));
  return {};
}

const HostTensor* NodeView::attribute_tensor(std::string_view name) const {
  const Attribute* attribute = find(name);
  if (!attribute) return nullptr;
  const auto* value = as<HostTensor>(attribute);
  if (!value) fail(fmt::format("attribute {} must be a tensor", name));
  if (!value->bytes) unsupported(fmt::format("attribute {} is a tensor of {}", name, name_of(value->type)));
  return value;
}

const Graph& NodeView::graph(std::string_view name) const {
  const auto* value = as<std::shared_ptr<const Graph>>(find(name));
  if (!value) fail(fmt::format("attribute {} must be a graph", name));
  return **value;
}

const HostTensor& HostCall::input(size_t i) const {
  if (!given(i)) fail(fmt::format("input {} is missing", i));
  return *inputs_[i];
}

std::string attribute_complaint(const Op& op, const NodeView& view) {
  for (const auto& [name, written] : view.node().attributes) {
    if (name == ignored) continue;
    std::vector<std::string> values;
    bool known = false;
    const bool limited = listed(op.attributes, name, values, known);
    if (!known) return fmt::format("attribute {}, which is not known in opset {}", name, view.opset());
    const Attribute* attribute = view.find(name);
    if (!attribute) continue;  // of a function, which the caller left out
    if (values == std::vector<std::string>{"*"}) continue;
    if (const auto* other = std::get_if<Attribute::Other>(&attribute->value))
      return fmt::format("attribute {}, {}", name, other->what);
    if (limited && std::ranges::find(values, value_text(*attribute)) == values.end())
      return fmt::format("attribute {} = {} (known: {})", name, described(*attribute), fmt::join(values, ", "));
  }
  return "";
}

const Op* find_op(const std::string& domain, const std::string& name, int opset, const Op** nearest) {
  for (const Op& op : op_table()) {
    if (name != op.name || domain != op.domain) continue;
    if (opset >= op.first && (op.last == 0 || opset <= op.last)) return &op;
    if (nearest) *nearest = &op;
  }
  return nullptr;
}

}  // namespace heddle::onnx
