#include "heddle/train/shared_gradients.h"

#include "heddle/core/functions/functions.h"

namespace heddle::train {
namespace {

std::vector<Tensor> floating_buffers(const nn::Module& model) {
  std::vector<Tensor> found;
  for (const auto& [name, buffer] : model.named_buffers()) {
    if (is_float(buffer.dtype())) found.push_back(buffer);
  }
  return found;
}

std::vector<Tensor> floating_weights(const nn::Module& model) {
  std::vector<Tensor> found = model.parameters();
  const std::vector<Tensor> buffers = floating_buffers(model);
  found.insert(found.end(), buffers.begin(), buffers.end());
  return found;
}

Tensor flat(const Tensor& x) { return reshape(x.to(DType::f32), Shape{x.numel()}); }

// Values of a list, from its beginning on.
class Reader {
 public:
  explicit Reader(const Tensor& list) : list_(list) {}
  Tensor next(const Shape& shape, DType dtype) {
    const int64_t from = at_;
    at_ += shape.numel();
    return reshape(slice(list_, 0, {.start = from, .stop = at_}), shape).to(dtype);
  }

 private:
  const Tensor& list_;
  int64_t at_ = 0;
};

}  // namespace

Tensor SharedGradients::pack(const std::vector<Tensor>& scalars) {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  std::vector<Tensor> parts;
  with_gradient_.clear();
  scalars_ = scalars.size();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].grad().defined()) continue;
    with_gradient_.push_back(i);
    parts.push_back(flat(parameters[i].grad()));
  }
  for (const Tensor& buffer : floating_buffers(model_)) parts.push_back(flat(buffer));
  for (const Tensor& scalar : scalars) parts.push_back(flat(scalar));
  const Tensor list = concat(parts, 0);
  return weight_ == 1 ? list : list * weight_;
}

std::vector<Tensor> SharedGradients::unpack(const Tensor& list) {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = model_.parameters();
  Reader reader(list);
  for (const size_t i : with_gradient_) {
    Tensor parameter = parameters[i];
    parameter.set_grad(reader.next(parameter.shape(), parameter.dtype()));
  }
  for (Tensor buffer : floating_buffers(model_)) buffer.assign(reader.next(buffer.shape(), buffer.dtype()));
  std::vector<Tensor> scalars;
  for (size_t i = 0; i < scalars_; ++i) scalars.push_back(reader.next(Shape(), DType::f32));
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
  Reader reader(list);
  for (Tensor weight : floating_weights(model_)) weight.assign(reader.next(weight.shape(), weight.dtype()));
}

}  // namespace heddle::train
