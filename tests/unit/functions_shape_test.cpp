// What core/functions/shape/shape.h and linalg/einsum.h refuse, and in which words; what PyTorch's stored values do not
// show.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/core/functions/functions.h"
#include "tests/support/reference_device.h"
#include "tests/unit/reference_tensors.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using test::expect_refused_as;
using test::of;
using test::whole;
using tests::reference;

TEST(ShapeFunctions, RefuseBadCalls) {
  expect_refused_as<UserError>({
      {[] {
         roll(of({3}), {1, 2});
       },
       "[roll] without axes there is one shift, of the flat tensor; got (1, 2)"},
      {[] {
         roll(of({3}), {1, 2}, {0});
       },
       "[roll] as many shifts as axes; got shifts (1, 2) and axes (0)"},
      {[] { roll(of({3}), 1, 1); }, "[roll] axis 1 is out of range"},
      {[] {
         repeat(of({2, 3}), {2});
       },
       "[repeat] at least one number of copies for each axis; got (2) for (2, 3)"},
      {[] {
         tile(of({2, 3}), {-1});
       },
       "[tile] numbers of copies must not be negative; got (1, -1)"},
      {[] { repeat_interleave(of({2}), -2); }, "[repeat_interleave] the number of copies must not be negative; got -2"},
      {[] {
         stack({of({2}), of({3})});
       },
       "[stack] all tensors must have one shape; got (2) for tensor 0 and (3) for tensor 1"},
      {[] { stack(std::vector<Tensor>{}); }, "[stack] needs at least one tensor; got none"},
      {[] {
         vstack({of({2, 3}), of({2, 4})});
       },
       "[vstack] all tensors must have one shape but along axis 0; got (2, 3) for tensor 0 and (2, 4) for tensor 1"},
      {[] { chunk(of({4}), 0); }, "[chunk] the number of chunks must be positive; got 0"},
      {[] { unstack(of({})); }, "[unstack] needs at least 1 axis; got ()"},
      {[] {
         moveaxis(of({2, 3}), {0, 0}, {0, 1});
       },
       "[moveaxis] as many sources as destinations, each axis once; got (0, 0) to (0, 1)"},
      {[] {
         flatten(of({2, 3}), 1, 0);
       },
       "[flatten] the first axis comes before the last; got 1 and 0 of (2, 3)"},
      {[] {
         unflatten(of({2, 12}), 1, {5, -1});
       },
       "[unflatten] the sizes multiply to axis 1 of (2, 12); got (5, -1)"},
      {[] {
         unflatten(of({2, 12}), 1, {-1, -1});
       },
       "[unflatten] the sizes multiply to axis 1 of (2, 12); got (-1, -1)"},
      {[] {
         broadcast_to(of({3}), {2, 4});
       },
       "[broadcast_to] counted from the last, each axis is equal or 1; got (3) for (2, 4)"},
      {[] {
         broadcast_tensors({of({3}), of({2})});
       },
       "[broadcast_tensors]"},
      {[] {
         meshgrid({of({3}), of({2, 2})});
       },
       "[meshgrid] takes vectors; got (2, 2) for tensor 1"},
      {[] {
         rot90(of({2, 3}), 1, {0, -2});
       },
       "[rot90] the two axes must differ; got 0 and -2"},
      {[] { fliplr(of({3})); }, "[fliplr] needs at least 2 axes; got (3)"},
      {[] { tril(of({3})); }, "[tril] needs at least 2 axes; got (3)"},
      {[] {
         diagonal(of({2, 3}), 0, 1, 1);
       },
       "[diagonal] the two axes must differ; got 1 and 1"},
      {[] {
         diag(of({2, 3, 4}));
       },
       "[diag] takes a vector or a matrix; got (2, 3, 4)"},
      {[] { matrix_trace(of({3})); }, "[matrix_trace] takes a matrix; got (3)"},
      {[] {
         pixel_shuffle(of({6, 2, 2}), 2);
       },
       "[pixel_shuffle] the channels are a multiple of 2 x 2; got (6, 2, 2)"},
      {[] {
         pixel_unshuffle(of({1, 3, 2}), 2);
       },
       "[pixel_unshuffle] height and width are multiples of 2; got (1, 3, 2)"},
      {[] {
         channel_shuffle(of({1, 5, 2}), 2);
       },
       "[channel_shuffle] the channels are a multiple of the groups; got (1, 5, 2) and 2 groups"},
      {[] { sliding_window(of({3}), 0, 4); }, "[sliding_window] windows of 4 do not fit axis 0 of (3)"},
      {[] {
         unfold(of({1, 2, 2}), {3});
       },
       "[unfold] no kernel of 3 x 3 (dilation 1 x 1) fits an image of 2 x 2 with padding 0 x 0"},
      {[] {
         unfold(of({1, 2, 2}), {1, 1, 1});
       },
       "[unfold] kernel has one or two entries; got (1, 1, 1)"},
      {[] {
         fold(of({4, 5}), {3}, {2});
       },
       "[fold] channels are a multiple of 2 x 2, and there are 2 x 2 patches; got (1, 4, 5)"},
  });
}

TEST(PickFunctions, RefuseBadCalls) {
  const Tensor x = of({4, 3});
  expect_refused_as<UserError>({
      {[&] {
         index_select(x, 0, whole({2, 2}));
       },
       "[index_select] indices are a vector; got (2, 2)"},
      {[&] { index_select(x, 0, of({2})); }, "[index_select] indices must be i32 or i64, not f32"},
      {[&] {
         take_along_axis(x, whole({2, 2}), 0);
       },
       "[take_along_axis] ranks are equal, and all axes but 0 broadcast; got x (4, 3) and indices (2, 2)"},
      {[&] {
         put_along_axis(x, whole({2, 3}), of({5}), 0);
       },
       "[put_along_axis] indices broadcast to x, and values to indices; got x (4, 3), indices (2, 3), values (5)"},
      {[&] {
         scatter(x, 0, whole({2, 3}), of({1, 3}));
       },
       "[scatter] ranks are equal, indices no larger than source, and than x but along axis 0; got x (4, 3), indices "
       "(2, 3), source (1, 3)"},
      {[&] {
         scatter(x, 0, whole({2, 3}), whole({2, 3}));
       },
       "[scatter] the values must have x's dtype; got i32 for f32"},
      {[&] { index_put(x, {}, of({})); },
       "[index_put] one tensor of indices for each leading axis written; got 0 for (4, 3)"},
      {[&] { index_put(x, {whole({2})}, of({4})); },
       "[index_put] values broadcast to the elements written; got (4) for (2, 3)"},
      {[&] { index_fill(whole({3}), 0, whole({1}), 0.5); },
       "[index_fill] the value must fit the dtype; got 0.5 for i32"},
      {[&] { masked_fill(x, whole({3}), 1); }, "[masked_fill] the mask is bool; got (3) i32"},
      {[&] {
         masked_fill(x, of({5, 4, 3}, DType::boolean), 1);
       },
       "[masked_fill] mask and value broadcast to x; got x (4, 3), mask (5, 4, 3)"},
      {[&] { masked_fill(of({3}, DType::u8), of({3}, DType::boolean), 300); },
       "[masked_fill] the value must fit the dtype; got 300 for u8"},
      {[&] { masked_select(x, of({2}, DType::boolean)); }, "[masked_select]"},
      {[&] {
         searchsorted(x, of({3, 3}));
       },
       "[searchsorted] the sorted rows are a vector, or have the leading axes of the values; got (4, 3) and (3, 3)"},
      {[&] { bucketize(x, x); }, "[bucketize] boundaries are a vector; got (4, 3)"},
  });
}

TEST(Contractions, RefuseBadCalls) {
  const Tensor x = of({2, 3}), v = of({3});
  expect_refused_as<UserError>({
      {[&] { einsum("ij,jk->ik", {x}); }, "[einsum] one term for each operand; got 2 for 1 operands in \"ij,jk->ik\""},
      {[&] { einsum("ijk->i", {x}); },
       "[einsum] a term has one label for each axis; got 3 for the 2 axes of operand 0 in \"ijk->i\""},
      {[&] { einsum("i->i", {x}); }, "[einsum] a term has one label for each axis; got 1 for the 2 axes of operand 0"},
      {[&] { einsum("i1->i", {x}); }, "[einsum] a term holds letters and at most one \"...\", not '1'; got \"i1->i\""},
      {[&] { einsum("i..->i", {x}); }, "[einsum] a term holds letters and at most one \"...\", not '.'"},
      {[&] { einsum("ij->ik", {x}); }, "[einsum] the result's label 'k' is in no operand; got \"ij->ik\""},
      {[&] { einsum("ij->ii", {x}); }, "[einsum] the result's label 'i' repeats; got \"ij->ii\""},
      {[&] { einsum("ii->i", {x}); },
       "[einsum] axes of one label have one size; got 2 and 3 in operand 0 of \"ii->i\""},
      {[&] {
         einsum("ij,jk->ik", {x, x});
       },
       "[einsum] axes of one label have one size, or 1; got 3 and 2 for 'j' in \"ij,jk->ik\""},
      {[&] {
         einsum("abcde,fghij->abcdefghij", {of({1, 1, 1, 1, 1}), of({1, 1, 1, 1, 1})});
       },
       "[einsum] the result has 10 axes; at most 8 are supported"},
      {[&] { tensordot(x, x, 3); }, "[tensordot] sums 0 to 2 axes; got 3 for (2, 3) and (2, 3)"},
      {[&] { tensordot(x, x, {0}, {1}); },
       "[tensordot] summed axes have one size; got axis 0 of (2, 3) and axis 1 of (2, 3)"},
      {[&] {
         tensordot(x, x, {0, 0}, {0, 1});
       },
       "[tensordot] each axis once; got (0, 0) for (2, 3)"},
      {[&] { outer(x, v); }, "[outer] takes two vectors; got (2, 3) and (3)"},
      {[&] { dot(v, of({4})); }, "[dot] takes (n) and (n); got (3) and (4)"},
      {[&] { mm(x, x); }, "[mm] takes (n, k) and (k, m); got (2, 3) and (2, 3)"},
      {[&] { bmm(x, x); }, "[bmm] takes (B, n, k) and (B, k, m); got (2, 3) and (2, 3); matmul() takes any"},
      {[&] {
         addmm(of({5}), x, of({3, 4}));
       },
       "[addmm] x broadcasts to the product; got (5) for (2, 4)"},
      {[&] {
         linear(x, of({4, 2}));
       },
       "[linear] x is (..., in) and the weight (out, in) or (in); got (2, 3) and (4, 2)"},
      {[&] {
         linear(x, of({4, 3}), of({3}));
       },
       "[linear] the bias has one element for each of 4 outputs; got (3)"},
      {[&] {
         bilinear(x, x, of({4, 3, 2}));
       },
       "[bilinear] a is (..., n), b (..., m) with the same leading axes, the weight (out, n, m); got (2, 3), (2, 3) "
       "and (4, 3, 2)"},
      {[&] {
         kron(of({1, 1, 1, 1, 1}), v);
       },
       "[kron] the result has 10 axes; at most 8 are supported"},
      {[&] { cross(x, x, 0); }, "[cross] the axis has size 3; got axis 0 of (2, 3)"},
      {[&] { matrix_power(x, 2); }, "[matrix_power] takes square matrices; got (2, 3)"},
      {[&] { multi_dot({x}); }, "[multi_dot] multiplies at least two matrices; got 1"},
      {[&] {
         multi_dot({x, x});
       },
       "[multi_dot] takes matrices whose inner dimensions fit, and vectors at the ends; got (2, 3) for operand 1 after "
       "(2, 3)"},
      {[&] {
         cdist(x, of({2, 4}));
       },
       "[cdist] takes (..., m, d) and (..., n, d); got (2, 3) and (2, 4)"},
      {[&] { cdist(x, x, 0); }, "[cdist] the norm's p is positive, or infinity; got 0"},
      {[&] { cosine_similarity(x, of({4})); }, "[cosine_similarity]"},
      {[&] { normalize(v, 2, 1); }, "[normalize] axis 1 is out of range"},
  });
}

TEST(PickFunctions, LastWriteWinsAndOutsideIsLeftOut) {
  const auto ints = [](const std::vector<int>& v) {
    return Tensor::from_vector(v, {static_cast<int64_t>(v.size())}, &reference());
  };
  const Tensor x = ints({0, 0, 0, 0});
  EXPECT_EQ(scatter(x, 0, ints({1, 1, 7, -1}), ints({5, 6, 7, 8})).to_vector<int>(), (std::vector<int>{0, 6, 0, 0}));
  EXPECT_EQ(put_along_axis(x, ints({1, 1, 7, -1}), ints({5, 6, 7, 8}), 0).to_vector<int>(),
            (std::vector<int>{0, 6, 0, 8}));
  EXPECT_EQ(index_put(x, {ints({1, 1, 7, -1, -5})}, ints({5, 6, 7, 8, 9})).to_vector<int>(),
            (std::vector<int>{0, 6, 0, 8}));
}

TEST(PickFunctions, NaNInOrderedSets) {
  const auto floats = [](const std::vector<float>& v) {
    return Tensor::from_vector(v, {static_cast<int64_t>(v.size())}, &reference());
  };
  const Tensor sorted = floats({0, 1, NAN, NAN});
  EXPECT_EQ(searchsorted(sorted, floats({2, NAN})).to_vector<int>(), (std::vector<int>{2, 2}));
  EXPECT_EQ(searchsorted(sorted, floats({2, NAN}), true).to_vector<int>(), (std::vector<int>{2, 4}));
  const Unique u = unique(floats({NAN, 1, NAN, 1}));
  EXPECT_EQ(u.counts.to_vector<int>(), (std::vector<int>{2, 1, 1}));
  EXPECT_EQ(u.inverse.to_vector<int>(), (std::vector<int>{1, 0, 2, 0}));
}

TEST(ShapeFunctions, EmptyTensors) {
  const Tensor none = of({0, 3});
  EXPECT_EQ(roll(none, {2}).shape(), (Shape{0, 3}));
  EXPECT_EQ(tile(none, {2, 2}).shape(), (Shape{0, 6}));
  EXPECT_EQ(diagonal(none).shape(), (Shape{0}));
  EXPECT_EQ(diag(of({0})).shape(), (Shape{0, 0}));
  EXPECT_EQ(unstack(none).size(), 0U);
  EXPECT_EQ(nonzero(none).shape(), (Shape{0, 2}));
  EXPECT_EQ(unique(none).values.shape(), (Shape{0}));
  EXPECT_EQ(masked_select(none, of({0, 3}, DType::boolean)).shape(), (Shape{0}));
  EXPECT_EQ(einsum("ij,jk->ik", {of({2, 0}), of({0, 3})}).to_vector<float>(), std::vector<float>(6, 0));
  EXPECT_EQ(searchsorted(of({0}), of({2})).to_vector<int>(), (std::vector<int>{0, 0}));
}

TEST(Contractions, BetaZeroReadsNothing) {
  const Tensor nan = full({2, 2}, NAN, DType::f32, &reference());
  EXPECT_EQ(addmm(nan, of({2, 3}), of({3, 2}), 0).to_vector<float>(), std::vector<float>(4, 3));
}

}  // namespace
}  // namespace heddle
