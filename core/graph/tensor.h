// Tensor: the user's value handle over a graph node and a device. Cheap to copy; copies share the value.
//
// Purpose: write eagerly, run compiled. An operation records a node; the value appears when it is observed (item,
// to_vector, printing), when an optimizer steps, or when eval() asks. What is held by a Tensor at that time is kept;
// the rest may vanish into fusion. Under EagerScope or HEDDLE_EAGER=1 every operation runs at once. Invariants: shape,
// dtype and device of a Tensor never change, except through assign() of its value (same shape and dtype). Thread
// safety: recording is per thread; one Tensor may be read by several threads once it has a value.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/base/shape.h"
#include "core/graph/node.h"
#include "core/graph/trace.h"

namespace heddle {

class Tensor {
 public:
  Tensor() = default;  // empty handle: defined() is false
  explicit Tensor(NodePtr node);
  // Copies share the value. While compile() looks on, handles report what is done with them (core/graph/trace.h).
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (trace::any()) [[unlikely]]
      trace::copied(other, *this);
  }
  Tensor(Tensor&& other) noexcept {
    if (trace::any()) [[unlikely]]
      trace::moved(other, *this);
    impl_ = std::move(other.impl_);
  }
  Tensor& operator=(const Tensor& other) {
    if (trace::any()) [[unlikely]]
      trace::moved(other, *this);
    impl_ = other.impl_;
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (trace::any()) [[unlikely]]
      trace::moved(other, *this);
    impl_ = std::move(other.impl_);
    return *this;
  }
  ~Tensor() {
    const bool watched = watched_.load(std::memory_order_relaxed);
    if (watched || trace::any()) [[unlikely]]
      trace::destroyed(*this, watched);
  }

  // Host data in row-major order; copies it to the device (the default device unless given). ShapeError when sizes
  // differ.
  template <class T>
  static Tensor from_host(std::span<const T> data, const Shape& shape, DeviceContext* device = nullptr,
                          Caller caller = Caller::current()) {
    return from_bytes(data.data(), data.size(), dtype_of<T>::value, shape, device, caller);
  }
  template <class T>
  static Tensor from_vector(const std::vector<T>& data, const Shape& shape, DeviceContext* device = nullptr,
                            Caller caller = Caller::current()) {
    return from_host(std::span<const T>(data), shape, device, caller);
  }
  // A batch: as from_host(), but uploaded while earlier steps run, where the device can (DeviceContext::stage()).
  template <class T>
  static Tensor from_batch(std::span<const T> data, const Shape& shape, DeviceContext* device = nullptr,
                           Caller caller = Caller::current()) {
    return from_batch_bytes(data.data(), data.size(), dtype_of<T>::value, shape, device, caller);
  }
  static Tensor from_batch_bytes(const void* data, size_t count, DType dtype, const Shape& shape,
                                 DeviceContext* device = nullptr, Caller caller = Caller::current());
  // `count` elements of dtype as stored (f16 and bf16 as 16-bit patterns).
  static Tensor from_bytes(const void* data, size_t count, DType dtype, const Shape& shape,
                           DeviceContext* device = nullptr, Caller caller = Caller::current());
  // A number that may change from step to step without a new plan (learning rates); f32, rank 0.
  static Tensor host_scalar(float value, DeviceContext* device = nullptr);
  // The same with its source, so that compile() can replay a step that makes it: called now and once in each replay.
  static Tensor host_scalar(std::function<float()> source, DeviceContext* device = nullptr);

  bool defined() const {
    if (trace::any()) [[unlikely]]
      trace::touched(*this);
    return impl_ != nullptr;
  }
  const Shape& shape() const;
  DType dtype() const;
  int rank() const { return shape().rank(); }
  int64_t dim(int axis) const { return shape().dim(axis); }
  int64_t numel() const { return shape().numel(); }
  DeviceContext& device() const;

  // Observation: evaluates what is pending, waits, copies to the host. Ends a captured region; `caller` is what logs
  // and errors name.
  double item(Caller caller = Caller::current()) const;  // one element; ShapeError otherwise
  // All elements in row-major order, converted to T.
  template <class T>
  std::vector<T> to_vector(Caller caller = Caller::current()) const {
    std::vector<double> wide = to_doubles(caller);
    return std::vector<T>(wide.begin(), wide.end());
  }
  std::vector<double> to_doubles(
      Caller caller = Caller::current()) const;                            // i64 beyond 2^53 loses digits: use to_bytes
  std::vector<uint8_t> to_bytes(Caller caller = Caller::current()) const;  // as stored, row-major, without conversion
  std::string str(
      Caller caller = Caller::current()) const;  // "tensor([[1, 2], [3, 4]], f32, opencl:0)"; long ones are shortened

  // The same values on another device; observes. A tensor inside a gradient graph cannot move (GradError).
  Tensor to(DeviceContext& device, Caller caller = Caller::current()) const;
  Tensor to(std::string_view device_id, Caller caller = Caller::current()) const;
  Tensor to(DType dtype, Caller caller = Caller::current()) const;  // cast

  // Replaces this tensor's value (same shape and dtype, same device): all copies of this handle see it. Pending readers
  // of the old value still get the old one. In place where nobody else shares the memory.
  void assign(const Tensor& value, Caller caller = Caller::current());

  // Autograd. backward() and grads live in autograd/autograd.h; the state lives here.
  Tensor& set_requires_grad(bool on = true);  // leaf of floating dtype only: GradError otherwise
  bool requires_grad() const;                 // gradients flow through or into it
  bool is_leaf() const;
  Tensor grad() const;  // undefined until backward()
  void set_grad(const Tensor& grad);
  void zero_grad();                                        // drops the gradient
  Tensor detach(Caller caller = Caller::current()) const;  // same value, no gradient
  // Called with the gradient of this tensor when backward() has it complete; may return a replacement.
  void register_hook(std::function<Tensor(const Tensor& grad)> hook);

  const NodePtr& node() const;
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  // For core/graph/trace.cpp: reports its destruction from now on.
  void mark_watched() const { watched_.store(true, std::memory_order_relaxed); }

 private:
  std::shared_ptr<TensorImpl> impl_;
  mutable std::atomic<bool> watched_{false};  // of this handle, not of its copies
};

// A tensor as the argument of a function that records, with the place where the call stands (core/base/caller.h). Made
// by the call itself: such a function is called with a Tensor, and converts to std::function<Tensor(const Tensor&)>.
struct TensorArg {
  TensorArg(const Tensor& value, Caller where = Caller::current()) : tensor(value), caller(where) {}
  const Tensor& tensor;
  Caller caller;
};

// State shared by the copies of a Tensor.
struct TensorImpl {
  explicit TensorImpl(NodePtr n);
  ~TensorImpl();
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;
  void set_node(NodePtr n);  // keeps Node::handles right

  NodePtr node;
  bool requires_grad = false;  // leaf that collects a gradient
  Tensor grad;
  std::vector<std::function<Tensor(const Tensor&)>> hooks;
};

// Evaluates these tensors (and everything else this thread holds pending on their devices); returns when it is
// enqueued.
void eval(std::span<const Tensor> tensors, Caller caller = Caller::current());
inline void eval(std::initializer_list<Tensor> tensors, Caller caller = Caller::current()) {
  eval(std::span<const Tensor>(tensors.begin(), tensors.size()), caller);
}
// Evaluates everything this thread holds pending on every device.
void eval_pending(Caller caller = Caller::current());

// While alive, operations on this thread record no gradient information.
class NoGradScope {
 public:
  NoGradScope() : before_(grad_mode()) { set_grad_mode(false); }
  ~NoGradScope() { set_grad_mode(before_); }
  NoGradScope(const NoGradScope&) = delete;
  NoGradScope& operator=(const NoGradScope&) = delete;

 private:
  bool before_;
};

// While alive, every operation on this thread runs at once, one kernel an op: for debuggers.
class EagerScope {
 public:
  EagerScope();
  ~EagerScope();
  EagerScope(const EagerScope&) = delete;
  EagerScope& operator=(const EagerScope&) = delete;

 private:
  bool before_;
};
bool eager_mode();

}  // namespace heddle
