// What scan, cond and while_loop refuse, and their corners; values and gradients: tests/conformance/control_test.cpp
// and tests/autograd/cases_control.cpp.
#include "heddle/core/functions/control/control.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "heddle/heddle.h"

namespace heddle {
namespace {

using Tensors = std::vector<Tensor>;

template <class E>
void expect_error(const std::function<void()>& call, const std::string& part) {
  try {
    call();
    ADD_FAILURE() << "nothing thrown; expected: " << part;
  } catch (const E& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

class Control : public testing::Test {
 protected:
  DeviceContext& d = device("reference:0");
  Tensor tensor(const Shape& shape, double value = 1) { return full(shape, value, DType::f32, &d) + 0.0; }
  static Scanned keep(const Tensors& c, const Tensors&) { return {c, {}}; }
};

TEST_F(Control, ScanRefusesArguments) {
  expect_error<ValueError>([&] { scan(keep, {tensor({2})}, {}); }, "[scan] there are no xs and no length");
  expect_error<ValueError>([&] { scan(keep, {tensor({2})}, {}, {-1}); }, "[scan] the length is -1");
  expect_error<ShapeError>(
      [&] {
        scan(keep, {}, {tensor({3, 2}), tensor({4})});
      },
      "[scan] xs 0 (3, 2) has 3 slices, but xs 1 (4) has 4");
  expect_error<ShapeError>([&] { scan(keep, {}, {tensor({3})}, {5}); },
                           "[scan] the length is 5, but xs 0 (3) has 3 slices");
  expect_error<ShapeError>([&] { scan(keep, {}, {tensor({})}); }, "[scan] xs 0 is a scalar");
  expect_error<ValueError>([&] { scan(keep, {Tensor()}, {tensor({3})}); }, "[scan] carry 0 is undefined");
  expect_error<ValueError>([&] { scan(keep, {}, {Tensor()}); }, "[scan] xs 0 is undefined");
  expect_error<ValueError>([&] { scan({}, {}, {tensor({3})}); }, "[scan] the body is an empty function");
  expect_error<ValueError>([&] { scan(keep, {tensor({2})}, {full({3}, 1, DType::f32, &device("null:0"))}); },
                           "[scan] tensors live on different devices");
}

TEST_F(Control, ScanRefusesBodies) {
  const Tensors init{tensor({2}), tensor({3})}, xs{tensor({4, 2})};
  expect_error<ValueError>(
      [&] {
        scan([](auto& c, auto&) { return Scanned{{c[0]}, {}}; }, init, xs);
      },
      "[scan] the body gives 1 carries, but the loop began with 2");
  expect_error<ShapeError>(
      [&] {
        scan([](auto& c, auto&) { return Scanned{{c[0], sum(c[1])}, {}}; }, init, xs);
      },
      "[scan] the body makes carry 1 () from (3)");
  expect_error<DTypeError>(
      [&] {
        scan([](auto& c, auto&) { return Scanned{{c[0], cast(c[1], DType::i32)}, {}}; }, init, xs);
      },
      "[scan] the body makes carry 1 i32 from f32");
  expect_error<ValueError>(
      [&] {
        scan([](auto& c, auto&) { return Scanned{c, {Tensor()}}; }, init, xs);
      },
      "undefined tensor as result 0");
  expect_error<ValueError>(
      [&] {
        scan([](auto& c, auto&) { return Scanned{{c[0], Tensor()}, {}}; }, init, xs);
      },
      "undefined tensor as carry 1");
  // An exception of the body leaves nothing behind.
  EXPECT_THROW(scan([](auto&, auto&) -> Scanned { throw std::runtime_error("stop"); }, init, xs), std::runtime_error);
  EXPECT_EQ((tensor({}) + 1.0).item(), 2);
}

TEST_F(Control, ValuesInsideCannotBeSeen) {
  for (const char* id : {"reference:0", "null:0"}) {
    DeviceContext& where_to = device(id);
    const Tensor x = full({3}, 1, DType::f32, &where_to) + 0.0;
    Tensor leaked;
    expect_error<ValueError>(
        [&] {
          scan([](auto& c, auto& s) { return s[0].item() > 0 ? Scanned{c, {}} : Scanned{c, {}}; }, {}, {x});
        },
        "[scan] a value inside a loop was looked at");
    scan(
        [&](auto& c, auto& s) {
          leaked = s[0] * 2.0;
          return Scanned{c, {}};
        },
        {}, {x});
    expect_error<ValueError>([&] { (void)leaked.item(); },
                             "[scan] a value inside a loop was looked at, or is used outside");
    leaked = Tensor();
  }
}

TEST_F(Control, LengthZero) {
  int calls = 0;
  const Tensor h = tensor({2}, 3);
  const Scanned none = scan(
      [&](auto& c, auto& x) {
        ++calls;
        return Scanned{{c[0] + x[0]}, {cast(c[0], DType::i32), sum(c[0])}};
      },
      {h}, {full({0, 2}, 1, DType::f32, &d)});
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(none.carry[0].to_doubles(), (std::vector<double>{3, 3}));
  EXPECT_EQ(none.ys[0].shape(), (Shape{0, 2}));
  EXPECT_EQ(none.ys[0].dtype(), DType::i32);
  EXPECT_EQ(none.ys[1].shape(), (Shape{0}));
}

TEST_F(Control, CondRefuses) {
  const auto same = [](const Tensors& x) { return x; };
  const Tensor yes = sum(tensor({2})) > 0.0, x = tensor({2});
  expect_error<DTypeError>([&] { cond(x, same, same, {x}); }, "[cond] the predicate is (2) f32; it must be a bool");
  expect_error<ShapeError>([&] { cond(x > 0.0, same, same, {x}); }, "[cond] the predicate has shape (2)");
  expect_error<ValueError>([&] { cond(Tensor(), same, same, {x}); }, "[cond] the predicate is undefined");
  expect_error<ValueError>([&] { cond(yes, same, [](const Tensors&) { return Tensors{}; }, {x}); },
                           "[cond] the branches give 1 and 0 tensors");
  expect_error<ShapeError>([&] { cond(yes, same, [](const Tensors& v) { return Tensors{sum(v[0])}; }, {x}); },
                           "[cond] result 0 of the branches is (2) and ()");
  expect_error<DTypeError>([&] { cond(yes, same, [](const Tensors& v) { return Tensors{v[0] > 0.0}; }, {x}); },
                           "[cond] result 0 of the branches is f32 and bool");
  expect_error<ValueError>([&] { cond(yes, same, {}, {x}); }, "[cond] the else branch is an empty function");
  expect_error<ValueError>([&] { cond(yes, same, same, {Tensor()}); }, "[cond] operand 0 is undefined");
}

TEST_F(Control, CondRunsOneBranchWhereItCan) {
  int then_calls = 0, else_calls = 0;
  const auto a = [&](const Tensors& x) {
    ++then_calls;
    return x;
  };
  const auto b = [&](const Tensors& x) {
    ++else_calls;
    return Tensors{x[0] * 2.0};
  };
  EXPECT_EQ(cond(false, a, b, {tensor({}, 4)})[0].item(), 8);
  EXPECT_EQ(cond(full({}, 1, DType::boolean, &d), a, b, {tensor({}, 4)})[0].item(), 4);
  EXPECT_EQ(then_calls, 1);
  EXPECT_EQ(else_calls, 1);
}

TEST_F(Control, WhileRefuses) {
  const auto below = [](const Tensors& c) { return sum(c[0]) < 100.0; };
  const auto twice = [](const Tensors& c) { return Tensors{c[0] * 2.0}; };
  const Tensors init{tensor({2})};
  expect_error<ValueError>([&] { while_loop(below, twice, {}); }, "[while_loop] there are no carries");
  expect_error<ValueError>([&] { while_loop(below, twice, init, {-1, 16}); }, "[while_loop] max_iterations is -1");
  expect_error<ValueError>([&] { while_loop(below, twice, init, {{}, 0}); }, "[while_loop] the chunk is 0");
  expect_error<DTypeError>(
      [&] {
        while_loop([](const Tensors& c) { return sum(c[0]); }, twice, init, {3, 16});
      },
      "[while_loop] the condition is () f32");
  expect_error<ShapeError>(
      [&] {
        while_loop(below, [](const Tensors& c) { return Tensors{sum(c[0])}; }, init, {3, 16});
      },
      "[while_loop] the body makes carry 0 () from (2)");
  expect_error<ValueError>(
      [&] {
        while_loop(below, [](const Tensors&) { return Tensors{}; }, init, {3, 16});
      },
      "[while_loop] the body gives 0 carries");
  expect_error<ValueError>([&] { while_loop(below, twice, {Tensor()}, {3, 16}); }, "[while_loop] carry 0 is undefined");
}

TEST_F(Control, UnboundedWhileHasNoGradient) {
  Tensor x = Tensor::from_vector(std::vector<float>{1, 2}, Shape{2}, &d);
  x.set_requires_grad();
  const WhileResult r = while_loop([](const Tensors& c) { return sum(c[0]) < 100.0; },
                                   [](const Tensors& c) { return Tensors{c[0] * 2.0}; }, {x}, {{}, 4});
  EXPECT_EQ(r.carry[0].to_doubles(), (std::vector<double>{64, 128}));
  EXPECT_EQ(r.iterations.item(), 6);
  expect_error<GradError>([&] { backward(sum(r.carry[0]) + sum(x)); }, "set WhileOptions::max_iterations");
}

}  // namespace
}  // namespace heddle
