// Every op case on every device against the reference device: once as one lazy graph (fused), once op by op.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "checks/op_cases.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/registry.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using namespace checks;

constexpr uint64_t seed = 20240607;

const std::map<std::string, std::vector<OpCase>>& cases_by_op() {
  static const auto cases = [] {
    std::map<std::string, std::vector<OpCase>> result;
    for (OpCase& c : op_cases(coverage_from_environment())) result[c.op].push_back(std::move(c));
    return result;
  }();
  return cases;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : cases_by_op()) names.push_back(name);
  return names;
}

// Why a device cannot be tested here; empty when it can.
std::string absent(const std::string& id) {
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.id == id) return info.available ? "" : info.reason;
    if (id.starts_with(info.backend + ":") && !info.available) return info.reason;
  }
  return "no such device on this machine";
}

struct Expected {
  Shape shape;
  DType dtype = DType::f32;
  std::vector<double> values;
};

// The reference's answer is the same for every device and mode.
const Expected& expected_of(const OpCase& c) {
  static std::map<std::string, Expected> known;
  const auto [at, fresh] = known.try_emplace(c.name);
  if (fresh) {
    DeviceContext& reference = device("reference:0");
    const Tensor result = c.run(reference, make_inputs(c, reference, seed));
    at->second = {result.shape(), result.dtype(), result.to_doubles()};
  }
  return at->second;
}

void compare(const OpCase& c, DeviceContext& device, const char* mode) {
  SCOPED_TRACE(fmt::format("{} on {}, {}", c.name, device.id(), mode));
  try {
    const Expected& expected = expected_of(c);
    const Tensor result = c.run(device, make_inputs(c, device, seed));
    EXPECT_EQ(result.shape().str(), expected.shape.str());
    EXPECT_EQ(name_of(result.dtype()), name_of(expected.dtype));
    EXPECT_EQ(difference(result.to_doubles(), expected.values, tolerance(c.op, result.dtype())), "");
  } catch (const std::exception& e) {
    ADD_FAILURE() << e.what();
  }
}

// A function that a device lacks is an error that says so, never numbers.
void expect_refused(const OpCase& c, DeviceContext& device) {
  SCOPED_TRACE(fmt::format("{} on {}", c.name, device.id()));
  try {
    c.run(device, make_inputs(c, device, seed)).to_doubles();
    ADD_FAILURE() << "computed, though the device says that it cannot";
  } catch (const Error& e) {
    EXPECT_TRUE(std::string(e.what()).find("64") != std::string::npos) << e.what();
  }
}

bool is_generated(const OpCase& c) {
  const OpDef* row = find_op(c.op);
  return row != nullptr && !row->dialect.empty();
}

// A case that records one node is the same graph in both modes.
bool is_one_node(const OpCase& c) {
  return is_generated(c) &&
         std::all_of(c.inputs.begin(), c.inputs.end(), [](const InputSpec& i) { return i.layout == Layout::dense; });
}

using test::kernel_devices;

// A device that is not here is one visible skip each.
class OpForwardDevice : public ::testing::TestWithParam<const char*> {};
TEST_P(OpForwardDevice, IsHere) {
  const std::string reason = absent(GetParam());
  if (!reason.empty()) GTEST_SKIP() << GetParam() << ": " << reason;
  EXPECT_NO_THROW(device(GetParam()).caps());
}
INSTANTIATE_TEST_SUITE_P(Devices, OpForwardDevice, ::testing::Values("opencl:0", "vulkan:0", "cuda:0"));

// tests/support/coverage.h.
TEST(SharedOutCases, FirstIsEveryBackendsAndOthersAreOnes) {
  const std::vector<std::string> backends = cpu_backends();
  if (backends.empty()) GTEST_SKIP() << "no CPU driver";
  if (coverage_from_environment() == Coverage::full) GTEST_SKIP() << "HEDDLE_TEST_FULL: all take all";
  for (const char* function : {"add", "matmul"}) {
    for (size_t number = 0; number < 8; ++number) {
      const auto takes = [&](const std::string& backend) { return takes_case(backend + ":0", function, number); };
      EXPECT_EQ(std::count_if(backends.begin(), backends.end(), takes),
                number == 0 ? static_cast<std::ptrdiff_t>(backends.size()) : 1)
          << function << " " << number;
      EXPECT_TRUE(takes("reference") && takes("cuda"));
    }
  }
}

class OpForward : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OpForward);  // a machine without any driver

TEST_P(OpForward, AgreesWithTheReference) {
  const auto& [id, op] = GetParam();
  DeviceContext& context = device(id);
  std::vector<std::string> unsupported;
  size_t number = 0;
  for (const OpCase& c : cases_by_op().at(op)) {
    if (!takes_case(id, op, number++)) continue;
    if (const std::string reason = unsupported_reason(c, context.caps()); !reason.empty()) {
      unsupported.push_back(c.name + ": " + reason);
      if (is_generated(c))
        expect_refused(c, context);  // bodies may need less of f64 than all its functions, and take long to compile
      continue;
    }
    compare(c, context, "lazy");
    if (is_one_node(c)) continue;
    const EagerScope eager;
    compare(c, context, "eager");
  }
  // The rest was compared: the skip says what was not.
  if (!unsupported.empty()) GTEST_SKIP() << fmt::format("{}", fmt::join(unsupported, "; "));
}

INSTANTIATE_TEST_SUITE_P(Devices, OpForward,
                         ::testing::Combine(::testing::ValuesIn(kernel_devices()), ::testing::ValuesIn(op_names())),
                         [](const auto& test) {
                           std::string name = std::get<0>(test.param) + "_" + std::get<1>(test.param);
                           for (char& ch : name) ch = ch == ':' ? '_' : ch;
                           return name;
                         });

}  // namespace
}  // namespace heddle::tests
