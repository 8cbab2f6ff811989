// Builders of shape.inc.
#include <algorithm>

#include "heddle/onnx/ops/build.h"
#include "heddle/onnx/ops/shapes.h"

namespace heddle::onnx::build {
namespace {

Tensor cut(const Tensor& x, const std::vector<shapes::Range>& ranges) {
  Tensor result = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const shapes::Range& r = ranges[static_cast<size_t>(axis)];
    if (r.start == 0 && r.step == 1 && r.count == x.dim(axis)) continue;
    if (r.count == 0) {
      result = narrow(result, axis, 0, 0);
    } else if (r.step > 0) {
      const int64_t stop = r.start + (r.count - 1) * r.step + 1;
      result = heddle::slice(result, axis, {r.start, stop, r.count == 1 ? 1 : r.step});
    } else {
      const int64_t first = r.start + (r.count - 1) * r.step;
      result = heddle::flip(heddle::slice(result, axis, {first, r.start + 1, r.count == 1 ? 1 : -r.step}), {axis});
    }
  }
  return result;
}

Value host(const HostTensor& tensor) { return Value::fixed(tensor); }

}  // namespace

void constant(Call& c) { c.out(host(shapes::constant(c))); }

void shape(Call& c) {
  const Shape& from = c.shape(0);
  const int64_t rank = from.rank();
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = place(c.integer("start", 0)), end = place(c.integer("end", rank));
  std::vector<int64_t> sizes;
  for (int64_t i = start; i < end; ++i) sizes.push_back(from[static_cast<int>(i)]);
  c.out(host(HostTensor::of_ints(Type::i64, Shape{static_cast<int64_t>(sizes.size())}, sizes)));
}

void size(Call& c) { c.out(host(HostTensor::of_ints(Type::i64, Shape{}, {c.shape(0).numel()}))); }

void reshape(Call& c) { c.out(heddle::reshape(c.tensor(0), shapes::reshaped(c, c.shape(0), c.ints(1))), c.type(0)); }
void flatten(Call& c) { c.out(heddle::reshape(c.tensor(0), shapes::flattened(c, c.shape(0))), c.type(0)); }
void squeeze(Call& c) {
  c.out(heddle::reshape(c.tensor(0), shapes::squeezed(c, c.shape(0), c.list("axes", 1))), c.type(0));
}
void unsqueeze(Call& c) {
  const std::optional<std::vector<int64_t>> axes = c.list("axes", 1);
  if (!axes) c.fail("has no axes");
  c.out(heddle::reshape(c.tensor(0), shapes::unsqueezed(c, c.shape(0), *axes)), c.type(0));
}
void transpose(Call& c) { c.out(permute(c.tensor(0), shapes::permutation(c, c.rank(0))), c.type(0)); }

void expand(Call& c) {
  const Shape target = broadcast_shapes(c.shape(0), shapes::checked(c, c.ints(1)), "onnx");
  c.out(broadcast_to(c.tensor(0), target), c.type(0));
}

void tile(Call& c) {
  const std::vector<int64_t> repeats = c.ints(1);
  if (repeats.size() != static_cast<size_t>(c.rank(0))) c.fail("one number of copies for each axis is needed");
  c.out(heddle::repeat(c.tensor(0), repeats), c.type(0));
}

void concat(Call& c) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < c.count(); ++i) parts.push_back(c.tensor(i));
  if (parts.empty()) c.fail("has no inputs");
  c.out(heddle::concat(parts, c.axis(c.integer("axis", c.opset() < 4 ? std::optional<int64_t>(1) : std::nullopt),
                                     parts[0].rank())),
        c.type(0));
}

void split(Call& c) {
  const Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", 0), x.rank());
  for (const Tensor& part : heddle::split(x, shapes::split(c, x.dim(axis), c.list("split", 1)), axis))
    c.out(part, c.type(0));
}

void slice(Call& c) {
  const bool old = c.opset() < 10;
  const std::vector<int64_t> starts = old ? c.integers("starts") : c.ints(1),
                             ends = old ? c.integers("ends") : c.ints(2);
  const std::optional<std::vector<int64_t>> steps = c.given(4) ? std::optional(c.ints(4)) : std::nullopt;
  c.out(cut(c.tensor(0), shapes::slices(c, c.shape(0), starts, ends, c.list("axes", 3), steps)), c.type(0));
}

void constant_of_shape(Call& c) {
  const Shape shape = shapes::checked(c, c.ints(0));
  const HostTensor* value = c.attribute_tensor("value");
  if (value && value->shape.numel() != 1) c.fail("value has not one element");
  const HostTensor element = value ? *value : HostTensor::of_reals(Type::f32, Shape{}, {0});
  c.out(broadcast_to(heddle::reshape(c.constant(element), Shape{}), shape), element.type);
}

void range(Call& c) {
  const Type type = c.type(0);
  const double start = c.numbers(0).at(0), limit = c.numbers(1).at(0), step = c.numbers(2).at(0);
  if (step == 0) c.fail("the step is 0");
  const int64_t count = shapes::range_count(start, limit, step);
  if (count > int64_t{1} << 48) c.fail("it has more elements than any memory holds");
  const Tensor places = arange(0, static_cast<double>(count), 1, storage(type), &c.device());
  c.out(places * heddle::reshape(c.tensor(2), Shape{}) + heddle::reshape(c.tensor(0), Shape{}), type);
}

void eye_like(Call& c) {
  const Shape& from = c.shape(0);
  if (from.rank() != 2) c.fail("takes a matrix");
  const Type type = static_cast<Type>(c.integer("dtype", static_cast<int64_t>(c.type(0))));
  const int64_t rows = from[0], columns = from[1], k = c.integer("k", 0);
  const Tensor row = heddle::unsqueeze(arange(0, static_cast<double>(rows), 1, DType::i64, &c.device()), 1);
  const Tensor column = arange(0, static_cast<double>(columns), 1, DType::i64, &c.device());
  c.out(heddle::cast(heddle::eq(column - row, static_cast<double>(k)), storage(type)), type);
}

void trilu(Call& c) {
  const int64_t k = c.given(1) ? c.whole(1) : 0;
  c.out(c.integer("upper", 1) != 0 ? triu(c.tensor(0), k) : tril(c.tensor(0), k), c.type(0));
}

void depth_to_space(Call& c) {
  const Tensor x = c.tensor(0);
  const int64_t b = c.integer("blocksize");
  if (x.rank() != 4 || b < 1 || x.dim(1) % (b * b) != 0) c.fail("takes (N, C b b, H, W)");
  const int64_t n = x.dim(0), depth = x.dim(1) / (b * b), h = x.dim(2), w = x.dim(3);
  const bool depth_last = c.text("mode", "DCR") == "DCR";
  const Tensor parts = heddle::reshape(x, depth_last ? Shape{n, b, b, depth, h, w} : Shape{n, depth, b, b, h, w});
  const Tensor moved =
      permute(parts, depth_last ? std::vector<int>{0, 3, 4, 1, 5, 2} : std::vector<int>{0, 1, 4, 2, 5, 3});
  c.out(heddle::reshape(moved, Shape{n, depth, h * b, w * b}), c.type(0));
}

void space_to_depth(Call& c) {
  const Tensor x = c.tensor(0);
  const int64_t b = c.integer("blocksize");
  if (x.rank() != 4 || b < 1 || x.dim(2) % b != 0 || x.dim(3) % b != 0) c.fail("takes (N, C, H b, W b)");
  const int64_t n = x.dim(0), depth = x.dim(1), h = x.dim(2) / b, w = x.dim(3) / b;
  const bool depth_last = c.text("mode", "DCR") == "DCR";
  const Tensor moved = permute(heddle::reshape(x, Shape{n, depth, h, b, w, b}),
                               depth_last ? std::vector<int>{0, 3, 5, 1, 2, 4} : std::vector<int>{0, 1, 3, 5, 2, 4});
  c.out(heddle::reshape(moved, Shape{n, b * b * depth, h, w}), c.type(0));
}

void reverse_sequence(Call& c) {
  const Tensor x = c.tensor(0), lengths = c.tensor(1);
  const int batch = c.axis(c.integer("batch_axis", 1), x.rank()), time = c.axis(c.integer("time_axis", 0), x.rank());
  if (batch + time != 1) c.fail("batch and time must be the first two axes");
  const int64_t steps = x.dim(time);
  Tensor at = heddle::unsqueeze(arange(0, static_cast<double>(steps), 1, DType::i64, &c.device()), batch);
  const Tensor length = heddle::unsqueeze(heddle::cast(lengths, DType::i64), time);
  at = heddle::where(at < length, length - 1.0 - at, at);
  for (int axis = 2; axis < x.rank(); ++axis) at = heddle::unsqueeze(at, -1);
  c.out(take_along_axis(x, at, time), c.type(0));
}

void center_crop_pad(Call& c) {
  Tensor x = c.tensor(0);
  const std::vector<int64_t> sizes = c.ints(1);
  std::vector<int64_t> axes = c.integers("axes");
  if (axes.empty()) {
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  if (axes.size() != sizes.size()) c.fail("one size for each axis is needed");
  for (size_t i = 0; i < axes.size(); ++i) {
    const int axis = c.axis(axes[i], x.rank());
    const int64_t size = x.dim(axis), missing = sizes[i] - size;
    if (sizes[i] < 0) c.fail("a size is negative");
    if (missing < 0) x = narrow(x, axis, -missing / 2, sizes[i]);
    if (missing <= 0) continue;
    std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(x.rank()), {0, 0});
    amounts[static_cast<size_t>(axis)] = {missing / 2, missing - missing / 2};
    x = heddle::pad(x, amounts);
  }
  c.out(x, c.type(0));
}

namespace {

using Amounts = std::vector<std::pair<int64_t, int64_t>>;

// Negative amounts cut; what is left are those to add.
Tensor cropped(const Tensor& x, Amounts& amounts) {
  Tensor result = x;
  for (int axis = 0; axis < x.rank(); ++axis) {
    auto& [before, after] = amounts[static_cast<size_t>(axis)];
    const int64_t from = std::max<int64_t>(0, -before), less = from + std::max<int64_t>(0, -after);
    if (less > 0) result = narrow(result, axis, from, std::max<int64_t>(result.dim(axis) - less, 0));
    before = std::max<int64_t>(before, 0);
    after = std::max<int64_t>(after, 0);
  }
  return result;
}

}  // namespace

void pad(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0);
  const bool old = c.opset() < 11;
  const std::vector<int64_t> pads = old ? c.integers("pads") : c.ints(1);
  std::vector<int64_t> axes;
  if (c.given(3)) axes = c.ints(3);
  if (!c.given(3)) {
    for (int64_t i = 0; i < x.rank(); ++i) axes.push_back(i);
  }
  if (pads.size() != 2 * axes.size()) c.fail("pads have not two numbers for each axis");
  Amounts amounts(static_cast<size_t>(x.rank()), {0, 0});
  for (size_t i = 0; i < axes.size(); ++i)
    amounts[static_cast<size_t>(c.axis(axes[i], x.rank()))] = {pads[i], pads[i + axes.size()]};
  const Tensor inner = cropped(x, amounts);
  const std::string mode = c.text("mode", "constant");
  if (mode == "reflect") return c.out(heddle::pad(inner, amounts, PadMode::reflect), type);
  if (mode == "edge") return c.out(heddle::pad(inner, amounts, PadMode::replicate), type);
  if (mode == "wrap") return c.out(heddle::pad(inner, amounts, PadMode::circular), type);
  if (old || !c.given(2)) return c.out(heddle::pad(inner, amounts, old ? c.real("value", 0) : 0), type);
  if (c.known(2)) {
    const double value = c.numbers(2).at(0);
    if (onnx::is_float(type) || std::abs(value) < 9007199254740992.0)
      return c.out(heddle::pad(inner, amounts, value), type);
  }
  const Tensor inside = heddle::pad(ones(inner.shape(), DType::boolean, &c.device()), amounts);
  c.out(heddle::where(inside, heddle::pad(inner, amounts), heddle::reshape(c.tensor(2), Shape{})), type);
}

}  // namespace heddle::onnx::build
