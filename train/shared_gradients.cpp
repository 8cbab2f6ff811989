#include "heddle/train/shared_gradients.h"

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/distributed/gradient_lists.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

std::vector<Tensor> floating_weights(const nn::Module& model) {
  std::vector<Tensor> found = model.parameters();
  const std::vector<Tensor> buffers = floating_buffers(model);
  found.insert(found.end(), buffers.begin(), buffers.end());
  return found;
}

int64_t numbers_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& tensor : tensors) count += tensor.numel();
  return count;
}

// Those of whole vectors stand first, so that these begin at multiples of them: a product writes its rows there.
void align(std::vector<size_t>& list, const std::vector<Tensor>& parameters) {
  constexpr int64_t vector = 16;
  std::stable_partition(list.begin(), list.end(), [&](size_t i) { return parameters[i].numel() % vector == 0; });
}

}  // namespace

SharedGradients::SharedGradients(nn::Module& model, double weight, DeviceContext& device, Replicas& replicas,
                                 bool in_parts, size_t parts)
    : model_(model),
      weight_(weight),
      device_(device),
      replicas_(replicas),
      in_parts_(in_parts),
      lots_(static_cast<size_t>(std::bit_width(parts))) {}

std::vector<size_t> SharedGradients::with_gradient() const {
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<size_t> found;
  for (size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].grad().defined()) found.push_back(i);
  }
  return found;
}

void SharedGradients::make_lists(size_t scalars) {
  const std::vector<size_t> wanted = with_gradient();
  const std::vector<Tensor> parameters = model_.parameters();
  const int64_t rest = numbers_of(floating_buffers(model_)) + static_cast<int64_t>(scalars) + spare;
  int64_t gradients = 0;
  for (const size_t i : wanted) gradients += parameters[i].numel();
  scalars_ = scalars;
  if (!in_parts_) neighbours_ = NeighbourLists::open(replicas_, device_, gradients + rest);
  if (neighbours_)
    parameters_ = {wanted};
  else
    divide(wanted, parameters, gradients, rest);
  for (std::vector<size_t>& list : parameters_) align(list, parameters);
}

void SharedGradients::divide(const std::vector<size_t>& wanted, const std::vector<Tensor>& parameters,
                             int64_t gradients, int64_t rest) {
  constexpr auto width = static_cast<int64_t>(sizeof(float));
  std::vector<int64_t> bytes;
  for (const size_t i : wanted) bytes.push_back(width * parameters[i].numel());
  const auto enough = [&](int64_t left) { return distributed::list_bytes_of(width * gradients, left); };
  std::vector<int64_t> sizes;
  auto next = wanted.begin();
  for (const size_t length : distributed::lengths_of_lists(bytes, enough)) {
    const std::vector<size_t>& list = parameters_.emplace_back(next, next + static_cast<ptrdiff_t>(length));
    sizes.push_back(0);
    for (const size_t i : list) sizes.back() += parameters[i].numel();
    next += static_cast<ptrdiff_t>(length);
  }
  sizes.back() += rest;
  for (std::vector<Tensor>& lists : lots_) {
    for (const int64_t size : sizes) lists.push_back(kept_zeros(Shape{size}, device_));
  }
}

void SharedGradients::check_same_gradients() const {
  std::vector<size_t> listed;
  for (const std::vector<size_t>& list : parameters_) listed.insert(listed.end(), list.begin(), list.end());
  if (!std::ranges::is_permutation(listed, with_gradient()))
    throw ValueError("[train] other parameters have gradients than in the first update: ranks cannot share them");
}

// What a list is made of; the last one has the rest.
std::vector<Tensor> SharedGradients::parts_of(size_t list, const std::vector<Tensor>& scalars) const {
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<Tensor> parts;
  for (const size_t i : parameters_[list]) parts.push_back(weighted(parameters[i].grad(), weight_));
  if (list + 1 < parameters_.size()) return parts;
  append_rest(parts, model_, scalars, weight_);
  parts.push_back(zeros(Shape{spare}, DType::f32, &device_));
  return parts;
}

void SharedGradients::pack(const std::vector<Tensor>& scalars, size_t lot) {
  const NoGradScope no_grad;
  if (parameters_.empty()) make_lists(scalars.size());
  check_same_gradients();
  if (neighbours_) {
    neighbours_->list(lot, replicas_.rank()).assign(concat(parts_of(0, scalars), 0));
    return;
  }
  for (size_t l = 0; l < parameters_.size(); ++l) {
    lots_[lot][l].assign(concat(parts_of(l, scalars), 0));
    wanted_early(lots_[lot][l]);
  }
}

void SharedGradients::add(size_t lot, size_t count) {
  const NoGradScope no_grad;
  for (size_t l = 0; l < parameters_.size(); ++l) {
    Tensor sum = lots_[lot][l];
    for (size_t left = lot; left-- > lot - count;) sum = lots_[left][l] + sum;
    lots_[lot - count][l].assign(sum);
    if (lot == count) wanted_early(lots_.front()[l]);
  }
}

size_t SharedGradients::gradients_in(size_t list) const {
  const std::vector<Tensor> parameters = model_.parameters();
  int64_t count = 0;
  for (const size_t i : parameters_.at(list)) count += parameters[i].numel();
  return static_cast<size_t>(count);
}

std::vector<Tensor> SharedGradients::unpack(size_t lot) {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<Tensor> scalars;
  for (size_t l = 0; l < parameters_.size(); ++l) {
    ListReader reader =
        neighbours_ ? ListReader(neighbours_->list(lot, 0), &neighbours_->list(lot, 1)) : ListReader(lots_.front()[l]);
    for (const size_t i : parameters_[l]) {
      Tensor parameter = parameters[i];
      parameter.set_grad(reader.next(parameter.shape(), parameter.dtype()));
    }
    if (l + 1 == parameters_.size()) scalars = read_rest(reader, model_, scalars_);
  }
  return scalars;
}

Tensor SharedGradients::pack_weights() const {
  const NoGradScope no_grad;
  std::vector<Tensor> parts;
  for (const Tensor& weight : floating_weights(model_)) parts.push_back(flat(weight));
  return concat(parts, 0);
}

void SharedGradients::unpack_weights(const Tensor& list) {
  const NoGradScope no_grad;
  ListReader reader(list);
  for (Tensor weight : floating_weights(model_)) weight.assign(reader.next(weight.shape(), weight.dtype()));
}

}  // namespace heddle::train
