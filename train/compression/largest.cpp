#include <algorithm>
#include <cmath>

#include "heddle/core/functions/functions.h"
#include "heddle/train/compression/compression.h"
#include "heddle/train/compression/flat_parts.h"
#include "heddle/train/flat_list.h"

namespace heddle::train {
namespace {

class Largest final : public Compression {
 public:
  Largest(double share, DeviceContext& device) : share_(share), device_(device) {}

  bool takes(const Shape&) const override { return true; }
  std::vector<Route> routes() const override { return {Route::gather}; }

  // Values, and their places.
  std::vector<Tensor> send(size_t, const std::vector<Tensor>& given) override {
    shapes_ = shapes_of(given);
    const Tensor list = joined(given);
    const int64_t count = list.numel();
    if (!kept_.defined()) kept_ = kept_zeros(list.shape(), device_);
    const auto wanted = static_cast<int64_t>(std::ceil(share_ * static_cast<double>(count)));
    const Tensor all = list + kept_;
    const Tensor places = topk(abs(all), std::clamp<int64_t>(wanted, 1, count)).indices;
    const Tensor values = take(all, places);
    kept_.assign(scatter_add(all, 0, places, -values));
    return {values, places.to(DType::i32)};
  }

  std::vector<Tensor> sums(const std::vector<Tensor>& brought) override {
    const Tensor none = zeros(kept_.shape(), DType::f32, &device_);
    const int64_t found = brought.at(0).numel();
    return parted(scatter_add(none, 0, reshape(brought.at(1), Shape{found}), reshape(brought.at(0), Shape{found})),
                  shapes_);
  }

 private:
  double share_;
  DeviceContext& device_;
  std::vector<Shape> shapes_;
  Tensor kept_;  // (n)
};

}  // namespace

std::unique_ptr<Compression> make_largest(double share, DeviceContext& device) {
  return std::make_unique<Largest>(share, device);
}

}  // namespace heddle::train
