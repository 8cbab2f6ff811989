// The dtypes that each rule of the catalogue takes, written out.
#include <gtest/gtest.h>

#include "heddle/autograd/catalogue.h"

namespace heddle::tests {
namespace {

using enum DType;
using Types = std::vector<DType>;

TEST(CatalogueTypes, AreThoseOfTheRule) {
  const Types all{f32, f16, bf16, f64, i8, u8, i32, i64, boolean};
  for (const TypeRule rule : {TypeRule::any, TypeRule::numeric, TypeRule::floating, TypeRule::widened, TypeRule::total,
                              TypeRule::truth, TypeRule::index, TypeRule::asked}) {
    EXPECT_EQ(types_of(rule), all) << name_of(rule);
  }
  EXPECT_EQ(types_of(TypeRule::floats), (Types{f32, f16, bf16, f64}));
  for (const TypeRule rule : {TypeRule::whole, TypeRule::bits, TypeRule::counts}) {
    EXPECT_EQ(types_of(rule), (Types{i8, u8, i32, i64, boolean})) << name_of(rule);
  }
  EXPECT_EQ(types_of(TypeRule::additive), (Types{f32, f16, bf16, f64, i8, u8, i32, i64}));
  for (const TypeRule rule : {TypeRule::f32, TypeRule::i64}) EXPECT_TRUE(types_of(rule).empty()) << name_of(rule);
}

}  // namespace
}  // namespace heddle::tests
