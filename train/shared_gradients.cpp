#include "heddle/train/shared_gradients.h"

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

// A list that is sent while others are computed costs a submission and a call more. Of a large model it has more, so
// that there are not many.
constexpr int64_t least_list_bytes = 512 << 10, most_lists = 16;

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

}  // namespace

std::vector<size_t> SharedGradients::with_gradient() const {
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<size_t> found;
  for (size_t i = parameters.size(); i-- > 0;) {
    if (parameters[i].grad().defined()) found.push_back(i);
  }
  return found;
}

void SharedGradients::make_lists(size_t scalars) {
  const std::vector<Tensor> parameters = model_.parameters();
  const std::vector<size_t> wanted = with_gradient();
  int64_t all = 0;
  for (const size_t i : wanted) all += parameters[i].numel();
  const int64_t enough = std::max(least_list_bytes / static_cast<int64_t>(sizeof(float)), all / most_lists);
  std::vector<int64_t> sizes(1);
  parameters_.resize(1);
  for (const size_t i : wanted) {
    if (sizes.back() >= enough) {
      sizes.push_back(0);
      parameters_.emplace_back();
    }
    parameters_.back().push_back(i);
    sizes.back() += parameters[i].numel();
  }
  sizes.back() += numbers_of(floating_buffers(model_)) + static_cast<int64_t>(scalars) + spare;
  for (const int64_t size : sizes) lists_.push_back(kept_zeros(Shape{size}, device_));
  scalars_ = scalars;
}

void SharedGradients::check_same_gradients() const {
  std::vector<size_t> listed;
  for (const std::vector<size_t>& list : parameters_) listed.insert(listed.end(), list.begin(), list.end());
  if (listed != with_gradient())
    throw ValueError("[train] other parameters have gradients than in the first update: ranks cannot share them");
}

void SharedGradients::pack(const std::vector<Tensor>& scalars) {
  const NoGradScope no_grad;
  if (lists_.empty()) make_lists(scalars.size());
  check_same_gradients();
  const std::vector<Tensor> parameters = model_.parameters();
  for (size_t l = 0; l < lists_.size(); ++l) {
    std::vector<Tensor> parts;
    for (const size_t i : parameters_[l]) parts.push_back(weighted(parameters[i].grad(), weight_));
    if (l + 1 == lists_.size()) {
      append_rest(parts, model_, scalars, weight_);
      parts.push_back(zeros(Shape{spare}, DType::f32, &device_));
    }
    lists_[l].assign(concat(parts, 0));
    wanted_early(lists_[l]);
  }
}

size_t SharedGradients::gradients_in(size_t list) const {
  const std::vector<Tensor> parameters = model_.parameters();
  int64_t count = 0;
  for (const size_t i : parameters_.at(list)) count += parameters[i].numel();
  return static_cast<size_t>(count);
}

std::vector<Tensor> SharedGradients::unpack() {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<Tensor> scalars;
  for (size_t l = 0; l < lists_.size(); ++l) {
    ListReader reader(lists_[l]);
    for (const size_t i : parameters_[l]) {
      Tensor parameter = parameters[i];
      parameter.set_grad(reader.next(parameter.shape(), parameter.dtype()));
    }
    if (l + 1 == lists_.size()) scalars = read_rest(reader, model_, scalars_);
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
