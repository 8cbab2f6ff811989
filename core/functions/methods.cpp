// Methods of Tensor that stand for functions (declared in core/graph/tensor.h, whose room knows nothing of functions).
#include "heddle/core/functions/functions.h"

namespace heddle {

#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  Tensor Tensor::name(Caller caller) const { return heddle::name(TensorArg(*this, caller)); }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc)                                             \
  Tensor Tensor::name(const Tensor& y, Caller caller) const { return heddle::name(TensorArg(*this, caller), y); } \
  Tensor Tensor::name(double y, Caller caller) const { return heddle::name(TensorArg(*this, caller), y); }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY

Tensor Tensor::cast(DType dtype, Caller caller) const { return heddle::cast(*this, dtype, caller); }
Tensor Tensor::clamp(std::optional<double> low, std::optional<double> high, Caller caller) const {
  return heddle::clamp(*this, low, high, caller);
}
Tensor Tensor::masked_fill(const Tensor& mask, double value, Caller caller) const {
  return heddle::masked_fill(*this, mask, value, caller);
}

#define HEDDLE_REDUCTION(name)                                                    \
  Tensor Tensor::name(std::vector<int> axes, bool keepdim, Caller caller) const { \
    return heddle::name(*this, std::move(axes), keepdim, caller);                 \
  }
HEDDLE_REDUCTION(sum)
HEDDLE_REDUCTION(mean)
HEDDLE_REDUCTION(prod)
HEDDLE_REDUCTION(max)
HEDDLE_REDUCTION(min)
HEDDLE_REDUCTION(logsumexp)
HEDDLE_REDUCTION(all)
HEDDLE_REDUCTION(any)
#undef HEDDLE_REDUCTION

Tensor Tensor::argmax(std::optional<int> axis, bool keepdim, Caller caller) const {
  return heddle::argmax(*this, axis, keepdim, caller);
}
Tensor Tensor::argmin(std::optional<int> axis, bool keepdim, Caller caller) const {
  return heddle::argmin(*this, axis, keepdim, caller);
}
Tensor Tensor::var(std::vector<int> axes, bool keepdim, double correction, Caller caller) const {
  return heddle::var(*this, std::move(axes), keepdim, correction, caller);
}
Tensor Tensor::stddev(std::vector<int> axes, bool keepdim, double correction, Caller caller) const {
  return heddle::stddev(*this, std::move(axes), keepdim, correction, caller);
}
Tensor Tensor::norm(double p, std::vector<int> axes, bool keepdim, Caller caller) const {
  return heddle::norm(*this, p, std::move(axes), keepdim, caller);
}
Tensor Tensor::cumsum(int axis, bool exclusive, bool reverse, Caller caller) const {
  return heddle::cumsum(*this, axis, exclusive, reverse, caller);
}
Ordered Tensor::sort(int axis, bool descending, Caller caller) const {
  return heddle::sort(*this, axis, descending, caller);
}
Ordered Tensor::topk(int64_t k, int axis, bool largest, Caller caller) const {
  return heddle::topk(*this, k, axis, largest, caller);
}
Tensor Tensor::softmax(int axis, Caller caller) const { return heddle::softmax(*this, axis, caller); }
Tensor Tensor::log_softmax(int axis, Caller caller) const { return heddle::log_softmax(*this, axis, caller); }
Tensor Tensor::matmul(const Tensor& y, Caller caller) const { return heddle::matmul(TensorArg(*this, caller), y); }

Tensor Tensor::reshape(const Shape& shape, Caller caller) const { return heddle::reshape(*this, shape, caller); }
Tensor Tensor::reshape(std::vector<int64_t> shape, Caller caller) const {
  return heddle::reshape(*this, std::move(shape), caller);
}
Tensor Tensor::reshape(std::initializer_list<int64_t> shape, Caller caller) const {
  return heddle::reshape(*this, shape, caller);
}
Tensor Tensor::flatten(int start, int end, Caller caller) const { return heddle::flatten(*this, start, end, caller); }
Tensor Tensor::squeeze(std::optional<int> axis, Caller caller) const { return heddle::squeeze(*this, axis, caller); }
Tensor Tensor::unsqueeze(int axis, Caller caller) const { return heddle::unsqueeze(*this, axis, caller); }
Tensor Tensor::permute(std::vector<int> order, Caller caller) const {
  return heddle::permute(*this, std::move(order), caller);
}
Tensor Tensor::transpose(int axis0, int axis1, Caller caller) const {
  return heddle::transpose(*this, axis0, axis1, caller);
}
Tensor Tensor::expand(const Shape& shape, Caller caller) const { return heddle::expand(*this, shape, caller); }
Tensor Tensor::repeat(std::vector<int64_t> repeats, Caller caller) const {
  return heddle::repeat(*this, std::move(repeats), caller);
}
Tensor Tensor::flip(std::vector<int> axes, Caller caller) const { return heddle::flip(*this, std::move(axes), caller); }
Tensor Tensor::slice(int axis, Slice range, Caller caller) const { return heddle::slice(*this, axis, range, caller); }
Tensor Tensor::narrow(int axis, int64_t start, int64_t length, Caller caller) const {
  return heddle::narrow(*this, axis, start, length, caller);
}
Tensor Tensor::select(int axis, int64_t index, Caller caller) const {
  return heddle::select(*this, axis, index, caller);
}
Tensor Tensor::index_select(int axis, const Tensor& indices, Caller caller) const {
  return heddle::index_select(*this, axis, indices, caller);
}
Tensor Tensor::gather(int axis, const Tensor& indices, Caller caller) const {
  return heddle::gather(*this, axis, indices, caller);
}
std::vector<Tensor> Tensor::split(std::vector<int64_t> sizes, int axis, Caller caller) const {
  return heddle::split(*this, std::move(sizes), axis, caller);
}
std::vector<Tensor> Tensor::chunk(int64_t chunks, int axis, Caller caller) const {
  return heddle::chunk(*this, chunks, axis, caller);
}

}  // namespace heddle
