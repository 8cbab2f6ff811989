// soak [DEVICE [SECONDS [THREADS]]]: threads that share one device and record, run, compile, read, update in place and
// free, for so long. Every value is compared with the host's; all are small whole numbers, so they are equal whatever
// the order of additions. Then the same with one thread, and the throughput of both. Exit code 1: a value was wrong, or
// something was thrown. tools/soak.sh builds it with ThreadSanitizer.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "heddle/core/base/seconds_since.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/locked_device.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/future.h"
#include "heddle/core/run/graph_cache.h"
#include "heddle/core/run/launch_memory.h"

namespace heddle {
namespace {

using Values = std::vector<float>;
using Clock = std::chrono::steady_clock;

struct Wrong : std::exception {
  explicit Wrong(std::string t) : text(std::move(t)) {}
  const char* what() const noexcept override { return text.c_str(); }
  std::string text;
};

// What all threads share.
struct Shared {
  explicit Shared(DeviceContext& d)
      : device(d),
        computes(d.caps().device_class != DeviceClass::null),
        twice(compile(Function([](const Tensor& x) { return x * 2.0 + 1.0; }))) {}

  using Function = std::function<Tensor(const Tensor&)>;

  DeviceContext& device;
  bool computes;  // the null device gives zeros
  Compiled<Function> twice;
  std::atomic<uint32_t> structures{0};
  std::atomic<uint64_t> rounds{0};
  std::mutex mutex;
  std::vector<std::string> faults;
};

class Worker {
 public:
  Worker(Shared& shared, uint32_t seed) : shared_(shared), random_(seed) {
    counter_ = upload({0, 0, 0, 0, 0});
    counter_.assign(counter_ + 0.0);
  }

  void run_until(Clock::time_point end) {
    try {
      for (; Clock::now() < end; ++shared_.rounds) round();
    } catch (const std::exception& error) {
      const std::lock_guard guard(shared_.mutex);
      shared_.faults.emplace_back(error.what());
    }
  }

 private:
  uint32_t draw(uint32_t below) { return static_cast<uint32_t>(random_() % below); }
  Values drawn(size_t count) {
    Values values(count);
    for (float& v : values) v = static_cast<float>(draw(7)) - 3.0f;
    return values;
  }
  Tensor upload(const Values& values) {
    return Tensor::from_vector(values, Shape{static_cast<int64_t>(values.size())}, &shared_.device);
  }
  void expect(const char* what, const Values& given, const Values& wanted) {
    if (given.size() != wanted.size() || (shared_.computes && given != wanted))
      throw Wrong(fmt::format("{} of {} values is wrong", what, wanted.size()));
  }

  void round() {
    const uint32_t kind = draw(400);
    if (kind == 0) return new_structure();
    if (kind == 1) return give_back();
    switch (kind % 6) {
      case 0:
        return sums();
      case 1:
        return product();
      case 2:
        return compiled();
      case 3:
        return update();
      case 4:
        return later();
      default:
        return many();
    }
  }

  void sums() {
    const size_t rows = 1 + draw(5), columns = 100 * (1 + draw(8));
    const Values x = drawn(rows * columns);
    const Tensor t = reshape(upload(x), {static_cast<int64_t>(rows), static_cast<int64_t>(columns)});
    Values wanted(rows);
    for (size_t i = 0; i < x.size(); ++i) wanted[i / columns] += x[i] * x[i] - 2 * x[i];
    expect("a sum", sum(t * t - t * 2.0, {1}).to_vector<float>(), wanted);
  }

  // Temporaries of several sizes: the arena grows.
  void product() {
    const size_t n = 8 * (1 + draw(6));
    const Values x = drawn(n * n);
    const auto side = static_cast<int64_t>(n);
    const Tensor a = reshape(upload(x), {side, side});
    Values wanted(n * n);
    for (size_t i = 0; i < n; ++i) {
      for (size_t k = 0; k < n; ++k) {
        for (size_t j = 0; j < n; ++j) wanted[i * n + j] += (x[i * n + k] + 1) * x[k * n + j];
      }
    }
    expect("a product", matmul(a + 1.0, a).to_vector<float>(), wanted);
  }

  void compiled() {
    const Values x = drawn(64 * (1 + draw(4)));
    Values wanted = x;
    for (float& v : wanted) v = 2 * v + 1;
    expect("a compiled function", shared_.twice(upload(x)).to_vector<float>(), wanted);
  }

  void update() {
    counter_.assign(counter_ + 1.0);
    eval({counter_});
    if (++updates_ % 5 == 0) expect("a counter", counter_.to_vector<float>(), Values(5, static_cast<float>(updates_)));
    if (updates_ < 1000) return;
    counter_ = upload(Values(5));
    updates_ = 0;
  }

  void later() {
    std::vector<ValueFuture> futures;
    std::vector<Values> wanted;
    for (int i = 0; i < 4; ++i) {
      wanted.push_back(drawn(50 + 10 * draw(3)));
      futures.push_back(read_async(upload(wanted.back()) + static_cast<double>(i)));
      for (float& v : wanted.back()) v += static_cast<float>(i);
    }
    for (size_t i = futures.size(); i-- > 0;) expect("a future", futures[i].to_vector<float>(), wanted[i]);
  }

  // Large, and freed at once; nothing of it is read but one element.
  void many() {
    const Tensor x = full({1 << 16}, 3.0, DType::f32, &shared_.device);
    std::vector<Tensor> parts;
    for (int i = 0; i < 4; ++i) parts.push_back(x + static_cast<double>(i));
    eval(parts);
    expect("an element", slice(parts[0], 0, {7, 8}).to_vector<float>(), {3});
  }

  // Planned and compiled: nobody had it before.
  void new_structure() {
    const Values x = drawn(33);
    const Tensor t = upload(x);
    Tensor y = t;
    Values wanted = x;
    for (uint32_t bits = 1u << 20 | shared_.structures++; bits > 1; bits >>= 1) {
      const bool minus = bits % 2 != 0;
      y = minus ? t - y : y + t;
      for (size_t i = 0; i < x.size(); ++i) wanted[i] = minus ? x[i] - wanted[i] : wanted[i] + x[i];
    }
    expect("a new graph", y.to_vector<float>(), wanted);
  }

  // What happens when memory runs short.
  void give_back() {
    const auto locked = shared_.device.lock();
    graph_cache(shared_.device).clear();
  }

  Shared& shared_;
  std::mt19937 random_;
  Tensor counter_;
  int updates_ = 0;
};

// Rounds a second.
double soak(Shared& shared, int threads, double seconds, uint32_t seed) {
  shared.rounds = 0;
  const Clock::time_point start = Clock::now();
  const auto end = start + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back(
        [&shared, end, mine = seed + static_cast<uint32_t>(t)] { Worker(shared, mine).run_until(end); });
  for (std::thread& worker : workers) worker.join();
  return static_cast<double>(shared.rounds) / seconds_since(start);
}

int run(const std::string& id, double seconds, int threads) {
  Shared shared(device(id));
  soak(shared, 1, std::min(5.0, seconds / 4), 1);  // compiles what all rounds share
  const double alone = soak(shared, 1, seconds / 4, 100);
  const double together = soak(shared, threads, seconds, 200);
  const DeviceCounters counters = shared.device.counters();
  fmt::print("soak: {}: {} threads for {:.0f} s: {:.0f} rounds/s; one thread: {:.0f} rounds/s; ratio {:.2f}\n", id,
             threads, seconds, together, alone, together / alone);
  fmt::print("soak: {} submissions, {} plans, {} kernels compiled, {} arenas\n", counters.submissions,
             counters.steps_compiled, counters.kernels_compiled, launch_memory(shared.device).arenas());
  for (const std::string& fault : shared.faults) fmt::print(stderr, "soak: {}\n", fault);
  return shared.faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace heddle

int main(int count, char** arguments) {
  try {
    return heddle::run(count > 1 ? arguments[1] : "null:0", count > 2 ? std::atof(arguments[2]) : 60,
                       count > 3 ? std::atoi(arguments[3]) : 8);
  } catch (const std::exception& error) {
    fmt::print(stderr, "soak: {}\n", error.what());
    return 1;
  }
}
