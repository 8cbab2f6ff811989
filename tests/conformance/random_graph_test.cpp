// Random programs give the reference's values on every device, fused and unfused, with in-place updates in between.
#include "tests/support/random_graph.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/devices.h"

namespace heddle {
namespace {

using test::kernel_devices;

std::vector<std::vector<double>> values(const std::string& id, uint64_t seed, int ops, bool eager) {
  std::vector<std::vector<double>> all;
  std::optional<EagerScope> scope;
  if (eager) scope.emplace();
  const test::RandomProgram program = test::random_program(device(id), seed, ops);
  for (const Tensor& t : program.held) all.push_back(t.to_doubles());
  for (const Tensor& t : program.parameters) all.push_back(t.to_doubles());
  return all;
}

void expect_close(const std::vector<std::vector<double>>& got, const std::vector<std::vector<double>>& want,
                  const std::string& where) {
  ASSERT_EQ(got.size(), want.size()) << where;
  for (size_t t = 0; t < got.size(); ++t) {
    ASSERT_EQ(got[t].size(), want[t].size()) << where << " tensor " << t;
    for (size_t i = 0; i < got[t].size(); ++i) {
      // A few dozen f32 operations in a row on values of a few units.
      ASSERT_NEAR(got[t][i], want[t][i], 2e-4 * (1 + std::abs(want[t][i])))
          << where << " tensor " << t << " element " << i;
    }
  }
}

TEST(RandomGraphs, FusedAgreesWithReference) {
  const auto ids = kernel_devices();
  if (ids.empty()) GTEST_SKIP() << "no device that runs kernels";
  for (const std::string& id : ids) {
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      expect_close(values(id, seed, 24, false), values("reference:0", seed, 24, false),
                   id + " seed " + std::to_string(seed));
    }
  }
}

TEST(RandomGraphs, UnfusedAgreesWithReference) {
  const auto ids = kernel_devices();
  if (ids.empty()) GTEST_SKIP() << "no device that runs kernels";
  for (const std::string& id : ids) {
    for (uint64_t seed = 101; seed <= 106; ++seed) {
      expect_close(values(id, seed, 16, true), values("reference:0", seed, 16, false),
                   id + " seed " + std::to_string(seed));
    }
  }
}

}  // namespace
}  // namespace heddle
