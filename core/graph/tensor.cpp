#include "heddle/core/graph/tensor.h"

#include <fmt/format.h>

#include <bit>
#include <cstdlib>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/recycled.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/host_indices.h"
#include "heddle/core/graph/observation.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

bool eager_from_environment() {
  const char* value = std::getenv("HEDDLE_EAGER");
  return value && *value && std::string_view(value) != "0";
}

bool& eager_flag() {
  thread_local bool eager = eager_from_environment();
  return eager;
}

std::string at_line(const Caller& caller) {
  const std::string place = line_of(caller);
  return place.empty() ? "" : " at " + place;
}

DeviceContext& device_or_default(DeviceContext* device) { return device ? *device : default_device(); }

// Whether a gradient stops here: nothing is asked of what is behind a stored value.
bool begins_history(const Node& node) { return node.op == &ops::leaf_op || node.op == &ops::assign_op; }

// A new leaf over the node's value, which is computed if it is not there yet.
NodePtr own_leaf(const NodePtr& node) {
  if (!node->has_value()) evaluate({&node, 1});
  NodePtr leaf = node->host ? make_host_leaf(*node->device, *node->host, node->shape, node->dtype)
                            : make_leaf(node->storage, node->view, node->dtype);
  leaf->varying = node->varying;
  if (trace::any()) trace::derived(leaf, node);
  return leaf;
}

}  // namespace

// ---- TensorImpl

TensorImpl::TensorImpl(NodePtr n) : node(std::move(n)) {
  if (node) ++node->handles;
  if (trace::any()) trace::made(*this);
}

TensorImpl::~TensorImpl() {
  if (trace::any()) trace::unmade(*this);
  if (node) --node->handles;
}

void TensorImpl::set_node(NodePtr n) {
  if (n) ++n->handles;
  if (node) --node->handles;
  node = std::move(n);
}

// ---- making

Tensor::Tensor(NodePtr node)
    : impl_(std::allocate_shared<TensorImpl>(RecycledAllocator<TensorImpl>(), std::move(node))) {}

namespace {

void check_count(const char* place, size_t count, const Shape& shape) {
  if (count != static_cast<size_t>(shape.numel())) {
    throw ShapeError(
        fmt::format("[{}] {} elements given, but shape {} holds {}", place, count, shape.str(), shape.numel()));
  }
}

}  // namespace

Tensor Tensor::from_batch_bytes(const void* data, size_t count, DType dtype, const Shape& shape, DeviceContext* device,
                                Caller caller) {
  const CallerScope scope(caller);
  check_count("from_batch", count, shape);
  if (count == 0) return from_bytes(data, count, dtype, shape, device, caller);
  StoragePtr storage = device_or_default(device).stage(data, count * size_of(dtype));
  note_host_indices(storage, data, count, dtype);
  return Tensor(make_leaf(std::move(storage), View::dense(shape), dtype));
}

Tensor Tensor::from_bytes(const void* data, size_t count, DType dtype, const Shape& shape, DeviceContext* device,
                          Caller caller) {
  const CallerScope scope(caller);
  check_count("from_host", count, shape);
  DeviceContext& target = device_or_default(device);
  const uint64_t bytes = count * size_of(dtype);
  StoragePtr storage = target.allocate(bytes);
  if (bytes > 0) target.write(*storage, 0, data, bytes);
  note_host_indices(storage, data, count, dtype);
  return Tensor(make_leaf(std::move(storage), View::dense(shape), dtype));
}

Tensor Tensor::host_scalar(float value, DeviceContext* device) {
  HostValue host;
  host.words[0] = std::bit_cast<uint32_t>(value);
  return Tensor(make_host_leaf(device_or_default(device), host, Shape{}, DType::f32));
}

Tensor Tensor::host_scalar(Callable<float()> source, DeviceContext* device) {
  const auto next = [source = std::move(source)] {
    HostValue host;
    host.words[0] = std::bit_cast<uint32_t>(source());
    return host;
  };
  NodePtr leaf = make_host_leaf(device_or_default(device), next(), Shape{}, DType::f32);
  if (trace::any()) trace::source(leaf, next);
  return Tensor(std::move(leaf));
}

// ---- facts

const NodePtr& Tensor::node() const {
  if (trace::any()) [[unlikely]]
    trace::touched(*this);
  if (!impl_)
    throw ValueError(
        "[tensor] this handle is empty: it was default-constructed or moved from, or it is the grad() of a tensor that "
        "no backward() has reached since zero_grad()");
  return impl_->node;
}

const Shape& Tensor::shape() const { return node()->shape; }
DType Tensor::dtype() const { return node()->dtype; }
DeviceContext& Tensor::device() const { return *node()->device; }

// ---- observation

namespace {

void check_item(const Tensor& x) {
  if (x.numel() == 1) return;
  throw ShapeError(fmt::format("[item] needs exactly one element, but the shape is {}; reduce it, or use to_vector()",
                               x.shape().str()));
}

}  // namespace

double Tensor::item(Caller caller) const {
  const CallerScope scope(caller);
  check_item(*this);
  return to_doubles(caller)[0];
}

void Tensor::copy_item(void* target, DType type, Caller caller) const {
  const CallerScope scope(caller);
  check_item(*this);
  if (is_float(type) != is_float(dtype()) || promote(type, dtype()) != type) {
    throw DTypeError(fmt::format("[item] {} does not hold every {}; ask for a type that does, or cast() the tensor",
                                 name_of(type), name_of(dtype())));
  }
  HostArray value = host_array_from_bytes(to_bytes(caller).data(), Shape{}, dtype());
  value.dtype = type;
  const std::vector<uint8_t> bytes = host_array_to_bytes(value);
  std::memcpy(target, bytes.data(), bytes.size());
}

std::vector<uint8_t> Tensor::to_bytes(Caller caller) const {
  const CallerScope scope(caller);
  const NodePtr& n = node();
  if (trace::any()) trace::refuse(fmt::format("it looks at a value ({}){}", describe(*n), at_line(caller)));
  if (!n->has_value()) evaluate({&n, 1}, "a value was looked at");
  throw_watched();
  return read_bytes(*n);
}

std::vector<double> Tensor::to_doubles(Caller caller) const {
  const CallerScope scope(caller);
  const std::vector<uint8_t> bytes = to_bytes(caller);
  std::vector<double> result(static_cast<size_t>(numel()));
  for (size_t i = 0; i < result.size(); ++i) result[i] = load_element(bytes.data(), dtype(), i);
  return result;
}

std::vector<int64_t> Tensor::to_integers(Caller caller) const {
  const CallerScope scope(caller);
  return host_array_from_bytes(to_bytes(caller).data(), shape(), dtype()).ints;
}

Tensor Tensor::to(DType type, Caller caller) const {
  const CallerScope scope(caller);
  return dtype() == type ? *this : Tensor(make_node(ops::cast_op, {node()}, {}, shape(), type));
}

// ---- assign

void Tensor::assign(const Tensor& value, Caller caller) {
  const CallerScope scope(caller);
  if (value.shape() != shape()) {
    throw ShapeError(fmt::format("[assign] the tensor is {}, the value {}", shape().str(), value.shape().str()));
  }
  if (value.dtype() != dtype()) {
    throw DTypeError(fmt::format("[assign] the tensor is {}, the value {}; cast the value", name_of(dtype()),
                                 name_of(value.dtype())));
  }
  if (value.node() == node()) return;
  if (node()->tracks && !impl_->requires_grad) {
    throw GradError(
        fmt::format("[assign] a {} tensor that was computed inside a gradient graph cannot be assigned; detach() it",
                    shape().str()));
  }
  if (ExampleScope::active() && depends_on_example(value.node())) {
    throw ValueError(
        fmt::format("[assign] the value for a {} tensor depends on an example of vmap: every example would write "
                    "another one; return it from the "
                    "mapped function (batch_norm: give it no running statistics, or evaluate)",
                    shape().str()));
  }
  NodePtr assigned = make_node(ops::assign_op, {node(), value.node()}, {}, shape(), dtype());
  if (impl_->requires_grad) {
    assigned->tracks = true;
    assigned->grad_target = impl_;
  }
  impl_->set_node(std::move(assigned));
}

// ---- autograd state

Tensor& Tensor::set_requires_grad(bool on) {
  if (!is_float(dtype())) {
    throw GradError(fmt::format("[set_requires_grad] only floating tensors have gradients; this one is {} {}",
                                shape().str(), name_of(dtype())));
  }
  if (!is_leaf()) {
    throw GradError(fmt::format(
        "[set_requires_grad] this {} tensor is the result of '{}' on tensors with gradients; detach() it first",
        shape().str(), node()->op->name));
  }
  impl_->requires_grad = on;
  if (on) {
    // A gradient collects at a leaf (or assign) node, and a node collects for one tensor only: where this tensor's node
    // is the result of ops, or collects for another tensor, it gets a leaf of its own.
    const auto owner = node()->grad_target.lock();
    if (!begins_history(*node()) || (owner && owner != impl_)) impl_->set_node(own_leaf(node()));
    node()->grad_target = impl_;
  } else {
    node()->grad_target.reset();
  }
  node()->tracks = on;
  return *this;
}

bool Tensor::requires_grad() const { return node()->tracks; }
bool Tensor::is_leaf() const { return !node()->tracks || begins_history(*node()); }
Tensor Tensor::grad() const {
  node();
  return impl_->grad;
}

void Tensor::set_grad(const Tensor& grad) {
  if (grad.defined() && grad.shape() != shape()) {
    throw ShapeError(fmt::format("[set_grad] the tensor is {}, the gradient {}", shape().str(), grad.shape().str()));
  }
  if (grad.defined() && &grad.device() != &device()) {
    throw ValueError(
        fmt::format("[set_grad] the tensor is on {}, the gradient on {}", device().id(), grad.device().id()));
  }
  impl_->grad = grad;
}

void Tensor::zero_grad() {
  node();
  impl_->grad = Tensor();
}

Tensor Tensor::detach(Caller caller) const {
  const CallerScope scope(caller);
  return Tensor(node()->has_value() ? own_leaf(node())
                                    : make_node(ops::stop_gradient_op, {node()}, {}, shape(), dtype()));
}

void Tensor::register_hook(Callable<Tensor(const Tensor& grad)> hook) {
  if (!node()->tracks) {
    throw GradError(fmt::format(
        "[register_hook] no gradient flows through this {} tensor; call set_requires_grad() first", shape().str()));
  }
  if (!hook) throw ValueError("[register_hook] the hook is an empty function; pass something that can be called");
  impl_->hooks.push_back(std::move(hook));
  if (node()->grad_target.expired()) node()->grad_target = impl_;
}

// ---- evaluation and modes

void eval(std::span<const Tensor> tensors, Caller caller) {
  const CallerScope scope(caller);
  std::vector<NodePtr> roots;
  roots.reserve(tensors.size());
  for (const Tensor& t : tensors) roots.push_back(t.node());
  if (!roots.empty() && Trace::current() == nullptr) evaluate(roots);
}

void eval_pending(Caller caller) {
  const CallerScope scope(caller);
  evaluate_pending();
}

bool eager_mode() { return eager_flag(); }

EagerScope::EagerScope() : before_(eager_flag()) {
  evaluate_pending();
  eager_flag() = true;
}

EagerScope::~EagerScope() { eager_flag() = before_; }

}  // namespace heddle
