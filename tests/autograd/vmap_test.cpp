// vmap against a loop over the examples: every function, every choice of mapped arguments, and with other transforms
// inside and outside.
#include "heddle/autograd/vmap.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "heddle/autograd/batching.h"
#include "heddle/autograd/transforms.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "heddle/core/op/op.h"
#include "tests/autograd/cases.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {
namespace {

using List = std::vector<Tensor>;

// Slice b of axis `axis`.
Tensor pick(const Tensor& x, int axis, int64_t b) {
  const int at = axis < 0 ? axis + x.rank() : axis;
  return reshape(slice(x, at, {b, b + 1, 1}), x.shape().without(at));
}
Tensor stack(const List& parts, int axis) {
  List rows;
  for (const Tensor& part : parts) rows.push_back(unsqueeze(part, axis));
  return concat(rows, axis < 0 ? axis + parts[0].rank() + 1 : axis);
}
Tensor random(const Shape& shape, uint32_t seed, DeviceContext& on, DType dtype = DType::f64) {
  std::vector<double> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 2 * philox_uniform({seed, 5, 9, 2}, i) - 1;
  if (dtype == DType::f64) return Tensor::from_vector(values, shape, &on);
  const std::vector<float> narrow(values.begin(), values.end());  // not every device has f64
  return cast(Tensor::from_vector(narrow, shape, &on), dtype);
}

void expect_close(const Tensor& found, const Tensor& expected, const std::string& what = {}, double tolerance = 1e-11) {
  SCOPED_TRACE(what);
  ASSERT_EQ(found.shape(), expected.shape());
  ASSERT_EQ(found.dtype(), expected.dtype());
  const std::vector<double> a = found.to_doubles(), b = expected.to_doubles();
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::abs(b[i]))) << "element " << i;
}

constexpr int64_t size = 3;
const VmapOptions same{Randomness::same, {}};  // the dropout cases draw

// One choice of mapped inputs of a case: the inputs, mapped ones along the first or the last axis.
struct Mapped {
  Mapped(const GradientCase& c, unsigned choice, DType dtype, DeviceContext& on) {
    GradientCase wide = c;
    for (size_t i = 0; i < c.shapes.size(); ++i) {
      const bool mapped = (choice >> i & 1) != 0;
      const bool last = (i + c.name.size()) % 2 == 1;
      if (mapped) wide.shapes[i] = c.shapes[i].inserted(last ? c.shapes[i].rank() : 0, size);
      axes.push_back(mapped ? std::optional(last ? -1 : 0) : std::nullopt);
    }
    const NoGradScope none;
    for (const Tensor& x : make_inputs(wide, dtype, on)) inputs.push_back(x.detach());
  }
  List example(int64_t b) const {
    List x;
    for (size_t i = 0; i < inputs.size(); ++i) x.push_back(axes[i] ? pick(inputs[i], *axes[i], b) : inputs[i]);
    return x;
  }
  List inputs;
  InAxes axes;
};

// vmap of a function of a list, by axes for its tensors.
template <class F>
auto mapped_list(const F& f, const InAxes& axes, int out_axis) {
  return [=](const List& x) {
    if (x.size() == 1) return vmap([=](const Tensor& a) { return f(List{a}); }, axes, {out_axis}, same)(x[0]);
    if (x.size() == 2)
      return vmap([=](const Tensor& a, const Tensor& b) { return f(List{a, b}); }, axes, {out_axis}, same)(x[0], x[1]);
    if (x.size() == 3)
      return vmap(
          [=](const Tensor& a, const Tensor& b, const Tensor& c) {
            return f(List{a, b, c});
          },
          axes, {out_axis}, same)(x[0], x[1], x[2]);
    return vmap(
        [=](const Tensor& a, const Tensor& b, const Tensor& c, const Tensor& d) {
          return f(List{a, b, c, d});
        },
        axes, {out_axis}, same)(x[0], x[1], x[2], x[3]);
  };
}

unsigned choices(const GradientCase& c) { return 1u << c.shapes.size(); }

TEST(Vmap, EveryFunctionEqualsTheLoop) {
  for (const GradientCase& c : transform_cases()) {
    for (unsigned choice = 1; choice < choices(c); ++choice) {
      SCOPED_TRACE(c.name + ", choice " + std::to_string(choice));
      ASSERT_LE(c.shapes.size(), 4u);
      const Mapped m(c, choice, DType::f64, reference());
      const int out_axis = static_cast<int>(c.name.size() % 3) == 0 ? -1 : 0;
      List expected;
      for (int64_t b = 0; b < size; ++b) expected.push_back(c.f(m.example(b)));
      expect_close(mapped_list([&](const List& x) { return c.f(x); }, m.axes, out_axis)(m.inputs),
                   stack(expected, out_axis));
    }
  }
}

// vmap(grad), grad(vmap) and vmap(jvp) of each: per-example gradients, the gradient of the sum, and the tangents.
TEST(Vmap, GradientsOfEveryFunction) {
  for (const GradientCase& c : transform_cases()) {
    for (unsigned choice = 1; choice < choices(c); ++choice) {
      SCOPED_TRACE(c.name + ", choice " + std::to_string(choice));
      const Mapped m(c, choice, DType::f64, reference());
      const Tensor u = random(c.f(m.example(0)).shape(), 1, reference());
      const auto loss = [&](const List& x) { return sum(u * c.f(x)); };
      const List each = mapped_list([&](const List& x) { return grad(loss)(x); }, m.axes, 0)(m.inputs);
      std::vector<List> loop;
      for (int64_t b = 0; b < size; ++b) loop.push_back(grad(loss)(m.example(b)));
      const List of_sum = grad([&](const List& x) { return sum(mapped_list(loss, m.axes, 0)(x)); })(m.inputs);
      for (size_t i = 0; i < each.size(); ++i) {
        List rows;
        for (const List& g : loop) rows.push_back(g[i]);
        expect_close(each[i], stack(rows, 0), "vmap(grad)");
        expect_close(of_sum[i], m.axes[i] ? stack(rows, *m.axes[i]) : sum(stack(rows, 0), {0}), "grad(vmap)");
      }
      const auto push = [&](const List& x) {
        List v;
        for (size_t i = 0; i < x.size(); ++i)
          v.push_back(random(x[i].shape(), static_cast<uint32_t>(40 + i), reference()));
        return jvp([&](const List& t) { return c.f(t); }, x, v).second;
      };
      List tangents;
      for (int64_t b = 0; b < size; ++b) tangents.push_back(push(m.example(b)));
      expect_close(mapped_list(push, m.axes, 0)(m.inputs), stack(tangents, 0), "vmap(jvp)");
    }
  }
}

// Second derivatives of examples: the rules of the gradients' rows.
TEST(Vmap, HessianVectorProductsOfEveryFunction) {
  for (const GradientCase& c : transform_cases(false)) {
    SCOPED_TRACE(c.name);
    const Mapped m(c, choices(c) - 1, DType::f64, reference());
    const Tensor u = random(c.f(m.example(0)).shape(), 1, reference());
    const auto product = [&](const List& x) {
      List v;
      for (size_t i = 0; i < x.size(); ++i)
        v.push_back(random(x[i].shape(), static_cast<uint32_t>(40 + i), reference()));
      return hvp([&](const List& t) { return sum(u * c.f(t)); }, x, v);
    };
    const List each = mapped_list(product, m.axes, 0)(m.inputs);
    for (size_t i = 0; i < each.size(); ++i) {
      List rows;
      for (int64_t b = 0; b < size; ++b) rows.push_back(product(m.example(b))[i]);
      expect_close(each[i], stack(rows, 0));
    }
  }
}

TEST(Vmap, Nests) {
  const Tensor a = random({2, 3, 4}, 1, reference()), b = random({4, 5, 2}, 2, reference());
  // Over the first axis of a and the last of b, then over the next two: all pairs of products.
  const auto inner = [](const Tensor& x, const Tensor& y) { return sum(x * y); };
  const Tensor found = vmap(
      [&](const Tensor& x, const Tensor& y) {  // (3, 4), (4, 5)
        return vmap([&](const Tensor& row) {
          return vmap([&](const Tensor& column) { return inner(row, column); }, {1})(y);
        })(x);
      },
      {0, -1})(a, b);
  expect_close(found, matmul(a, permute(b, {2, 0, 1})));
  // Outer product through one mapped argument at a time.
  const Tensor x = random({3}, 3, reference()), y = random({4}, 4, reference());
  const auto times = [](const Tensor& s, const Tensor& t) { return s * t; };
  expect_close(vmap(vmap(times, {std::nullopt, 0}), {0, std::nullopt})(x, y), matmul(unsqueeze(x, 1), unsqueeze(y, 0)));
  expect_close(jacrev(vmap([](const Tensor& t) { return t * t; }))(x),
               jacfwd(vmap([](const Tensor& t) { return t * t; }))(x));
  expect_close(vmap(hessian([](const Tensor& t) { return sum(t * t * t); }))(reshape(a, {6, 4})),
               unsqueeze(eye(4, -1, DType::f64, &reference()), 0) * unsqueeze(6.0 * reshape(a, {6, 4}), 2));
}

// What does not depend on an example is repeated; integers and truth values are mapped as well.
TEST(Vmap, ResultsOfEveryKind) {
  const Tensor x = random({3, 4}, 1, reference()), c = random({2}, 2, reference());
  const auto f = [&](const Tensor& row) {
    return std::tuple(c * 2, argmax(row), row > 0, sort(row).indices, 7, Tensor());
  };
  const auto [constant, best, positive, order, number, nothing] = vmap(f, {0}, {0, 0, 1, -1, 0})(x);
  EXPECT_EQ(constant.shape(), (Shape{3, 2}));
  expect_close(constant, concat({unsqueeze(c * 2, 0), unsqueeze(c * 2, 0), unsqueeze(c * 2, 0)}, 0));
  EXPECT_EQ(best.to_doubles(), argmax(x, 1).to_doubles());
  EXPECT_EQ(positive.to_doubles(), transpose(x > 0).to_doubles());
  EXPECT_EQ(order.to_doubles(), transpose(sort(x).indices).to_doubles());
  EXPECT_EQ(number, 7);
  EXPECT_FALSE(nothing.defined());
}

// Each example its own indices, also those that count from the end or lie outside.
TEST(Vmap, IndicesByExample) {
  const auto at = [](const std::vector<int32_t>& values, const Shape& shape) {
    return Tensor::from_vector(values, shape, &reference());
  };
  const Tensor table = random({3, 2, 5, 2}, 1, reference());
  const Tensor indices = at({0, -1, 9, 2, -7, 4, 3, 3, 1, 0, -5, 2}, {3, 2, 2});
  const Tensor base = random({3, 4, 2}, 2, reference()), rows = random({3, 5, 2}, 3, reference());
  const Tensor places = at({0, 3, 3, -1, 7, 2, 1, 0, 0, 2, 4, 1, 1, 3, 0}, {3, 5});
  const Tensor labels = at({1, 0, 4, 2, 2, 3}, {3, 2}), logits = random({3, 2, 5}, 4, reference());
  for (const bool map_values : {true, false}) {
    for (const bool map_indices : {true, false}) {
      if (!map_values && !map_indices) continue;
      const auto compare = [&](const auto& f, const Tensor& values, const Tensor& index) {
        const Tensor v = map_values ? values : pick(values, 0, 0), i = map_indices ? index : pick(index, 0, 0);
        const InAxes axes{map_values ? std::optional(0) : std::nullopt, map_indices ? std::optional(0) : std::nullopt};
        const auto loss = [&](const Tensor& a, const Tensor& b) {
          const Tensor y = f(a, b);
          return sum(y * random(y.shape(), 9, reference()));
        };
        List expected, gradients;
        for (int64_t b = 0; b < 3; ++b) {
          const Tensor vb = map_values ? pick(v, 0, b) : v, ib = map_indices ? pick(i, 0, b) : i;
          expected.push_back(f(vb, ib));
          gradients.push_back(grad(loss)(vb, ib));
        }
        expect_close(vmap(f, axes)(v, i), stack(expected, 0));
        expect_close(vmap(grad(loss), axes)(v, i), stack(gradients, 0));
      };
      compare([](const Tensor& x, const Tensor& i) { return take(x, i, 1); }, table, indices);
      compare([](const Tensor& x, const Tensor& i) { return take(x, i); }, table, indices);
      compare([](const Tensor& x, const Tensor& i) { return gather(x, 1, unsqueeze(i, 2)); }, table, indices);
      compare(
          [](const Tensor& x, const Tensor& i) {
            return index_add(ones({4, 2}, DType::f64, &reference()), i, x);
          },
          rows, places);
      compare([&](const Tensor& x, const Tensor& i) { return index_add(x, i, pick(rows, 0, 1)); }, base, places);
      compare([](const Tensor& x, const Tensor& i) { return cross_entropy(x, i); }, logits, labels);
    }
  }
}

TEST(Vmap, RandomDraws) {
  Generator generator{5, 0};
  const auto f = [&](const Tensor& x) { return x + uniform({4}, 0, 1, &reference(), &generator); };
  const Tensor x = zeros({3}, DType::f32, &reference());
  const std::vector<double> each = vmap(f)(x).to_doubles();
  const std::vector<double> larger = [&] {
    Generator again{5, 0};
    return uniform({3, 4}, 0, 1, &reference(), &again).to_doubles();
  }();
  EXPECT_EQ(each, larger);
  generator = {5, 0};
  const std::vector<double> once = vmap(f, {0}, {0}, {Randomness::same, {}})(x).to_doubles();
  for (size_t i = 0; i < 12; ++i) EXPECT_EQ(once[i], larger[i % 4]);
  EXPECT_THROW(vmap(f, {0}, {0}, {Randomness::error, {}})(x), ValueError);
  // An ensemble without a mapped argument; nested: every pair its own; a draw from outside is shared.
  const auto draw = [&] { return uniform({2}, 0, 1, &reference(), &generator); };
  const std::vector<double> ensemble = vmap(draw, {}, {0}, {Randomness::different, 3})().to_doubles();
  EXPECT_NE(ensemble[0], ensemble[2]);
  const std::vector<double> pairs =
      vmap([&](const Tensor&) { return vmap([&](const Tensor&) { return draw(); })(x); })(x).to_doubles();
  EXPECT_EQ(std::set<double>(pairs.begin(), pairs.end()).size(), 18u);
  const Tensor outside = uniform({2}, 0, 1, &reference(), &generator);
  EXPECT_EQ(vmap([&](const Tensor& t) { return t + outside; })(x).to_doubles()[4], outside.to_doubles()[0]);
  // The same mask in the value and the gradient of each example.
  const auto dropped = [&](const Tensor& t) { return sum(dropout(t, 0.5, true, &generator)); };
  const auto [value, slope] = vmap(value_and_grad(dropped))(ones({4, 50}, DType::f64, &reference()));
  expect_close(value, sum(slope, {1}));
  EXPECT_NE(slope.to_doubles(), expand(slice(slope, 0, {0, 1, 1}), slope.shape()).to_doubles());
}

TEST(Vmap, HistoryAndScopes) {
  Tensor x = random({3, 2}, 1, reference()).set_requires_grad();
  const Tensor y = vmap([](const Tensor& t) {
    const Tensor quiet = [&] {
      const NoGradScope none;
      return t * t;
    }();
    return sum(t * quiet);
  })(x);
  backward(sum(y));
  expect_close(x.grad(), square(x.detach()));
  EXPECT_FALSE(vmap([](const Tensor& t) { return t * 2; })(x.detach()).requires_grad());
  const auto eager = [&] {
    const EagerScope scope;
    return vmap(grad([](const Tensor& t) { return sum(tanh(t) * t); }))(x.detach());
  }();
  expect_close(eager, vmap(grad([](const Tensor& t) { return sum(tanh(t) * t); }))(x.detach()));
}

TEST(Vmap, EmptyAxes) {
  const Tensor none = zeros({0, 3}, DType::f64, &reference());
  EXPECT_EQ(vmap([](const Tensor& t) { return softmax(t * t); }, {0}, {1})(none).shape(), (Shape{3, 0}));
  EXPECT_EQ(vmap(grad([](const Tensor& t) { return sum(t * t); }))(none).shape(), (Shape{0, 3}));
  EXPECT_EQ(vmap([](const Tensor& t) { return sum(t); })(zeros({4, 0}, DType::f64, &reference())).to_doubles(),
            (std::vector<double>(4, 0)));
}

TEST(Vmap, EveryRowHasARuleOrAReason) {
  for (const OpDef* row : all_ops()) {
    EXPECT_NE(autograd::batching_status(*row).substr(0, 7), "no rule")
        << row->name << ": " << autograd::batching_status(*row);
  }
}

TEST(Vmap, WrongCallsAreNamed) {
  const auto message = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const UserError& error) {
      return error.what();
    }
    return "nothing thrown";
  };
  const auto has = [&](const std::string& text, const std::string& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const Tensor x = random({5, 3}, 1, reference()), y = random({4, 3}, 2, reference());
  const auto add_up = [](const Tensor& a, const Tensor& b) { return a + b; };
  const auto same_one = [](const Tensor& a) { return a; };
  has(message([&] { vmap(add_up)(x, y); }),
      "[vmap] the mapped axes differ in size: argument 0 (5, 3) has 5 along axis 0, argument 1 (4, 3) has 4 along axis "
      "0");
  has(message([&] { vmap(same_one, {2})(x); }), "[vmap] axis 2 is out of range for argument 0, (5, 3)");
  has(message([&] { vmap(same_one, {-3})(x); }), "[vmap] axis -3 is out of range for argument 0, (5, 3)");
  has(message([&] { vmap(same_one, {0}, {2})(x); }),
      "[vmap] axis 2 is out of range for result 0, (3) and the mapped axis");
  has(message([&] {
        vmap(add_up, {0, 0, 0})(x, y);
      }),
      "[vmap] in_axes has 3 entries, but the function was called with 2 arguments");
  has(message([&] {
        vmap(same_one, {0}, {0, 0})(x);
      }),
      "[vmap] out_axes has 2 entries, but the function gave 1 tensors");
  has(message([&] { vmap(add_up, {std::nullopt})(x, x); }), "[vmap] no argument is mapped");
  has(message([&] {
        vmap(same_one, {0}, {0}, {Randomness::same, 7})(x);
      }),
      "axis_size is 7, argument 0 (5, 3) has 5 along axis 0");
  has(message([&] { vmap([](const Tensor& a) { return a * a.to_doubles()[0]; })(x); }),
      "[vmap] a value that depends on an example (3) f64 was looked at");
  Tensor kept;
  vmap([&](const Tensor& a) { return kept = a * 2; })(x);
  has(message([&] { kept.to_doubles(); }), "[vmap] a value that depends on an example");
  Tensor state = zeros({3}, DType::f64, &reference());
  has(message([&] {
        vmap([&](const Tensor& a) {
          state.assign(a);
          return a;
        })(x);
      }),
      "[assign] the value for a (3) tensor depends on an example of vmap");
  EXPECT_EQ((x + 1).to_doubles().size(), 15u);  // what is pending is as it was
}

// A few functions whose rules fold the mapped axis into a kernel's own, on the drivers: values and per-example
// gradients.
class VmapOnDevice : public testing::TestWithParam<const char*> {};

TEST_P(VmapOnDevice, FoldedKernels) {
  DeviceContext* on = nullptr;
  try {
    on = &device(GetParam());
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  const std::set<std::string> chosen{"conv2d", "matmul", "take inner", "cross_entropy mean", "sort", "attention plain"};
  for (const GradientCase& c : function_cases()) {
    if (!chosen.contains(c.name)) continue;
    SCOPED_TRACE(c.name);
    const auto run = [&](DeviceContext& where) {
      const Mapped m(c, choices(c) - 1, DType::f32, where);
      const auto loss = [&](const List& x) {
        const Tensor y = c.f(x);
        return sum(y * random(y.shape(), 1, where, DType::f32));
      };
      return mapped_list([&](const List& x) { return value_and_grad(loss)(x).second; }, m.axes, 0)(m.inputs);
    };
    const List expected = run(reference()), found = run(*on);
    for (size_t i = 0; i < expected.size(); ++i)
      expect_close(found[i].to(reference()), expected[i], "gradient " + std::to_string(i), 1e-4);
  }
}
INSTANTIATE_TEST_SUITE_P(Drivers, VmapOnDevice, testing::Values("opencl:0", "vulkan:0", "cuda:0"),
                         [](const auto& param_info) {
                           const std::string id = param_info.param;
                           return id.substr(0, id.find(':'));
                         });

// compile() of a transform, a transform of a compiled function, and both.
TEST_P(VmapOnDevice, Compiled) {
  DeviceContext* on = nullptr;
  try {
    on = &device(GetParam());
  } catch (const DeviceUnavailable& error) {
    GTEST_SKIP() << error.what();
  }
  const Tensor w = random({4, 3}, 1, *on, DType::f32);
  const auto loss = [&](const Tensor& x) { return sum(square(tanh(matmul(x, w)))); };
  const auto fast = compile(loss);
  const auto each = compile(vmap(grad(loss)));
  for (uint32_t seed = 10; seed < 14; ++seed) {
    const Tensor x = random({5, 4}, seed, *on, DType::f32);
    const Tensor expected = vmap(grad(loss))(x);
    expect_close(each(x), expected, "compile(vmap(grad))", 1e-5);
    expect_close(vmap(grad(fast))(x), expected, "vmap(grad(compiled))", 1e-5);
    expect_close(grad([all = compile(vmap(fast))](const Tensor& t) { return sum(all(t)); })(x), expected,
                 "grad(compile(vmap))", 1e-5);
  }
  EXPECT_GE(each.stats().replayed, 2u) << each.stats().refusal;
}

}  // namespace
}  // namespace heddle::tests
