// Integers and bool against NumPy's values and dtypes on every device, and promotion against PyTorch's table
// (whole_numbers.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <sstream>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "tests/reference/functions.h"
#include "tests/support/devices.h"
#include "tests/support/reference_device.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;

const Json& stored() {
  static const Json values = Json::parse(std::ifstream(HEDDLE_SOURCE_DIR "/tests/reference/whole_numbers.json"));
  return values;
}

Tensor of(DType t, DeviceContext& device = reference()) { return zeros({2}, t, &device); }
DType type(const Json& name) { return parse_dtype(name.get<std::string>()); }

// NumPy has dtypes that Heddle lacks; sums of u8 are u64 there.
std::string expected_type(const std::string& numpy) { return numpy == "u64" ? "i64" : numpy; }

// Kernels take a while to compile: of the narrow types those functions alone that can leave the range.
bool is_left_out(const Json& c, const DeviceContext& device) {
  const std::string op = c["op"], t = c["in"][0][0];
  const bool narrow = t == "i8" || t == "u8", mixed = c["in"].size() == 2 && c["in"][0][0] != c["in"][1][0];
  const bool leaves = op == "add" || op == "sub" || op == "mul" || op == "neg" || op == "abs" || op == "floor_divide" ||
                      op == "bitwise_left_shift" || op == "bitwise_not" || op == "sum";
  return device.caps().target != Target::none && ((narrow && !leaves) || (mixed && op == "maximum"));
}

class WholeNumbers : public ::testing::TestWithParam<std::string> {};

TEST_P(WholeNumbers, AreNumPys) {
  DeviceContext& d = device(GetParam());
  for (const Json& c : stored()["cases"]) {
    if (is_left_out(c, d)) continue;
    std::vector<Tensor> inputs;
    for (const Json& in : c["in"]) {
      const auto values = in[1].get<std::vector<int64_t>>();
      inputs.push_back(cast(Tensor::from_vector(values, {static_cast<int64_t>(values.size())}, &d), type(in[0])));
    }
    const Json no_arguments = Json::object();
    const Tensor out = functions().at(c["op"].get<std::string>())(inputs, Arguments(no_arguments)).at(0);
    EXPECT_EQ(name_of(out.dtype()), expected_type(c["out"][0])) << c["op"] << c["in"];
    if (is_float(out.dtype())) {
      EXPECT_EQ(out.to_doubles(), c["out"][1].get<std::vector<double>>()) << c["op"] << c["in"];
      continue;
    }
    const std::vector<uint8_t> bytes = cast(out, DType::i64).to_bytes();
    std::vector<int64_t> values(bytes.size() / sizeof(int64_t));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    EXPECT_EQ(values, c["out"][1].get<std::vector<int64_t>>()) << c["op"] << c["in"];
  }
}

std::string numpy_test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Numpy, WholeNumbers, ::testing::ValuesIn(test::value_devices()), numpy_test_name);

TEST(Promotion, OfTwoTensorsIsPyTorchs) {
  for (const Json& row : stored()["promotions"]) {
    const DType a = type(row[0]), b = type(row[1]);
    const DType expected = row[2] == "i16" ? DType::i32 : type(row[2]);  // Heddle has no i16
    EXPECT_EQ(promote(a, b), expected) << row;
    EXPECT_EQ(add(of(a), of(b)).dtype(), expected) << row;
    EXPECT_EQ(maximum(of(a), of(b)).dtype(), expected) << row;
    EXPECT_EQ(where(of(DType::boolean), of(a), of(b)).dtype(), expected) << row;
    EXPECT_EQ(concat({of(a), of(b)}, 0).dtype(), expected) << row;
    EXPECT_EQ(eq(of(a), of(b)).dtype(), DType::boolean) << row;
    EXPECT_EQ(div(of(a), of(b)).dtype(), is_float(expected) ? expected : DType::f32) << row;
    EXPECT_EQ(matmul(of(a), of(b)).dtype(), expected == DType::boolean ? DType::i32 : expected) << row;
  }
}

TEST(Promotion, OfATensorAndANumberIsPyTorchs) {
  for (const Json& row : stored()["numbers"]) {
    if (row[1] == "true") continue;  // C++ has no overload for bool: it is the number 1
    const DType a = type(row[0]);
    const double number = row[1] == "2" ? 2 : 0.5;
    const DType expected = a == DType::boolean && number == 2
                               ? DType::i32
                               : type(row[2]);  // bool beside a whole number: Heddle's default integer is i32
    EXPECT_EQ(add(of(a), number).dtype(), expected) << row;
    EXPECT_EQ(mul(number, of(a)).dtype(), expected) << row;
    EXPECT_EQ(where(of(DType::boolean), of(a), number).dtype(), expected) << row;
  }
  EXPECT_EQ(add(of(DType::u8), 300).dtype(), DType::i32);  // does not fit: no silent wrap
  EXPECT_EQ(add(of(DType::u8), -1).dtype(), DType::i32);
  EXPECT_EQ(add(of(DType::i32), 1e12).dtype(), DType::i64);
}

// docs/types.md prints the table that promote() is.
TEST(Promotion, TableOfTheDocsIsTrue) {
  std::ifstream file(HEDDLE_SOURCE_DIR "/docs/types.md");
  int rows = 0;
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("| **")) continue;
    std::replace(line.begin(), line.end(), '|', ' ');
    line.erase(std::remove(line.begin(), line.end(), '*'), line.end());
    std::stringstream words(line);
    std::string left, result;
    words >> left;
    for (int i = 0; words >> result; ++i)
      EXPECT_EQ(name_of(promote(parse_dtype(left), static_cast<DType>(i))), result)
          << left << " with " << name_of(static_cast<DType>(i));
    ++rows;
  }
  EXPECT_EQ(rows, dtype_count);
}

TEST(WholeNumbersRefusals, AreNumPys) {
  const Tensor flags = of(DType::boolean), x = of(DType::i32);
  EXPECT_THROW(sub(flags, flags), DTypeError);
  EXPECT_THROW(neg(flags), DTypeError);
  EXPECT_THROW(pow(x, -1), ValueError);
  EXPECT_EQ(sub(flags, 1).dtype(), DType::i32);  // a number is i32 beside bool
  EXPECT_EQ(pow(x, 0.5).dtype(), DType::f32);
  EXPECT_EQ(pow(x, of(DType::f32)).dtype(), DType::f32);
}

TEST(WholeNumbersRefusals, NegativePowersOfTensorsAreZeroButForOnes) {
  const Tensor x = Tensor::from_vector<int32_t>({2, 1, -1, -1, 0}, {5}, &reference()),
               y = Tensor::from_vector<int32_t>({-1, -3, -3, -2, -1}, {5}, &reference());
  EXPECT_EQ(pow(x, y).to_vector<int>(), (std::vector<int>{0, 1, -1, 1, 0}));
}

}  // namespace
}  // namespace heddle::tests
