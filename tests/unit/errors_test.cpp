// What the functions refuse, and in which words.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/reference_device.h"

namespace heddle {
namespace {

using tests::reference;

Tensor f32(const Shape& shape) { return zeros(shape, DType::f32, &reference()); }
Tensor i32(const Shape& shape) { return zeros(shape, DType::i32, &reference()); }
Tensor boolean(const Shape& shape) { return zeros(shape, DType::boolean, &reference()); }

struct Refusal {
  std::string type, text;
  bool operator==(const Refusal&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Refusal& r) { return out << r.type << ": " << r.text; }

// The message without its last words, " (errors_test.cpp:12)", which must be there and name that line; only what throws
// before the call that is tested (a Shape, Tensor's operators on an empty handle) has none.
std::string without_place(const std::string& text, unsigned line) {
  const std::string place = " (errors_test.cpp:" + std::to_string(line) + ")";
  if (text.ends_with(place)) return text.substr(0, text.size() - place.size());
  return text.starts_with("[shape]") ? text : text + " WITHOUT ITS PLACE";
}

template <class F>
Refusal refusal(F&& f, unsigned line) {
  try {
    f();
  } catch (const ShapeError& e) {
    return {"ShapeError", without_place(e.what(), line)};
  } catch (const DTypeError& e) {
    return {"DTypeError", without_place(e.what(), line)};
  } catch (const ValueError& e) {
    return {"ValueError", without_place(e.what(), line)};
  }
  return {"nothing", ""};
}

#define EXPECT_REFUSAL(type, text, expression) \
  EXPECT_EQ(refusal([] { (void)(expression); }, __LINE__), (Refusal{type, text}))

TEST(Errors, Creation) {
  EXPECT_REFUSAL("ShapeError", "[from_host] 3 elements given, but shape (2, 2) holds 4",
                 Tensor::from_vector<float>({1, 2, 3}, {2, 2}, &reference()));
  EXPECT_REFUSAL("ValueError", "[arange] start 0, stop 5 and step 0 must be finite and the step not 0",
                 arange(0, 5, 0, DType::f32, &reference()));
  EXPECT_REFUSAL("ValueError", "[arange] start 0 and step 0.5 must be whole numbers for i32",
                 arange(0, 5, 0.5, DType::i32, &reference()));
  EXPECT_REFUSAL("DTypeError", "[arange] bool holds no range; use an integer dtype",
                 arange(0, 2, 1, DType::boolean, &reference()));
  EXPECT_REFUSAL("ValueError", "[linspace] the count is -1; it must not be negative",
                 linspace(0, 1, -1, DType::f32, &reference()));
  EXPECT_REFUSAL("DTypeError", "[linspace] needs a floating dtype, not i32; use arange() for integers",
                 linspace(0, 1, 3, DType::i32, &reference()));
  EXPECT_REFUSAL("ValueError", "[eye] the shape (-3, -3) has a negative dimension",
                 eye(-3, -1, DType::f32, &reference()));
  EXPECT_REFUSAL("ShapeError", "[shape] negative dimension -2 in (-2)", full({-2}, 1, DType::f32, &reference()));
}

TEST(Errors, Elementwise) {
  EXPECT_REFUSAL("ShapeError",
                 "[add] shapes (32, 10) and (32) do not broadcast: 10 beside 32 in dimension 1 from the end (they must "
                 "be equal or one of them 1)",
                 f32({32, 10}) + f32({32}));
  EXPECT_REFUSAL("ShapeError",
                 "[where] shapes (3) and (2) do not broadcast: 3 beside 2 in dimension 1 from the end (they must be "
                 "equal or one of them 1)",
                 where(boolean({3}), f32({2}), f32({2})));
  EXPECT_REFUSAL("ValueError", "[clamp] needs a lower bound, an upper bound or both; got neither",
                 clamp(f32({2}), {}, {}));
  EXPECT_REFUSAL("ValueError", "[clamp] a bound is NaN", clamp(f32({2}), NAN, {}));
}

TEST(Errors, Reductions) {
  EXPECT_REFUSAL("ShapeError", "[sum] axis 2 is out of range for 2 dimensions", sum(f32({2, 3}), {2}));
  EXPECT_REFUSAL("ShapeError", "[mean] axis 1 is given twice", mean(f32({2, 3}), {1, -1}));
  EXPECT_REFUSAL(
      "ShapeError",
      "[max] (3, 0) has no elements along the reduced axes, and max of nothing is undefined; check for an empty batch",
      max(f32({3, 0}), {1}));
  EXPECT_REFUSAL("ShapeError",
                 "[argmin] (0) has no elements along the reduced axes, and argmin of nothing is undefined; check for "
                 "an empty batch",
                 argmin(f32({0, 4})));
  EXPECT_REFUSAL("ShapeError", "[argmax] axis 5 is out of range for 2 dimensions", argmax(f32({2, 3}), 5));
}

TEST(Errors, Movement) {
  EXPECT_REFUSAL("ShapeError", "[reshape] (2, 3) has 6 elements, (4) has 4", reshape(f32({2, 3}), Shape{4}));
  EXPECT_REFUSAL("ShapeError", "[reshape] (2, 3) has 6 elements, which do not fill (4, -1): -1 cannot be inferred",
                 reshape(f32({2, 3}), {4, -1}));
  EXPECT_REFUSAL("ShapeError", "[reshape] (-1, -1) has more than one -1", reshape(f32({2, 3}), {-1, -1}));
  EXPECT_REFUSAL("ShapeError", "[permute] (0, 0) is no permutation of the axes of (2, 3); name each axis once",
                 permute(f32({2, 3}), {0, 0}));
  EXPECT_REFUSAL("ShapeError", "[transpose] axis -2 is out of range for 1 dimension", transpose(f32({2})));
  EXPECT_REFUSAL(
      "ShapeError",
      "[expand] (2, 3) does not broadcast to (4, 3): counted from the last, each dimension must be equal or 1",
      expand(f32({2, 3}), {4, 3}));
  EXPECT_REFUSAL("ShapeError", "[squeeze] axis 1 of (2, 3) has size 3, not 1", squeeze(f32({2, 3}), 1));
  EXPECT_REFUSAL("ShapeError", "[unsqueeze] axis 4 is out of range for 3 dimensions", unsqueeze(f32({2, 3}), 4));
  EXPECT_REFUSAL("ValueError", "[slice] the step is 0; use a positive or negative step",
                 slice(f32({4}), 0, Slice{0, 4, 0}));
  EXPECT_REFUSAL("ShapeError", "[flip] axis 2 is out of range for 2 dimensions", flip(f32({2, 3}), {2}));
  EXPECT_REFUSAL("ValueError", "[pad] amounts (-1, 0) of axis 0 are negative; use slice() to cut",
                 pad(f32({2}), {{-1, 0}}));
  EXPECT_REFUSAL("ShapeError", "[pad] amounts for 2 axes given, but the shape is (2)", pad(f32({2}), {{1, 0}, {1, 1}}));
  EXPECT_REFUSAL("ValueError", "[pad] the value 0.5 does not fit dtype i32; cast the tensor to a floating dtype first",
                 pad(i32({2}), {{1, 0}}, 0.5));
  EXPECT_REFUSAL("ValueError", "[concat] needs at least one tensor", concat(std::span<const Tensor>(), 0));
  EXPECT_REFUSAL("ShapeError", "[concat] part 0 is (2, 3), part 1 is (2, 4); all dimensions but axis 0 must be equal",
                 concat({f32({2, 3}), f32({2, 4})}, 0));
  EXPECT_REFUSAL("ShapeError", "[split] sizes (2, 3) do not add up to axis 0 of (4)", split(f32({4}), {2, 3}, 0));
}

TEST(Errors, Indexing) {
  EXPECT_REFUSAL("DTypeError", "[take] indices must be i32 or i64, not f32; cast them first", take(f32({3}), f32({2})));
  EXPECT_REFUSAL("ShapeError", "[take] axis 0 of (0, 4) has no elements to index", take(f32({0, 4}), i32({2})));
  EXPECT_REFUSAL("ShapeError",
                 "[gather] x is (3, 4), indices are (5, 4) along axis 1: ranks must be equal and indices no larger "
                 "than x but along the axis; "
                 "take() indexes whole slices",
                 gather(f32({3, 4}), 1, i32({5, 4})));
  EXPECT_REFUSAL("ShapeError", "[embedding] the weight must be (rows, width), not (3)", embedding(f32({3}), i32({2})));
  EXPECT_REFUSAL("ValueError", "[one_hot] the number of classes is 0; it must be positive", one_hot(i32({2}), 0));
  EXPECT_REFUSAL("DTypeError", "[one_hot] indices must be i32 or i64, not bool; cast them first",
                 one_hot(boolean({2}), 3));
  EXPECT_REFUSAL("ShapeError",
                 "[scatter_add] x is (3, 4), indices (2, 5), source (2, 5) along axis 0: ranks must be equal, indices "
                 "no larger than source, and no larger "
                 "than x but along the axis",
                 scatter_add(f32({3, 4}), 0, i32({2, 5}), f32({2, 5})));
  EXPECT_REFUSAL("DTypeError", "[scatter_add] x is f32, source i32; cast the source",
                 scatter_add(f32({3}), 0, i32({2}), i32({2})));
  EXPECT_REFUSAL("DTypeError", "[index_add] x is f32, source i32; cast the source",
                 index_add(f32({3}), i32({2}), i32({2})));
  EXPECT_REFUSAL(
      "ShapeError",
      "[index_add] x is (3, 4), indices (2), source (2, 5): indices must be (n), and the source n rows of x's kind",
      index_add(f32({3, 4}), i32({2}), f32({2, 5})));
}

TEST(Errors, Matmul) {
  EXPECT_REFUSAL("ShapeError",
                 "[matmul] inner dimensions differ: a is (32, 784), b is (128, 784); did you mean transpose(b)?",
                 matmul(f32({32, 784}), f32({128, 784})));
  EXPECT_REFUSAL("ShapeError",
                 "[matmul] inner dimensions differ: a is (784, 32), b is (784, 128); did you mean transpose(a)?",
                 matmul(f32({784, 32}), f32({784, 128})));
  EXPECT_REFUSAL("ShapeError", "[matmul] inner dimensions differ: a is (5, 7), b is (9, 5); did you mean matmul(b, a)?",
                 matmul(f32({5, 7}), f32({9, 5})));
  EXPECT_REFUSAL("ShapeError", "[matmul] inner dimensions differ: a is (32, 784), b is (128, 10)",
                 matmul(f32({32, 784}), f32({128, 10})));
  EXPECT_REFUSAL("ShapeError", "[matmul] inner dimensions differ: a is (3), b is (4)", matmul(f32({3}), f32({4})));
  EXPECT_REFUSAL("ShapeError", "[matmul] needs vectors or matrices: a is (), b is (4); use * for scalars",
                 matmul(f32({}), f32({4})));
  EXPECT_REFUSAL("ShapeError", "[matmul] batch dimensions do not broadcast: a is (2, 3, 4), b is (5, 4, 6)",
                 matmul(f32({2, 3, 4}), f32({5, 4, 6})));
}

TEST(Errors, Random) {
  EXPECT_REFUSAL("ValueError", "[uniform] the range [2, 1) is empty or infinite", uniform({2}, 2, 1, &reference()));
  EXPECT_REFUSAL("ValueError", "[normal] the standard deviation is -1; it must be finite and not negative",
                 normal({2}, 0, -1, &reference()));
  EXPECT_REFUSAL("ValueError", "[bernoulli] the probability is 1.5; it must be between 0 and 1",
                 bernoulli({2}, 1.5, &reference()));
  EXPECT_REFUSAL("ValueError", "[dropout] the probability is nan; it must be between 0 and 1", dropout(f32({2}), NAN));
  EXPECT_REFUSAL("DTypeError", "[dropout] needs a floating tensor, not i32; cast it first", dropout(i32({2}), 0.5));
}

TEST(Errors, Losses) {
  EXPECT_REFUSAL("ShapeError", "[softmax] axis 2 is out of range for 2 dimensions", softmax(f32({2, 3}), 2));
  EXPECT_REFUSAL("ShapeError", "[softmax] a scalar has no axis; reshape it to (1)", softmax(f32({})));
  EXPECT_REFUSAL(
      "ShapeError",
      "[cross_entropy] logits are (4, 10), targets (4, 10); expected (N, C) and (N): class numbers, not one-hot rows",
      cross_entropy(f32({4, 10}), i32({4, 10})));
  EXPECT_REFUSAL("DTypeError", "[cross_entropy] targets must be i32 or i64 class numbers, not f32",
                 cross_entropy(f32({4, 10}), f32({4})));
  EXPECT_REFUSAL("ShapeError", "[cross_entropy] logits are (4, 0): there are no classes",
                 cross_entropy(f32({4, 0}), i32({4})));
  EXPECT_REFUSAL(
      "ShapeError",
      "[nll_loss] log probabilities are (4, 10), targets (3); expected (N, C) and (N): class numbers, not one-hot rows",
      nll_loss(f32({4, 10}), i32({3})));
  EXPECT_REFUSAL("ShapeError",
                 "[mse_loss] input is (32, 1), target is (32); they must be the same (a loss does not broadcast); "
                 "reshape() or expand() one of them",
                 mse_loss(f32({32, 1}), f32({32})));
  EXPECT_REFUSAL("ValueError", "[huber_loss] delta is 0; it must be positive", huber_loss(f32({2}), f32({2}), 0));
}

TEST(Errors, Attention) {
  EXPECT_REFUSAL("ShapeError",
                 "[scaled_dot_product_attention] needs q (B, H, T, D), k (B, J, S, D) and v (B, J, S, E): q is (2, 3, "
                 "4), k is (1, 2, 3, 4), v is (1, 2, 3, 4)",
                 scaled_dot_product_attention(f32({2, 3, 4}), f32({1, 2, 3, 4}), f32({1, 2, 3, 4})));
  EXPECT_REFUSAL(
      "ShapeError",
      "[scaled_dot_product_attention] batch sizes differ: q is (2, 2, 3, 4), k is (1, 2, 3, 4), v is (1, 2, 3, 4)",
      scaled_dot_product_attention(f32({2, 2, 3, 4}), f32({1, 2, 3, 4}), f32({1, 2, 3, 4})));
  EXPECT_REFUSAL("ShapeError",
                 "[scaled_dot_product_attention] k and v differ in heads or length: q is (1, 2, 3, 4), k is (1, 2, 5, "
                 "4), v is (1, 2, 6, 4)",
                 scaled_dot_product_attention(f32({1, 2, 3, 4}), f32({1, 2, 5, 4}), f32({1, 2, 6, 4})));
  EXPECT_REFUSAL("ShapeError",
                 "[scaled_dot_product_attention] head sizes of q and k differ: q is (1, 2, 3, 4), k is (1, 2, 5, 8), v "
                 "is (1, 2, 5, 8)",
                 scaled_dot_product_attention(f32({1, 2, 3, 4}), f32({1, 2, 5, 8}), f32({1, 2, 5, 8})));
  EXPECT_REFUSAL("ShapeError",
                 "[scaled_dot_product_attention] 3 query heads are no multiple of 2 key heads: q is (1, 3, 3, 4), k is "
                 "(1, 2, 5, 4), v is (1, 2, 5, 4)",
                 scaled_dot_product_attention(f32({1, 3, 3, 4}), f32({1, 2, 5, 4}), f32({1, 2, 5, 4})));
  EXPECT_REFUSAL("DTypeError", "[scaled_dot_product_attention] needs floating tensors, not i32; cast it first",
                 scaled_dot_product_attention(i32({1, 2, 3, 4}), f32({1, 2, 3, 4}), f32({1, 2, 3, 4})));
  const auto refused = [](const std::function<void(AttentionOptions&)>& set) {
    const unsigned line = __LINE__ + 5;
    return refusal(
        [&] {
          AttentionOptions o;
          set(o);
          static_cast<void>(scaled_dot_product_attention(f32({2, 2, 3, 4}), f32({2, 2, 5, 4}), f32({2, 2, 5, 4}), o));
        },
        line);
  };
  using O = AttentionOptions;
  EXPECT_EQ(
      refused([](O& o) {
        o.bias = f32({2, 2, 3, 6});
      }),
      (Refusal{"ShapeError",
               "[scaled_dot_product_attention] bias (2, 2, 3, 6) does not broadcast to the scores' (2, 2, 3, 5)"}));
  EXPECT_EQ(refused([](O& o) {
              o.bias = boolean({3, 5});
            }),
            (Refusal{"DTypeError",
                     "[scaled_dot_product_attention] bias is bool, expected a floating dtype; did you mean where(mask, "
                     "zeros_like(...), -INFINITY), or key_mask?"}));
  EXPECT_EQ(refused([](O& o) {
              o.key_mask = f32({2, 5});
            }),
            (Refusal{"DTypeError", "[scaled_dot_product_attention] key_mask is f32, expected bool (true: attend)"}));
  EXPECT_EQ(refused([](O& o) {
              o.key_mask = boolean({2, 3});
            }),
            (Refusal{"ShapeError", "[scaled_dot_product_attention] key_mask is (2, 3), expected (B, S) = (2, 5)"}));
  EXPECT_EQ(refused([](O& o) { o.key_lengths = i32({3}); }),
            (Refusal{"ShapeError", "[scaled_dot_product_attention] key_lengths is (3), expected (B) = (2)"}));
  EXPECT_EQ(refused([](O& o) { o.key_lengths = f32({2}); }).type, "DTypeError");
  EXPECT_EQ(refused([](O& o) { o.dropout = 1.5; }),
            (Refusal{"ValueError",
                     "[scaled_dot_product_attention] the probability of dropout is 1.5; it must be between 0 and 1"}));
  EXPECT_EQ(refused([](O& o) { o.scale = INFINITY; }),
            (Refusal{"ValueError", "[scaled_dot_product_attention] scale is inf; it must be finite"}));
}

TEST(Errors, Statistics) {
  EXPECT_REFUSAL("ShapeError", "[any] axis 2 is out of range for 2 dimensions", any(f32({2, 3}), {2}));
  EXPECT_REFUSAL("ShapeError", "[norm] axis 1 is given twice", norm(f32({2, 3}), 2, {1, -1}));
  EXPECT_REFUSAL("ValueError", "[norm] p is NaN; it must be a number or an infinity", norm(f32({2}), NAN));
  EXPECT_REFUSAL("ShapeError",
                 "[norm] axis 1 of (2, 0) has no elements, and norm of nothing is undefined; check for an empty batch",
                 norm(f32({2, 0}), INFINITY, {1}));
  EXPECT_REFUSAL(
      "ShapeError",
      "[aminmax] axis 0 of (0, 3) has no elements, and aminmax of nothing is undefined; check for an empty batch",
      aminmax(f32({0, 3})));
  EXPECT_REFUSAL("ShapeError", "[median] a scalar has no axis; reshape it to (1)", median(f32({})));
  EXPECT_REFUSAL("ValueError", "[kthvalue] k is 0, and axis 1 of (2, 3) has 3 elements; k counts from 1",
                 kthvalue(f32({2, 3}), 0));
  EXPECT_REFUSAL("ValueError", "[quantile] q is 1.5; it must be between 0 and 1", quantile(f32({3}), 1.5));
  EXPECT_REFUSAL("ValueError", "[quantile] no q is given", quantile(f32({3}), std::vector<double>{}));
  EXPECT_REFUSAL("ValueError", "[histogram] the number of bins is 0; it must be positive",
                 histogram(f32({3}), 0, 0, 1));
  EXPECT_REFUSAL("ValueError", "[histogram] the range [1, 1] is empty or infinite", histogram(f32({3}), 4, 1, 1));
  EXPECT_REFUSAL("DTypeError", "[bincount] x is f32; it must be an integer tensor; histogram() counts floats",
                 bincount(f32({3}), 4));
  EXPECT_REFUSAL("ShapeError", "[bincount] x is (3), weights (2); they must be the same",
                 bincount(i32({3}), f32({2}), 4));
  EXPECT_REFUSAL("ValueError", "[bincount] the length is 0; it must be positive", bincount(i32({3}), 0));
  EXPECT_REFUSAL("ShapeError", "[cummax] axis 3 is out of range for 1 dimension", cummax(f32({3}), 3));
  EXPECT_REFUSAL("ValueError", "[diff] it is to be taken -1 times; that must not be negative", diff(f32({3}), -1));
  EXPECT_REFUSAL("ShapeError", "[trapezoid] x is (2), y (3); x must have y's shape or be (3)",
                 trapezoid(f32({3}), f32({2})));
  EXPECT_REFUSAL("ShapeError", "[cov] x is (2, 3, 4); it must be (variables, observations) or (observations)",
                 cov(f32({2, 3, 4})));
}

TEST(Errors, Distributions) {
  EXPECT_REFUSAL("ValueError", "[randint] the range [3, 3) is empty", randint(3, 3, {2}, &reference()));
  EXPECT_REFUSAL("ValueError", "[randint] the range [0, 2199023255552) is too wide; at most 2^40 numbers",
                 randint(0, int64_t{1} << 41, {2}, &reference()));
  EXPECT_REFUSAL("ValueError", "[randperm] the count is -1; it must not be negative", randperm(-1, &reference()));
  EXPECT_REFUSAL("ValueError", "[exponential] the rate is 0; it must be finite and positive",
                 exponential({2}, 0, &reference()));
  EXPECT_REFUSAL("ValueError", "[gumbel] the location is nan; it must be finite", gumbel({2}, NAN, 1, &reference()));
  EXPECT_REFUSAL("ValueError", "[laplace] the scale is -1; it must be finite and positive",
                 laplace({2}, 0, -1, &reference()));
  EXPECT_REFUSAL("ValueError", "[truncated_normal] the range [2, 1] is empty",
                 truncated_normal({2}, 0, 1, 2, 1, &reference()));
  EXPECT_REFUSAL("ValueError", "[truncated_normal] nearly nothing of mean 0 and deviation 1 lies in [8, 9]",
                 truncated_normal({2}, 0, 1, 8, 9, &reference()));
  EXPECT_REFUSAL(
      "ValueError",
      "[multinomial] 4 different classes of 3 are asked for; replacement = true draws a class more than once",
      multinomial(f32({2, 3}), 4));
  EXPECT_REFUSAL("ValueError", "[multinomial] the count is 0; it must be positive", multinomial(f32({3}), 0));
  EXPECT_REFUSAL("DTypeError", "[categorical] needs floating logits, not i32; cast them first", categorical(i32({3})));
  EXPECT_REFUSAL("ShapeError", "[categorical] axis 1 of (3, 0) has no classes", categorical(f32({3, 0})));
  EXPECT_REFUSAL("ValueError", "[gumbel_softmax] the temperature is 0; it must be finite and positive",
                 gumbel_softmax(f32({3}), 0));
}

}  // namespace
}  // namespace heddle
