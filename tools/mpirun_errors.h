// MpirunErrors: standard error of mpirun, which is that of its ranks and what it says itself.
//
// Purpose: a run that fails ends with one line. Open MPI wraps its own texts in lines of dashes and repeats the same
// for every kind of end; what ranks print goes on as it comes, and once what several of them say alike. Thread safety:
// none.
#pragma once

#include <deque>
#include <functional>
#include <set>
#include <string>
#include <string_view>

namespace heddle::tools {

class MpirunErrors {
 public:
  // Lines of ranks go to standard error as soon as they are whole.
  void take(std::string_view text);
  // What was left of a last line.
  void finish();

  enum class End { unknown, not_started, by_signal, by_itself };
  // How the first rank that failed did, as far as it was said.
  End end() const;
  // One line: why ranks could not be started, or "process rank 1 with PID 7 on node a exited on signal 9 (Killed)".
  std::string reason() const;
  // What ranks said to the launcher alone (launched.h).
  bool heard(std::string_view what) const;
  // Which rank a signal ended; -1 where it was not said.
  int rank() const;

 private:
  void take_line(std::string_view line);

  void say_once(std::string_view line);

  std::deque<std::string> said_;  // the latest lines
  std::set<std::string, std::less<>> heard_;
  std::string open_;     // a line that has no end yet
  bool within_ = false;  // between lines of dashes
  std::string own_;      // what mpirun said between them, in one line
  std::string shell_;    // what ssh said
};

}  // namespace heddle::tools
