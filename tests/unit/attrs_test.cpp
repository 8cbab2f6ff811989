// Attributes by name: what is packed is read again, lies where keys expect it, and fits the row's form.
#include "heddle/core/op/attrs.h"

#include <gtest/gtest.h>

#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using Ints = std::vector<int64_t>;

TEST(Attrs, OfAConvolutionLieInOrder) {
  ConvAttrs conv;
  conv.channels_last = true;
  conv.groups = 2;
  conv.stride = {3, 4};
  conv.dilation = {5, 6};
  conv.padding = {7, 8};
  conv.parts = 9;
  const Attrs packed = conv.packed();
  EXPECT_EQ(packed.ints, (Ints{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(packed.real, 9);
  const ConvAttrs read(packed);
  EXPECT_EQ(read.rank(), 2);
  EXPECT_EQ(read.packed(), packed);
  EXPECT_TRUE(fits(ops::conv_op.attrs, packed, 4));
  EXPECT_FALSE(fits(ops::conv_op.attrs, packed, 3));
  EXPECT_FALSE(fits(ops::conv_op.attrs, {}, 2));
}

TEST(Attrs, OfAttentionLieInOrder) {
  AttentionAttrs attention;
  attention.mask = attention.key = true;
  attention.splits = 3;
  attention.scale = 0.5;
  attention.drop = 0.25;
  const Attrs packed = attention.packed();
  EXPECT_EQ(packed, (Attrs{{0, 0, 1, 0, 1, 3}, 0.5, 0.25}));
  EXPECT_EQ(AttentionAttrs(packed).packed(), packed);
  EXPECT_TRUE(fits(ops::attention_op.attrs, packed, 4));
}

TEST(Attrs, OfRowsLieInOrder) {
  ScanAttrs scan;
  scan.axis = 2;
  scan.reverse = true;
  scan.chunk = 64;
  EXPECT_EQ(scan.packed().ints, (Ints{2, 0, 1, 64}));
  EXPECT_EQ(ScanAttrs(scan.packed()).packed(), scan.packed());
  EXPECT_TRUE(fits(ops::cumsum_op.attrs, scan.packed(), 3));
  EXPECT_FALSE(fits(ops::cumsum_op.attrs, scan.packed(), 2)) << "an axis that is not there";

  EXPECT_EQ(sort_attrs(true, 5).ints, (Ints{1, 5}));
  EXPECT_EQ(sort_attrs(false, 5, 32).ints, (Ints{0, 5, 32}));
  EXPECT_EQ(SortAttrs(sort_attrs(true, 5)).block, 0);
  EXPECT_EQ(SortAttrs(sort_attrs(true, 5, 32)).block, 32);
  EXPECT_EQ(MergeAttrs(merge_attrs(false, 4, 8)).run, 4);
  EXPECT_EQ(MergeAttrs(merge_attrs(false, 4, 8)).kept, 8);
  EXPECT_EQ(triangular_attrs(true, false, true).ints, (Ints{1, 0, 1}));
  EXPECT_EQ(RangeAttrs(RangeAttrs(1, 0.5, 2).packed()).packed(), (Attrs{{1}, 0.5, 2}));
  EXPECT_EQ(LoopResultAttrs(true, 7).packed().ints, (Ints{1, 7}));
}

TEST(Attrs, OfASliceAreReadAndChangedInPlace) {
  Attrs attrs = slice_attrs(Ints{1, 2, 3}, Ints{4, 5, -6});
  EXPECT_EQ(attrs.ints, (Ints{1, 2, 3, 4, 5, -6}));
  const SliceAttrs slice(attrs);
  EXPECT_EQ(slice.start[2], 3);
  EXPECT_EQ(slice.step[2], -6);
  const SliceChange change(attrs);
  change.start[0] -= 1;
  change.step[1] = 1;
  EXPECT_EQ(attrs.ints, (Ints{0, 2, 3, 4, 1, -6}));
  EXPECT_TRUE(fits(ops::slice_op.attrs, attrs, 3));
  EXPECT_FALSE(fits(ops::slice_op.attrs, attrs, 2));
  const Attrs scalar = slice_attrs({}, {});
  EXPECT_TRUE(fits(ops::slice_op.attrs, scalar, 0));
  EXPECT_TRUE(SliceAttrs(scalar).start.empty());
}

TEST(Attrs, OfAxesAscendInsideTheRank) {
  EXPECT_TRUE(fits(ops::sum_op.attrs, Attrs{{0, 2}}, 3));
  EXPECT_TRUE(fits(ops::sum_op.attrs, {}, 0));
  EXPECT_FALSE(fits(ops::sum_op.attrs, Attrs{{2, 0}}, 3));
  EXPECT_FALSE(fits(ops::sum_op.attrs, Attrs{{1, 1}}, 3));
  EXPECT_FALSE(fits(ops::sum_op.attrs, Attrs{{-1}}, 3));
  EXPECT_FALSE(fits(ops::sum_op.attrs, Attrs{{3}}, 3));
  EXPECT_TRUE(names_axis(Attrs{{0, 2}}, 2));
  EXPECT_FALSE(names_axis(Attrs{{0, 2}}, 1));
  EXPECT_FALSE(fits(ops::concat_op.attrs, Attrs{{1}}, 1));
  EXPECT_FALSE(fits(ops::concat_op.attrs, {}, 1));
  EXPECT_FALSE(fits(ops::matmul_op.attrs, Attrs{{0}}, 2)) << "it keeps none";
}

}  // namespace
}  // namespace heddle
