// Progress of a training run, or of any work that takes a while: a bar on a terminal, plain lines elsewhere, nothing
// with --json.
//
// Invariants: on a terminal the bar is redrawn at most about ten times a second; elsewhere a line appears at most every
// two seconds. due() says whether it is time, so that a caller reads numbers from the device only then. Thread safety:
// none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace heddle::tools {

struct ProgressState {
  int64_t epoch = 0, epochs = 0;  // counted from 1
  int64_t step = 0, steps = 0;    // of the whole run
  double loss = 0;
  double lr = 0;
  double samples_per_second = 0;
  double seconds_left = 0;
};

class Progress {
 public:
  enum class Style { bar, lines, silent };
  explicit Progress(bool silent);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool due() const;
  void show(const ProgressState& state);
  // Of any work: "head [####....] 42%  numbers".
  void show(const std::string& head, double share, const std::string& numbers);
  // A line of its own, above the bar.
  void line(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;
  void erase();

  Style style_;
  Clock::time_point last_;
  bool drawn_ = false;
};

// "58,214", "1:05", "1:02:03".
std::string with_commas(double number);
std::string clock_time(double seconds);

}  // namespace heddle::tools
