// Builders of gather.inc.
#include <algorithm>
#include <cmath>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

Tensor count_up(const Call& c, int64_t count) {
  return arange(0, static_cast<double>(count), 1, DType::i64, &c.device());
}

// Tuples (..., k) of places in the first k axes of `shape`, from `batch` on, as places in those axes laid out in a row.
Tensor flat_places(const Tensor& tuples, const Shape& shape, int batch) {
  const int64_t depth = tuples.dim(-1);
  Tensor flat;
  for (int64_t i = 0; i < depth; ++i) {
    const int64_t size = shape[batch + static_cast<int>(i)];
    Tensor at = heddle::cast(select(tuples, -1, i), DType::i64);
    at = heddle::where(at < 0.0, at + static_cast<double>(size), at);
    flat = flat.defined() ? flat * static_cast<double>(size) + at : at;
  }
  return flat;
}

ScatterReduction reduction_of(const std::string& name) {
  if (name == "add") return ScatterReduction::sum;
  if (name == "mul") return ScatterReduction::prod;
  return name == "max" ? ScatterReduction::amax : ScatterReduction::amin;
}

int64_t product(const Shape& shape, int from, int to) {
  int64_t result = 1;
  for (int i = from; i < to; ++i) result *= shape[i];
  return result;
}

}  // namespace

void gather(Call& c) {
  const Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", 0), x.rank());
  if (c.value(1).is_fixed() && c.shape(1).numel() == 1) {
    const int64_t size = x.dim(axis), written = c.whole(1), at = written < 0 ? written + size : written;
    if (at >= 0 && at < size) {  // one place that the file names is a view
      Shape shape;
      for (int d = 0; d < axis; ++d) shape.push_back(x.dim(d));
      for (int d = 0; d < c.rank(1); ++d) shape.push_back(1);
      for (int d = axis + 1; d < x.rank(); ++d) shape.push_back(x.dim(d));
      return c.out(heddle::reshape(heddle::narrow(x, axis, at, 1), shape), c.type(0));
    }
  }
  c.out(take(x, c.tensor(1), axis), c.type(0));
}

void gather_elements(Call& c) {
  const Tensor x = c.tensor(0);
  c.out(heddle::gather(x, c.axis(c.integer("axis", 0), x.rank()), c.tensor(1)), c.type(0));
}

// Batch and indexed axes become one each, so that a single take() finds the rows.
void gather_nd(Call& c) {
  const Tensor x = c.tensor(0), indices = c.tensor(1);
  const int batch = static_cast<int>(c.integer("batch_dims", 0));
  if (batch < 0 || batch >= std::min(x.rank(), indices.rank()) || batch + indices.dim(-1) > x.rank())
    c.fail("batch_dims and the last axis of the indices do not fit");
  const int depth = static_cast<int>(indices.dim(-1)), last = indices.rank() - 1;
  const int64_t batches = product(x.shape(), 0, batch), block = product(x.shape(), batch, batch + depth);
  Tensor flat = flat_places(indices, x.shape(), batch);
  if (batches > 1) {
    Shape spread;
    for (int i = 0; i < last; ++i) spread.push_back(i < batch ? x.dim(i) : 1);
    flat = flat + heddle::reshape(count_up(c, batches) * static_cast<double>(block), spread);
  }
  Shape shape;
  for (int i = 0; i < last; ++i) shape.push_back(indices.dim(i));
  for (int i = batch + depth; i < x.rank(); ++i) shape.push_back(x.dim(i));
  const Tensor rows = heddle::reshape(x, Shape{batches * block, product(x.shape(), batch + depth, x.rank())});
  c.out(heddle::reshape(take(rows, heddle::reshape(flat, Shape{flat.numel()}), 0), shape), c.type(0));
}

void scatter_elements(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0), updates = c.tensor(2);
  const int axis = c.axis(c.integer("axis", 0), x.rank());
  Tensor indices = heddle::cast(c.tensor(1), DType::i64);
  indices = heddle::where(indices < 0.0, indices + static_cast<double>(x.dim(axis)), indices);
  const std::string how = c.text("reduction", "none");
  if (how == "none") return c.out(heddle::scatter(x, axis, indices, updates), type);
  c.out(wrap(scatter_reduce(x, axis, indices, updates, reduction_of(how)), type), type);
}

void scatter_nd(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0), indices = c.tensor(1), updates = c.tensor(2);
  const int depth = static_cast<int>(indices.dim(-1));
  if (depth > x.rank()) c.fail("the last axis of the indices is longer than the data have axes");
  const int64_t rows = product(x.shape(), 0, depth), columns = product(x.shape(), depth, x.rank());
  const Tensor flat = flat_places(indices, x.shape(), 0), table = heddle::reshape(x, Shape{rows, columns});
  const Tensor at = heddle::reshape(flat, Shape{flat.numel()}),
               source = heddle::reshape(updates, Shape{flat.numel(), columns});
  const std::string how = c.text("reduction", "none");
  const Tensor result =
      how == "none" ? index_copy(table, 0, at, source) : index_reduce(table, 0, at, source, reduction_of(how));
  c.out(wrap(heddle::reshape(result, x.shape()), type), type);
}

// Rows of a cache: those of a sequence of updates are written from write_indices[batch] on.
void tensor_scatter(Call& c) {
  const Tensor cache = c.tensor(0), update = c.tensor(1);
  const int axis = c.axis(c.integer("axis", -2), cache.rank());
  if (axis == 0) c.fail("axis 0 is that of the batch");
  const int64_t length = update.dim(axis);
  Tensor at = count_up(c, length);
  if (c.given(2)) at = heddle::unsqueeze(heddle::cast(c.tensor(2), DType::i64), 1) + at;
  if (!c.given(2)) at = heddle::unsqueeze(at, 0);
  if (c.text("mode", "linear") == "circular") at = heddle::mod(at, static_cast<double>(cache.dim(axis)));
  Shape shape;
  for (int i = 0; i < cache.rank(); ++i) shape.push_back(i == axis ? length : i == 0 ? at.dim(0) : 1);
  const Tensor spread = broadcast_to(heddle::reshape(at, shape), update.shape());
  c.out(heddle::scatter(cache, axis, spread, update), c.type(0));
}

void one_hot(Call& c) {
  const Tensor indices = c.tensor(0), values = c.tensor(2);
  const std::vector<double> told = c.numbers(1);
  if (told.size() != 1 || !(std::abs(told[0]) < 0x1p48)) c.fail("its depth is no size");
  const auto depth = static_cast<int64_t>(told[0]);
  const int axis = c.axis(c.integer("axis", -1), indices.rank() + 1);
  Tensor at = heddle::cast(indices, DType::i64);
  at = heddle::where(at < 0.0, at + static_cast<double>(depth), at);
  Shape spread;
  for (int i = 0; i <= indices.rank(); ++i) spread.push_back(i == axis ? depth : 1);
  const Tensor hit = heddle::eq(heddle::unsqueeze(at, axis), heddle::reshape(count_up(c, depth), spread));
  c.out(heddle::where(hit, select(values, 0, 1), select(values, 0, 0)), c.type(2));
}

void non_zero(Call& c) {
  c.note_wait();
  const Tensor x = c.tensor(0);
  c.out(heddle::transpose(nonzero(x.rank() == 0 ? heddle::reshape(x, Shape{1}) : x), 0, 1));
}

void compress(Call& c) {
  c.note_wait();
  Tensor x = c.tensor(0);
  int axis = 0;
  if (c.has("axis"))
    axis = c.axis(c.integer("axis"), x.rank());
  else
    x = ravel(x);
  Tensor condition = ravel(c.tensor(1));
  if (condition.numel() > x.dim(axis)) condition = narrow(condition, 0, 0, x.dim(axis));
  const Tensor rows = heddle::reshape(nonzero(condition), {-1});
  c.out(index_select(x, axis, rows), c.type(0));
}

namespace {

// For rows that are in order: how many places each of (n) takes when equal ones share theirs.
struct Runs {
  Tensor number;  // (n) i64: that of its run
  int64_t count = 0;
};

// Equal elements of ordered rows (n, m) follow each other.
Runs runs_of(const Tensor& rows) {
  const int64_t n = rows.dim(0);
  if (n == 0) return {zeros(Shape{0}, DType::i64, &rows.device()), 0};
  const Tensor differs = heddle::any(heddle::ne(narrow(rows, 0, 1, n - 1), narrow(rows, 0, 0, n - 1)), {1});
  const Tensor first = zeros(Shape{1}, DType::boolean, &rows.device());
  const Tensor number = cumsum(heddle::cast(heddle::concat({first, differs}, 0), DType::i64), 0);
  return {number, select(number, 0, n - 1).item<int64_t>() + 1};
}

// Places that put rows (n, m) in order: by the last column first, each time keeping what was.
Tensor order_of(const Tensor& rows) {
  Tensor order = arange(0, static_cast<double>(rows.dim(0)), 1, DType::i64, &rows.device());
  for (int64_t column = rows.dim(1) - 1; column >= 0; --column)
    order = index_select(order, 0, argsort(index_select(select(rows, 1, column), 0, order), 0));
  return order;
}

}  // namespace

// Rows are put in order; the first of equal ones, in the order of the input, stands for them.
void unique(Call& c) {
  c.note_wait();
  const Type type = c.type(0);
  const Tensor given = c.tensor(0);
  const Tensor x = c.has("axis") ? given : ravel(given);
  const int axis = c.has("axis") ? c.axis(c.integer("axis"), x.rank()) : 0;
  const int64_t n = x.dim(axis);
  const Tensor moved = moveaxis(x, axis, 0);
  const Tensor rows = in_order(heddle::reshape(moved, Shape{n, n == 0 ? 0 : x.numel() / n}), type);
  const Tensor order = order_of(rows);
  const Runs runs = runs_of(index_select(rows, 0, order));
  const Tensor inverse_of_order = argsort(order, 0);
  Tensor inverse = index_select(runs.number, 0, inverse_of_order);
  Tensor first = scatter_reduce(full(Shape{runs.count}, static_cast<double>(n), DType::i64, &c.device()), 0, inverse,
                                count_up(c, n), ScatterReduction::amin);
  if (c.integer("sorted", 1) == 0) {
    const Tensor by_place = argsort(first, 0);
    inverse = index_select(argsort(by_place, 0), 0, inverse);
    first = index_select(first, 0, by_place);
  }
  c.out(index_select(x, axis, first), type);
  c.out(first);
  c.out(inverse);
  c.out(bincount(inverse, runs.count));
}

}  // namespace heddle::onnx::build
