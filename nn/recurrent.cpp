#include "heddle/nn/recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/nn/init.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

using detail::RecurrentKind;
using detail::RecurrentWeights;

int64_t gates_of(RecurrentKind kind) { return kind == RecurrentKind::gru ? 3 : kind == RecurrentKind::lstm ? 4 : 1; }
size_t states_of(RecurrentKind kind) { return kind == RecurrentKind::lstm ? 2 : 1; }

// The next state from the last one and this step's W x + b (N, gates * hidden). Where `mask` (N, 1), if given, is
// false, the state stays. Each part is read by the next one only, so that all is one kernel.
std::vector<Tensor> next_state(RecurrentKind kind, const RecurrentWeights& w, int64_t hidden,
                               const std::vector<Tensor>& state, const Tensor& gates, const Tensor& mask = {}) {
  const Tensor& h = state[0];
  const auto held = [&](const Tensor& next, size_t k) {
    return cast(mask.defined() ? where(mask, next, state[k]) : next, state[k].dtype());
  };
  const Tensor other = linear(h, w.weight_hh, w.bias_hh);
  if (kind == RecurrentKind::rnn_tanh) return {held(tanh(gates + other), 0)};
  if (kind == RecurrentKind::rnn_relu) return {held(relu(gates + other), 0)};
  const auto part = [&](const Tensor& all, int64_t gate) {
    return slice(all, 1, {gate * hidden, (gate + 1) * hidden});
  };
  if (kind == RecurrentKind::gru) {
    const Tensor r = sigmoid(part(gates, 0) + part(other, 0)), z = sigmoid(part(gates, 1) + part(other, 1));
    const Tensor n = tanh(part(gates, 2) + r * part(other, 2));
    return {held(n + z * (h - n), 0)};
  }
  const Tensor all = gates + other;
  const Tensor i = sigmoid(part(all, 0)), f = sigmoid(part(all, 1)), g = tanh(part(all, 2)), o = sigmoid(part(all, 3));
  const Tensor c = held(f * state[1] + i * g, 1), out = o * tanh(c);
  return {held(w.weight_hr.defined() ? matmul(out, transpose(w.weight_hr)) : out, 0), c};
}

// Parameters in PyTorch's order, under names that `name` makes of "weight_ih" and so on.
template <class Add>
RecurrentWeights make_weights(const char* who, RecurrentKind kind, int64_t in, int64_t hidden, int64_t projection,
                              bool bias, DeviceContext* device, Generator* generator, const Add& add) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  const auto make = [&](const char* name, std::initializer_list<int64_t> sizes) {
    Tensor value = zeros(parameter_shape(who, sizes), DType::f32, device);
    init::uniform(value, -bound, bound, generator);
    return add(name, value);
  };
  const int64_t rows = gates_of(kind) * hidden;
  RecurrentWeights w;
  w.weight_ih = make("weight_ih", {rows, in});
  w.weight_hh = make("weight_hh", {rows, projection > 0 ? projection : hidden});
  if (bias) w.bias_ih = make("bias_ih", {rows});
  if (bias) w.bias_hh = make("bias_hh", {rows});
  if (projection > 0) w.weight_hr = make("weight_hr", {projection, hidden});
  return w;
}

}  // namespace

Recurrent::Recurrent(const char* kind, RecurrentKind type, int64_t in, int64_t hidden, const RecurrentOptions& options)
    : Module(kind), type_(type), hidden_(hidden), options_(options) {
  check_sizes(kind, {{"in", in}, {"hidden", hidden}});
  checked_size(kind, "layers", options.layers, most_layers);
  if (!(options.dropout >= 0 && options.dropout <= 1))
    throw ValueError(fmt::format("[{}] dropout is {}; it is a probability", kind, options.dropout));
  if (options.projection != 0 && type != RecurrentKind::lstm)
    throw ValueError(fmt::format("[{}] only an LSTM has a projection", kind));
  if (options.projection < 0 || options.projection >= hidden) {
    if (options.projection != 0)
      throw ValueError(fmt::format("[{}] the projection is {} wide; it must be narrower than hidden, {}", kind,
                                   options.projection, hidden));
  }
  const int64_t width = options.projection > 0 ? options.projection : hidden;
  for (int64_t l = 0; l < options.layers; ++l) {
    for (int64_t d = 0; d < directions(); ++d) {
      weights_.push_back(
          make_weights(kind, type, l == 0 ? in : width * directions(), hidden, options.projection, options.bias,
                       options.device, options.generator, [&](const char* name, const Tensor& value) {
                         return add_parameter(fmt::format("{}_l{}{}", name, l, d == 1 ? "_reverse" : ""), value);
                       }));
    }
  }
}

std::vector<Tensor> Recurrent::first_states(const Tensor& x, std::vector<Tensor> initial, DType dtype) const {
  const int64_t count = options_.layers * directions();
  const auto shape_of = [&](size_t k) {
    return Shape{count, x.dim(1), k == 0 && options_.projection > 0 ? options_.projection : hidden_};
  };
  if (initial.empty()) {
    for (size_t k = 0; k < states_of(type_); ++k) initial.push_back(zeros(shape_of(k), dtype, &x.device()));
  }
  if (initial.size() != states_of(type_))
    throw ValueError(fmt::format("[{}] {} initial states; it has {}", kind(), initial.size(), states_of(type_)));
  for (size_t k = 0; k < initial.size(); ++k) {
    if (initial[k].shape() != shape_of(k)) {
      throw ShapeError(fmt::format("[{}] an initial state is {}; it must be (layers * directions, batch, width) {}",
                                   kind(), initial[k].shape().str(), shape_of(k).str()));
    }
    initial[k] = cast(initial[k], dtype);
  }
  return initial;
}

// One direction of a layer. mask (T, N, 1): where a sequence has not ended; there its state goes on, elsewhere it
// stays, so that the way back begins at the end.
Recurrent::Result Recurrent::layer(size_t number, const Tensor& x, const std::vector<Tensor>& initial,
                                   const Tensor& mask) const {
  const RecurrentWeights& w = weights_[number];
  const bool reverse = options_.bidirectional && number % 2 == 1;
  std::vector<Tensor> slices{linear(x, w.weight_ih, w.bias_ih)};  // (T, N, gates * hidden)
  if (mask.defined()) slices.push_back(mask);
  Scanned all = scan(
      [&](const std::vector<Tensor>& state, const std::vector<Tensor>& now) {
        const std::vector<Tensor> next =
            next_state(type_, w, hidden_, state, now[0], now.size() == 1 ? Tensor() : now[1]);
        return Scanned{next, {next[0]}};
      },
      initial, slices, {{}, reverse, options_.checkpoint});
  return {mask.defined() ? where(mask, all.ys[0], 0) : all.ys[0], all.carry};
}

Recurrent::Result Recurrent::run(const Tensor& x, std::vector<Tensor> initial, const Tensor& lengths,
                                 Caller caller) const {
  const CallerScope scope(caller);
  const int64_t in = weights_[0].weight_ih.dim(1);
  if ((x.rank() != 3 && x.rank() != 2) || x.dim(x.rank() - 1) != in) {
    throw ShapeError(fmt::format(
        "[{}] the sequence is {}; it must be {}, or (time, {})", kind(), x.shape().str(),
        options_.batch_first ? fmt::format("(batch, time, {})", in) : fmt::format("(time, batch, {})", in), in));
  }
  const bool alone = x.rank() == 2;
  Tensor now = alone ? unsqueeze(x, 1) : options_.batch_first ? transpose(x, 0, 1) : x;  // (T, N, in)
  if (alone) {
    for (Tensor& state : initial) state = unsqueeze(state, 1);
  }
  const DType dtype = promote(x.dtype(), weights_[0].weight_ih.dtype());
  now = cast(now, dtype);
  initial = first_states(now, std::move(initial), dtype);
  Tensor mask;
  if (lengths.defined()) {
    if (lengths.dtype() != DType::i32 && lengths.dtype() != DType::i64)
      throw DTypeError(fmt::format("[{}] lengths must be i32 or i64, not {}", kind(), name_of(lengths.dtype())));
    if (lengths.shape() != Shape{now.dim(1)})
      throw ShapeError(fmt::format("[{}] lengths are {}; there must be one for each of {} sequences", kind(),
                                   lengths.shape().str(), now.dim(1)));
    const Tensor time = arange(0, static_cast<double>(now.dim(0)), 1, lengths.dtype(), &now.device());
    mask = reshape(time, {now.dim(0), 1, 1}) < reshape(lengths, {1, now.dim(1), 1});
  }
  std::vector<std::vector<Tensor>> last(states_of(type_));
  for (int64_t l = 0; l < options_.layers; ++l) {
    if (l > 0 && options_.dropout > 0 && training()) now = dropout(now, options_.dropout, true, options_.generator);
    std::vector<Tensor> outputs;
    for (int64_t d = 0; d < directions(); ++d) {
      const int64_t number = l * directions() + d;
      std::vector<Tensor> first;
      for (const Tensor& state : initial) first.push_back(squeeze(slice(state, 0, {number, number + 1}), 0));
      Result one = layer(static_cast<size_t>(number), now, first, mask);
      outputs.push_back(one.states);
      for (size_t k = 0; k < last.size(); ++k) last[k].push_back(unsqueeze(one.last[k], 0));
    }
    now = outputs.size() == 1 ? outputs[0] : concat(outputs, 2);
  }
  Result result;
  result.states = alone ? squeeze(now, 1) : options_.batch_first ? transpose(now, 0, 1) : now;
  for (const std::vector<Tensor>& states : last) {
    const Tensor all = states.size() == 1 ? states[0] : concat(states, 0);
    result.last.push_back(alone ? squeeze(all, 1) : all);
  }
  return result;
}

Recurrent::Result Recurrent::run(const Tensor& x, std::vector<Tensor> initial, const std::vector<int64_t>& lengths,
                                 Caller caller) const {
  const CallerScope scope(caller);
  const int64_t steps = x.rank() == 3 ? x.dim(options_.batch_first ? 1 : 0) : x.rank() == 2 ? x.dim(0) : 0;
  for (const int64_t length : lengths) {
    if (length < 0 || length > steps)
      throw ValueError(fmt::format("[{}] a sequence is said to be {} long; x has {} steps", kind(), length, steps));
  }
  const std::vector<int32_t> narrow(lengths.begin(), lengths.end());
  return run(x, std::move(initial),
             Tensor::from_vector(narrow, Shape{static_cast<int64_t>(narrow.size())}, &x.device()));
}

RecurrentCell::RecurrentCell(const char* kind, RecurrentKind type, int64_t in, int64_t hidden,
                             const RecurrentCellOptions& o)
    : Module(kind), type_(type), hidden_(hidden) {
  check_sizes(kind, {{"in", in}, {"hidden", hidden}});
  weights_ = make_weights(kind, type, in, hidden, 0, o.bias, o.device, o.generator,
                          [&](const char* name, const Tensor& value) { return add_parameter(name, value); });
}

std::vector<Tensor> RecurrentCell::step(const Tensor& x, const std::vector<Tensor>& state, Caller caller) const {
  const CallerScope scope(caller);
  const int64_t in = weights_.weight_ih.dim(1);
  if ((x.rank() != 1 && x.rank() != 2) || x.dim(x.rank() - 1) != in)
    throw ShapeError(
        fmt::format("[{}] the input is {}; it must be (batch, {}) or ({})", kind(), x.shape().str(), in, in));
  if (!state.empty() && state.size() != states_of(type_))
    throw ValueError(fmt::format("[{}] {} states; it has {}", kind(), state.size(), states_of(type_)));
  const bool alone = x.rank() == 1;
  const DType dtype = promote(x.dtype(), weights_.weight_ih.dtype());
  const Tensor now = cast(alone ? unsqueeze(x, 0) : x, dtype);
  std::vector<Tensor> first;
  const Shape wanted = alone ? Shape{hidden_} : Shape{x.dim(0), hidden_};
  for (size_t k = 0; k < states_of(type_); ++k) {
    if (!state.empty() && state[k].shape() != wanted)
      throw ShapeError(fmt::format("[{}] a state is {}; it must be {}", kind(), state[k].shape().str(), wanted.str()));
    const Tensor given = state.empty() ? zeros(wanted, dtype, &x.device()) : cast(state[k], dtype);
    first.push_back(alone ? unsqueeze(given, 0) : given);
  }
  std::vector<Tensor> next =
      next_state(type_, weights_, hidden_, first, linear(now, weights_.weight_ih, weights_.bias_ih));
  for (Tensor& part : next) part = alone ? squeeze(part, 0) : part;
  return next;
}

}  // namespace heddle::nn
