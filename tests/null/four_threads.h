// The same work from four threads at once.
#pragma once

#include <thread>
#include <vector>

namespace heddle::test {

// Calls work(t) in a thread of its own for each t of 0 .. 3, and waits for all.
template <class Work>
void four_threads(const Work& work) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([&work, t] { work(t); });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace heddle::test
