#include "heddle/data/collate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::data {
namespace {

constexpr int64_t most_length = std::numeric_limits<int32_t>::max();  // of a sequence, and of an image's side

template <class T>
void fill(Array& array, double value) {
  std::ranges::fill(array.as<T>(), static_cast<T>(value));
}

void fill_with(Array& array, double value) {
  if (value == 0) return;  // as made
  switch (array.dtype) {
    case DType::f32:
      return fill<float>(array, value);
    case DType::f64:
      return fill<double>(array, value);
    case DType::i8:
      return fill<int8_t>(array, value);
    case DType::u8:
      return fill<uint8_t>(array, value);
    case DType::i32:
      return fill<int32_t>(array, value);
    case DType::i64:
      return fill<int64_t>(array, value);
    default:
      throw DTypeError(fmt::format("[padded] {} can only be padded with 0", name_of(array.dtype)));
  }
}

// An example's array with `length` in front, what is missing being `value`.
Array lengthened(const Array& array, int64_t length, double value) {
  Shape shape = array.shape;
  const int64_t per_row = shape[0] == 0 ? 0 : shape.numel() / shape[0];
  std::vector<int64_t> dims(shape.begin(), shape.end());
  dims[0] = length;
  Array longer{array.dtype, Shape(dims), {}};
  longer.bytes.resize(static_cast<size_t>(longer.shape.numel()) * size_of(array.dtype));
  fill_with(longer, value);
  std::copy_n(array.bytes.begin(), static_cast<size_t>(per_row * shape[0]) * size_of(array.dtype),
              longer.bytes.begin());
  return longer;
}

int64_t common_length(std::span<const Sample> samples, size_t array, const PadOptions& options) {
  int64_t longest = options.least;
  for (const Sample& sample : samples) longest = std::max(longest, sample[array].shape[0]);
  return round_up(longest, options.multiple);
}

Sample pad(std::span<const Sample> samples, const PadOptions& options) {
  if (samples.empty()) throw ShapeError("[padded] there are no examples");
  std::vector<Sample> equal(samples.begin(), samples.end());
  std::vector<int32_t> lengths;
  for (const Sample& sample : samples) {
    if (sample.size() != samples[0].size() || sample.empty() || sample[0].shape.rank() == 0)
      throw ShapeError("[padded] examples must be of as many arrays, the first one a sequence");
    for (const Array& array : sample) {
      array.require_whole("padded");
      if (array.shape.rank() > 0 && array.shape[0] > most_length)
        throw ShapeError(fmt::format("[padded] a sequence of {} is too long", array.shape.str()));
    }
    lengths.push_back(static_cast<int32_t>(sample[0].shape[0]));
  }
  for (size_t k = 0; k < samples[0].size(); ++k) {
    const auto is_scalar = [&](const Sample& sample) { return sample[k].shape.rank() == 0; };
    if (std::ranges::all_of(samples, is_scalar)) continue;
    if (std::ranges::any_of(samples, is_scalar))
      throw ShapeError(fmt::format("[padded] array {} is a scalar in some examples", k));
    const int64_t length = common_length(samples, k, options);
    for (Sample& sample : equal)
      sample[k] = lengthened(sample[k], length, k < options.values.size() ? options.values[k] : 0);
  }
  Sample batch = stack(equal);
  batch.push_back(Array::of(lengths, Shape{static_cast<int64_t>(lengths.size())}));
  return batch;
}

// Which examples lie in which row: first fit, the longest first.
std::vector<std::vector<size_t>> rows_of(std::span<const Sample> samples, int64_t block) {
  const auto length = [&](size_t i) { return samples[i][0].shape.numel(); };
  std::vector<size_t> order(samples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return length(a) > length(b); });
  std::vector<std::vector<size_t>> rows;
  std::vector<int64_t> room;
  for (const size_t i : order) {
    if (length(i) > block)
      throw ValueError(
          fmt::format("[packed] example {} of the batch has {} tokens, a row has {}", i, length(i), block));
    const auto fits = std::ranges::find_if(room, [&](int64_t left) { return left >= length(i); });
    const auto row = static_cast<size_t>(fits - room.begin());
    if (fits == room.end()) {
      room.push_back(block);
      rows.emplace_back();
    }
    room[row] -= length(i);
    rows[row].push_back(i);
  }
  return rows;
}

Sample pack_rows(std::span<const Sample> samples, int64_t block, int32_t pad) {
  for (const Sample& sample : samples) {
    if (sample.size() != 1 || sample[0].dtype != DType::i32 || sample[0].shape.rank() != 1)
      throw ShapeError("[packed] examples must be one array of tokens, (length) i32");
    sample[0].require_whole("packed");
  }
  const auto rows = rows_of(samples, block);
  const size_t total = rows.size() * static_cast<size_t>(block);
  std::vector<int32_t> tokens(total, pad), segments(total, 0), positions(total, 0);
  for (size_t r = 0; r < rows.size(); ++r) {
    size_t at = r * static_cast<size_t>(block);
    for (size_t s = 0; s < rows[r].size(); ++s) {
      int32_t position = 0;
      for (const int32_t token : samples[rows[r][s]][0].as<int32_t>()) {
        tokens[at] = token;
        segments[at] = static_cast<int32_t>(s + 1);
        positions[at++] = position++;
      }
    }
  }
  const Shape shape{static_cast<int64_t>(rows.size()), block};
  return {Array::of(tokens, shape), Array::of(segments, shape), Array::of(positions, shape)};
}

double standard_normal(Random& random) {  // Box and Muller 1958
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.uniform())));
  return radius * std::cos(2 * std::numbers::pi * static_cast<double>(random.uniform()));
}

// Marsaglia and Tsang 2000, "A simple method for generating gamma variables".
double gamma_variate(double shape, Random& random) {
  if (shape < 1)
    return gamma_variate(shape + 1, random) * std::pow(1 - static_cast<double>(random.uniform()), 1 / shape);
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = standard_normal(random), v = std::pow(1 + c * x, 3), u = 1 - static_cast<double>(random.uniform());
    if (v > 0 && std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) return d * v;
  }
}

void check_alpha(double alpha) {
  if (!(alpha > 0)) throw ValueError(fmt::format("[mixup] alpha is {}, expected a positive number", alpha));
}

float beta_variate(double alpha, Random& random) {
  check_alpha(alpha);
  const double a = gamma_variate(alpha, random), b = gamma_variate(alpha, random);
  return a + b > 0 ? static_cast<float>(a / (a + b)) : 0.5f;
}

// 1 where a pixel lies in the box: (height, width).
Tensor box_mask(const Mixture& m, int64_t height, int64_t width, DeviceContext& device) {
  const auto inside = [&](int64_t size, int32_t from, int32_t to) {
    const Tensor at = arange(0, static_cast<double>(size), 1, DType::f32, &device);
    return logical_and(at >= Tensor::host_scalar(static_cast<float>(from), &device),
                       at < Tensor::host_scalar(static_cast<float>(to), &device));
  };
  return logical_and(unsqueeze(inside(height, m.top, m.bottom), 1), unsqueeze(inside(width, m.left, m.right), 0));
}

void check_batch(const char* name, const Tensor& images, const Tensor& labels) {
  if (images.rank() != 4 || labels.rank() != 1 || labels.dim(0) != images.dim(0)) {
    throw ShapeError(fmt::format("[{}] images {} and labels {}; expected (N, channels, height, width) and (N)", name,
                                 images.shape().str(), labels.shape().str()));
  }
}

// Of each example `weight`, of its opposite the rest.
Tensor blend(const Tensor& own, const Tensor& weight) { return own * weight + flip(own, {0}) * (1 - weight); }

}  // namespace

Collate padded(PadOptions options) {
  if (options.multiple < 1 || options.least < 0 || options.multiple > most_length || options.least > most_length)
    throw ValueError(fmt::format("[padded] multiple {} and least {} cannot be meant", options.multiple, options.least));
  return [options = std::move(options)](std::span<const Sample> samples) { return pad(samples, options); };
}

Collate packed(int64_t block, int32_t pad) {
  if (block < 1 || block > most_length)
    throw ValueError(fmt::format("[packed] a row of {} tokens cannot be meant", block));
  return [=](std::span<const Sample> samples) { return pack_rows(samples, block, pad); };
}

Mixture draw_mixup(double alpha, Random& random) { return {.share = beta_variate(alpha, random)}; }

Mixture draw_cutmix(double alpha, int64_t height, int64_t width, Random& random) {
  const double side = std::sqrt(1 - static_cast<double>(beta_variate(alpha, random)));
  if (height < 1 || width < 1 || height > most_length || width > most_length) {
    throw ValueError(fmt::format("[cutmix] an image of {} x {}; expected 1 to 2^31 - 1", height, width));
  }
  const auto span_of = [&](int64_t size) {
    const auto half = static_cast<int64_t>(side * static_cast<double>(size)) / 2;
    const int64_t centre = random.integer(size);
    return std::pair{static_cast<int32_t>(std::max<int64_t>(centre - half, 0)),
                     static_cast<int32_t>(std::min(centre + half, size))};
  };
  const auto [top, bottom] = span_of(height);
  const auto [left, right] = span_of(width);
  const double replaced = static_cast<double>(bottom - top) * static_cast<double>(right - left) /
                          (static_cast<double>(height) * static_cast<double>(width));
  return {static_cast<float>(1 - replaced), top, bottom, left, right};
}

Mixed mix(const Tensor& images, const Tensor& labels, int64_t classes, const Mixture& m, Caller caller) {
  const CallerScope scope(caller);
  check_batch("mix", images, labels);
  DeviceContext& device = images.device();
  const Tensor share = Tensor::host_scalar(m.share, &device);
  const bool is_box = m.bottom > m.top && m.right > m.left;
  if (!is_box) return mixup(images, labels, classes, share);
  return {where(box_mask(m, images.dim(2), images.dim(3), device), flip(images, {0}), images),
          blend(one_hot(labels, classes), share)};
}

Mixed mixup(const Tensor& images, const Tensor& labels, int64_t classes, const Tensor& share, Caller caller) {
  const CallerScope scope(caller);
  check_batch("mixup", images, labels);
  const bool one_each = share.rank() == 1 && share.dim(0) == images.dim(0);
  if (share.rank() != 0 && !one_each)
    throw ShapeError(fmt::format("[mixup] shares are {} for images {}; expected (N) or ()", share.shape().str(),
                                 images.shape().str()));
  const Tensor of_images = one_each ? reshape(share, {-1, 1, 1, 1}) : share,
               of_targets = one_each ? unsqueeze(share, 1) : share;
  return {blend(images, cast(of_images, images.dtype())), blend(one_hot(labels, classes), of_targets)};
}

Transform append_mixup_share(double alpha) {
  check_alpha(alpha);
  return [alpha](Sample sample, Random& random) {
    sample.push_back(Array::scalar(beta_variate(alpha, random)));
    return sample;
  };
}

}  // namespace heddle::data
