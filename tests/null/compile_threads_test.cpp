// compile() from several threads, on the device that computes nothing: what tools/sanitize.sh runs under TSan.
#include <gtest/gtest.h>

#include <atomic>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/null/four_threads.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::four_threads;
using test::leaf;

TEST(CompileThreads, OneFunctionOneDevice) {
  const Tensor w = leaf({64}), x = leaf({64});
  const auto f = compile([&](const Tensor& t) { return tanh(t * w) + dropout(t, 0.5); });
  four_threads([&](int) {
    for (int i = 0; i < 30; ++i) f(x).to_bytes();
  });
  EXPECT_EQ(f.stats().recorded + f.stats().replayed, 120u);
  EXPECT_GT(f.stats().replayed, 90u);
}

TEST(CompileThreads, OneFunctionEachAndPlainLoopsBeside) {
  const Tensor shared = leaf({32});
  std::atomic<uint64_t> replayed{0};
  four_threads([&](int t) {
    Tensor own = leaf({32});
    const auto f = compile([&] { own.assign(own * 2.0 + shared); });
    for (int i = 0; i < 30; ++i) {
      if (t == 0)
        (own + shared * static_cast<double>(i % 3)).to_bytes();
      else
        f();
      const Tensor passing = own;  // handles of what is watched come and go
      if (i == 20) own = leaf({32});
    }
    replayed += f.stats().replayed;
  });
  EXPECT_GT(replayed.load(), 60u);
}

TEST(CompileThreads, AnExceptionInOneLeavesTheOthers) {
  const auto f = compile([](const Tensor& t) { return matmul(t, t); });
  std::atomic<int> thrown{0};
  four_threads([&](int t) {
    const Tensor square = leaf({4, 4}), bad = leaf({2, 3});
    for (int i = 0; i < 10; ++i) {
      try {
        f(t == 3 && i % 2 == 0 ? bad : square);
      } catch (const ShapeError&) {
        ++thrown;
      }
    }
  });
  EXPECT_EQ(thrown, 5);
}

}  // namespace
}  // namespace heddle
