// Methods of Tensor, compound assignment, exact items, printing to a stream.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/op/primitives.h"
#include "tests/support/reference_device.h"
#include "tests/unit/places.h"
#include "tests/unit/reference_tensors.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using test::floats;
using test::here;
using test::place;
using tests::reference;

template <class T>
Tensor one(T value) {
  const T data[] = {value};
  return Tensor::from_host(std::span<const T>(data), {}, &reference());
}
std::vector<float> values(const Tensor& x) { return x.to_vector<float>(); }

Tensor operand(DTypeRule rule) {
  return ones({2, 2}, rule == DTypeRule::whole ? DType::i32 : DType::f32, &reference());
}

// Whole numbers take other ways to some rows; the last operation is the row itself for these operands.
TEST(Methods, EveryElementwiseRowHasOne){
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  {                                                                  \
    const Tensor x = operand(DTypeRule::rule), y = x.name();         \
    EXPECT_EQ(y.node()->op, &ops::name##_op) << #name;               \
  }
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc)                                           \
  {                                                                                                             \
    const Tensor x = operand(DTypeRule::rule), y = x + 1, z = x.name(y), beside = x.name(2), free = name(x, y); \
    EXPECT_EQ(z.node()->op, free.node()->op) << #name;                                                          \
    EXPECT_EQ(z.dtype(), free.dtype()) << #name;                                                                \
    if (x.dtype() == DType::f32 && DTypeRule::rule != DTypeRule::logical) {                                     \
      EXPECT_EQ(z.node()->inputs, (std::vector<NodePtr>{x.node(), y.node()})) << #name;                         \
      EXPECT_EQ(beside.node()->inputs[0], x.node()) << #name;                                                   \
    }                                                                                                           \
  }
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
}

TEST(Methods, ReductionsAndRows) {
  const Tensor x = floats({1, -2, 3, 4, 5, -6}, {2, 3});
  EXPECT_EQ(x.sum().item(), 5);
  EXPECT_EQ(x.sum({1}, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(values(x.sum({1}, true)), (std::vector<float>{2, 3}));
  EXPECT_EQ(values(x.mean({0})), (std::vector<float>{2.5f, 1.5f, -1.5f}));
  EXPECT_EQ(values(x.max({-1})), (std::vector<float>{3, 5}));
  EXPECT_EQ(values(x.min({-1}, true)), (std::vector<float>{-2, -6}));
  EXPECT_EQ(x.prod().item(), 720);
  EXPECT_EQ(x.argmax().item<int64_t>(), 4);
  EXPECT_EQ(x.argmax(1, true).shape(), (Shape{2, 1}));
  EXPECT_EQ(x.argmin(1).to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(values(x.var({0}, false, 0)), (std::vector<float>{2.25f, 12.25f, 20.25f}));
  EXPECT_EQ(values(x.stddev({0}, true, 0)), (std::vector<float>{1.5f, 3.5f, 4.5f}));
  EXPECT_NEAR(floats({3, -4}, {2}).norm().item(), 5, 1e-5);
  EXPECT_NEAR(floats({3, -4}, {2}).norm(1).item(), 7, 1e-5);
  EXPECT_NEAR(x.logsumexp({1}).to_doubles()[0], std::log(std::exp(1) + std::exp(-2) + std::exp(3)), 1e-6);
  EXPECT_EQ((x > 0).all().item<bool>(), false);
  EXPECT_EQ((x > 0).any({0}).to_vector<int>(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(values(x.cumsum(1)), (std::vector<float>{1, -1, 2, 4, 9, 3}));
  EXPECT_EQ(values(x.cumsum(0, true, true)), (std::vector<float>{4, 5, -6, 0, 0, 0}));
  EXPECT_EQ(values(x.sort(1, true).values), (std::vector<float>{3, 1, -2, 5, 4, -6}));
  EXPECT_EQ(x.topk(1, 0).indices.to_vector<int>(), (std::vector<int>{1, 1, 0}));
  const Tensor rows = floats({0, std::log(3.0f)}, {1, 2});
  EXPECT_NEAR(rows.softmax().to_doubles()[1], 0.75, 1e-6);
  EXPECT_NEAR(rows.log_softmax(1).to_doubles()[0], std::log(0.25), 1e-6);
  EXPECT_EQ(values(rows.softmax(0)), (std::vector<float>{1, 1}));
  EXPECT_EQ(values(x.matmul(floats({1, 2, 3}, {3}))), (std::vector<float>{6, -4}));
}

TEST(Methods, ShapesAndParts) {
  const Tensor x = floats({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(x.reshape({3, -1}).shape(), (Shape{3, 2}));
  EXPECT_EQ(x.reshape(Shape{6}).shape(), (Shape{6}));
  EXPECT_EQ(x.reshape(std::vector<int64_t>{1, -1}).shape(), (Shape{1, 6}));
  EXPECT_EQ(x.flatten().shape(), (Shape{6}));
  EXPECT_EQ(x.unsqueeze(-1).flatten(1).shape(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(0).squeeze().shape(), (Shape{2, 3}));
  EXPECT_EQ(x.unsqueeze(1).squeeze(1).shape(), (Shape{2, 3}));
  EXPECT_EQ(values(x.transpose()), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(x.unsqueeze(0).transpose(0, 1).shape(), (Shape{2, 1, 3}));
  EXPECT_EQ(values(x.permute({1, 0})), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(x.expand({4, 2, 3}).shape(), (Shape{4, 2, 3}));
  EXPECT_EQ(values(x.narrow(1, 1, 1).repeat({1, 2})), (std::vector<float>{1, 1, 4, 4}));
  EXPECT_EQ(values(x.flip({0})), (std::vector<float>{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(values(x.slice(1, {.start = 1})), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(values(x.select(1, -1)), (std::vector<float>{2, 5}));
  const Tensor picks = Tensor::from_vector<int64_t>({2, 0}, {2}, &reference());
  EXPECT_EQ(values(x.index_select(1, picks)), (std::vector<float>{2, 0, 5, 3}));
  EXPECT_EQ(values(x.gather(1, picks.reshape({2, 1}))), (std::vector<float>{2, 3}));
  EXPECT_EQ(values(x.split({1, 2}, 1)[1]), (std::vector<float>{1, 2, 4, 5}));
  EXPECT_EQ(values(x.chunk(2)[1]), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(x.cast(DType::i64).dtype(), DType::i64);
  EXPECT_EQ(values(x.clamp(1, 3)), (std::vector<float>{1, 1, 2, 3, 3, 3}));
  EXPECT_EQ(values(x.clamp({}, 3)), (std::vector<float>{0, 1, 2, 3, 3, 3}));
  EXPECT_EQ(values(x.masked_fill(x > 3, -1)), (std::vector<float>{0, 1, 2, 3, -1, -1}));
}

TEST(Methods, NameTheLineAndTheFunction) {
  const Tensor x = floats({0, 1, 2, 3, 4, 5}, {2, 3});
  EXPECT_EQ(place(x.exp()), here());
  EXPECT_EQ(place(x.add(x)), here());
  EXPECT_EQ(place(x.pow(2)), here());
  EXPECT_EQ(place(x.sum({1})), here());
  EXPECT_EQ(place(x.matmul(x.transpose())), here());
  EXPECT_EQ(place(x.reshape({3, 2})), here());
  EXPECT_EQ(place(x.softmax()), here());
  EXPECT_EQ(place(x.flip({0})), here());
  test::expect_refused({
      {[&] { x.matmul(x); }, "[matmul] "},
      {[&] { x.reshape({4}); }, "[reshape] (2, 3) has 6 elements, (4) has 4 (methods_test.cpp:"},
      {[&] { x.sum({2}); }, "[sum] axis 2 is out of range"},
      {[] { Tensor().exp(); }, "[exp] tensor: this handle is empty"},
  });
}

TEST(CompoundAssignment, GivesTheHandleANewValue) {
  Tensor x = floats({1, 2}, {2});
  const Tensor copy = x;
  Tensor& same = (x += floats({10, 20}, {2}));
  EXPECT_EQ(&same, &x);
  EXPECT_EQ(place(x), here(__LINE__ - 2));
  EXPECT_EQ(values(x), (std::vector<float>{11, 22}));
  x -= 1;
  EXPECT_EQ(place(x), here(__LINE__ - 1));
  x *= x;
  x /= 10;
  EXPECT_EQ(values(x), (std::vector<float>{10, 44.1f}));
  EXPECT_EQ(values(copy), (std::vector<float>{1, 2}));  // assign() would have changed it
  x += floats({1, 2, 3}, {3, 1});
  EXPECT_EQ(x.shape(), (Shape{3, 2}));
  Tensor whole = one<int32_t>(7);
  whole /= 2;
  EXPECT_EQ(whole.dtype(), DType::f32);
  EXPECT_EQ(whole.item(), 3.5);
  test::expect_refused({{[] {
                           Tensor y;
                           y += 1;
                         },
                         "[tensor] this handle is empty"},
                        {[&] {
                           x += floats({1, 2, 3}, {3});
                         },
                         "[add] "}});
  EXPECT_EQ(x.shape(), (Shape{3, 2}));  // as it was
}

TEST(CompoundAssignment, KeepsTheHistoryAndLeavesLeavesAlone) {
  Tensor w = floats({3}, {1});
  w.set_requires_grad();
  Tensor y = w * 1;
  y *= w;
  y *= y;
  y += 2 * w;
  backward(sum(y));  // w^4 + 2 w
  EXPECT_EQ(values(w.grad()), (std::vector<float>{4 * 27 + 2}));
  EXPECT_THROW(w += 1, GradError);
  const NoGradScope no_grad;
  EXPECT_THROW(w -= w.grad() * 0.1, GradError);
  EXPECT_TRUE(w.requires_grad());
  EXPECT_EQ(values(w), (std::vector<float>{3}));
  w.assign(w - 1);
  EXPECT_TRUE(w.requires_grad());
  EXPECT_EQ(values(w), (std::vector<float>{2}));
}

TEST(Item, IsExact) {
  for (const int64_t value : {INT64_MAX, INT64_MIN, int64_t{-1}, (int64_t{1} << 53) + 1}) {
    EXPECT_EQ(one(value).item<int64_t>(), value);
    EXPECT_EQ(one(value).to_vector<int64_t>(), (std::vector<int64_t>{value}));
  }
  EXPECT_EQ(one<uint8_t>(255).item<uint8_t>(), 255);
  EXPECT_EQ(one<uint8_t>(255).item<int>(), 255);
  EXPECT_EQ(one<int8_t>(-128).item<int8_t>(), -128);
  EXPECT_EQ(one<int8_t>(-128).item<int64_t>(), -128);
  EXPECT_EQ(one<int32_t>(INT32_MIN).item<int64_t>(), INT32_MIN);
  EXPECT_TRUE(one(true).item<bool>());
  EXPECT_FALSE(one(false).item<bool>());
  EXPECT_EQ(one(true).item<uint8_t>(), 1);
  EXPECT_EQ(one(0.1).item<double>(), 0.1);
  EXPECT_EQ(one(0.1f).item<float>(), 0.1f);
  EXPECT_EQ(one(0.1f).item<double>(), static_cast<double>(0.1f));
  EXPECT_EQ(one(65504.0f).cast(DType::f16).item<float>(), 65504.0f);
  EXPECT_TRUE(std::isnan(one(std::numeric_limits<float>::quiet_NaN()).item<float>()));
  EXPECT_EQ(one(-std::numeric_limits<double>::infinity()).item<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ((floats({1, 2, 3, 4}, {2, 2}).transpose()[{0, 1}].item<float>()), 3);
}

TEST(Item, RefusesTypesThatDoNotHoldTheDtype) {
  test::expect_refused({
      {[] { one<int64_t>(1).item<int32_t>(); }, "[item] i32 does not hold every i64"},
      {[] { one<int64_t>(1).item<double>(); }, "[item] f64 does not hold every i64"},
      {[] { one<int8_t>(1).item<uint8_t>(); }, "[item] u8 does not hold every i8"},
      {[] { one<int32_t>(1).item<bool>(); }, "[item] bool does not hold every i32"},
      {[] { one(1.0).item<float>(); }, "[item] f32 does not hold every f64"},
      {[] { one(1.0f).item<int64_t>(); }, "[item] i64 does not hold every f32"},
      {[] { one(true).item<float>(); }, "[item] f32 does not hold every bool"},
      {[] {
         floats({1, 2}, {2}).item<float>();
       },
       "[item] needs exactly one element, but the shape is (2)"},
      {[] { floats({}, {0}).item<int64_t>(); }, "[item] needs exactly one element, but the shape is (0)"},
  });
  EXPECT_THROW(one(1.0).item<float>(), DTypeError);
  EXPECT_THROW(floats({1, 2}, {2}).item<float>(), ShapeError);
  EXPECT_EQ(one<int64_t>(3).item(), 3.0);  // without a type: a double, whatever it is
}

TEST(ToVector, KeepsWholeNumbersWhole) {
  const std::vector<int64_t> big{INT64_MAX, -(int64_t{1} << 53) - 1};
  EXPECT_EQ(Tensor::from_vector(big, {2}, &reference()).to_vector<int64_t>(), big);
  EXPECT_EQ(floats({1.9f, -1.9f}, {2}).to_vector<int>(), (std::vector<int>{1, -1}));
  const std::vector<bool> flags = (floats({1, -1}, {2}) > 0).to_vector<bool>();
  EXPECT_EQ(flags, (std::vector<bool>{true, false}));
}

TEST(Print, GoesToAStream) {
  std::ostringstream out;
  out << "x = " << floats({1, 2.5f}, {2}) << ", " << Tensor() << '\n';
  EXPECT_EQ(out.str(), "x = tensor([1, 2.5], f32, reference:0), tensor(undefined)\n");
}

}  // namespace
}  // namespace heddle
