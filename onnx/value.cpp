#include "heddle/onnx/value.h"

#include <optional>
#include <utility>

#include "heddle/core/base/error.h"

namespace heddle::onnx {

struct Value::State {
  enum class Kind { tensor, sequence, empty_optional } kind = Kind::tensor;
  Type type = Type::none;
  Shape shape;
  Tensor tensor;
  std::optional<HostTensor> host;
  std::function<HostTensor()> later;
  bool fixed = false;
  std::vector<Value> items;
};

Value Value::fixed(HostTensor host) {
  Value value;
  value.state_ = std::make_shared<State>();
  value.state_->type = host.type;
  value.state_->shape = host.shape;
  value.state_->host = std::move(host);
  value.state_->fixed = true;
  return value;
}

Value Value::computed(Tensor tensor, Type type) {
  Value value;
  value.state_ = std::make_shared<State>();
  value.state_->type = type;
  value.state_->shape = tensor.shape();
  value.state_->tensor = std::move(tensor);
  return value;
}

Value Value::given(Tensor tensor, HostTensor host) {
  Value value = computed(std::move(tensor), host.type);
  value.state_->host = std::move(host);
  return value;
}

Value Value::sequence(std::vector<Value> items, Type type) {
  Value value;
  value.state_ = std::make_shared<State>();
  value.state_->kind = State::Kind::sequence;
  value.state_->type = type;
  value.state_->items = std::move(items);
  return value;
}

Value Value::empty_optional() {
  Value value;
  value.state_ = std::make_shared<State>();
  value.state_->kind = State::Kind::empty_optional;
  return value;
}

bool Value::is_tensor() const { return state_ && state_->kind == State::Kind::tensor; }
bool Value::is_sequence() const { return state_ && state_->kind == State::Kind::sequence; }
bool Value::is_empty_optional() const { return state_ && state_->kind == State::Kind::empty_optional; }
Type Value::type() const { return state_->type; }
const Shape& Value::shape() const { return state_->shape; }
const std::vector<Value>& Value::items() const { return state_->items; }
bool Value::is_fixed() const { return state_ && state_->fixed; }
bool Value::host_known() const { return state_ && (state_->host || state_->later); }
const Tensor& Value::tensor() const { return state_->tensor; }
void Value::set_later(std::function<HostTensor()> later) { state_->later = std::move(later); }

const HostTensor& Value::host() const {
  if (!state_->host && !state_->later) throw ValueError("[onnx] the value is known to the device alone");
  if (!state_->host) {
    state_->host = state_->later();
    state_->later = nullptr;
  }
  return *state_->host;
}

}  // namespace heddle::onnx
