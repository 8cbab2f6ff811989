// parallel_each(): a few independent pieces of work on several threads.
//
// Purpose: compilers of drivers, which take milliseconds to seconds a piece. Not for computing. Invariants: every piece
// runs exactly once unless one throws; then the rest may be left out, and the failure of the lowest index is thrown
// once all threads have ended. Thread safety: work(i) runs concurrently with itself.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

namespace heddle {

template <class F>
void parallel_each(size_t count, F&& work) {
  constexpr size_t most = 16;
  const size_t threads = std::min({count, most, std::max<size_t>(std::thread::hardware_concurrency(), 1)});
  std::vector<std::exception_ptr> failures(count);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  const auto run = [&] {
    for (size_t i = next++; i < count && !failed; i = next++) {
      try {
        work(i);
      } catch (...) {
        failures[i] = std::current_exception();
        failed = true;
      }
    }
  };
  std::vector<std::thread> others;
  try {
    others.reserve(threads);
    while (others.size() + 1 < threads) others.emplace_back(run);
  } catch (const std::exception&) {  // the system has no more threads, or no memory for one: this one does the rest
  }
  run();
  for (std::thread& thread : others) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

}  // namespace heddle
