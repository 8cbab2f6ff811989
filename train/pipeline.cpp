#include "heddle/train/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <unordered_map>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/residuals.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"

namespace heddle::train {
namespace {

using distributed::Action;
using distributed::Pass;

// What stands before the values of a message: messages of one pair come in the order of the sender, not in that in
// which they are needed.
struct Header {
  int64_t kind, place, microbatch;
};

}  // namespace

Pipeline::Pipeline(distributed::Group group, PipelineOptions options, std::vector<PipelineChunk> chunks,
                   DeviceContext& device)
    : group_(std::move(group)), options_(std::move(options)), chunks_(std::move(chunks)), device_(device) {
  if (chunks_.empty()) throw ValueError("[pipeline] a stage needs a chunk of layers");
  const auto count = static_cast<int64_t>(chunks_.size());
  const distributed::PipelineSizes sizes{.stages = stages(), .microbatches = options_.microbatches, .chunks = count};
  order_ = distributed::pipeline_order(options_.schedule, sizes)[static_cast<size_t>(group_.rank())];
}

Pipeline::Step Pipeline::run() {
  Step step;
  for (const PipelineChunk& chunk : chunks_) step.gradients.emplace_back(chunk.parameters.size());
  loss_ = 0;
  start_ = std::chrono::steady_clock::now();
  for (const Action& action : order_) act(action, step);
  for (const Sent& sent : sent_) sent.ticket.wait();
  sent_.clear();
  step.seconds = seconds_since(start_);
  step.loss = loss_ / static_cast<double>(options_.microbatches);
  group_.broadcast(&step.loss, DType::f64, Shape(), rank_of(last_place())).wait();
  return step;
}

// What others send is waited for first, so that a span is of computing alone.
void Pipeline::act(const Action& action, Step& step) {
  const int64_t here = place(action.chunk);
  Tensor brought;
  if (action.pass == Pass::forward) {
    if (here > 0) brought = received(Kind::activations, here, here - 1, action.microbatch);
  } else if (action.pass != Pass::weight_gradient && here < last_place()) {
    brought = received(Kind::gradient, here, here + 1, action.microbatch);
  }
  const double begin = seconds_since(start_);
  if (action.pass == Pass::forward)
    forward(action, brought);
  else
    backward(action, brought, step);
  device_.synchronize();
  step.spans.push_back({action, begin, seconds_since(start_)});
  step.most_live = std::max(step.most_live, static_cast<int64_t>(live_.size()));
}

void Pipeline::forward(const Action& action, const Tensor& brought) {
  const int64_t here = place(action.chunk);
  Live live{.x = brought, .y = {}, .gradient = {}, .recorded = {}, .kept = {}, .owed = {}};
  if (live.x.defined()) live.x.set_requires_grad();
  live.y = chunks_[static_cast<size_t>(action.chunk)].forward(live.x, action.microbatch);
  if (!options_.recompute) keep_forward(action.chunk, live);
  std::vector<Tensor> wanted = live.kept;
  wanted.push_back(live.y);
  eval(wanted);
  if (here == last_place()) {
    if (live.y.rank() != 0)
      throw ShapeError(
          fmt::format("[pipeline] the last chunk gave {}; expected a loss of rank 0", live.y.shape().str()));
    loss_ += live.y.to_doubles()[0];
  } else {
    send(Kind::activations, here + 1, action.microbatch, live.y);
  }
  live_[{action.chunk, action.microbatch}] = std::move(live);
}

// What the forward pass evaluates besides its result. The first microbatch of a chunk keeps nothing, and of a form that
// was not seen (another graph, as in another mode of the model) neither does any.
void Pipeline::keep_forward(int64_t chunk, Live& live) {
  live.recorded = pending_below({{live.y.node()}});
  const auto known = kept_.find(chunk);
  if (known == kept_.end() || known->second.recorded != live.recorded.size()) return;
  for (const size_t number : known->second.numbers) live.kept.emplace_back(live.recorded[number]);
  live.recorded.clear();
}

// From a backward pass over a forward pass that kept nothing: what it reads of it.
void Pipeline::note_kept(int64_t chunk, Live& live, std::span<const NodePtr> gradients) {
  if (live.recorded.empty()) return;
  std::unordered_map<const Node*, size_t> numbers;
  for (size_t i = 0; i < live.recorded.size(); ++i) numbers.emplace(live.recorded[i].get(), i);
  Kept& kept = kept_[chunk] = {.recorded = live.recorded.size(), .numbers = {}};
  for (const NodePtr& node : residuals(gradients, live.recorded)) kept.numbers.push_back(numbers.at(node.get()));
  live.recorded.clear();
}

// All gradients, or those of the input, or those of the weights, of a microbatch whose forward pass is over. Nobody
// waits for what the first chunk of all has before its weights.
void Pipeline::backward(const Action& action, const Tensor& brought, Step& step) {
  const int64_t here = place(action.chunk);
  Live& live = live_.at({action.chunk, action.microbatch});
  if (action.pass != Pass::weight_gradient) {
    live.gradient = here == last_place()
                        ? full(Shape(), 1.0 / static_cast<double>(options_.microbatches), live.y.dtype(), &device_)
                        : brought;
  }
  const NoGradScope no_grad;
  const bool of_input = action.pass != Pass::weight_gradient && live.x.defined();
  if (action.pass == Pass::input_gradient && !of_input) return;
  if (action.pass == Pass::input_gradient)
    return send(Kind::gradient, here - 1, action.microbatch, owe(live, recorded_gradients(action.chunk, live)));
  std::vector<Tensor> found = live.owed.empty() ? recorded_gradients(action.chunk, live) : tensors_of(live.owed);
  if (of_input) {
    eval({found.front()});
    send(Kind::gradient, here - 1, action.microbatch, found.front());
    found.erase(found.begin());
  }
  add_weight_gradients(action.chunk, found, step);
  live_.erase({action.chunk, action.microbatch});
}

// Of the input, where there is one, and of the parameters behind it.
std::vector<Tensor> Pipeline::recorded_gradients(int64_t chunk, Live& live) {
  const std::vector<Tensor>& parameters = chunks_[static_cast<size_t>(chunk)].parameters;
  std::vector<Tensor> of(live.x.defined() ? 1 : 0, live.x);
  of.insert(of.end(), parameters.begin(), parameters.end());
  const Tensor outputs[] = {live.y}, cotangents[] = {live.gradient};
  std::vector<Tensor> found = vjp(outputs, of, cotangents);
  if (live.x.defined() && !found.front().defined()) found.front() = zeros_like(live.x);
  note_kept(chunk, live, nodes_of(found));
  return found;
}

// Evaluates the gradient of the input, which is the first one, and with it what the others read of its way.
Tensor Pipeline::owe(Live& live, std::vector<Tensor> gradients) {
  std::vector<NodePtr> owed = nodes_of(gradients);
  gradients.resize(1);  // an evaluation would evaluate the others as well
  owed.erase(owed.begin());
  std::vector<Tensor> kept = tensors_of(residuals(owed, pending_below({{gradients.front().node()}})));
  kept.push_back(gradients.front());
  eval(kept);
  kept.pop_back();
  live = {.x = live.x, .y = {}, .gradient = {}, .recorded = {}, .kept = std::move(kept), .owed = std::move(owed)};
  return gradients.front();
}

void Pipeline::add_weight_gradients(int64_t chunk, const std::vector<Tensor>& more, Step& step) {
  std::vector<Tensor>& sums = step.gradients[static_cast<size_t>(chunk)];
  std::vector<Tensor> changed;
  for (size_t i = 0; i < more.size(); ++i) {
    if (!more[i].defined()) continue;
    sums[i] = sums[i].defined() ? sums[i] + more[i] : more[i];
    changed.push_back(sums[i]);
  }
  eval(changed);
}

void Pipeline::send(Kind kind, int64_t to_place, int64_t microbatch, const Tensor& value) {
  if (value.shape() != options_.activations || value.dtype() != options_.dtype)
    throw ShapeError(fmt::format("[pipeline] chunk {} sends {} {} to chunk {}; expected {} {}", place(0),
                                 name_of(value.dtype()), value.shape().str(), to_place, name_of(options_.dtype),
                                 options_.activations.str()));
  const Header header{static_cast<int64_t>(kind), to_place, microbatch};
  const std::vector<uint8_t> values = value.to_bytes();
  std::vector<std::byte> bytes(sizeof header + values.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  if (!values.empty()) std::memcpy(bytes.data() + sizeof header, values.data(), values.size());
  if (rank_of(to_place) == group_.rank()) {  // of a group of one
    mailbox_[{kind, to_place, microbatch}] = std::move(bytes);
    return;
  }
  sent_.push_back({std::move(bytes), {}});
  std::vector<std::byte>& kept = sent_.back().bytes;  // a deque: it stays where it is
  sent_.back().ticket =
      group_.send(kept.data(), DType::u8, Shape{static_cast<int64_t>(kept.size())}, rank_of(to_place));
  // The thread that sends may share this one's processor, where it would be late by a whole pass.
  sent_.back().ticket.wait_for_start();
}

Tensor Pipeline::received(Kind kind, int64_t my_place, int64_t from_place, int64_t microbatch) {
  const Key key{kind, my_place, microbatch};
  while (!mailbox_.contains(key)) read_message(rank_of(from_place));
  const std::vector<std::byte> bytes = std::move(mailbox_.extract(key).mapped());
  return Tensor::from_bytes(bytes.data() + sizeof(Header), static_cast<size_t>(options_.activations.numel()),
                            options_.dtype, options_.activations, &device_);
}

void Pipeline::read_message(int from) {
  const size_t values = static_cast<size_t>(options_.activations.numel()) * size_of(options_.dtype);
  std::vector<std::byte> bytes(sizeof(Header) + values);
  group_.receive(bytes.data(), DType::u8, Shape{static_cast<int64_t>(bytes.size())}, from).wait();
  Header header{};
  std::memcpy(&header, bytes.data(), sizeof header);
  mailbox_[{static_cast<Kind>(header.kind), header.place, header.microbatch}] = std::move(bytes);
}

}  // namespace heddle::train
