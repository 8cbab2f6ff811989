#include "heddle/train/sharded_gradients.h"

#include <utility>

#include "heddle/core/functions/functions.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {

ShardedGradients::ShardedGradients(nn::Module& model, ShardLayout layout, int rank, double weight)
    : model_(model), layout_(std::move(layout)), shards_(layout_.shards_of(rank)), weight_(weight) {}

std::vector<Tensor> ShardedGradients::pack(const std::vector<Tensor>& scalars) {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  has_gradient_.assign(parameters.size(), false);
  scalars_ = scalars.size();
  std::vector<Tensor> lists;
  for (const ShardLayout::Bucket& bucket : layout_.buckets()) {
    std::vector<Tensor> parts;
    for (const size_t i : bucket.parameters) {
      const Tensor gradient = parameters[i].grad();
      has_gradient_[i] = gradient.defined();
      parts.push_back(gradient.defined() ? weighted(gradient, weight_)
                                         : zeros(Shape{parameters[i].numel()}, DType::f32, &parameters[i].device()));
    }
    lists.push_back(concat(parts, 0));
  }
  std::vector<Tensor> rest;
  append_rest(rest, model_, scalars, weight_);
  lists.push_back(concat(rest, 0));
  return lists;
}

std::vector<Tensor> ShardedGradients::gradients(const Tensor& own) const {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  ListReader reader(own);
  std::vector<Tensor> found;
  for (const nn::Shard& shard : shards_) {
    const Tensor gradient = reader.next(Shape{shard.end - shard.begin}, parameters[shard.parameter].dtype());
    found.push_back(has_gradient_[shard.parameter] ? gradient : Tensor());
  }
  return found;
}

std::vector<Tensor> ShardedGradients::unpack_rest(const Tensor& rest, size_t more) const {
  const NoGradScope no_grad;
  ListReader reader(rest);
  return read_rest(reader, model_, scalars_ + more);
}

std::vector<Tensor> ShardedGradients::elements(const Tensor& own) const {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  ListReader reader(own);
  std::vector<Tensor> found;
  for (const nn::Shard& shard : shards_)
    found.push_back(reader.next(Shape{shard.end - shard.begin}, parameters[shard.parameter].dtype()));
  return found;
}

Tensor ShardedGradients::pack_shards(const std::vector<Tensor>& updated, const std::vector<Tensor>& elements) const {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<Tensor> parts;
  for (size_t i = 0; i < shards_.size(); ++i) {
    const nn::Shard& shard = shards_[i];
    if (updated[i].defined() || !elements.empty())
      parts.push_back(flat(updated[i].defined() ? updated[i] : elements[i]));
    else
      parts.push_back(slice(flat(parameters[shard.parameter]), 0, {shard.begin, shard.end}));
  }
  return parts.empty() ? zeros(Shape{1}, DType::f32, &parameters.front().device()) : concat(parts, 0);
}

void ShardedGradients::unpack_bucket(size_t bucket, const Tensor& list) const {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  ListReader reader(list);
  for (const size_t i : layout_.buckets().at(bucket).parameters) {
    Tensor parameter = parameters[i];
    parameter.assign(reader.next(parameter.shape(), parameter.dtype()));
  }
}

std::vector<int64_t> elements_to_own(const nn::Module& model) {
  std::vector<int64_t> elements;
  for (const Tensor& parameter : model.parameters())
    elements.push_back(parameter.requires_grad() ? parameter.numel() : 0);
  return elements;
}

}  // namespace heddle::train
