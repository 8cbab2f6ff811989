#include "heddle/core/graph/future.h"

#include <fmt/format.h>

#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/read_value.h"

namespace heddle {

// The stretch of storage from the value's first element to its last, as it was at the time of the call.
struct ValueFuture::State {
  Shape shape;
  DType dtype = DType::f32;
  View view;
  int64_t low = 0;
  DeviceContext::HostRead read;
};

const ValueFuture::State& ValueFuture::state(const char* place) const {
  if (!state_) throw ValueError(fmt::format("[{}] this future is empty; read_async() makes one", place));
  return *state_;
}

bool ValueFuture::ready() const { return state("ready").read.event.done(); }
void ValueFuture::wait() const { state("wait").read.event.wait(); }

std::vector<uint8_t> ValueFuture::bytes() const {
  const State& s = state("bytes");
  s.read.event.wait();
  const std::vector<uint8_t>& range = *s.read.bytes;
  View dense = View::dense(s.shape);
  dense.offset = s.low;
  if (s.view == dense || range.empty()) return range;
  std::vector<uint8_t> gathered(static_cast<size_t>(s.shape.numel()) * size_of(s.dtype));
  gather(range.data(), s.view, s.low, size_of(s.dtype), gathered.data());
  return gathered;
}

std::vector<double> ValueFuture::to_doubles() const {
  const std::vector<uint8_t> stored = bytes();
  std::vector<double> values(static_cast<size_t>(state("to_doubles").shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_element(stored.data(), state_->dtype, i);
  return values;
}

double ValueFuture::item() const {
  const Shape& shape = state("item").shape;
  if (shape.numel() != 1)
    throw ShapeError(
        fmt::format("[item] needs exactly one element, but the shape is {}; use to_vector()", shape.str()));
  return to_doubles()[0];
}

ValueFuture read_async(TensorArg argument) {
  const CallerScope scope(argument.caller);
  const Tensor& tensor = argument.tensor;
  const NodePtr& node = tensor.node();
  if (!node->has_value()) evaluate({&node, 1});
  auto state = std::make_shared<ValueFuture::State>();
  state->shape = node->shape;
  state->dtype = node->dtype;
  const auto width = size_of(node->dtype);
  if (node->host || node->shape.numel() == 0 ||
      !node->storage) {  // nothing to wait for; read_bytes() knows the words for what is gone
    state->view = View::dense(node->shape);
    state->read.bytes = std::make_shared<std::vector<uint8_t>>(read_bytes(*node));
  } else {
    const auto [low, high] = node->view.extent();
    state->view = node->view;
    state->low = low;
    const auto span = static_cast<uint64_t>(high - low + 1) * width;
    state->read = node->device->read_later(*node->storage, static_cast<uint64_t>(low) * width, span);
  }
  ValueFuture future;
  future.state_ = std::move(state);
  return future;
}

}  // namespace heddle
