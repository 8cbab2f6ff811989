#include "heddle/train/compression/compression.h"
#include "heddle/train/compression/flat_parts.h"

namespace heddle::train {
namespace {

class Rounded final : public Compression {
 public:
  bool takes(const Shape&) const override { return true; }
  std::vector<Route> routes() const override { return {Route::sum}; }
  std::vector<Tensor> send(size_t, const std::vector<Tensor>& given) override {
    shapes_ = shapes_of(given);
    return {joined(given).to(DType::bf16)};
  }
  std::vector<Tensor> sums(const std::vector<Tensor>& brought) override { return parted(brought.at(0), shapes_); }

 private:
  std::vector<Shape> shapes_;
};

}  // namespace

std::unique_ptr<Compression> make_rounded() { return std::make_unique<Rounded>(); }

}  // namespace heddle::train
