// Resize and Upsample: one axis after the other, a gather (nearest) or a product with a matrix of weights.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// How one axis is resampled.
struct Axis {
  int64_t from = 0, to = 0;
  double scale = 1;
  double roi_start = 0, roi_end = 1;
};

struct Manner {
  std::string mode, coordinates, nearest;
  double cubic = -0.75, outside_value = 0;
  bool exclude_outside = false, antialias = false;
};

// Where place i of the result stands in the input.
double coordinate(const Manner& m, const Axis& a, int64_t i) {
  const auto x = static_cast<double>(i), from = static_cast<double>(a.from), to = static_cast<double>(a.to);
  if (m.coordinates == "asymmetric") return x / a.scale;
  if (m.coordinates == "align_corners") return a.to == 1 ? 0 : x * (from - 1) / (to - 1);
  if (m.coordinates == "pytorch_half_pixel") return a.to > 1 ? (x + 0.5) / a.scale - 0.5 : 0;
  if (m.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (m.coordinates == "tf_crop_and_resize") {
    if (a.to == 1) return 0.5 * (a.roi_start + a.roi_end) * (from - 1);
    return a.roi_start * (from - 1) + x * (a.roi_end - a.roi_start) * (from - 1) / (to - 1);
  }
  if (m.coordinates == "half_pixel_symmetric") {
    const double adjustment = to / (a.scale * from), centre = from / 2;
    return centre * (1 - adjustment) + (x + 0.5) / a.scale - 0.5;
  }
  return (x + 0.5) / a.scale - 0.5;
}

int64_t nearest(const Manner& m, double x) {
  if (m.nearest == "floor") return static_cast<int64_t>(std::floor(x));
  if (m.nearest == "ceil") return static_cast<int64_t>(std::ceil(x));
  const bool half = x - std::floor(x) == 0.5;
  if (half) return static_cast<int64_t>(m.nearest == "round_prefer_ceil" ? std::ceil(x) : std::floor(x));
  return static_cast<int64_t>(std::round(x));
}

double kernel(const Manner& m, double distance) {
  const double d = std::abs(distance), a = m.cubic;
  if (m.mode == "linear") return std::max(0.0, 1 - d);
  if (d <= 1) return (a + 2) * d * d * d - (a + 3) * d * d + 1;
  return d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

// The weights of one place of the result: neighbours within reach, those outside at the edge or left out.
void add_weights(const Manner& m, const Axis& a, double x, double* row) {
  const double stretch = m.antialias && a.scale < 1 ? a.scale : 1;
  const double reach = (m.mode == "linear" ? 1 : 2) / stretch;
  const auto first = static_cast<int64_t>(std::floor(x - reach)) + (stretch == 1 ? 1 : 0),
             last = static_cast<int64_t>(std::floor(x + reach));
  double total = 0;
  std::vector<std::pair<int64_t, double>> weights;
  for (int64_t place = first; place <= last; ++place) {
    const bool outside = place < 0 || place >= a.from;
    const double weight =
        (m.exclude_outside || stretch < 1) && outside ? 0 : kernel(m, (static_cast<double>(place) - x) * stretch);
    weights.emplace_back(std::clamp<int64_t>(place, 0, a.from - 1), weight);
    total += weight;
  }
  for (const auto& [place, weight] : weights) row[place] += weight / total;
}

Tensor resampled(const Call& c, const Manner& m, const Tensor& x, int axis, const Axis& a) {
  if (m.mode == "nearest") {
    std::vector<int64_t> places;
    for (int64_t i = 0; i < a.to; ++i)
      places.push_back(std::clamp<int64_t>(nearest(m, coordinate(m, a, i)), 0, a.from - 1));
    return take(x, c.constant(HostTensor::of_ints(Type::i64, Shape{a.to}, places)), axis);
  }
  if (a.from > (int64_t{1} << 28) / std::max<int64_t>(a.to, 1)) c.unsupported("so large an axis");
  std::vector<double> weights(static_cast<size_t>(a.to * a.from), 0);
  for (int64_t i = 0; i < a.to; ++i) add_weights(m, a, coordinate(m, a, i), weights.data() + i * a.from);
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Tensor matrix = c.constant(HostTensor::of_reals(type_of(dtype), Shape{a.to, a.from}, weights));
  const Tensor wide = heddle::cast(x, dtype);
  if (axis == x.rank() - 2) return heddle::matmul(matrix, wide);
  return moveaxis(heddle::matmul(moveaxis(wide, axis, -1), heddle::transpose(matrix)), -1, axis);
}

// Places of a crop that lie outside of the input have a value of their own.
Tensor with_outside(const Call& c, const Manner& m, const Tensor& y, int axis, const Axis& a) {
  std::vector<int64_t> inside;
  for (int64_t i = 0; i < a.to; ++i) {
    const double x = coordinate(m, a, i);
    inside.push_back(x >= 0 && x <= static_cast<double>(a.from - 1));
  }
  Shape shape;
  for (int i = 0; i < y.rank(); ++i) shape.push_back(i == axis ? a.to : 1);
  const Tensor mask = heddle::reshape(c.constant(HostTensor::of_ints(Type::boolean, Shape{a.to}, inside)), shape);
  return heddle::where(mask, y, m.outside_value);
}

Tensor resized(const Call& c, const Manner& m, const Tensor& x, const std::vector<Axis>& axes) {
  Tensor y = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const Axis& a = axes[static_cast<size_t>(axis)];
    const bool crops = m.coordinates == "tf_crop_and_resize";
    if (a.from == a.to && a.scale == 1 && !(crops && (a.roi_start != 0 || a.roi_end != 1))) continue;
    if (a.from == 0) c.fail("an axis is empty");
    y = resampled(c, m, y, axis, a);
    if (crops) y = with_outside(c, m, y, axis, a);
  }
  if (y.dtype() == x.dtype()) return y;
  return heddle::cast(heddle::is_float(x.dtype()) ? y : heddle::round(y), x.dtype());
}

std::vector<Axis> by_scales(const Call& c, const Shape& shape, const std::vector<int64_t>& chosen,
                            const std::vector<double>& scales) {
  std::vector<Axis> axes;
  for (const int64_t size : shape.dims()) axes.push_back({size, size, 1, 0, 1});
  if (scales.size() != chosen.size()) c.fail(fmt::format("{} scales for {} axes", scales.size(), chosen.size()));
  for (size_t i = 0; i < chosen.size(); ++i) {
    Axis& a = axes[static_cast<size_t>(chosen[i])];
    if (!(scales[i] > 0) || scales[i] > 1e9) c.fail("scales must be above 0");
    a.scale = scales[i];
    a.to = static_cast<int64_t>(std::floor(static_cast<double>(a.from) * a.scale));
  }
  return axes;
}

std::vector<Axis> by_sizes(const Call& c, const Shape& shape, const std::vector<int64_t>& chosen,
                           std::vector<int64_t> sizes) {
  std::vector<Axis> axes;
  for (const int64_t size : shape.dims()) axes.push_back({size, size, 1, 0, 1});
  if (sizes.size() != chosen.size()) c.fail(fmt::format("{} sizes for {} axes", sizes.size(), chosen.size()));
  std::vector<double> scales;
  for (size_t i = 0; i < chosen.size(); ++i)
    scales.push_back(static_cast<double>(sizes[i]) / static_cast<double>(shape[static_cast<int>(chosen[i])]));
  const std::string policy = c.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch") {
    const double one = policy == "not_larger" ? *std::ranges::min_element(scales) : *std::ranges::max_element(scales);
    for (size_t i = 0; i < chosen.size(); ++i) {
      scales[i] = one;
      sizes[i] = static_cast<int64_t>(std::floor(one * static_cast<double>(shape[static_cast<int>(chosen[i])]) + 0.5));
    }
  }
  for (size_t i = 0; i < chosen.size(); ++i) {
    Axis& a = axes[static_cast<size_t>(chosen[i])];
    if (sizes[i] < 0) c.fail("a size is negative");
    a.to = sizes[i];
    a.scale = scales[i];
  }
  return axes;
}

}  // namespace

void resize(Call& c) {
  const Tensor x = c.tensor(0);
  const bool old = c.opset() < 11;
  Manner m{c.text("mode", "nearest"),
           c.text("coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"),
           c.text("nearest_mode", old ? "floor" : "round_prefer_floor"),
           c.real("cubic_coeff_a", -0.75),
           c.real("extrapolation_value", 0),
           c.integer("exclude_outside", 0) != 0,
           c.integer("antialias", 0) != 0};
  std::vector<int64_t> chosen = c.integers("axes");
  if (chosen.empty()) {
    for (int64_t i = 0; i < x.rank(); ++i) chosen.push_back(i);
  }
  for (int64_t& axis : chosen) axis = c.axis(axis, x.rank());
  const size_t scales = old ? 1 : 2;
  const bool sized = !old && c.given(3) && c.shape(3).numel() > 0;
  std::vector<Axis> axes =
      sized ? by_sizes(c, x.shape(), chosen, c.ints(3)) : by_scales(c, x.shape(), chosen, c.numbers(scales));
  if (m.coordinates == "tf_crop_and_resize") {
    const std::vector<double> roi = c.numbers(1);
    if (roi.size() != 2 * chosen.size()) c.fail("roi has not two numbers for each axis");
    for (size_t i = 0; i < chosen.size(); ++i) {
      axes[static_cast<size_t>(chosen[i])].roi_start = roi[i];
      axes[static_cast<size_t>(chosen[i])].roi_end = roi[i + chosen.size()];
    }
  }
  c.out(resized(c, m, x, axes), c.type(0));
}

void upsample(Call& c) {
  const Tensor x = c.tensor(0);
  const Manner m{c.text("mode", "nearest"), "asymmetric", "floor", -0.75, 0, false, false};
  std::vector<int64_t> all;
  for (int64_t i = 0; i < x.rank(); ++i) all.push_back(i);
  c.out(resized(c, m, x, by_scales(c, x.shape(), all, c.opset() < 9 ? c.reals("scales") : c.numbers(1))), c.type(0));
}

}  // namespace heddle::onnx::build
