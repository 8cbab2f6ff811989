// Builders of linear.inc.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

std::vector<int64_t> spatial(const Shape& shape) { return {shape.begin() + 2, shape.end()}; }

int dimensions(const Call& c, const Tensor& x) {
  const int count = x.rank() - 2;
  if (count < 1 || count > 3) c.unsupported(fmt::format("{} spatial dimensions; 1 to 3 are there", count));
  return count;
}

Tensor convolved(const Tensor& x, const Tensor& weight, const Tensor& bias, const ConvOptions& options) {
  if (x.rank() == 3) return conv1d(x, weight, bias, options);
  return x.rank() == 4 ? conv2d(x, weight, bias, options) : conv3d(x, weight, bias, options);
}

Tensor transposed(const Tensor& x, const Tensor& weight, const ConvOptions& options) {
  if (x.rank() == 3) return conv_transpose1d(x, weight, options);
  return x.rank() == 4 ? conv_transpose2d(x, weight, options) : conv_transpose3d(x, weight, options);
}

std::vector<int64_t> spread(const Call& c, const char* name, size_t count, int64_t fallback) {
  std::vector<int64_t> values = c.integers(name);
  if (values.empty()) values.assign(count, fallback);
  if (values.size() != count) c.fail(fmt::format("{} has {} entries for {} dimensions", name, values.size(), count));
  return values;
}

void check_kernel(const Call& c, const Tensor& weight) {
  if (c.has("kernel_shape") && c.integers("kernel_shape") != spatial(weight.shape()))
    c.fail("kernel_shape is not that of the weights");
}

}  // namespace

Window window_of(const Call& c, const std::vector<int64_t>& sizes, const std::vector<int64_t>& kernel) {
  const size_t count = sizes.size();
  if (kernel.size() != count) c.fail(fmt::format("a kernel of {} dimensions for {}", kernel.size(), count));
  Window w{kernel, spread(c, "strides", count, 1), spread(c, "dilations", count, 1), {}, {}};
  const std::vector<int64_t> pads = spread(c, "pads", 2 * count, 0);
  const std::string mode = c.text("auto_pad", "NOTSET");
  for (size_t i = 0; i < count; ++i) {
    if (kernel[i] < 1 || w.stride[i] < 1 || w.dilation[i] < 1)
      c.fail("kernel, strides and dilations must be 1 or more");
    int64_t before = pads[i], after = pads[i + count];
    if (mode == "VALID") before = after = 0;
    if (mode.starts_with("SAME")) {
      const int64_t out = (sizes[i] + w.stride[i] - 1) / w.stride[i];
      const int64_t total =
          std::max<int64_t>(0, (out - 1) * w.stride[i] + (kernel[i] - 1) * w.dilation[i] + 1 - sizes[i]);
      before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      after = total - before;
    }
    w.before.push_back(before);
    w.after.push_back(after);
  }
  return w;
}

Tensor convolution(const Call& c, Tensor x, const Tensor& weight, const Tensor& bias, double fill) {
  dimensions(c, x);
  check_kernel(c, weight);
  const Window w = window_of(c, spatial(x.shape()), spatial(weight.shape()));
  ConvOptions options{w.stride, {}, w.dilation, c.integer("group", 1), ConvLayout::channels_first, {}};
  std::vector<std::pair<int64_t, int64_t>> amounts{{0, 0}, {0, 0}};
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    amounts.emplace_back(w.before[i], w.after[i]);
    options.padding.push_back(w.before[i]);
    options.padding.push_back(w.after[i]);
  }
  if (fill != 0) {
    x = heddle::pad(x, amounts, fill);
    options.padding.clear();
  }
  return convolved(x, weight, bias, options);
}

void conv(Call& c) { c.out(convolution(c, c.tensor(0), c.tensor(1), c.tensor_or(2), 0), c.type(0)); }

namespace {

// What a transposed convolution without padding gives, cut (or made longer by zeros) at both ends.
Tensor cropped(Tensor y, const std::vector<int64_t>& before, const std::vector<int64_t>& after) {
  std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(y.rank()), {0, 0});
  bool longer = false;
  for (size_t i = 0; i < before.size(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    const int64_t from = std::max<int64_t>(before[i], 0), less = from + std::max<int64_t>(after[i], 0);
    if (less > 0) y = narrow(y, axis, from, std::max<int64_t>(y.dim(axis) - less, 0));
    amounts[i + 2] = {std::max<int64_t>(-before[i], 0), std::max<int64_t>(-after[i], 0)};
    longer = longer || before[i] < 0 || after[i] < 0;
  }
  return longer ? heddle::pad(y, amounts) : y;
}

}  // namespace

void conv_transpose(Call& c) {
  const Tensor x = c.tensor(0), weight = c.tensor(1);
  const auto count = static_cast<size_t>(dimensions(c, x));
  check_kernel(c, weight);
  const std::vector<int64_t> kernel = spatial(weight.shape()), stride = spread(c, "strides", count, 1),
                             dilation = spread(c, "dilations", count, 1), added = spread(c, "output_padding", count, 0),
                             pads = spread(c, "pads", 2 * count, 0);
  std::vector<int64_t> shape = c.integers("output_shape");
  if (shape.size() == count + 2) shape.erase(shape.begin(), shape.begin() + 2);
  const std::string mode = c.text("auto_pad", "NOTSET");
  std::vector<int64_t> before, after;
  for (size_t i = 0; i < count; ++i) {
    const int64_t full = (x.dim(static_cast<int>(i) + 2) - 1) * stride[i] + (kernel[i] - 1) * dilation[i] + 1;
    if (shape.empty() && !mode.starts_with("SAME")) {
      before.push_back(mode == "VALID" ? 0 : pads[i]);
      after.push_back((mode == "VALID" ? 0 : pads[i + count]) - added[i]);
      continue;
    }
    const int64_t wanted = shape.empty() ? x.dim(static_cast<int>(i) + 2) * stride[i] : shape.at(i);
    const int64_t total = full - wanted;
    before.push_back(total <= 0 ? 0 : mode == "SAME_UPPER" ? total / 2 : total - total / 2);
    after.push_back(total - before.back());
  }
  ConvOptions options{stride, {}, dilation, c.integer("group", 1), ConvLayout::channels_first, {}};
  const auto plain = [](int64_t n) { return n >= 0; };
  const bool direct = std::ranges::all_of(before, plain) && std::ranges::all_of(after, plain);
  for (size_t i = 0; direct && i < count; ++i) {
    options.padding.push_back(before[i]);
    options.padding.push_back(after[i]);
  }
  Tensor y = transposed(x, weight, options);
  if (!direct) y = cropped(y, before, after);
  if (c.given(2)) {
    Shape channel{1, y.dim(1)};
    for (size_t i = 0; i < count; ++i) channel.push_back(1);
    y = y + heddle::reshape(c.tensor(2), channel);
  }
  c.out(y, c.type(0));
}

void matmul(Call& c) { c.out(wrap(heddle::matmul(c.tensor(0), c.tensor(1)), c.type(0)), c.type(0)); }

void gemm(Call& c) {
  const Type type = c.type(0);
  Tensor a = c.tensor(0), b = c.tensor(1);
  if (a.rank() != 2 || b.rank() != 2) c.fail("takes matrices");
  if (c.integer("transA", 0) != 0) a = heddle::transpose(a);
  if (c.integer("transB", 0) != 0) b = heddle::transpose(b);
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  Tensor y = heddle::matmul(a, b);
  if (alpha != 1) y = heddle::cast(y * alpha, y.dtype());
  if (c.given(2) && beta != 0) {
    const Tensor addend = c.tensor(2);
    y = y + (beta == 1 ? addend : heddle::cast(addend * beta, addend.dtype()));
  }
  c.out(wrap(y, type), type);
}

void einsum(Call& c) {
  std::string equation = c.text("equation");
  std::erase(equation, ' ');
  std::vector<Tensor> operands;
  for (size_t i = 0; i < c.count(); ++i) operands.push_back(c.tensor(i));
  c.out(heddle::einsum(equation, operands), c.type(0));
}

void det(Call& c) { c.out(heddle::det(c.tensor(0)), c.type(0)); }

}  // namespace heddle::onnx::build
