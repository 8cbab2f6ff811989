// The op cases of what is not an elementwise row: functions of elements, reductions, movement, indices. Products and
// layers: op_cases_networks.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <functional>

#include "checks/op_case_table.h"
#include "heddle/autograd/autograd.h"

namespace heddle::checks {
namespace {

// ---- elementwise functions that are not rows

void add_elementwise(Table& table) {
  const DType types[] = {DType::f32, DType::f16, DType::bf16, DType::f64,    DType::i8,
                         DType::u8,  DType::i32, DType::i64,  DType::boolean};
  for (DType from : types) {
    for (DType to : types) {
      if (from == to) continue;
      InputSpec in = x({33}, from);
      if (is_float(from)) in = range({33}, is_float(to) || to == DType::boolean ? -9.75 : 0, 100, from);
      if (from == DType::u8) in = whole({33}, 0, 255, from);
      if (from == DType::i8 || from == DType::i32 || from == DType::i64) in = whole({33}, -100, 100, from);
      OpCase& c = table.add("cast", fmt::format("to {}", name_of(to)), {in}, [to](In t) { return cast(t[0], to); });
      c.wide_integers = to == DType::i64;
      c.differentiable = is_float(from) && is_float(to);
      c.extra = !(is_float(from) && is_float(to)) && (size_t(from) + size_t(to)) % 3 != 0;
      if (to == DType::f64) c.inputs.push_back(range({0}, 0, 1, DType::f64));  // names the need for f64
    }
  }
  const InputSpec condition = whole({7, 33}, 0, 1, DType::boolean);
  table.add("where", "", {condition, x({7, 33}), x({7, 33})}, [](In t) { return where(t[0], t[1], t[2]); });
  table.add("where", "broadcast", {whole({7, 1}, 0, 1, DType::boolean), x({33}), x({})},
            [](In t) { return where(t[0], t[1], t[2]); });
  table.add("where", "integers", {condition, whole({7, 33}, -50, 50), whole({7, 33}, 0, 255, DType::u8)},
            [](In t) { return where(t[0], t[1], t[2]); });
  table.add("where", "number right", {condition, x({7, 33})}, [](In t) { return where(t[0], t[1], 0.5); });
  table.add("where", "number left", {condition, x({7, 33}, DType::f16)}, [](In t) { return where(t[0], 0.5, t[1]); });
  table.add("clamp", "both", {x({129})}, [](In t) { return clamp(t[0], -0.5, 1.25); });
  table.add("clamp", "low", {special({33})}, [](In t) { return clamp(t[0], 0, {}); }).differentiable = false;
  table.add("clamp", "high", {whole({129}, -90, 90)}, [](In t) { return clamp(t[0], {}, 7); });
  table.add("operators", "arithmetic", {x({7, 3}), range({7, 3}, 1, 2)},
            [](In t) { return (t[0] + 2) * t[1] - t[0] / t[1] + (1 - -t[0]) / 4; });
  table.add("operators", "comparisons", {whole({129}, -3, 3), whole({129}, -3, 3)}, [](In t) {
    return ((t[0] < t[1]) || (t[0] >= 2)) && !(t[0] == t[1]) && (t[1] != 0) && (t[0] <= 2) && (t[1] > -3);
  });
  table.add("operators", "u8 beside a large number", {whole({33}, 0, 255, DType::u8)}, [](In t) { return t[0] + 300; });
  table.add("operators", "i32 beside a fraction", {whole({33}, -9, 9)}, [](In t) { return t[0] * 0.5; });
  table.add("stop_gradient", "", {x({7})}, [](In t) { return stop_gradient(t[0]) * 1; }).differentiable = false;
}

// A chain and a diamond: what fusion makes of several rows.
void add_chains(Table& table) {
  table.add("fusion", "chain", {x({7, 129})}, [](In t) { return tanh(exp(t[0] * 0.5) + 1) * t[0]; });
  table.add("fusion", "reduce in the middle", {x({33, 65})},
            [](In t) { return t[0] / (sum(square(t[0]), {1}, true) + 1); });
  table.add("fusion", "two reductions", {x({33, 65})},
            [](In t) { return (t[0] - mean(t[0], {1}, true)) * rsqrt(var(t[0], {1}, true, 0) + 1e-5); });
  table.add("fusion", "matmul, bias and activation", {x({17, 31}), x({31, 9}), x({9})},
            [](In t) { return gelu(matmul(t[0], t[1]) + t[2]); });
  table.add("fusion", "scaled operands of a matmul", {x({17, 31}), x({31, 9})},
            [](In t) { return matmul(relu(t[0]) * 0.5, transpose(transpose(t[1]) + 1)); });
  table.add("fusion", "sum of a product of a matmul", {x({5, 6}), x({6, 7})},
            [](In t) { return sum(tanh(matmul(t[0], t[1])), {0}); });
  table.add("fusion", "one value used twice", {x({129})}, [](In t) {
    const Tensor e = exp(t[0]);
    return e * sum(e) + e;
  });
}

// ---- order and running sums

void add_order(Table& table) {
  const auto add_scans = [&](std::string_view op, Tensor (*scan)(const Tensor&, int, bool, bool, Caller), double low,
                             double high) {
    const auto f = [scan](const Tensor& t, int axis, bool exclusive, bool reverse) {
      return scan(t, axis, exclusive, reverse, Caller::current());
    };
    table.add(op, "axis 1", {range({7, 33}, low, high)}, [=](In t) { return f(t[0], 1, false, false); });
    table.add(op, "axis 0 exclusive", {range({33, 7}, low, high)}, [=](In t) { return f(t[0], 0, true, false); });
    table.add(op, "axis 1 reverse", {range({2, 40, 3}, low, high)}, [=](In t) { return f(t[0], 1, false, true); });
    table.add(op, "half", {range({65}, low, high, DType::f16)}, [=](In t) { return f(t[0], 0, true, true); });
    table.add(op, "wide", {range({65}, low, high, DType::f64)}, [=](In t) { return f(t[0], 0, false, false); });
    table.add(op, "empty", {range({0, 3}, low, high)}, [=](In t) { return f(t[0], 0, false, false); });
    table.add(op, "integers", {whole({2, 20}, 1, 2)}, [=](In t) { return f(t[0], 1, false, false); }).wide_integers =
        true;
    InputSpec turned = range({5, 17}, low, high);
    turned.layout = Layout::transposed;
    table.add(op, "turned", {turned}, [=](In t) { return f(t[0], 1, false, false); });
  };
  add_scans("cumsum", &cumsum, -2, 2);
  add_scans("cumprod", &cumprod, 0.8, 1.2);
  table.add("cummax", "", {special({3, 65})}, [](In t) { return cummax(t[0], 1).values; });
  table.add("cummax", "places", {special({65, 3})}, [](In t) { return cummax(t[0], 0).indices; }).wide_integers = true;
  table
      .add("cummin", "wide integers", {whole({2, 40}, -5, 5, DType::i64)}, [](In t) { return cummin(t[0], 1).indices; })
      .wide_integers = true;
  table.add("logcumsumexp", "", {range({2, 40, 3}, -60, 60)}, [](In t) { return logcumsumexp(t[0], 1); });
  table.add("logcumsumexp", "wide", {range({65}, -2, 2, DType::f64)}, [](In t) { return logcumsumexp(t[0], 0); });
  table.add("argsort", "", {x({7, 33})}, [](In t) { return argsort(t[0]); }).wide_integers = true;
  table.add("argsort", "ties, descending", {whole({200}, 0, 5)}, [](In t) { return argsort(t[0], 0, true); })
      .wide_integers = true;
  table.add("argsort", "", {special({3, 65})}, [](In t) { return argsort(t[0]); }).wide_integers = true;
  table.add("sort", "axis 0", {x({33, 3})}, [](In t) { return sort(t[0], 0).values; });
  table.add("sort", "strided", {x({4, 30}, DType::f32, Layout::strided)},
            [](In t) { return sort(t[0], 1, true).values; });
  table.add("topk", "", {x({3, 40})}, [](In t) { return topk(t[0], 4).values; });
}

// ---- reductions

using Reduce = Tensor (*)(const Tensor&, std::vector<int>, bool, Caller);

void add_reduction(Table& table, std::string_view op, Reduce reduce, const std::vector<DType>& types) {
  const auto f = [reduce](const Tensor& t, std::vector<int> axes, bool keepdim) {
    return reduce(t, std::move(axes), keepdim, Caller::current());
  };
  const bool empty_allowed = op == "sum" || op == "prod" || op == "mean" || op == "logsumexp";
  const double low = op == "prod" ? 0.8 : -2, high = op == "prod" ? 1.2 : 2;
  // The forms are those of one template; sum goes through all of them, the others through every third.
  const bool all_forms = op == "sum";
  int form = static_cast<int>(op.size());
  const auto add = [&](const Shape& shape, std::vector<int> axes, bool keepdim, Layout layout = Layout::dense) {
    InputSpec in = range(shape, low, high);
    in.layout = layout;
    table
        .add(op, fmt::format("over ({}){}", fmt::join(axes, ", "), keepdim ? " keepdim" : ""), {in},
             [=](In t) { return f(t[0], axes, keepdim); })
        .extra = !all_forms && form++ % 3 != 0;
  };
  add({}, {}, false);
  add({1}, {}, false);
  add({1000}, {}, false);
  add({33, 65}, {1}, false);
  add({33, 65}, {0}, true);
  add({129, 3}, {-1}, true);
  add({3, 5, 7}, {0, 2}, false);
  add({3, 5, 7}, {1}, false);
  add({3, 5, 7}, {0, 1, 2}, true);
  add({2, 3, 4, 5}, {1, 3}, true);
  add({7, 33}, {0}, false, Layout::transposed);
  add({7, 33}, {1}, false, Layout::strided);
  add({7, 33}, {1}, false, Layout::flipped);
  add({7, 33}, {0}, false, Layout::expanded);
  add({0, 5}, {1}, false);
  if (empty_allowed) {
    add({5, 0}, {1}, false);
    add({0}, {}, false);
  }
  table.add(op, "specials", {special({7, 21})}, [=](In t) { return f(t[0], {1}, false); }).differentiable = false;
  table.add(op, "large", {range({3, 5000}, op == "prod" ? 0.999 : low, op == "prod" ? 1.001 : high)},
            [=](In t) { return f(t[0], {1}, false); });
  for (DType t : types) {
    InputSpec in = range({9, 33}, op == "prod" ? 0.9 : -2, op == "prod" ? 1.1 : 2, t);
    if (!is_float(t))
      in = whole({9, 33}, t == DType::u8 || t == DType::boolean ? 0 : -3, t == DType::boolean ? 1 : 3, t);
    OpCase& c = table.add(op, "", {in}, [=](In v) { return f(v[0], {1}, false); });
    c.wide_integers = !is_float(t) && (op == "sum" || op == "prod");
    c.extra = !all_forms && form++ % 2 != 0;
  }
}

void add_reductions(Table& table) {
  const std::vector<DType> all{DType::f16, DType::bf16, DType::f64, DType::i8,
                               DType::u8,  DType::i32,  DType::i64, DType::boolean};
  const std::vector<DType> some{DType::f16, DType::bf16, DType::f64, DType::i32};
  add_reduction(table, "sum", &sum, all);
  add_reduction(table, "prod", &prod, all);
  add_reduction(table, "max", &max, all);
  add_reduction(table, "min", &min, all);
  add_reduction(table, "mean", &mean, some);
  add_reduction(table, "logsumexp", &logsumexp, some);
  add_reduction(
      table, "var",
      [](const Tensor& t, std::vector<int> axes, bool keep, Caller) { return var(t, std::move(axes), keep, 0); }, some);
  table.add("var", "with Bessel's correction", {x({9, 33})}, [](In t) { return var(t[0], {1}); });

  using Arg = Tensor (*)(const Tensor&, std::optional<int>, bool, Caller);
  const std::pair<std::string_view, Arg> args[] = {{"argmax", &argmax}, {"argmin", &argmin}};
  for (const auto& row : args) {
    const auto add = [&table, op = row.first, f = row.second](std::string_view form, InputSpec in,
                                                              std::optional<int> axis, bool keepdim) {
      OpCase& c = table.add(op, form, {std::move(in)},
                            [f, axis, keepdim](In t) { return f(t[0], axis, keepdim, Caller::current()); });
      c.wide_integers = true;
      c.differentiable = false;
    };
    add("flat", x({5, 7}), {}, false);
    add("last axis", x({33, 129}), -1, false);
    add("first axis keepdim", x({33, 9}), 0, true);
    add("flipped", x({7, 33}, DType::f32, Layout::flipped), 1, false);
    add("ties", whole({33, 65}, 0, 3), 1, false);
    add("bool", whole({9, 17}, 0, 1, DType::boolean), 1, false);
    add("specials", special({7, 21}), 1, false);
    add("f16", x({9, 65}, DType::f16), 1, false);
    add("f64", x({9, 65}, DType::f64), 0, false);
    add("scalar", x({}), {}, false);
  }
}

// ---- movement

void add_movement(Table& table) {
  const DType types[] = {DType::f32, DType::f16, DType::f64, DType::u8, DType::i64, DType::boolean};
  int turn = 0;
  for (DType t : types) {
    const InputSpec in = is_float(t) ? x({3, 5, 7}, t) : whole({3, 5, 7}, 0, 1, t);
    const auto rotate = [&turn](OpCase& c) { c.extra = ++turn % 3 != 0; };
    rotate(table.add("permute", "stored", {in}, [](In v) { return reshape(permute(v[0], {2, 0, 1}), Shape{105}); }));
    rotate(table.add("concat", "", {in, in}, [](In v) { return concat({v[0], v[1]}, 1); }));
    rotate(table.add("flip", "", {in}, [](In v) { return flip(v[0], {0, 2}); }));
    rotate(table.add("pad", "", {in}, [](In v) { return pad(v[0], {{1, 0}, {0, 2}, {3, 1}}, 1); }));
  }
  table.add("reshape", "", {x({6, 35})}, [](In t) { return reshape(t[0], {7, -1, 5}); });
  table.add("reshape", "of a view without a view", {x({6, 35}, DType::f32, Layout::transposed)}, [](In t) {
    return reshape(t[0], {5, 42}) * 2;
  });
  table.add("reshape", "empty", {x({0, 4})}, [](In t) { return reshape(t[0], Shape{2, 0}); });
  table.add("transpose", "", {x({33, 7})}, [](In t) { return transpose(t[0]) * 2; });
  table.add("transpose", "of a batch", {x({3, 5, 7})}, [](In t) { return transpose(t[0], 0, 2) + 1; });
  table.add("expand", "", {x({5, 1})}, [](In t) { return expand(t[0], {3, 5, 7}) * 2; });
  table.add("expand", "stored", {x({5, 1})}, [](In t) { return expand(t[0], {5, 7}); });
  table.add("squeeze", "", {x({1, 5, 1})}, [](In t) { return squeeze(t[0]) + squeeze(squeeze(t[0], 0), -1); });
  table.add("unsqueeze", "", {x({5})}, [](In t) { return unsqueeze(t[0], 0) * unsqueeze(t[0], -1); });
  const Slice slices[] = {{{}, {}, 1}, {2, 30, 1}, {{}, {}, -1}, {-3, {}, 1},
                          {30, 3, -4}, {1, {}, 5}, {5, 5, 1},    {-100, 100, 2}};
  for (const Slice& s : slices) {
    const auto show = [](const std::optional<int64_t>& v) { return v ? std::to_string(*v) : std::string(); };
    table.add("slice", fmt::format("{}:{}:{}", show(s.start), show(s.stop), s.step), {x({3, 33})},
              [s](In t) { return slice(t[0], 1, s) * 2; });
  }
  table.add("slice", "several axes", {x({5, 6, 7})}, [](In t) {
    const Slice ranges[] = {{1, 4, 2}, {{}, {}, -1}, {-4, -1, 1}};
    return slice(t[0], ranges);
  });
  table.add("slice", "of a transposed view", {x({9, 8}, DType::f32, Layout::transposed)}, [](In t) {
    return slice(t[0], 0, {1, {}, 3});
  });
  table.add("flip", "twice", {x({9, 8})}, [](In t) { return flip(flip(t[0], {0}), {0, 1}) * 1.5; });
  table.add("pad", "with a value and an epilogue", {x({5, 6})}, [](In t) {
    return pad(t[0] * 2, {{2, 1}, {1, 3}}, -1.5) + 1;
  });
  table.add("pad", "empty", {x({0, 3})}, [](In t) { return pad(t[0], {{1, 1}, {0, 0}}, 4); });
  table.add("concat", "three parts, mixed dtypes", {x({2, 3}, DType::f16), x({5, 3}), whole({1, 3}, -4, 4)}, [](In t) {
    return concat({t[0], t[1], t[2]}, 0);
  });
  table.add("concat", "one is empty", {x({0, 3}), x({5, 3})}, [](In t) { return concat({t[0], t[1]}, 0) * 2; });
  table.add("concat", "ten parts", {x({10, 7})}, [](In t) {
    const std::vector<Tensor> parts = split(t[0], std::vector<int64_t>(10, 1), 0);
    return concat(std::vector<Tensor>(parts.rbegin(), parts.rend()), 1);
  });
  table.add("split", "", {x({4, 9})}, [](In t) {
    const std::vector<Tensor> parts = split(t[0], {2, 3, 4}, 1);
    return parts[2] * sum(parts[1], {1}, true) - sum(parts[0]);
  });
}

// ---- indexing

void add_index(Table& table) {
  table.add("take", "rows", {x({9, 5}), whole({4, 3}, 0, 8)}, [](In t) { return take(t[0], t[1]); });
  table.add("take", "middle axis", {x({3, 9, 5}), whole({7}, 0, 8, DType::i64)},
            [](In t) { return take(t[0], t[1], 1) * 2; });
  table.add("take", "last axis, negative and out of range", {x({3, 9}), whole({40}, -15, 15)},
            [](In t) { return take(t[0], t[1], -1); });
  table.add("take", "scalar index", {x({9, 5}), whole({}, 0, 8)}, [](In t) { return take(t[0], t[1]); });
  table.add("take", "no index", {x({9, 5}), whole({0}, 0, 8)}, [](In t) { return take(t[0], t[1]); });
  table.add("take", "strided indices", {x({9, 5}), whole({7}, 0, 8, DType::i32, Layout::strided)},
            [](In t) { return take(t[0], t[1]); });
  table.add("take", "u8", {whole({9, 5}, 0, 255, DType::u8), whole({7}, 0, 8)}, [](In t) { return take(t[0], t[1]); });
  table.add("gather", "axis 0", {x({9, 5}), whole({4, 5}, 0, 8)}, [](In t) { return gather(t[0], 0, t[1]); });
  table.add("gather", "axis 1, smaller", {x({9, 5}), whole({7, 11}, -7, 7, DType::i64)},
            [](In t) { return gather(t[0], 1, t[1]); });
  table.add("gather", "rank 3", {x({3, 4, 5}), whole({3, 2, 5}, 0, 3)},
            [](In t) { return exp(gather(t[0], 1, t[1])); });
  table.add("embedding", "", {x({17, 8}), whole({3, 5}, 0, 16)}, [](In t) { return embedding(t[0], t[1]); });
  table.add("embedding", "f16", {x({17, 8}, DType::f16), whole({33}, 0, 16)},
            [](In t) { return embedding(t[0], t[1]) * 2; });
  table.add("one_hot", "", {whole({3, 5}, -1, 8)}, [](In t) { return one_hot(t[0], 8); });
  table.add("one_hot", "to i64", {whole({33}, 0, 9, DType::i64)}, [](In t) { return one_hot(t[0], 10, DType::i64); });
  table.add("scatter_add", "axis 0", {x({9, 5}), whole({4, 5}, -1, 9), x({4, 5})},
            [](In t) { return scatter_add(t[0], 0, t[1], t[2]); });
  table.add("scatter_add", "axis 1, smaller", {x({9, 5}), whole({7, 30}, 0, 4, DType::i64), x({8, 31})},
            [](In t) { return scatter_add(t[0], 1, t[1], t[2]); });
  table
      .add("scatter_add", "integers", {whole({40}, -9, 9), whole({100}, 0, 39), whole({100}, -9, 9)},
           [](In t) { return scatter_add(t[0], 0, t[1], t[2]); })
      .wide_integers = true;
  table.add("index_add", "", {x({9, 5}), whole({30}, 0, 8), x({30, 5})},
            [](In t) { return index_add(t[0], t[1], t[2]); });
  table.add("index_add", "rank 1, out of range", {x({33}), whole({129}, -3, 35, DType::i64), x({129})},
            [](In t) { return index_add(t[0], t[1], t[2]); });
  table.add("index_add", "rank 3, views",
            {x({9, 4, 5}, DType::f32, Layout::transposed), whole({7}, 0, 8), x({7, 4, 5}, DType::f32, Layout::flipped)},
            [](In t) { return index_add(t[0], t[1], t[2]); });
  table.add("index_add", "integers", {whole({9, 5}, -9, 9), whole({30}, 0, 8), whole({30, 5}, -9, 9)},
            [](In t) { return index_add(t[0], t[1], t[2]); });
  table.add("index_add", "nothing", {x({9, 5}), whole({0}, 0, 8), x({0, 5})},
            [](In t) { return index_add(t[0], t[1], t[2]); });
}

// ---- creation

void add_creation(Table& table) {
  const auto add = [&table](std::string_view op, std::string_view form,
                            std::function<Tensor(DeviceContext*)> f) -> OpCase& {
    return table.add_on(op, form, {}, [f](DeviceContext& device, In) { return f(&device); });
  };
  for (DType t : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32, DType::boolean}) {
    add("full", name_of(t), [t](DeviceContext* d) { return full({3, 5}, 1.3, t, d); });
    if (t != DType::boolean) add("arange", name_of(t), [t](DeviceContext* d) { return arange(3, 64, 2, t, d); });
  }
  add("zeros", "", [](DeviceContext* d) { return zeros({3, 5}, DType::f32, d); });
  add("ones", "", [](DeviceContext* d) { return ones({7}, DType::f32, d); });
  add("full", "scalar", [](DeviceContext* d) { return full({}, -2.5, DType::f32, d); });
  add("full", "empty", [](DeviceContext* d) { return full({0, 3}, -2.5, DType::f32, d); });
  table
      .add("full_like", "", {x({3, 5}, DType::f16)},
           [](In t) { return full_like(t[0], 7) + zeros_like(t[0]) - ones_like(t[0]); })
      .differentiable = false;
  add("arange", "i64", [](DeviceContext* d) { return arange(-5, 100, 7, DType::i64, d); }).wide_integers = true;
  add("iota", "down", [](DeviceContext* d) { return arange(3, -4, -0.5, DType::f32, d); });
  add("linspace", "", [](DeviceContext* d) { return linspace(-1, 2, 33, DType::f32, d); });
  add("linspace", "half", [](DeviceContext* d) { return linspace(0, 1, 1000, DType::f16, d); });
  add("linspace", "one", [](DeviceContext* d) { return linspace(4, 9, 1, DType::f32, d); });
  add("eye", "", [](DeviceContext* d) { return eye(7, -1, DType::f32, d); });
  add("eye", "wide", [](DeviceContext* d) { return eye(3, 5, DType::i32, d); });
}

}  // namespace

void add_function_cases(std::vector<OpCase>& cases) {
  Table table(cases);
  add_elementwise(table);
  add_chains(table);
  add_order(table);
  add_reductions(table);
  add_movement(table);
  add_index(table);
  add_matmul(table);
  add_conv(table);
  add_random(table);
  add_attention(table);
  add_losses(table);
  add_creation(table);
}

}  // namespace heddle::checks
