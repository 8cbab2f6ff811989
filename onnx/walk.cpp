#include "heddle/onnx/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "heddle/core/base/error.h"

namespace heddle::onnx {
namespace {

constexpr int64_t largest_folded = int64_t{1} << 16;  // elements, whatever becomes of them
constexpr int64_t largest_moved = int64_t{1} << 24;   // elements, of what is only moved
constexpr size_t kept_by_content = size_t{1} << 16;   // bytes

int64_t elements_of(const std::vector<Value>& inputs) {
  int64_t elements = 0;
  for (const Value& value : inputs) {
    if (value.is_tensor()) elements += value.shape().numel();
  }
  return elements;
}

bool small(const std::vector<Value>& inputs) { return elements_of(inputs) <= largest_folded; }

size_t bytes_of(const HostTensor& host) { return host.bytes ? host.bytes->size() : 0; }

bool same(const HostTensor* a, const HostTensor& b) {
  if (!a) return b.type == Type::none;
  return a->type == b.type && a->shape == b.shape && a->bytes && b.bytes &&
         (a->bytes == b.bytes || (a->bytes->size() <= kept_by_content && *a->bytes == *b.bytes));
}

// Whether results hold no more than inputs did, as the first of these did: weights moved, not unpacked.
bool as_packed(const std::vector<HostTensor>& results, const std::vector<const HostTensor*>& inputs) {
  size_t before = 0, after = 0;
  for (const HostTensor* input : inputs) before += input ? bytes_of(*input) : 0;
  for (const HostTensor& result : results) {
    after += bytes_of(result);
    if (inputs.empty() || !inputs[0] || result.type != inputs[0]->type) return false;
  }
  return after <= before;
}

// Whether all inputs that are there are such tensors.
template <class Test>
bool all(const std::vector<Value>& inputs, const Test& test) {
  return std::ranges::all_of(inputs, [&](const Value& v) { return !v.present() || (v.is_tensor() && test(v)); });
}

std::vector<const HostTensor*> hosts_of(const std::vector<Value>& inputs) {
  std::vector<const HostTensor*> hosts;
  for (const Value& value : inputs) hosts.push_back(value.present() ? &value.host() : nullptr);
  return hosts;
}

std::vector<HostTensor> folded(const Op& op, const NodeView& view, const std::vector<Value>& inputs) {
  return op.fold(HostCall(view, hosts_of(inputs)));
}

// How many of a graph's own nodes and outputs read a name.
void count_reads(const Graph& graph, std::unordered_map<std::string, int>& counts) {
  for (const Node& node : graph.nodes) {
    for (const std::string& input : node.inputs) ++counts[input];
    for (const auto& [name, attribute] : node.attributes) {
      if (const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value)) count_reads(**inner, counts);
    }
  }
  for (const Port& output : graph.outputs) ++counts[output.name];
}

void let_go(const Node& node, std::unordered_map<std::string, int>& counts, Environment& here) {
  const auto read = [&](const std::string& name) {
    if (!name.empty() && --counts[name] == 0) here.values.erase(name);
  };
  for (const std::string& input : node.inputs) read(input);
  for (const auto& [name, attribute] : node.attributes) {
    const auto* inner = std::get_if<std::shared_ptr<const Graph>>(&attribute.value);
    if (!inner) continue;
    std::unordered_map<std::string, int> within;
    count_reads(**inner, within);
    for (const auto& [read_name, times] : within) {
      if ((counts[read_name] -= times) == 0) here.values.erase(read_name);
    }
  }
  for (const std::string& output : node.outputs) {
    if (!output.empty() && counts[output] == 0) here.values.erase(output);
  }
}

}  // namespace

Tensor Constants::tensor(const HostTensor& host) {
  const std::string head = fmt::format("{}{}", static_cast<int>(host.type), host.shape.str());
  if (host.bytes->size() > kept_by_content) {
    Kept& kept = by_place_[{host.bytes.get(), head}];
    if (!kept.tensor.defined()) kept = {host, host.upload(device_)};
    return kept.tensor;
  }
  const auto found = by_content_.find(head + *host.bytes);
  if (found != by_content_.end()) return found->second.tensor;
  Tensor tensor = host.upload(device_);
  // A constant without memory costs nothing to make again, and belongs to the graph that it is made in.
  if (!host.uniform()) by_content_.emplace(head + *host.bytes, Kept{host, tensor});
  return tensor;
}

std::vector<HostTensor> Constants::folded(const Node& node, const std::vector<const HostTensor*>& inputs,
                                          const std::function<std::vector<HostTensor>()>& fold) {
  const auto found = by_node_.find(&node);
  if (found != by_node_.end() && std::ranges::equal(inputs, found->second.inputs, same)) return found->second.results;
  Folded made;
  int64_t elements = 0;
  for (const HostTensor* input : inputs) {
    made.inputs.push_back(input ? *input : HostTensor());
    if (input) elements += input->shape.numel();
  }
  made.results = fold();
  if (elements > largest_folded && !as_packed(made.results, inputs)) made.results.clear();
  return by_node_.insert_or_assign(&node, std::move(made)).first->second.results;
}

const Value* Environment::find(const std::string& name) const {
  for (const Environment* e = this; e; e = e->around) {
    const auto found = e->values.find(name);
    if (found != e->values.end()) return &found->second;
  }
  return nullptr;
}

std::vector<Value> Walk::graph(const Graph& graph, std::vector<Value> inputs, Environment& here) {
  for (const auto& [name, tensor] : graph.constants) {
    if (!tensor.bytes) throw Unsupported(fmt::format("[onnx] initializer {} is of {}", name, name_of(tensor.type)));
    here.values[name] = Value::fixed(tensor);
  }
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const bool there = i < inputs.size() && inputs[i].present();
    if (there) here.values[graph.inputs[i].name] = std::move(inputs[i]);
  }
  inputs.clear();
  std::unordered_map<std::string, int> counts;
  count_reads(graph, counts);
  for (const Node& node : graph.nodes) {
    std::vector<Value> arguments;
    for (const std::string& name : node.inputs) {
      const Value* value = name.empty() ? nullptr : here.find(name);
      arguments.push_back(value ? *value : Value());
    }
    std::vector<Value> results = this->node(node, std::move(arguments), here);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].empty()) continue;
      if (i >= results.size() || !results[i].present())
        NodeView(node, 0, nullptr).unsupported(fmt::format("output {} is not made", i));
      here.values[node.outputs[i]] = std::move(results[i]);
    }
    let_go(node, counts, here);
  }
  std::vector<Value> outputs;
  for (const Port& output : graph.outputs) {
    const Value* value = here.find(output.name);
    if (!value)
      throw ValueError(fmt::format("[onnx] output {} has no value: an input that it needs is missing", output.name));
    outputs.push_back(*value);
  }
  return outputs;
}

std::vector<Value> Walk::node(const Node& node, std::vector<Value> inputs, const Environment& here) {
  const auto opset = here.opsets->find(node.domain);
  const NodeView view(node, opset == here.opsets->end() ? 1 : opset->second, here.bound);
  if (const auto own = custom_.find({node.domain, node.op}); own != custom_.end())
    return custom(own->second, view, inputs);
  const bool own = node.domain == own_domain && find_op(node.domain, node.op, view.opset());
  if (const auto f = model_.functions.find({node.domain, node.op}); f != model_.functions.end() && !own)
    return function(f->second, view, std::move(inputs));
  const Op* op = find_op(node.domain, node.op, view.opset());
  if (!op) view.unsupported(fmt::format("no such op in opset {} of domain '{}'", view.opset(), node.domain));
  if (const std::string wrong = attribute_complaint(*op, view); !wrong.empty()) view.unsupported(wrong);
  return row(*op, view, std::move(inputs), here);
}

// A row reads lists by at(): of a malformed model they are shorter than the op needs.
std::vector<Value> Walk::row(const Op& op, const NodeView& view, std::vector<Value> inputs, const Environment& here) {
  try {
    return checked_row(op, view, std::move(inputs), here);
  } catch (const std::out_of_range&) {
    view.fail("an input or an attribute has fewer elements than the op needs");
  }
}

std::vector<Value> Walk::checked_row(const Op& op, const NodeView& view, std::vector<Value> inputs,
                                     const Environment& here) {
  // A function's node stands for several, by the attributes that it is called with: nothing of it is kept.
  const bool keeps = here.bound == nullptr;
  if (op.fold && elements_of(inputs) <= (keeps ? largest_moved : largest_folded) &&
      all(inputs, [](const Value& v) { return v.is_fixed(); })) {
    const auto fold = [&] { return folded(op, view, inputs); };
    std::vector<HostTensor> hosts = keeps ? constants_.folded(view.node(), hosts_of(inputs), fold) : fold();
    std::vector<Value> results;
    for (HostTensor& host : hosts) results.push_back(Value::fixed(std::move(host)));
    if (!results.empty()) return results;  // else what this node does is not for the host
  }
  Call call(view, *this, here, inputs);
  try {
    op.build(call);
  } catch (const ShapeError& error) {
    throw ShapeError(fmt::format("[onnx] node {} ({}): {}", view.node().label, view.node().op, error.what()));
  } catch (const DTypeError& error) {
    throw DTypeError(fmt::format("[onnx] node {} ({}): {}", view.node().label, view.node().op, error.what()));
  }
  std::vector<Value> results = std::move(call.results());
  if (op.fold && small(inputs) && all(inputs, [](const Value& v) { return v.host_known(); })) {
    for (size_t i = 0; i < results.size(); ++i) {
      if (!results[i].is_tensor() || results[i].host_known()) continue;
      results[i].set_later([&op, view, inputs, i] {
        std::vector<HostTensor> hosts = folded(op, view, inputs);
        if (i >= hosts.size()) view.unsupported("its values are needed on the host");
        return std::move(hosts[i]);
      });
    }
  }
  return results;
}

std::vector<Value> Walk::function(const Function& function, const NodeView& view, std::vector<Value> inputs) {
  auto bound = std::make_shared<std::map<std::string, Attribute>>(function.defaults);
  for (const auto& [name, written] : view.node().attributes) {
    if (const Attribute* attribute = view.find(name)) bound->insert_or_assign(name, *attribute);
  }
  Environment here;
  here.opsets = &function.opsets;
  here.bound = bound;
  return graph(function.body, std::move(inputs), here);
}

std::vector<Value> Walk::custom(const CustomOp& op, const NodeView& view, const std::vector<Value>& inputs) {
  std::vector<Tensor> tensors;
  for (const Value& value : inputs) {
    if (value.present() && !value.is_tensor()) view.unsupported("functions of the caller's take tensors alone");
    tensors.push_back(!value.present()           ? Tensor()
                      : value.tensor().defined() ? value.tensor()
                                                 : constants_.tensor(value.host()));
  }
  std::vector<Value> results;
  for (Tensor& result : op(view, tensors)) {
    const Type type = result.defined() ? type_of(result.dtype()) : Type::none;
    results.push_back(result.defined() ? Value::computed(std::move(result), type) : Value());
  }
  return results;
}

// ---- a node under way

const Value& Call::any(size_t i) const {
  if (!given(i)) fail(fmt::format("input {} is missing", i));
  return inputs_[i];
}

const Value& Call::value(size_t i) const {
  const Value& value = any(i);
  if (!value.is_tensor()) fail(fmt::format("input {} must be a tensor", i));
  return value;
}

Tensor Call::tensor_of(const Value& value) const {
  if (!value.is_tensor()) fail("takes tensors, not sequences or optionals");
  return value.tensor().defined() ? value.tensor() : constant(value.host());
}

Tensor Call::tensor(size_t i) const { return tensor_of(value(i)); }
Tensor Call::constant(const HostTensor& host) const { return walk_.constants().tensor(host); }
DeviceContext& Call::device() const { return walk_.constants().device(); }
void Call::note_wait() const { walk_.notes().waits.insert(node().label); }

int Call::axis(int64_t axis, int rank) const {
  if (axis < -rank || axis >= rank) fail(fmt::format("axis {} is out of range for {} dimensions", axis, rank));
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::vector<int64_t> Call::ints(size_t i) const {
  const Value& v = value(i);
  if (v.host_known()) return v.host().ints();
  note_wait();
  return v.tensor().to_vector<int64_t>();
}

std::vector<double> Call::numbers(size_t i) const {
  const Value& v = value(i);
  if (v.host_known()) return v.host().reals();
  note_wait();
  return v.tensor().to_doubles();
}

int64_t Call::whole(size_t i) const {
  const std::vector<int64_t> all = ints(i);
  if (all.size() != 1) fail(fmt::format("input {} must have one element, it has {}", i, all.size()));
  return all[0];
}

std::optional<std::vector<int64_t>> Call::list(std::string_view attribute, size_t i) const {
  if (has(attribute)) return integers(attribute);
  if (given(i)) return ints(i);
  return std::nullopt;
}

std::vector<Value> Call::run(const Graph& graph, std::vector<Value> inputs) const {
  Environment here;
  here.around = &around_;
  here.opsets = around_.opsets;
  here.bound = around_.bound;
  return walk_.graph(graph, std::move(inputs), here);
}

}  // namespace heddle::onnx
