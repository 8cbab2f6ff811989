// Tensor: the user's value handle over a graph node and a device. Cheap to copy; copies share the value.
//
// Purpose: write eagerly, run compiled. An operation records a node; the value appears when it is observed (item,
// to_vector, printing), when an optimizer steps, or when eval() asks. What is held by a Tensor at that time is kept;
// the rest may vanish into fusion. Under EagerScope or HEDDLE_EAGER=1 every operation runs at once. Invariants: shape,
// dtype and device of a Tensor never change, except through assign() of its value (same shape and dtype). Errors: those
// of the functions that methods stand for. Thread safety: recording is per thread; one Tensor may be read by several
// threads once it has a value. Methods that stand for functions, and x[...], are defined in core/functions
// (methods.cpp, shape/subscript.cpp): this room knows nothing of functions; to(device), whose
// derivative is given by hand, in core/graph/custom.cpp.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/shape.h"
#include "heddle/core/graph/node_ptr.h"
#include "heddle/core/graph/subscript.h"
#include "heddle/core/graph/trace_hooks.h"

namespace heddle {

class DeviceContext;  // core/device/context.h
struct Ordered;       // core/functions/functions.h

class Tensor {
 public:
  Tensor() = default;  // empty handle: defined() is false
  explicit Tensor(NodePtr node);
  // Copies share the value. While compile() looks on, handles report what is done with them
  // (core/graph/trace_hooks.h).
  Tensor(const Tensor& other) : impl_(other.impl_) {
    if (trace::any()) [[unlikely]]
      trace::copied(other, *this);
  }
  Tensor(Tensor&& other) noexcept {
    if (trace::any()) [[unlikely]]
      trace::moved(other, *this);
    impl_ = std::move(other.impl_);
  }
  // Of a name only: relu(x) = y would change a temporary and do nothing.
  Tensor& operator=(const Tensor& other) & {
    if (trace::any()) [[unlikely]]
      trace::moved(other, *this);
    impl_ = other.impl_;
    return *this;
  }
  Tensor& operator=(Tensor&& other) & noexcept {
    if (trace::any()) [[unlikely]]
      trace::moved(other, *this);
    impl_ = std::move(other.impl_);
    return *this;
  }
  ~Tensor() {
    const bool watched = __atomic_load_n(&watched_, __ATOMIC_RELAXED);
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
  static Tensor host_scalar(Callable<float()> source, DeviceContext* device = nullptr);

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
  // and errors name. One element, ShapeError otherwise: as a double (i64 beyond 2^53 is rounded), or exactly as a T
  // whose dtype holds every value of this one (floats by floats, integers and bool by integers): DTypeError otherwise.
  double item(Caller caller = Caller::current()) const;
  template <class T>
  T item(Caller caller = Caller::current()) const {
    T value{};
    copy_item(&value, dtype_of<T>::value, caller);
    return value;
  }
  // All elements in row-major order, converted to T; integers to integers without a double between.
  template <class T>
  std::vector<T> to_vector(Caller caller = Caller::current()) const {
    if constexpr (std::is_integral_v<T>) {
      if (!is_float(dtype())) {
        const std::vector<int64_t> whole = to_integers(caller);
        return std::vector<T>(whole.begin(), whole.end());
      }
    }
    const std::vector<double> wide = to_doubles(caller);
    return std::vector<T>(wide.begin(), wide.end());
  }
  std::vector<double> to_doubles(Caller caller = Caller::current()) const;  // i64 beyond 2^53 loses digits
  std::vector<uint8_t> to_bytes(Caller caller = Caller::current()) const;   // as stored, row-major, without conversion
  // "tensor([[1, 2], [3, 4]], f32, opencl:0)"; long ones are shortened. std::cout << x prints the same.
  std::string str(Caller caller = Caller::current()) const;

  // The same values on another device; observes, so compile() cannot replay a function that does it. Differentiable:
  // the gradient moves back, to any order and in forward mode; what it needs of this device and no Tensor holds is
  // computed again. vmap (so jacfwd and jacrev) and the bodies of loops cannot observe: ValueError.
  Tensor to(DeviceContext& device, Caller caller = Caller::current()) const;
  Tensor to(std::string_view device_id, Caller caller = Caller::current()) const;
  Tensor to(DType dtype, Caller caller = Caller::current()) const;  // cast

  // Replaces this tensor's value (same shape and dtype, same device): all copies of this handle see it. Pending readers
  // of the old value still get the old one. In place where nobody else shares the memory. Gradients begin anew at the
  // assigned value.
  void assign(const Tensor& value, Caller caller = Caller::current());

  // A part of this tensor, by core/graph/subscript.h: a node, or a view of a value that is there. It cannot be written
  // through (x[0] = y does not compile): index_put(x, ...) is x with other elements, and
  // x.assign(index_copy(x, axis, i, rows)) writes rows in place. ValueError for an index out of range, ShapeError for
  // more items than axes.
  const Tensor operator[](const Subscript& at) const;

  // ---- functions as methods: x.f(...) is f(x, ...) of core/functions, which says what it means
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor name(Caller caller = Caller::current()) const;
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc)    \
  Tensor name(const Tensor& y, Caller caller = Caller::current()) const; \
  Tensor name(double y, Caller caller = Caller::current()) const;
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
  Tensor cast(DType dtype, Caller caller = Caller::current()) const;
  Tensor clamp(std::optional<double> low, std::optional<double> high, Caller caller = Caller::current()) const;
  Tensor masked_fill(const Tensor& mask, double value, Caller caller = Caller::current()) const;

#define HEDDLE_REDUCTION(name) \
  Tensor name(std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current()) const;
  HEDDLE_REDUCTION(sum)
  HEDDLE_REDUCTION(mean)
  HEDDLE_REDUCTION(prod)
  HEDDLE_REDUCTION(max)
  HEDDLE_REDUCTION(min)
  HEDDLE_REDUCTION(logsumexp)
  HEDDLE_REDUCTION(all)
  HEDDLE_REDUCTION(any)
#undef HEDDLE_REDUCTION
  Tensor argmax(std::optional<int> axis = {}, bool keepdim = false, Caller caller = Caller::current()) const;
  Tensor argmin(std::optional<int> axis = {}, bool keepdim = false, Caller caller = Caller::current()) const;
  Tensor var(std::vector<int> axes = {}, bool keepdim = false, double correction = 1,
             Caller caller = Caller::current()) const;
  Tensor stddev(std::vector<int> axes = {}, bool keepdim = false, double correction = 1,
                Caller caller = Caller::current()) const;
  Tensor norm(double p = 2, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current()) const;
  Tensor cumsum(int axis, bool exclusive = false, bool reverse = false, Caller caller = Caller::current()) const;
  Ordered sort(int axis = -1, bool descending = false, Caller caller = Caller::current()) const;
  Ordered topk(int64_t k, int axis = -1, bool largest = true, Caller caller = Caller::current()) const;
  Tensor softmax(int axis = -1, Caller caller = Caller::current()) const;
  Tensor log_softmax(int axis = -1, Caller caller = Caller::current()) const;
  Tensor matmul(const Tensor& y, Caller caller = Caller::current()) const;

  Tensor reshape(const Shape& shape, Caller caller = Caller::current()) const;
  Tensor reshape(std::vector<int64_t> shape, Caller caller = Caller::current()) const;  // one -1 is inferred
  Tensor reshape(std::initializer_list<int64_t> shape, Caller caller = Caller::current()) const;
  Tensor flatten(int start = 0, int end = -1, Caller caller = Caller::current()) const;
  Tensor squeeze(std::optional<int> axis = {}, Caller caller = Caller::current()) const;
  Tensor unsqueeze(int axis, Caller caller = Caller::current()) const;
  Tensor permute(std::vector<int> order, Caller caller = Caller::current()) const;
  Tensor transpose(int axis0 = -2, int axis1 = -1, Caller caller = Caller::current()) const;
  Tensor expand(const Shape& shape, Caller caller = Caller::current()) const;
  Tensor repeat(std::vector<int64_t> repeats, Caller caller = Caller::current()) const;
  Tensor flip(std::vector<int> axes, Caller caller = Caller::current()) const;
  Tensor slice(int axis, Slice range, Caller caller = Caller::current()) const;
  Tensor narrow(int axis, int64_t start, int64_t length, Caller caller = Caller::current()) const;
  Tensor select(int axis, int64_t index, Caller caller = Caller::current()) const;
  Tensor index_select(int axis, const Tensor& indices, Caller caller = Caller::current()) const;
  Tensor gather(int axis, const Tensor& indices, Caller caller = Caller::current()) const;
  std::vector<Tensor> split(std::vector<int64_t> sizes, int axis, Caller caller = Caller::current()) const;
  std::vector<Tensor> chunk(int64_t chunks, int axis = 0, Caller caller = Caller::current()) const;

  // Autograd. backward() and grads live in autograd/autograd.h; the state lives here.
  Tensor& set_requires_grad(bool on = true);  // leaf of floating dtype only: GradError otherwise
  bool requires_grad() const;                 // gradients flow through or into it
  bool is_leaf() const;
  Tensor grad() const;  // undefined until backward()
  void set_grad(const Tensor& grad);
  void zero_grad();                                        // drops the gradient
  Tensor detach(Caller caller = Caller::current()) const;  // same value, no gradient
  // Called with the gradient of this tensor when backward() has it complete; may return a replacement.
  void register_hook(Callable<Tensor(const Tensor& grad)> hook);

  const NodePtr& node() const;
  const std::shared_ptr<TensorImpl>& impl() const { return impl_; }
  explicit Tensor(std::shared_ptr<TensorImpl> impl) : impl_(std::move(impl)) {}
  // For core/graph/trace_handles.cpp: reports its destruction from now on.
  void mark_watched() const { __atomic_store_n(&watched_, true, __ATOMIC_RELAXED); }

 private:
  void copy_item(void* target, DType type, Caller caller) const;
  std::vector<int64_t> to_integers(Caller caller) const;  // of integers and bool

  std::shared_ptr<TensorImpl> impl_;
  mutable bool watched_ = false;  // of this handle, not of its copies; read and set as an atomic
};

// A tensor as the argument of a function that records, with the place where the call stands (core/base/caller.h). Made
// by the call itself: such a function is called with a Tensor, and converts to Callable<Tensor(const Tensor&)>.
struct TensorArg {
  TensorArg(const Tensor& value, Caller where = Caller::current()) : tensor(value), caller(where) {}
  const Tensor& tensor;
  Caller caller;
};

// Tensor::str(), with the line of the call.
std::ostream& operator<<(std::ostream& out, TensorArg x);

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
  std::vector<Callable<Tensor(const Tensor&)>> hooks;
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
