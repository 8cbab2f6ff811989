// Every function that takes whole numbers from the host, at the ends of i64: the right value, the right shape, or an
// error that names the function.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <variant>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/shape/index_check.h"
#include "tests/support/devices.h"

namespace heddle::host_integers {

using Values = std::vector<double>;
__extension__ using Int = __int128;  // an extension of GCC and Clang
using Dims = std::vector<Int>;
struct Refused {};
// What a call gives. A shape alone where the elements are more than memory holds: they are not computed.
using Outcome = std::variant<Refused, Shape, Values>;

constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max(),
                  p31 = int64_t{1} << 31, p32 = int64_t{1} << 32, p62 = int64_t{1} << 62;
inline const std::vector<int64_t> extremes = {least, most, p32 + 3, -p32 - 1, p62,
                                              -p62,  p32,  -p32,    most - 6, least + 7};

struct Case {
  const char* name;
  std::function<Tensor(int64_t)> call;
  std::function<Outcome(int64_t)> expected;
};

inline DeviceContext& dev() { return device("reference:0"); }
inline Tensor line(int64_t n = 7) { return arange(0, static_cast<double>(n), 1, DType::f32, &dev()); }
inline Tensor grid(const Shape& shape) { return reshape(line(shape.numel()), shape); }
inline Tensor whole(const std::vector<int64_t>& values) {
  return Tensor::from_vector(values, {static_cast<int64_t>(values.size())}, &dev());
}

inline Outcome never(int64_t) { return Refused{}; }
// Refused below 0 and where the elements do not fit 64 bits.
inline std::function<Outcome(int64_t)> sized(std::function<Dims(Int)> dims) {
  return [dims](int64_t v) -> Outcome {
    if (v < 0) return Refused{};
    Int count = 1;
    Shape shape;
    for (const Int d : dims(v)) {
      if (d > most) return Refused{};  // so that the product fits
      count *= d;
      if (count > most) return Refused{};
      shape.push_back(static_cast<int64_t>(d));
    }
    return shape;
  };
}
// Values from 0 on, refused below.
inline std::function<Outcome(int64_t)> from_zero(Values values) {
  return [values](int64_t v) -> Outcome { return v < 0 ? Outcome(Refused{}) : Outcome(values); };
}
// One answer for numbers above 0, one for those below.
inline std::function<Outcome(int64_t)> by_sign(Values above, Values below) {
  return [above, below](int64_t v) -> Outcome { return v > 0 ? above : below; };
}

inline void expect_outcome(const std::string& what, const std::string& name, const std::function<Tensor()>& call,
                           const Outcome& expected) {
  SCOPED_TRACE(what);
  try {
    const Tensor got = call();
    if (const auto* values = std::get_if<Values>(&expected)) {
      const Values found = got.to_doubles();
      ASSERT_EQ(found.size(), values->size());
      for (size_t i = 0; i < found.size(); ++i)
        EXPECT_NEAR(found[i], (*values)[i], 1e-5 * std::max(1.0, std::abs((*values)[i]))) << "element " << i;
    } else if (const auto* shape = std::get_if<Shape>(&expected)) {
      EXPECT_EQ(got.shape().str(), shape->str());
    } else {
      ADD_FAILURE() << "no error, but " << got.shape().str();
    }
  } catch (const UserError& e) {
    EXPECT_TRUE(std::holds_alternative<Refused>(expected)) << e.what();
    EXPECT_EQ(std::string(e.what()).rfind("[" + name + "]", 0), 0U) << e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "no error of Heddle's: " << e.what();
  }
}

inline void expect(const std::vector<Case>& table) {
  const IndexGuardScope off(false);
  for (const Case& c : table) {
    for (const int64_t v : extremes)
      expect_outcome(
          fmt::format("{} of {}", c.name, v), c.name, [&] { return c.call(v); }, c.expected(v));
  }
}

// Calls that give no tensor. What is legal passes, the rest is an error of Heddle's that begins with [name], or, where
// there is no name, with that of any function or class but the ones that nobody called.
using Legal = std::function<bool(int64_t)>;
struct Call {
  const char* name;
  Legal legal;
  std::function<void(int64_t)> call;
};
inline bool no_number(int64_t) { return false; }
inline bool any_number(int64_t) { return true; }
inline bool above_zero(int64_t v) { return v > 0; }
inline bool below_zero(int64_t v) { return v < 0; }
inline Legal up_to(int64_t end) {
  return [end](int64_t v) { return v > 0 && v <= end; };
}

inline void expect_calls(const std::vector<Call>& table, const std::vector<int64_t>& more = {p31, -p31, -p31 - 1, -1}) {
  std::vector<int64_t> numbers = extremes;
  numbers.insert(numbers.end(), more.begin(), more.end());
  for (size_t i = 0; i < table.size(); ++i) {
    const Call& c = table[i];
    for (const int64_t v : numbers) {
      SCOPED_TRACE(fmt::format("row {}, {} of {}", i, c.name, v));
      try {
        c.call(v);
        EXPECT_TRUE(c.legal(v)) << "no error";
      } catch (const Error& e) {
        const std::string text = e.what();
        EXPECT_FALSE(c.legal(v)) << text;
        if (*c.name != 0)
          EXPECT_EQ(text.rfind(fmt::format("[{}]", c.name), 0), 0U) << text;
        else
          EXPECT_TRUE(text.starts_with('[') && !text.starts_with("[shape]") && !text.starts_with("[init")) << text;
      } catch (const std::exception& e) {
        ADD_FAILURE() << "no error of Heddle's: " << e.what();
      }
    }
  }
}

}  // namespace heddle::host_integers
