// Builders of rows.inc: constants, views, pieces and joints.
#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/graph/node.h"
#include "heddle/onnx/export/rows.h"

namespace heddle::onnx::write {
namespace {

constexpr int64_t far = std::numeric_limits<int64_t>::max();

Sizes with_ones(const Size& first, size_t ones) {
  Sizes shape(ones + 1, Size(1));
  shape[0] = first;
  return shape;
}

// Start, end and step of the axes that are cut.
struct Cut {
  Sizes starts, ends;
  std::vector<int64_t> axes, steps;

  void add(size_t axis, const Size& start, const Size& count, int64_t step, const Size& size) {
    axes.push_back(static_cast<int64_t>(axis));
    steps.push_back(step);
    starts.push_back(start);
    const Size end = start + (count - 1) * step + (step > 0 ? 1 : -1);
    const bool to_the_end = step == 1 && start + count == size;
    const bool to_the_beginning = step < 0 && end.fixed() && end.number() < 0;
    ends.push_back(to_the_end ? Size(far) : to_the_beginning ? Size(-far) : count == Size(0) ? start : end);
  }
};

std::string cut(RowCall& c, const Cut& cut) {
  if (cut.axes.empty()) return c.full(0);
  return c.node("Slice", {c.full(0), c.writer.sizes(cut.starts), c.writer.sizes(cut.ends), c.writer.wholes(cut.axes),
                          c.writer.wholes(cut.steps)});
}

}  // namespace

void same(RowCall& c) { c.out(c.lazy(0)); }

void cast(RowCall& c) {
  const auto to = static_cast<int64_t>(type_of(c.vertex.dtype));
  c.out(Given{c.node("Cast", {c.lazy(0).name}, {{"to", {to}}}), c.lazy(0).shape});
}

// One number, which broadcasts.
void full(RowCall& c) { c.out(Given{c.writer.number(c.vertex.real, c.vertex.dtype), {}}); }

// The numbers along the axis; the others broadcast.
void iota(RowCall& c) {
  const auto axis = static_cast<size_t>(c.axis());
  const Size& count = c.vertex.shape[axis];
  const size_t behind = c.vertex.shape.size() - axis - 1;
  const double start = c.vertex.real, step = c.vertex.real2;
  const DType t = c.vertex.dtype;
  if (count.fixed()) {
    std::vector<double> values;
    for (int64_t i = 0; i < count.number(); ++i) values.push_back(start + step * static_cast<double>(i));
    const Shape shape(numbers_of(with_ones(count, behind)));
    const HostTensor host = is_float(t) ? HostTensor::of_reals(type_of(t), shape, values)
                                        : HostTensor::of_ints(type_of(t), shape, {values.begin(), values.end()});
    return c.out(Given{c.writer.constant(host, "numbers"), with_ones(count, behind)});
  }
  const std::string places = c.node("Range", {c.writer.whole(0), c.writer.whole(count), c.writer.whole(1)});
  std::string value = c.node("Cast", {places}, {{"to", {static_cast<int64_t>(type_of(t))}}});
  if (step != 1) value = c.node("Mul", {value, c.writer.number(step, t)});
  if (start != 0) value = c.node("Add", {value, c.writer.number(start, t)});
  c.out(Given{c.writer.reshaped(c.level, value, {count}, with_ones(count, behind)), with_ones(count, behind)});
}

// Ones in front change nothing for what broadcasts.
void reshape(RowCall& c) {
  const Sizes &from = c.in(0).shape, &to = c.vertex.shape;
  const Given& given = c.lazy(0);
  if (given.shape.empty()) return c.out(given);
  const bool grown = to.size() > from.size() &&
                     std::equal(from.begin(), from.end(), to.end() - static_cast<ptrdiff_t>(from.size())) &&
                     std::all_of(to.begin(), to.end() - static_cast<ptrdiff_t>(from.size()),
                                 [](const Size& s) { return s == Size(1); });
  if (grown) return c.out(given);
  c.out(c.writer.reshaped(c.level, c.full(0), from, to));
}

void permute(RowCall& c) {
  if (c.lazy(0).shape.empty()) return c.out(c.lazy(0));
  c.out(c.node("Transpose", {c.full(0)}, {{"perm", {c.numbers()}}}));
}

void slice(RowCall& c) {
  const Sizes& from = c.in(0).shape;
  Cut parts;
  for (size_t i = 0; i < from.size(); ++i) {
    const Size &start = c.vertex.ints[i], &step = c.vertex.ints[from.size() + i], &count = c.vertex.shape[i];
    if (start == Size(0) && step == Size(1) && count == from[i]) continue;
    // One element lies anywhere, whatever the step.
    parts.add(i, start, count, count == Size(1) || !step.fixed() ? 1 : step.number(), from[i]);
  }
  c.out(cut(c, parts));
}

void flip(RowCall& c) {
  std::vector<int64_t> starts(c.vertex.ints.size(), -1), ends(starts.size(), -far), steps(starts.size(), -1);
  c.out(c.node("Slice", {c.full(0), c.writer.wholes(starts), c.writer.wholes(ends), c.writer.wholes(c.numbers()),
                         c.writer.wholes(steps)}));
}

void pad(RowCall& c) {
  Sizes amounts = c.vertex.ints;
  const size_t rank = amounts.size();
  for (size_t i = 0; i < rank; ++i) amounts.push_back(c.vertex.shape[i] - c.in(0).shape[i] - c.vertex.ints[i]);
  std::vector<std::string> inputs{c.full(0), c.writer.sizes(amounts)};
  inputs.push_back(c.writer.number(c.vertex.real, c.vertex.dtype));
  c.out(c.node("Pad", std::move(inputs)));
}

void concat(RowCall& c) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < c.count(); ++i) parts.push_back(c.full(i));
  c.out(c.node("Concat", std::move(parts), {{"axis", {int64_t{c.axis()}}}}));
}

void take(RowCall& c) { c.out(c.node("Gather", {c.full(0), c.full(1)}, {{"axis", {int64_t{c.axis()}}}})); }

void gather(RowCall& c) { c.out(c.node("GatherElements", {c.full(0), c.full(1)}, {{"axis", {int64_t{c.axis()}}}})); }

void scatter_rows(RowCall& c) {
  const std::string wide = c.node("Cast", {c.full(1)}, {{"to", {static_cast<int64_t>(Type::i64)}}});
  const std::string rows = c.node("Unsqueeze", {wide, c.writer.wholes({1})});
  c.out(c.node("ScatterND", {c.full(0), rows, c.full(2)}, {{"reduction", {std::string("add")}}}));
}

// ---- reductions

namespace {

// ReduceSum takes its axes as an input, the others only since opset 18.
void reduce(RowCall& c, const std::string& op, std::vector<int64_t> axes, bool keep = false) {
  std::map<std::string, Attribute> attributes{{"keepdims", {int64_t{keep}}}};
  std::vector<std::string> inputs{c.full(0)};
  if (op == "ReduceSum" || c.writer.opset() >= 18)
    inputs.push_back(c.writer.wholes(axes));
  else
    attributes["axes"] = {std::move(axes)};
  c.out(c.node(op, std::move(inputs), std::move(attributes)));
}

void arg(RowCall& c, const std::string& op) {
  c.out(c.node(op, {c.full(0)}, {{"axis", {int64_t{c.axis()}}}, {"keepdims", {int64_t{0}}}}));
}

void along(RowCall& c, const std::string& op) { c.out(c.node(op, {c.full(0)}, {{"axis", {int64_t{c.axis()}}}})); }

}  // namespace

void reduce_sum(RowCall& c) { reduce(c, "ReduceSum", c.numbers()); }
void reduce_prod(RowCall& c) { reduce(c, "ReduceProd", c.numbers()); }
void reduce_max(RowCall& c) { reduce(c, "ReduceMax", c.numbers()); }
void reduce_min(RowCall& c) { reduce(c, "ReduceMin", c.numbers()); }
void logsumexp(RowCall& c) { reduce(c, "ReduceLogSumExp", {int64_t{c.axis()}}); }
void arg_max(RowCall& c) { arg(c, "ArgMax"); }
void arg_min(RowCall& c) { arg(c, "ArgMin"); }
void softmax(RowCall& c) { along(c, "Softmax"); }
void log_softmax(RowCall& c) { along(c, "LogSoftmax"); }

void mean(RowCall& c) {
  std::vector<int64_t> axes = c.numbers();
  const bool keep = axes[0] != 0;
  axes.erase(axes.begin());
  reduce(c, "ReduceMean", std::move(axes), keep);
}

void argsort(RowCall& c) {
  const std::vector<std::string> results =
      c.writer.node(c.level, "TopK", {c.full(0), c.writer.sizes({c.vertex.ints[1]})},
                    {{"largest", {c.vertex.ints[0].number()}}, {"sorted", {int64_t{1}}}}, 2);
  c.out(c.node("Cast", {results[1]}, {{"to", {static_cast<int64_t>(type_of(c.vertex.dtype))}}}));
}

void cumsum(RowCall& c) {
  c.out(c.node("CumSum", {c.full(0), c.writer.whole(c.axis())},
               {{"exclusive", {c.vertex.ints[1].number()}}, {"reverse", {c.vertex.ints[2].number()}}}));
}

}  // namespace heddle::onnx::write
