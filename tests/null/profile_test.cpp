// The profiler where nothing needs a driver: what is counted of a kernel, what the host did, who may watch. Times of
// the null device are zero.
#include "heddle/core/inspect/profile.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/base/host_span.h"
#include "heddle/heddle.h"
#include "tests/null/null_device.h"

namespace heddle {
namespace {

using test::leaf;
using test::null_device;

// Bytes read and written, and operations, of everything that `work` computes.
struct Sums {
  double read = 0, written = 0, flops = 0;
  size_t kernels = 0;
};
template <class F>
Sums counted(const F& work) {
  Profiler profiler;
  {
    [[maybe_unused]] const auto result = work();  // lives until it is computed
    eval_pending();
  }
  const Profile& profile = profiler.stop();
  Sums sums;
  for (const KernelSpan& run : profile.runs) {
    const KernelFacts& f = profile.kernels[run.kernel].facts;
    sums.read += f.read_bytes;
    sums.written += f.written_bytes;
    sums.flops += f.flops;
    ++sums.kernels;
  }
  return sums;
}

TEST(Profiler, CountsBytesAndOperations) {
  const Tensor a = leaf({30, 7}), b = leaf({7, 11}), row = leaf({11}), column = leaf({30, 1});
  const Sums product = counted([&] { return matmul(a, b); });
  EXPECT_EQ(product.read, 4 * (30 * 7 + 7 * 11));
  EXPECT_EQ(product.written, 4 * 30 * 11);
  EXPECT_EQ(product.flops, 2 * 30 * 7 * 11);
  // A broadcast operand is read once, whatever it is broadcast to.
  const Sums sum = counted([&] { return (a + column) * 2.0; });
  EXPECT_EQ(sum.read, 4 * (30 * 7 + 30));
  EXPECT_EQ(sum.written, 4 * 30 * 7);
  EXPECT_EQ(sum.flops, 30 * 7 * 2);
  const Sums epilogue = counted([&] { return matmul(a, b) + row; });
  EXPECT_EQ(epilogue.read, 4 * (30 * 7 + 7 * 11 + 11));
  EXPECT_EQ(epilogue.written, 4 * 30 * 11);
  // A slice reads what it shows; an operand that is used twice is read once.
  EXPECT_EQ(counted([&] { return exp(slice(a, 0, Slice{3, 8})); }).read, 4 * 5 * 7);
  EXPECT_EQ(counted([&] { return a * a; }).read, 4 * 30 * 7);
  // Rows 0 to 19 and 5 to 24 are 40 rows, of which 25 are different: batches lie side by side in one storage.
  EXPECT_EQ(counted([&] { return slice(a, 0, Slice{0, 20}) * slice(a, 0, Slice{5, 25}); }).read, 4 * 25 * 7);
  // Rows of a table: as many as there are indices.
  const Tensor table = leaf({1000, 8}), picks = Tensor::from_vector(std::vector<int32_t>{5, 7, 5}, {3}, &null_device());
  const Sums taken = counted([&] { return take(table, picks, 0) + 1.0; });
  EXPECT_LE(taken.read, 4 * 3 * 8 + 4 * 3 * 8);
  EXPECT_GE(taken.read, 4 * 3 * 8);
}

TEST(Profiler, ReductionAndSoftmaxInOneKernel) {
  const Tensor x = leaf({64, 100});
  const Sums total = counted([&] { return sum(x, {1}); });
  EXPECT_EQ(total.read, 4 * 64 * 100);
  EXPECT_EQ(total.written, 4 * 64);
  EXPECT_EQ(total.flops, 64 * 100);
  const Sums rows = counted([&] { return softmax(x, 1); });
  EXPECT_EQ(rows.kernels, 1u);
  EXPECT_EQ(rows.read, 4 * 64 * 100);
  EXPECT_EQ(rows.written, 4 * 64 * 100);
}

TEST(Profiler, ConvolutionsAndAttention) {
  const Tensor images = leaf({2, 3, 9, 8}), weights = leaf({5, 3, 3, 3});
  const Sums forward = counted([&] { return conv2d(images, weights); });
  EXPECT_EQ(forward.flops, 2.0 * 2 * 5 * 7 * 6 * 3 * 9);
  const Tensor q = leaf({2, 4, 16, 8});
  EXPECT_EQ(counted([&] { return scaled_dot_product_attention(q, q, q); }).flops, 4.0 * 2 * 4 * 16 * 16 * 8);
}

// Rows written where the tensor lies are all that is written, and the tensor is not read.
TEST(Profiler, UpdatesCountWhatTheyWrite) {
  Tensor x = leaf({1000, 8});
  const Tensor rows = leaf({2, 8}), at = Tensor::from_vector(std::vector<int32_t>{5, 7}, {2}, &null_device());
  const Sums whole = counted([&] { return index_copy(x, 0, at, rows); });
  EXPECT_GE(whole.written, 4 * 1000 * 8);
  const Sums updated = counted([&] { return x.assign(index_copy(x, 0, at, rows)), 0; });
  EXPECT_LE(updated.written, 4 * 2 * 8 + 2 * 4);  // and the wrapped indices
  EXPECT_LE(updated.read, 4 * 2 * 8 + 4 * 4);
}

// A launch over many tensors counts all of them, and one line says so.
TEST(Profiler, JoinedLaunchesCountAllOfTheirGroups) {
  Profiler profiler;
  {
    std::vector<Tensor> results;
    for (const int64_t n : {5, 700, 64}) results.push_back(exp(leaf(Shape{n})) + 1.0);
    eval_pending();
  }
  const std::vector<KernelRow> rows = profiler.stop().rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].facts.read_bytes, 4 * 769);
  EXPECT_EQ(rows[0].facts.written_bytes, 4 * 769);
  EXPECT_EQ(rows[0].facts.ops, "3 x (exp add)");
}

TEST(Profiler, EqualKernelsOfStepsAreOneRow) {
  const Tensor x = leaf({1000});
  Profiler profiler;
  for (int i = 0; i < 50; ++i) {  // more than a backend remembers would be 64; the profiler fetches earlier
    const Tensor y = exp(x) * 3.0;
    eval_pending();
  }
  const Profile& profile = profiler.stop();
  EXPECT_EQ(profile.submissions.size(), 50u);
  EXPECT_EQ(profile.dropped, 0u);
  const std::vector<KernelRow> rows = profile.rows();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].count, 50u);
  ASSERT_FALSE(rows[0].facts.lines.empty());
  EXPECT_EQ(rows[0].facts.lines[0].rfind("profile_test.cpp:", 0), 0u) << rows[0].facts.lines[0];
  for (size_t i = 1; i < profile.runs.size(); ++i) EXPECT_GE(profile.runs[i].start, profile.runs[i - 1].end);
}

TEST(Profiler, HostSpansNest) {
  const Tensor x = leaf({300});
  Profiler profiler;
  for (int i = 0; i < 3; ++i) {
    const Tensor y = tanh(x * static_cast<double>(i + 2)) + 0.25;
    EXPECT_EQ(y.to_vector<float>().size(), 300u);
  }
  const Profile& profile = profiler.stop();
  std::set<std::string> names;
  for (const HostRun& a : profile.host) {
    names.insert(a.name);
    EXPECT_LE(0, a.start);
    EXPECT_LE(a.start, a.end);
    EXPECT_LE(a.end, profile.seconds);
    for (const HostRun& b : profile.host) {
      if (a.thread != b.thread) continue;
      const bool apart = a.end <= b.start || b.end <= a.start,
                 inside = (a.start <= b.start && b.end <= a.end) || (b.start <= a.start && a.end <= b.end);
      EXPECT_TRUE(apart || inside) << a.name << " and " << b.name;
    }
  }
  for (const char* name : {"record", "capture", "plan", "compile", "submit", "wait"})
    EXPECT_TRUE(names.contains(name)) << name;
}

TEST(Profiler, OneAtATime) {
  Profiler first;
  EXPECT_THROW(Profiler(), ValueError);
  EXPECT_TRUE(Profiler::active());
  first.stop();
  EXPECT_FALSE(Profiler::active());
  Profiler second;
  EXPECT_TRUE(second.stop().runs.empty());
}

TEST(Profiler, StepsOfSeveralThreads) {
  Profiler profiler;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 20; ++i) {
        const Tensor y = exp(leaf(Shape{10 + t}));
        eval_pending();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Profile& profile = profiler.stop();
  EXPECT_EQ(profile.submissions.size(), 80u);
  std::map<int, int> spans;
  for (const HostRun& run : profile.host) ++spans[run.thread];
  EXPECT_GE(spans.size(), 4u);
}

// A listener that goes while a span is open does not hear of its end, and the one that takes its place neither.
TEST(HostSpans, ListenersComeAndGo) {
  struct Counter final : SpanListener {
    int begun = 0, ended = 0;
    void begin(const char*) noexcept override { ++begun; }
    void end() noexcept override { ++ended; }
  } first, second;
  {
    ASSERT_TRUE(add_span_listener(first));
    const HostSpan outer("outer");
    remove_span_listener(first);
    ASSERT_TRUE(add_span_listener(second));
    { const HostSpan inner("inner"); }
  }
  remove_span_listener(second);
  { const HostSpan nobody("nobody"); }
  EXPECT_EQ(first.begun, 1);
  EXPECT_EQ(first.ended, 0);
  EXPECT_EQ(second.begun, 1);
  EXPECT_EQ(second.ended, 1);
}

}  // namespace
}  // namespace heddle
