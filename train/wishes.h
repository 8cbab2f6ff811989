// Wishes: what a rank asks of all after an update; what one asks all do. Thread safety: plain value.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace heddle::train {

struct Wishes {
  bool stop = false, interrupt = false;
  bool look = false;  // the window of updates shall be closed

  // As numbers behind those that ranks add: a sum above 0 is somebody's wish.
  static constexpr int64_t count = 3;
  void write(std::span<float> numbers) const {
    numbers[0] = stop ? 1.0f : 0.0f;
    numbers[1] = interrupt ? 1.0f : 0.0f;
    numbers[2] = look ? 1.0f : 0.0f;
  }
  static Wishes read(std::span<const float> sums) {
    return {.stop = sums[0] > 0, .interrupt = sums[1] > 0, .look = sums[2] > 0};
  }
  // The same at the end of a list that grows by them, and is what it was when they are taken.
  void append_to(std::vector<float>& list) const {
    list.resize(list.size() + count);
    write(std::span(list).last(count));
  }
  static Wishes take_from(std::vector<float>& list) {
    const Wishes all = read(std::span(list).last(count));
    list.resize(list.size() - count);
    return all;
  }
};

}  // namespace heddle::train
