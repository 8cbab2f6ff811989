#include "heddle/onnx/ops/columns.h"

#include <cstdint>

namespace heddle::onnx::build {

Tensor add_blocks(const Call& c, const Tensor& x, const std::vector<BlockAxis>& axes) {
  const size_t rank = axes.size();
  int64_t elements = 1, places = 1, pixels = 1;
  for (const BlockAxis& axis : axes) {
    const int64_t given[] = {axis.size, axis.block, axis.stride, axis.dilation};
    for (const int64_t number : given) {
      if (number < 1 || number > INT32_MAX) c.fail("sizes, blocks, strides or dilations are out of range");
    }
    for (const int64_t number : {axis.before, axis.after}) {
      if (number < 0 || number > INT32_MAX) c.fail("pads are out of range");
    }
    if (axis.padded() < axis.dilation * (axis.block - 1) + 1) c.fail("a block does not fit the image");
    pixels *= axis.padded();
    if (pixels > INT32_MAX) c.unsupported("images of 2^31 elements");
    elements *= axis.block;
    places *= axis.count();
  }
  if (x.rank() != 3 || x.dim(1) % elements != 0 || x.dim(2) != places)
    c.fail("the columns are not (N, C x elements of a block, places of blocks)");
  // Where each element is added, (blocks..., places...): flat in the padded image.
  Tensor target = zeros({1}, DType::i32, &c.device());
  int64_t step = pixels;
  for (size_t d = 0; d < rank; ++d) {
    step /= axes[d].padded();
    const auto along = [&](int64_t count, int64_t by, size_t dimension) {
      std::vector<int64_t> shape(2 * rank, 1);
      shape[dimension] = count;
      const Tensor steps = arange(0, static_cast<double>(count), 1, DType::i32, &c.device());
      return reshape(steps * static_cast<double>(by * step), Shape(shape));
    };
    target = target + along(axes[d].block, axes[d].dilation, d) + along(axes[d].count(), axes[d].stride, rank + d);
  }
  const int64_t n = x.dim(0), channels = x.dim(1) / elements;
  const Tensor image = zeros({n, channels, pixels}, x.dtype(), &c.device());
  const Tensor added =
      index_add(image, 2, reshape(target, Shape{elements * places}), reshape(x, Shape{n, channels, elements * places}));
  std::vector<int64_t> shape = {n, channels};
  for (const BlockAxis& axis : axes) shape.push_back(axis.padded());
  Tensor y = reshape(added, Shape(shape));
  for (size_t d = 0; d < rank; ++d) y = narrow(y, static_cast<int>(d) + 2, axes[d].before, axes[d].size);
  return y;
}

}  // namespace heddle::onnx::build
