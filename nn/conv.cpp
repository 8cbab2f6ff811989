#include "heddle/nn/conv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {

Convolution::Convolution(const char* name, int rank, bool transposed, int64_t in, int64_t out,
                         std::vector<int64_t> kernel, const ConvLayerOptions& o)
    : Module(name),
      options{o.stride, o.padding, o.dilation, o.groups, o.layout, o.output_padding},
      rank_(rank),
      transposed_(transposed) {
  if (kernel.size() == 1) kernel.assign(static_cast<size_t>(rank), kernel[0]);
  if (kernel.size() != static_cast<size_t>(rank)) {
    throw ValueError(fmt::format("[{}] the kernel has {} sizes ({}); expected one, or {}", name, kernel.size(),
                                 fmt::join(kernel, ", "), rank));
  }
  if (in < 1 || out < 1 || o.groups < 1 || in % o.groups != 0 || out % o.groups != 0) {
    throw ValueError(
        fmt::format("[{}] {} groups do not divide {} input and {} output channels", name, o.groups, in, out));
  }
  std::vector<int64_t> sizes{transposed ? in : out, (transposed ? out : in) / o.groups};
  for (int64_t k : kernel) {
    if (k < 1) throw ValueError(fmt::format("[{}] kernel ({}) has a size below 1", name, fmt::join(kernel, ", ")));
    sizes.push_back(checked_size(name, "a size of the kernel", k));
  }
  const Shape shape = parameter_shape(name, sizes);
  weight = heddle::zeros(shape, DType::f32, o.device);
  init::kaiming_uniform(weight, std::sqrt(5.0), init::Fan::in, o.generator);
  const double bound = 1 / std::sqrt(static_cast<double>(init::fans_of(shape).in));
  weight = add_parameter("weight", weight);
  if (!o.bias) return;
  bias = heddle::zeros(parameter_shape(name, {out}), DType::f32, o.device);
  init::uniform(bias, -bound, bound, o.generator);
  bias = add_parameter("bias", bias);
}

Tensor Convolution::forward(const Tensor& x) {
  using Function = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&, Caller);
  static constexpr Function forward[] = {&conv1d, &conv2d, &conv3d},
                            backward[] = {&conv_transpose1d, &conv_transpose2d, &conv_transpose3d};
  return (transposed_ ? backward : forward)[rank_ - 1](x, weight, bias, options, Caller::current());
}

#define HEDDLE_CONVOLUTION(Class, rank, transposed)                                               \
  Class::Class(int64_t in, int64_t out, std::vector<int64_t> kernel, const ConvLayerOptions& how) \
      : Convolution(#Class, rank, transposed, in, out, std::move(kernel), how) {}
HEDDLE_CONVOLUTION(Conv1d, 1, false)
HEDDLE_CONVOLUTION(Conv2d, 2, false)
HEDDLE_CONVOLUTION(Conv3d, 3, false)
HEDDLE_CONVOLUTION(ConvTranspose1d, 1, true)
HEDDLE_CONVOLUTION(ConvTranspose2d, 2, true)
HEDDLE_CONVOLUTION(ConvTranspose3d, 3, true)
#undef HEDDLE_CONVOLUTION

}  // namespace heddle::nn
