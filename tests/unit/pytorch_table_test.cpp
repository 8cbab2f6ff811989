// docs/pytorch.md: what its tables name on the right exists, in the form that they show. CMake takes the codes out of
// the page (tests/unit/group.cmake); here each is compiled, as a statement, and none is run.
#include <gtest/gtest.h>

#include <cstddef>
#include <iostream>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/heddle.h"

namespace heddle {
namespace {

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-variable"
[[maybe_unused]] void rows(Tensor x, Tensor y, Tensor w, Tensor b, Tensor i, Tensor loss, nn::Sequential model,
                           nn::AdamW& optimizer, data::DatasetPtr set) {
  const auto f = [](const Tensor& v) { return sum(v * v); };
#define HEDDLE_CODE(...) \
  { __VA_ARGS__; }
#include "pytorch_table.inc"
#undef HEDDLE_CODE
}
#pragma GCC diagnostic pop

TEST(PyTorchTable, HasEachKindOfName) {
  const std::vector<const char*> codes = {
#define HEDDLE_CODE(...) #__VA_ARGS__,
#include "pytorch_table.inc"
#undef HEDDLE_CODE
  };
  EXPECT_GE(codes.size(), 100u);
}

}  // namespace
}  // namespace heddle
