// compile() on the device that computes nothing: what it says, and where numbers of the host come from.
#include "heddle/core/compile/compile.h"

#include <gtest/gtest.h>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;

// Why a function runs at every call is in its stats; on stderr only with HEDDLE_DEBUG.
TEST(Compile, SaysNothingUnasked) {
  const Tensor x = leaf({12});
  const auto replayed = compile([](const Tensor& t) { return exp(t); });
  const auto looks = compile([](const Tensor& t) { return t * (t.to_bytes().empty() ? 1.0 : 2.0); });
  testing::internal::CaptureStderr();
  for (int i = 0; i < 3; ++i) {
    replayed(x).to_bytes();
    looks(x).to_bytes();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(replayed.stats().refusal, "");
  EXPECT_GE(replayed.stats().replayed, 1u);
  EXPECT_NE(looks.stats().refusal, "");
}

// A detached number of the host is the number that its handle holds, at a replay too.
TEST(Compile, ADetachedNumberOfTheHostIsKnown) {
  Tensor rate = Tensor::host_scalar(0.5f, &null_device());
  const Tensor x = leaf({12});
  const auto f = compile([&](const Tensor& t) { return t * rate.detach(); });
  for (int i = 0; i < 4; ++i) {
    f(x).to_bytes();
    rate = Tensor::host_scalar(0.25f * static_cast<float>(i), &null_device());
  }
  EXPECT_EQ(f.stats().refusal, "");
  EXPECT_GE(f.stats().replayed, 2u);
}

// A traced function is planned as a whole, however long: a deep model's step with its update is 25,000 operations. What
// is held on the way and not at the end is no result.
TEST(Compile, ALongFunctionIsOneRegion) {
  const Tensor x = leaf({12});
  const auto f = compile([](const Tensor& t) {
    std::vector<Tensor> held;
    for (int i = 0; i < 25'000; ++i) held.push_back(t + t);
    return held.back();
  });
  const uint64_t breaks = null_device().counters().region_breaks;
  for (int i = 0; i < 3; ++i) f(x);
  EXPECT_EQ(f.stats().refusal, "");
  EXPECT_GE(f.stats().replayed, 1u);
  EXPECT_EQ(null_device().counters().region_breaks, breaks);
}

}  // namespace
}  // namespace heddle
