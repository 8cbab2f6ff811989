// Calls that must be refused, and the text that says why.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::test {

inline DeviceContext& reference() { return device("reference:0"); }
inline Tensor of(const Shape& shape, DType t = DType::f32) { return ones(shape, t, &reference()); }
inline Tensor whole(const Shape& shape) { return of(shape, DType::i32); }

struct Bad {
  std::function<void()> call;
  const char* text;
};

inline void expect_refused(const std::vector<Bad>& table) {
  for (const Bad& bad : table) {
    try {
      bad.call();
      ADD_FAILURE() << bad.text << ": no error";
    } catch (const UserError& e) {
      EXPECT_NE(std::string(e.what()).find(bad.text), std::string::npos) << bad.text << ": " << e.what();
    }
  }
}

}  // namespace heddle::test
