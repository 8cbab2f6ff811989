#include "checks/op_cases.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/device/storage.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/op/primitives.h"

namespace heddle::checks {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Values where functions have corners; 1e30 squared overflows f32, its inverse squared underflows.
constexpr double special_values[] = {std::numeric_limits<double>::quiet_NaN(),
                                     infinity,
                                     -infinity,
                                     0,
                                     1,
                                     -1,
                                     1e30,
                                     -1e30,
                                     1e-30,
                                     -1e-30,
                                     0.5,
                                     1.5,
                                     2.5,
                                     -0.5,
                                     -1.5,
                                     88,
                                     -88,
                                     100,
                                     -100,
                                     3,
                                     -3};

std::string_view name_of_layout(Layout layout) {
  switch (layout) {
    case Layout::dense:
      return "";
    case Layout::offset:
      return " offset";
    case Layout::strided:
      return " strided";
    case Layout::flipped:
      return " flipped";
    case Layout::transposed:
      return " transposed";
    case Layout::expanded:
      return " expanded";
  }
  return "?";
}

// The leaf from which `apply_layout` makes the input.
Shape leaf_shape(const InputSpec& input) {
  const Shape& s = input.shape;
  if (s.rank() == 0) return s;
  const int last = s.rank() - 1;
  switch (input.layout) {
    case Layout::offset:
      return s.with(0, s[0] + 3);
    case Layout::strided:
      return s.with(last, s[last] * 2 + 1);
    case Layout::transposed: {
      Shape turned;
      for (int i = last; i >= 0; --i) turned.push_back(s[i]);
      return turned;
    }
    case Layout::expanded:
      return s.with(0, 1);
    default:
      return s;
  }
}

Tensor apply_layout(const Tensor& leaf, const InputSpec& input) {
  const Shape& s = input.shape;
  if (s.rank() == 0) return leaf;
  switch (input.layout) {
    case Layout::dense:
      return leaf;
    case Layout::offset:
      return slice(leaf, 0, Slice{3, {}, 1});
    case Layout::strided:
      return slice(leaf, -1, Slice{1, {}, 2});
    case Layout::flipped:
      return flip(leaf, {});
    case Layout::transposed: {
      std::vector<int> order;
      for (int i = s.rank() - 1; i >= 0; --i) order.push_back(i);
      return permute(leaf, order);
    }
    case Layout::expanded:
      return expand(leaf, s);
  }
  return leaf;
}

std::vector<uint8_t> values_of(const InputSpec& input, DType dtype, const Shape& shape, uint32_t number,
                               uint64_t seed) {
  const auto count = static_cast<size_t>(shape.numel());
  std::vector<uint8_t> bytes(count * size_of(dtype));
  const std::array<uint32_t, 4> key{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), number, 0x0b5e55u};
  for (size_t i = 0; i < count; ++i) {
    double value = input.low + (input.high - input.low) * philox_uniform(key, i);
    if (!is_float(dtype)) value = std::floor(input.low + (input.high - input.low + 1) * philox_uniform(key, i));
    if (input.specials && is_float(dtype)) {
      // Inputs run through the list at different speeds, so that two of them meet in all pairs.
      const size_t n = std::size(special_values);
      value = special_values[number == 0 ? i % n : i / n % n];
    }
    store_element(bytes.data(), dtype, i, value);
  }
  return bytes;
}

// ---- elementwise rows, from the table

std::vector<DType> dtypes_of(DTypeRule rule) {
  const std::vector<DType> floats{DType::f32, DType::f16, DType::bf16, DType::f64};
  std::vector<DType> all = floats;
  for (DType t : {DType::i8, DType::u8, DType::i32, DType::i64}) all.push_back(t);
  switch (rule) {
    case DTypeRule::floating:
      return {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::boolean};
    case DTypeRule::test:
      return floats;
    case DTypeRule::whole:
      return {DType::i32, DType::i8, DType::u8, DType::i64, DType::boolean};
    case DTypeRule::logical:
      return {DType::boolean, DType::f32, DType::i32};
    default:
      all.push_back(DType::boolean);
      return all;
  }
}

// Integers: products wrap in i8 and u8 and stay inside i32.
InputSpec spec(DType t, const Shape& shape, Layout layout = Layout::dense) {
  InputSpec s{shape, t, -4, 4, layout, false};
  if (t == DType::u8) s.low = 0, s.high = 255;
  if (t == DType::i8) s.low = -128, s.high = 127;
  if (t == DType::i32 || t == DType::i64) s.low = -60, s.high = 60;
  if (t == DType::boolean) s.low = 0, s.high = 1;
  return s;
}

// The forms rotate with the row's number: each row has all forms in the full coverage, and in the brief one what its
// turn brings.
class ElementwiseCases {
 public:
  ElementwiseCases(const OpDef& row, size_t number, std::vector<OpCase>& cases)
      : row_(row), number_(number), cases_(cases) {}

  void add_all() {
    const DType main = row_.rule == DTypeRule::logical ? DType::boolean
                       : row_.rule == DTypeRule::whole ? DType::i32
                                                       : DType::f32;
    for (DType t : dtypes_of(row_.rule)) {
      if (t == DType::boolean && (row_.name == "sub" || row_.name == "neg")) continue;  // refused
      add(t, {129}, Layout::dense);
      // Storage types differ only in how they are loaded and stored.
      const bool storage = arith(t) != t || (t == DType::boolean && t != main);
      cases_.back().extra = storage && size_t(t) % 2 != number_ % 2;
    }
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{1000}, Shape{3, 0, 2}})
      add(main, shape, Layout::dense);
    const Layout layouts[] = {Layout::offset, Layout::strided, Layout::flipped, Layout::transposed, Layout::expanded};
    for (size_t i = 0; i < std::size(layouts); ++i) {
      add(main, {7, 33}, layouts[i]);
      cases_.back().extra = i != number_ % std::size(layouts);
    }
    if (main == DType::f32) add_specials();
    if (row_.arity == 2) add_broadcasts(main);
  }

 private:
  void add(DType t, const Shape& shape, Layout layout) {
    std::vector<InputSpec> inputs{spec(t, shape, layout)};
    if (row_.arity == 2) inputs.push_back(spec(t, shape));
    push(std::move(inputs));
  }

  void add_specials() {
    const auto n = static_cast<int64_t>(std::size(special_values));
    std::vector<InputSpec> inputs{spec(DType::f32, row_.arity == 2 ? Shape{n, n} : Shape{n})};
    if (row_.arity == 2) inputs.push_back(inputs[0]);
    for (InputSpec& input : inputs) input.specials = true;
    push(std::move(inputs), " specials");
    cases_.back().differentiable = false;
  }

  void add_broadcasts(DType t) {
    const std::array<InputSpec, 2> forms[] = {
        {spec(t, {33, 1}), spec(t, {1, 7})},
        {spec(t, {5, 1, 4}), spec(t, {3, 1})},
        {spec(t, {2, 3, 9}), spec(t, {})},
        {spec(t, {1}), spec(t, {0, 4})},
        {spec(t == DType::f32 ? DType::i32 : t, {4, 5}), spec(t == DType::f32 ? DType::f16 : t, {5})}};
    for (size_t i = 0; i < std::size(forms); ++i) {
      push({forms[i][0], forms[i][1]});
      cases_.back().extra = i != number_ % std::size(forms);
    }
  }

  void push(std::vector<InputSpec> inputs, std::string_view suffix = "") {
    OpCase c;
    c.op = row_.name;
    c.name = row_.name;
    for (const InputSpec& i : inputs)
      c.name += fmt::format(" {} {}{}", name_of(i.dtype), i.shape.str(), name_of_layout(i.layout));
    c.name += suffix;
    c.inputs = std::move(inputs);
    c.build = [row = &row_](DeviceContext&, std::span<const Tensor> in) { return apply_row(*row, in); };
    cases_.push_back(std::move(c));
  }

  const OpDef& row_;
  size_t number_;
  std::vector<OpCase>& cases_;
};

bool is_exact(std::string_view op) {
  const OpDef* row = find_op(op);
  if (row == nullptr) return false;
  if (row->kind == OpKind::movement || row->kind == OpKind::constant || row->kind == OpKind::random) return true;
  return row->kind == OpKind::elementwise && row->cost == 1;
}

bool is_long_sum(std::string_view op) {
  for (std::string_view name : {"matmul", "sum", "mean", "var", "prod", "scatter_add", "index_add", "scatter_rows",
                                "conv", "conv_input_grad", "conv_weight_grad"}) {
    if (op == name) return true;
  }
  for (std::string_view name : {"cholesky", "lu", "solve_triangular", "linear_solve", "det", "qr", "eigh", "svd"}) {
    if (op == name) return true;
  }
  return op.starts_with("attention") || op.find("fft") != std::string_view::npos ||
         op.ends_with("stft");  // a transform's elements are sums over all of the signal
}

}  // namespace

Tensor apply_row(const OpDef& row, std::span<const Tensor> in) {
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  if (&row == &ops::name##_op) return heddle::name(in[0]);
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) \
  if (&row == &ops::name##_op) return heddle::name(in[0], in[1]);
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
  throw Error(fmt::format("no function for the row '{}'", row.name));
}

Tensor OpCase::run(DeviceContext& device, std::span<const Tensor> leaves) const {
  std::vector<Tensor> ready;
  for (size_t i = 0; i < inputs.size(); ++i) ready.push_back(apply_layout(leaves[i], inputs[i]));
  return build(device, ready);
}

std::vector<OpCase> op_cases(Coverage coverage) {
  std::vector<OpCase> cases;
  size_t number = 0;
  for (const OpDef* row : all_ops()) {
    if (row->kind == OpKind::elementwise && !row->dialect.empty()) ElementwiseCases(*row, number++, cases).add_all();
  }
  add_function_cases(cases);
  add_linalg_cases(cases);
  if (coverage == Coverage::brief) std::erase_if(cases, [](const OpCase& c) { return c.extra; });
  return cases;
}

std::vector<Tensor> make_inputs(const OpCase& c, DeviceContext& device, uint64_t seed, std::optional<DType> floats) {
  std::vector<Tensor> leaves;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const InputSpec& input = c.inputs[i];
    const DType t = floats && is_float(input.dtype) ? *floats : input.dtype;
    const Shape shape = leaf_shape(input);
    const std::vector<uint8_t> bytes = values_of(input, t, shape, static_cast<uint32_t>(i), seed);
    leaves.push_back(Tensor::from_bytes(bytes.data(), static_cast<size_t>(shape.numel()), t, shape, &device));
  }
  return leaves;
}

std::string unsupported_reason(const OpCase& c, const Caps& caps) {
  bool f64 = false, i64 = c.wide_integers;
  for (const InputSpec& input : c.inputs) {
    f64 = f64 || input.dtype == DType::f64;
    i64 = i64 || input.dtype == DType::i64;
  }
  if (f64 && !caps.f64) return "no f64";
  if (i64 && !caps.i64) return "no i64";
  const OpDef* row = find_op(c.op);
  const bool plain = row != nullptr && row->kind != OpKind::fused && !row->transcendental;
  return f64 && !caps.f64_math && !plain ? "no f64 functions" : "";
}

// One rounding of the result is 2^-24 (f32), 2^-11 (f16), 2^-8 (bf16) of it. Functions: the dialect's own are within 4
// ulp (shaders/README.md). Long sums: the sizes of the cases times the rounding of f32, so also an absolute part, where
// terms cancel.
Tolerance tolerance(std::string_view op, DType dtype) {
  if (!is_float(dtype)) return {};
  if (dtype == DType::f16) return {2e-3, 1e-4};
  if (dtype == DType::bf16) return {1.6e-2, 1e-3};
  const double scale = dtype == DType::f64 ? 1e-7 : 1;
  if (is_exact(op)) return {2e-7 * scale, 0};
  if (is_long_sum(op)) return {2e-5 * scale, 2e-5 * scale};
  return {4e-6 * scale, 1e-6 * scale};
}

std::string difference(std::span<const double> value, std::span<const double> reference, const Tolerance& tolerance) {
  if (value.size() != reference.size()) return fmt::format("{} elements, expected {}", value.size(), reference.size());
  size_t wrong = 0, first = 0;
  for (size_t i = 0; i < value.size(); ++i) {
    const double a = value[i], b = reference[i];
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (std::isfinite(b) && std::abs(a - b) <= tolerance.absolute + tolerance.relative * std::abs(b)) continue;
    if (wrong++ == 0) first = i;
  }
  if (wrong == 0) return "";
  return fmt::format(
      "{} of {} elements differ; element {} is {:.9g}, expected {:.9g} (tolerance {} relative, {} absolute)", wrong,
      value.size(), first, value[first], reference[first], tolerance.relative, tolerance.absolute);
}

}  // namespace heddle::checks
