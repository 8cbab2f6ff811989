// Builders of pool.inc.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

using Amounts = std::vector<std::pair<int64_t, int64_t>>;

// A node's windows over x: padding as the attributes say, and what rounding up needs beyond it.
struct Pool {
  Window window;
  Amounts padding{{0, 0}, {0, 0}}, beyond{{0, 0}, {0, 0}};
  bool native = true;  // Heddle's own padding can say it
  PoolOptions options;
};

Pool pool_of(const Call& c, const Shape& shape) {
  const int count = shape.rank() - 2;
  if (count < 1 || count > 3) c.unsupported(fmt::format("{} spatial dimensions; 1 to 3 are there", count));
  const std::vector<int64_t> sizes(shape.begin() + 2, shape.end());
  Pool pool;
  pool.window = window_of(c, sizes, c.integers("kernel_shape"));
  const Window& w = pool.window;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t span = (w.kernel[i] - 1) * w.dilation[i] + 1, room = sizes[i] + w.before[i] + w.after[i] - span;
    int64_t beyond = 0;
    if (c.integer("ceil_mode", 0) != 0 && room % w.stride[i] != 0 && room >= 0) {
      beyond = w.stride[i] - room % w.stride[i];
      // No window begins in what was added at the end.
      if (sizes[i] + w.before[i] + w.after[i] + beyond - span >= sizes[i] + w.before[i]) beyond = 0;
    }
    pool.padding.emplace_back(w.before[i], w.after[i]);
    pool.beyond.emplace_back(0, beyond);
    pool.native = pool.native && beyond == 0 && w.before[i] == w.after[i] && 2 * w.before[i] <= w.kernel[i];
  }
  pool.options.stride = w.stride;
  pool.options.dilation = w.dilation;
  if (pool.native) pool.options.padding = w.before;
  return pool;
}

bool nothing(const Amounts& amounts) {
  return std::ranges::all_of(amounts, [](const auto& a) { return a.first == 0 && a.second == 0; });
}

Tensor padded(const Tensor& x, const Amounts& amounts, double value) {
  return nothing(amounts) ? x : heddle::pad(x, amounts, value);
}

Tensor averaged(const Tensor& x, const Window& w, const PoolOptions& options) {
  if (x.rank() == 3) return avg_pool1d(x, w.kernel, options);
  return x.rank() == 4 ? avg_pool2d(x, w.kernel, options) : avg_pool3d(x, w.kernel, options);
}

// Means of dilated windows: a convolution of each channel by itself.
Tensor dilated_average(const Tensor& x, const Window& w) {
  Shape shape = x.shape(), kernel{1, 1};
  int64_t elements = 1;
  for (const int64_t k : w.kernel) kernel.push_back(k), elements *= k;
  Shape alone{shape[0] * shape[1], 1};
  for (int i = 2; i < shape.rank(); ++i) alone.push_back(shape[i]);
  const Tensor weight = full(kernel, 1.0 / static_cast<double>(elements), x.dtype(), &x.device());
  const ConvOptions options{w.stride, {}, w.dilation, 1, ConvLayout::channels_first, {}};
  const Tensor each = heddle::reshape(x, alone);
  const Tensor y = x.rank() == 3   ? conv1d(each, weight, options)
                   : x.rank() == 4 ? conv2d(each, weight, options)
                                   : conv3d(each, weight, options);
  Shape result{shape[0], shape[1]};
  for (int i = 2; i < y.rank(); ++i) result.push_back(y.dim(i));
  return heddle::reshape(y, result);
}

bool is_dilated(const Window& w) {
  return std::ranges::any_of(w.dilation, [](int64_t d) { return d != 1; });
}

// Means over what is there and what stands in the padding, of the window's whole size.
Tensor plain_average(const Tensor& x, const Pool& pool) {
  if (is_dilated(pool.window)) return dilated_average(x, pool.window);
  PoolOptions options;
  options.stride = pool.window.stride;
  return averaged(x, pool.window, options);
}

Pooled max_pooled(const Tensor& x, const Window& w, const PoolOptions& options, bool indices) {
  if (indices) {
    if (x.rank() == 3) return max_pool1d_with_indices(x, w.kernel, options);
    return x.rank() == 4 ? max_pool2d_with_indices(x, w.kernel, options)
                         : max_pool3d_with_indices(x, w.kernel, options);
  }
  if (x.rank() == 3) return {max_pool1d(x, w.kernel, options), {}};
  return {x.rank() == 4 ? max_pool2d(x, w.kernel, options) : max_pool3d(x, w.kernel, options), {}};
}

// Places in one image of padded sizes as places in the whole of x.
Tensor whole_places(const Call& c, Tensor at, const Shape& shape, const Amounts& padding, bool native) {
  const bool columns_first = c.integer("storage_order", 0) != 0;
  const int rank = shape.rank();
  Tensor result;
  int64_t image = 1, column_stride = 1;
  for (int i = 2; i < rank; ++i) image *= shape[i];
  for (int i = 2; i < rank - 1; ++i) column_stride *= shape[i];
  int64_t row_stride = 1;
  for (int i = rank - 1; i >= 2; --i) {
    const auto [before, after] = padding[static_cast<size_t>(i)];
    const int64_t size = shape[i] + (native ? 0 : before + after);
    Tensor place = heddle::mod(at, static_cast<double>(size));
    at = integer_quotient(at, static_cast<double>(size));
    if (!native) place = place - static_cast<double>(before);
    const Tensor term = place * static_cast<double>(columns_first ? column_stride : row_stride);
    result = result.defined() ? result + term : term;
    row_stride *= shape[i];
    if (i > 2) column_stride /= shape[i - 1];
  }
  Shape spread{shape[0], shape[1]};
  for (int i = 2; i < rank; ++i) spread.push_back(1);
  const Tensor number = arange(0, static_cast<double>(shape[0] * shape[1]), 1, DType::i64, &c.device());
  return result + heddle::reshape(number, spread) * static_cast<double>(image);
}

double least(Type type) {
  return onnx::is_float(type) ? -std::numeric_limits<double>::infinity() : static_cast<double>(lowest(type));
}

}  // namespace

void average_pool(Call& c) {
  const Tensor x = c.tensor(0);
  Pool pool = pool_of(c, x.shape());
  const bool count_padding = c.integer("count_include_pad", 0) != 0;
  if (pool.native && !is_dilated(pool.window)) {
    pool.options.dilation.clear();
    pool.options.count_padding = count_padding;
    return c.out(averaged(x, pool.window, pool.options), c.type(0));
  }
  const Tensor sums = plain_average(padded(padded(x, pool.padding, 0), pool.beyond, 0), pool);
  if (count_padding && nothing(pool.beyond)) return c.out(sums, c.type(0));
  Shape one{1, 1};
  for (int i = 2; i < x.rank(); ++i) one.push_back(x.dim(i));
  const Tensor there = padded(ones(one, x.dtype(), &c.device()), pool.padding, count_padding ? 1 : 0);
  c.out(sums / plain_average(padded(there, pool.beyond, 0), pool), c.type(0));
}

void max_pool(Call& c) {
  const Type type = c.type(0);
  Tensor x = c.tensor(0);
  const Pool pool = pool_of(c, x.shape());
  const Shape shape = x.shape();
  Amounts padding = pool.padding;
  for (size_t i = 0; i < padding.size(); ++i) padding[i].second += pool.beyond[i].second;
  if (!pool.native) x = padded(x, padding, least(type));
  const Pooled pooled = max_pooled(x, pool.window, pool.options, c.wanted(1));
  c.out(heddle::cast(pooled.values, x.dtype()), type);
  if (c.wanted(1)) c.out(whole_places(c, pooled.indices, shape, padding, pool.native));
}

void global_average_pool(Call& c) { c.out(global_avg_pool(c.tensor(0)), c.type(0)); }
void global_max_pool(Call& c) { c.out(heddle::global_max_pool(c.tensor(0)), c.type(0)); }

void global_lp_pool(Call& c) {
  const Tensor x = c.tensor(0);
  std::vector<int> axes;
  for (int i = 2; i < x.rank(); ++i) axes.push_back(i);
  c.out(norm(x, static_cast<double>(c.integer("p", 2)), axes, true), c.type(0));
}

void lp_pool(Call& c) {
  const Tensor x = c.tensor(0);
  const Pool pool = pool_of(c, x.shape());
  const double p = static_cast<double>(c.integer("p", 2));
  double elements = 1;
  for (const int64_t k : pool.window.kernel) elements *= static_cast<double>(k);
  const Tensor powers = heddle::pow(heddle::abs(x), p);
  const Tensor means = plain_average(padded(padded(powers, pool.padding, 0), pool.beyond, 0), pool);
  c.out(heddle::pow(means * elements, 1 / p), c.type(0));
}

// Indices are places in the tensor that the maxima came from, whose shape the attributes give; a larger shape that is
// asked for has zeros behind it.
void max_unpool(Call& c) {
  const Tensor x = c.tensor(0);
  const std::vector<int64_t> kernel = c.integers("kernel_shape");
  const Shape& from = x.shape();
  const Window w = window_of(c, std::vector<int64_t>(from.begin() + 2, from.end()), kernel);
  Shape shape{from[0], from[1]};
  for (size_t i = 0; i < kernel.size(); ++i)
    shape.push_back((from[static_cast<int>(i) + 2] - 1) * w.stride[i] - w.before[i] - w.after[i] + kernel[i]);
  const Tensor empty = zeros(Shape{shape.numel()}, x.dtype(), &c.device());
  Tensor y = heddle::reshape(index_copy(empty, 0, ravel(c.tensor(1)), ravel(x)), shape);
  if (c.given(2)) {
    const std::vector<int64_t> wanted = c.ints(2);
    Amounts amounts;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const int64_t more = i < static_cast<size_t>(shape.rank()) ? wanted[i] - shape[static_cast<int>(i)] : -1;
      if (more < 0) c.unsupported("output_shape is smaller than what the kernel gives");
      amounts.emplace_back(0, more);
    }
    y = padded(y, amounts, 0);
  }
  c.out(y, c.type(0));
}

}  // namespace heddle::onnx::build
