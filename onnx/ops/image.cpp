// Builders of image.inc but for resampling (resize.cpp).
#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/functions/control/control.h"
#include "heddle/onnx/ops/build.h"
#include "heddle/onnx/ops/columns.h"
#include "heddle/onnx/ops/volume.h"

namespace heddle::onnx::build {
namespace {

Tensor places(const Call& c, int64_t count, DType dtype = DType::f32) {
  return arange(0, static_cast<double>(count), 1, dtype, &c.device());
}

}  // namespace

void grid_sample(Call& c) {
  const Tensor x = c.tensor(0);
  if (x.rank() != 4 && x.rank() != 5) c.unsupported("images of other than two or three dimensions");
  GridOptions options;
  const std::string mode = c.text("mode", c.opset() < 20 ? "bilinear" : "linear"),
                    padding = c.text("padding_mode", "zeros");
  options.mode = mode == "nearest"         ? Interpolation::nearest
                 : mode.ends_with("cubic") ? Interpolation::cubic
                                           : Interpolation::linear;
  options.padding = padding == "zeros"    ? GridPadding::zeros
                    : padding == "border" ? GridPadding::border
                                          : GridPadding::reflection;
  options.align_corners = c.integer("align_corners", 0) != 0;
  if (x.rank() == 5) return c.out(volume_sample(c, x, c.tensor(1), options), c.type(0));
  c.out(heddle::grid_sample(x, c.tensor(1), options), c.type(0));
}

void affine_grid(Call& c) {
  const std::vector<int64_t> size = c.ints(1);
  const bool align = c.integer("align_corners", 0) != 0;
  if (size.size() == 5) return c.out(volume_grid(c, c.tensor(0), size, align), c.type(0));
  if (size.size() != 4) c.unsupported("images of other than two or three dimensions");
  c.out(heddle::affine_grid(c.tensor(0), size, align), c.type(0));
}

namespace {

void columns_of_any_rank(Call& c, const std::vector<int64_t>& size, const std::vector<int64_t>& block) {
  const size_t rank = size.size();
  const auto numbers = [&](const char* name, size_t count, int64_t otherwise) {
    std::vector<int64_t> given = c.integers(name);
    if (given.empty()) given.assign(count, otherwise);
    if (given.size() != count) c.fail("strides, dilations or pads are not of each axis");
    return given;
  };
  const std::vector<int64_t> strides = numbers("strides", rank, 1), dilations = numbers("dilations", rank, 1),
                             pads = numbers("pads", 2 * rank, 0);
  std::vector<BlockAxis> axes;
  for (size_t d = 0; d < rank; ++d)
    axes.push_back({size[d], block[d], strides[d], dilations[d], pads[d], pads[rank + d]});
  c.out(add_blocks(c, c.tensor(0), axes), c.type(0));
}

}  // namespace

void col_to_image(Call& c) {
  const std::vector<int64_t> size = c.ints(1), block = c.ints(2), pads = c.integers("pads");
  if (size.empty() || size.size() > 3 || block.size() != size.size())
    c.unsupported("images of other than one to three dimensions");
  if (size.size() != 2) return columns_of_any_rank(c, size, block);
  UnfoldOptions options;
  if (c.has("dilations")) options.dilation = c.integers("dilations");
  if (c.has("strides")) options.stride = c.integers("strides");
  std::vector<int64_t> p = pads.empty() ? std::vector<int64_t>{0, 0, 0, 0} : pads;
  if (p.size() != 4) c.fail("pads have not two numbers for each axis");
  const Tensor y = heddle::fold(c.tensor(0), {size[0] + p[0] + p[2], size[1] + p[1] + p[3]}, block, options);
  c.out(narrow(narrow(y, 2, p[0], size[0]), 3, p[1], size[1]), c.type(0));
}

namespace {

// Points of a region's bins along one axis: neighbours and weights, (R, bins, samples).
struct Points {
  Tensor low, high, weight;  // places i64; what the higher one counts
  Tensor valid;              // f32: 0 where the point is outside
};

// start, length (R); samples lie in the middle of equal parts of each bin.
Points points_of(const Call& c, const Tensor& start, const Tensor& length, int64_t bins, int64_t samples,
                 int64_t size) {
  const Tensor bin = reshape(places(c, bins), Shape{1, bins, 1}),
               part = reshape(places(c, samples), Shape{1, 1, samples});
  const Tensor step = reshape(length / static_cast<double>(bins), {-1, 1, 1});
  const Tensor at = reshape(start, {-1, 1, 1}) + bin * step + (part + 0.5) * step / static_cast<double>(samples);
  const auto last = static_cast<double>(size - 1);
  const Tensor inside = heddle::logical_and(at >= -1.0, at <= static_cast<double>(size));
  const Tensor held = clamp(at, 0, last);
  const Tensor low = heddle::floor(held), high = minimum(low + 1.0, last);
  return {heddle::cast(low, DType::i64), heddle::cast(high, DType::i64), held - low, heddle::cast(inside, DType::f32)};
}

}  // namespace

// Each sample is read from its image's four neighbours by one take() each; the result is (R, C, bins, bins).
void roi_align(Call& c) {
  const Tensor x = c.tensor(0);
  const Tensor rois = heddle::cast(c.tensor(1), DType::f32);
  const bool half =
      c.text("coordinate_transformation_mode", c.opset() < 16 ? "output_half_pixel" : "half_pixel") == "half_pixel";
  const double scale = c.real("spatial_scale", 1);
  const int64_t h = c.integer("output_height", 1), w = c.integer("output_width", 1),
                samples = c.integer("sampling_ratio", 0);
  if (samples < 1) c.unsupported("sampling_ratio 0, a number of samples that depends on the regions");
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 4) c.fail("takes images (N, C, H, W) and regions (R, 4)");
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3), regions = rois.dim(0);
  const Tensor scaled = rois * scale - (half ? 0.5 : 0.0);
  const auto corner = [&](int64_t i) { return select(scaled, 1, i); };
  const auto length = [&](int64_t from, int64_t to) {
    const Tensor size = corner(to) - corner(from);
    return half ? size : maximum(size, 1.0);
  };
  const Points py = points_of(c, corner(1), length(1, 3), h, samples, height),
               px = points_of(c, corner(0), length(0, 2), w, samples, width);
  const Tensor rows = reshape(permute(x, {0, 2, 3, 1}), Shape{x.dim(0) * height * width, channels});
  const Tensor image =
      reshape(heddle::cast(c.tensor(2), DType::i64), {-1, 1, 1, 1, 1}) * static_cast<double>(height * width);
  const auto tall = [&](const Tensor& t) { return reshape(t, Shape{regions, h, samples, 1, 1}); };
  const auto wide = [&](const Tensor& t) { return reshape(t, Shape{regions, 1, 1, w, samples}); };
  Tensor values;
  const bool largest = c.text("mode", "avg") == "max";
  for (int corner_number = 0; corner_number < 4; ++corner_number) {
    const bool down = (corner_number & 2) != 0, right = (corner_number & 1) != 0;
    const Tensor place =
        image + tall(down ? py.high : py.low) * static_cast<double>(width) + wide(right ? px.high : px.low);
    const Tensor wy = down ? py.weight : 1.0 - py.weight, wx = right ? px.weight : 1.0 - px.weight;
    const Tensor weight = tall(wy * py.valid) * wide(wx * px.valid);
    const Tensor term = take(rows, place, 0) * heddle::cast(unsqueeze(weight, -1), x.dtype());
    values = !values.defined() ? term : largest ? maximum(values, term) : values + term;
  }
  // (R, h, samples, w, samples, C)
  const Tensor y = largest ? heddle::max(values, {2, 4}) : heddle::mean(values, {2, 4});
  c.out(permute(y, {0, 3, 1, 2}), c.type(0));
}

namespace {

// Corners (.., 4) as low y, low x, high y, high x.
std::vector<Tensor> edges(const Tensor& boxes, bool centred) {
  const auto column = [&](int64_t i) { return select(boxes, -1, i); };
  if (centred) {
    const Tensor x = column(0), y = column(1), w = column(2) / 2.0, h = column(3) / 2.0;
    return {y - h, x - w, y + h, x + w};
  }
  return {minimum(column(0), column(2)), minimum(column(1), column(3)), maximum(column(0), column(2)),
          maximum(column(1), column(3))};
}

// Overlap over union of all pairs of boxes: (B, n, n).
Tensor overlaps(const Tensor& boxes, bool centred) {
  const std::vector<Tensor> e = edges(boxes, centred);
  const auto across = [](const Tensor& t) { return unsqueeze(t, 1); };
  const auto along = [](const Tensor& t) { return unsqueeze(t, 2); };
  const Tensor h = maximum(minimum(across(e[2]), along(e[2])) - maximum(across(e[0]), along(e[0])), 0.0);
  const Tensor w = maximum(minimum(across(e[3]), along(e[3])) - maximum(across(e[1]), along(e[1])), 0.0);
  const Tensor area = (e[2] - e[0]) * (e[3] - e[1]), both = h * w;
  const Tensor whole = across(area) + along(area) - both;
  return heddle::where(whole > 0.0, both / whole, zeros_like(both));
}

}  // namespace

// A scan takes the best box that is left, of all batches and classes at once; rows without one are dropped at the end.
void non_max_suppression(Call& c) {
  c.note_wait();
  const Tensor boxes = c.tensor(0), scores = c.tensor(1);
  const int64_t batches = scores.dim(0), classes = scores.dim(1), n = scores.dim(2);
  const int64_t most = std::min(c.given(2) ? c.whole(2) : 0, n);
  const double overlap = c.given(3) ? c.numbers(3).at(0) : 0;
  if (most <= 0 || batches * classes == 0) return c.out(zeros(Shape{0, 3}, DType::i64, &c.device()));
  const double gone = -std::numeric_limits<double>::infinity();
  Tensor left = scores;
  if (c.given(4)) left = heddle::where(scores > c.numbers(4).at(0), scores, gone);
  const Tensor clashes = overlaps(boxes, c.integer("center_point_box", 0) != 0) > overlap;  // (B, n, n)
  const Tensor number = places(c, n, DType::i64);
  const auto once = [&](const std::vector<Tensor>& carry, const std::vector<Tensor>&) {
    const Tensor best = argmax(carry[0], 2, true);  // (B, C, 1)
    const Tensor there = heddle::gather(carry[0], 2, best) > gone;
    const Tensor row = expand(unsqueeze(best, -1), Shape{batches, classes, 1, n});
    const Tensor all = expand(unsqueeze(clashes, 1), Shape{batches, classes, n, n});
    const Tensor out = heddle::logical_or(squeeze(heddle::gather(all, 2, row), 2), heddle::eq(number, best));
    return Scanned{{heddle::where(heddle::logical_and(out, there), gone, carry[0])},
                   {squeeze(heddle::where(there, best, full_like(best, -1)), 2)}};
  };
  ScanOptions options;
  options.length = most;
  const Tensor chosen = heddle::scan(once, {left}, {}, options).ys[0];  // (most, B, C)
  const Tensor flat = ravel(permute(chosen, {1, 2, 0}));
  const Tensor kept = squeeze(nonzero(flat >= 0.0), 1);
  const Tensor class_row = integer_quotient(kept, static_cast<double>(most));
  const Tensor batch = integer_quotient(class_row, static_cast<double>(classes));
  c.out(heddle::stack({batch, heddle::mod(class_row, static_cast<double>(classes)), take(flat, kept, 0)}, 1));
}

}  // namespace heddle::onnx::build
